"""Deals units out to shards: each shard is one file and one item of work."""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.fingerprint import SHARD_MULTIPLE
from beamfeed.transforms.packing import BUCKETS, Packed
from beamfeed.transforms.sources.descriptors import Work
from beamfeed.transforms.splits import seeded_hash

SHARD_BYTES = 128 << 20

Sized = tuple[Work, int]  # with about how many bytes it becomes


@dataclass(frozen=True)
class ShardPlan:
    """One TFRecord file to be: `index` of `count` in its split, from these units in this order.

    Attributes:
      folder: of its partition, below the split's.
      assets: that end with one of its units.
      rows: of its units.
    """

    split: SplitName
    index: int
    count: int
    work: Packed
    folder: str = ""
    assets: int = 0
    rows: int = 0


def place_of(work: Work, seed: int) -> tuple[float, str]:
    """Where a work stands in the order, shuffled by a seeded hash, in which works are dealt out."""
    unit = work.unit
    return seeded_hash(seed, "deal", unit.asset.name, unit.index), unit.asset.name


def bucket_of_work(work: Work, seed: int) -> int:
    """The bucket of a work; all works of one are dealt out before those of the next."""
    return int(place_of(work, seed)[0] * BUCKETS)


@dataclass
class _Shard:
    """A shard while works are dealt out."""

    work: Packed = field(default_factory=Packed)
    assets: int = 0
    rows: int = 0


def plan_shards(
    gathered: Iterable[tuple[int, Iterable[Sized]]], count: int | Literal["auto"], seed: int, *, few: bool = False
) -> Iterator[ShardPlan]:
    """The shards of all splits: works are dealt out in an order, each to the smallest shard of its split and partition.

    So a shard mixes assets, shards are about equal, and the result depends on nothing but the arguments.

    Args:
      gathered: all that is to be written, in any order, by its `bucket_of_work`; of packed works memory holds a bucket.
      count: how many a split, or each partition of one, gets; auto: about 128 MB each.
      seed: of the order.
      few: whether there are other shards beside these, so that a split need not have one for each worker.
    """
    buckets = sorted(gathered, key=lambda bucket: bucket[0])

    def ordered() -> Iterator[Sized]:
        for _, works in buckets:
            yield from sorted(works, key=lambda sized: place_of(sized[0], seed))

    totals: dict[tuple[SplitName, str], list[int]] = {}
    for work, size in ordered():
        total = totals.setdefault((work.split, work.folder), [0, 0])
        total[0], total[1] = total[0] + 1, total[1] + size
    folders = Counter(split for split, _ in totals)
    shards = {
        place: [_Shard() for _ in range(count_shards(works, size, count, few=few or folders[place[0]] > 1))]
        for place, (works, size) in totals.items()
    }
    smallest = {place: [(0, index) for index in range(len(shards_here))] for place, shards_here in shards.items()}
    for work, size in ordered():
        place = work.split, work.folder
        filled, index = heapq.heappop(smallest[place])
        shard = shards[place][index]
        shard.work.append(work)
        shard.assets, shard.rows = shard.assets + work.unit.is_last, shard.rows + work.unit.rows
        heapq.heappush(smallest[place], (filled + size, index))
    for name in SPLITS:
        dealt = [
            (folder, shard) for split, folder in sorted(shards) if split == name for shard in shards[split, folder]
        ]
        for index, (folder, shard) in enumerate(dealt):
            yield ShardPlan(name, index, len(dealt), shard.work, folder, shard.assets, shard.rows)


def count_shards(works: int, size: int, count: int | Literal["auto"], *, few: bool = False) -> int:
    """How many files a split, or a partition of one, gets: what the job says, or about 128 MB each.

    Args:
      works: how many are in them.
      size: their bytes.
      count: as the job says.
      few: whether there are others beside it, so that it need not have a shard for each worker.
    """
    if count != "auto":
        return count
    by_size = -(-size // SHARD_BYTES)
    return min(works, by_size if few else -(-by_size // SHARD_MULTIPLE) * SHARD_MULTIPLE)
