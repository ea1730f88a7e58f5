"""What a feed is seldom asked for, and checks of arguments. Pure; no TensorFlow."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer.feed.sharding import LANES

if TYPE_CHECKING:  # PyTorch's users have no TensorFlow
    from beamfeed.trainer.decode.preparation import Preparation

Cache = Literal["none", "memory", "file"]
Stage = Literal["records", "parse", "frame", "batches"]


def one_of(name: str, value: object, literal: Any) -> None:
    """Raises ValueError unless the value of an argument is one of a Literal's."""
    if value not in get_args(literal):
        raise ValueError(f"{name} is {value!r}, it must be one of {', '.join(map(str, get_args(literal)))}")


def whole(name: str, value: Any) -> int:
    """The value of an argument as an int, also one of NumPy's; raises TypeError if it is no whole number."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, it must be a whole number") from None


def at_least(name: str, value: int, least: int) -> None:
    """Raises ValueError if the value of an argument is too small."""
    if value < least:
        raise ValueError(f"{name} is {value}, it must be at least {least}")


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


@dataclass(frozen=True)
class FeedOptions:
    """What a feed is seldom asked for. `load_dataset` has all of these options, the other feeds some.

    Attributes:
      start: the first epoch to read, and the first of its batches. The data
        before them are not read.
      lanes: places of the split that a batch is drawn from. A worker reads its
        share of them, so with more workers than lanes some data are read by several.
      where: reads some partitions alone: by column, the values that are wanted. No shard of others is opened.
      manifest: of the dataset, if it has been read already.
      skip_corrupt: passes over the damaged rest of a block, with a warning in the
        log. An epoch keeps its number of steps: other windows come twice, or
        padding.
      preparation: changes the fields of a batch, such as what the job's `train.inputs` says.
      tuning: how the graph is run.

    Raises:
      ValueError: if `lanes` is below 1.
    """

    start: tuple[int, int] = (0, 0)
    lanes: int = LANES
    where: Mapping[str, Sequence[str]] | None = None
    manifest: Manifest | None = None
    skip_corrupt: bool = False
    preparation: "Preparation | None" = None
    tuning: Tuning = Tuning()

    def __post_init__(self) -> None:
        at_least("lanes", self.lanes, 1)

    def allow(self, feed: str, *names: str) -> None:
        """Raises ValueError if an option is set that is none of these, those of a feed."""
        for field in fields(self):
            if field.name not in names and getattr(self, field.name) != field.default:
                raise ValueError(f"{feed} has no option {field.name}; it has {', '.join(names)}")
