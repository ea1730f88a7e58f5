"""How the feed's graph is run, and checks of arguments."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

Cache = Literal["none", "memory", "file"]
Stage = Literal["records", "parse", "frame", "batches"]


@dataclass(frozen=True)
class Tuning:
    """How the graph is run, never which windows it gives; `beamfeed profile` measures what each part is worth.

    Attributes:
      cache: memory reads the whole split into memory first; file first copies its
        shards to a folder of this machine's temporary files (TMPDIR) that its
        processes share, removed when the last of them ends. Where the order is kept, these
        are the shards that this worker's part is in. Compressed shards are always copied, as they cannot be
        read from the middle.
      open_blocks: read at a time.
      parallel: whether reading and gathering use several threads.
      prefetch: whether batches are made ready before they are asked for.
      rounds: how many are read at a time, if parallel.

    Raises:
      ValueError: if `cache` is none of these words, or a number is below 1.
    """

    cache: Cache = "none"
    open_blocks: int = 4
    parallel: bool = True
    prefetch: bool = True
    rounds: int = 2

    def __post_init__(self) -> None:
        one_of("cache", self.cache, Cache)
        at_least("open_blocks", self.open_blocks, 1)
        at_least("rounds", self.rounds, 1)


@dataclass(frozen=True)
class CutOff(Tuning):
    """Cuts the graph off after a stage of a round, to measure it: `load_dataset` then gives what that stage does.

    Attributes:
      until: records (serialized, strings), parse (`parsing.Parsed`), frame (the
        values, the places of the wanted windows in them, and a scalar), batches.
    """

    until: Stage = "batches"


def one_of(name: str, value: object, literal: Any) -> None:
    """Raises ValueError unless the value of an argument is one of a Literal's."""
    if value not in get_args(literal):
        raise ValueError(f"{name} is {value!r}, it must be one of {', '.join(map(str, get_args(literal)))}")


def at_least(name: str, value: int, least: int) -> None:
    """Raises ValueError if the value of an argument is too small."""
    if value < least:
        raise ValueError(f"{name} is {value}, it must be at least {least}")
