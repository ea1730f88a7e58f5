"""Deals units out to shards: each shard is one file and one item of work."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.fingerprint import SHARD_MULTIPLE
from beamfeed.transforms.sources.descriptors import Work
from beamfeed.transforms.splits import seeded_hash

SHARD_BYTES = 128 << 20

Sized = tuple[Work, int]  # with about how many bytes it becomes


@dataclass(frozen=True)
class ShardPlan:
    """One TFRecord file to be: `index` of `count` in its split, from these units in this order.

    Attributes:
      folder: of its partition, below the split's.
    """

    split: SplitName
    index: int
    count: int
    work: tuple[Work, ...]
    folder: str = ""


def plan_shards(sized: Iterable[Sized], wanted: int | Literal["auto"], seed: int) -> Iterator[ShardPlan]:
    """The shards of all splits.

    Args:
      sized: all that is to be written, in any order.
      wanted: how many a split, or each partition of one, gets; auto: about 128 MB each.
      seed: of the order.
    """
    by_split: dict[SplitName, dict[str, list[Sized]]] = {name: {} for name in SPLITS}
    for work, size in sized:
        by_split[work.split].setdefault(work.folder, []).append((work, size))
    for name, folders in by_split.items():
        dealt = [
            (folder, shard)
            for folder, works in sorted(folders.items())
            for shard in deal(works, count_shards(works, wanted, few=len(folders) > 1), seed)
        ]
        for index, (folder, shard) in enumerate(dealt):
            yield ShardPlan(name, index, len(dealt), tuple(shard), folder)


def count_shards(works: Sequence[Sized], wanted: int | Literal["auto"], *, few: bool = False) -> int:
    """How many files a split, or a partition of one, gets: what the job says, or about 128 MB each.

    Args:
      works: what is in them.
      wanted: as the job says.
      few: whether there are partitions, so that one need not have a shard for each worker.
    """
    if not works:
        return 0
    if wanted != "auto":
        return wanted
    by_size = -(-sum(size for _, size in works) // SHARD_BYTES)
    return min(len(works), by_size if few else -(-by_size // SHARD_MULTIPLE) * SHARD_MULTIPLE)


def deal(works: Sequence[Sized], count: int, seed: int) -> list[list[Work]]:
    """Deals work in an order that a seeded hash shuffles, each piece to the smallest shard.

    So a shard mixes assets, shards are about equal, and the result depends on
    nothing but the arguments.
    """

    def place(sized: Sized) -> tuple[float, str]:
        unit = sized[0].unit
        return seeded_hash(seed, "deal", unit.asset.name, unit.index), unit.asset.name

    dealt: list[list[Work]] = [[] for _ in range(count)]
    smallest = [(0, index) for index in range(count)]
    for work, size in sorted(works, key=place):
        held, index = heapq.heappop(smallest)
        dealt[index].append(work)
        heapq.heappush(smallest, (held + size, index))
    return dealt
