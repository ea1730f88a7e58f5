"""Deals units out to shards: each shard is one file and one item of work."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.transforms.sources.timeseries.plan import Asset, cut_units
from beamfeed.transforms.sources.timeseries.preprocess import PreprocessSpec, Work
from beamfeed.transforms.splits import seeded_hash

SHARD_BYTES = 128 << 20


@dataclass(frozen=True)
class ShardPlan:
    """One TFRecord file to be: `index` of `count` in its split, from these units in this order."""

    split: SplitName
    index: int
    count: int
    work: tuple[Work, ...]


def plan_shards(assets: Iterable[Asset], spec: PreprocessSpec, multiple: int) -> Iterator[ShardPlan]:
    """The shards of all splits.

    Args:
      assets: those that are accepted.
      spec: of the job.
      multiple: with shards: auto, the count is a multiple of this where there are as many units.
    """
    by_split: dict[SplitName, list[Work]] = {name: [] for name in SPLITS}
    for asset in assets:
        for unit in cut_units(asset, spec.windowing, len(spec.schema.features)):
            for name in asset.splits:
                if asset.split is not None or getattr(spec.job.split, name):
                    by_split[name].append(Work(unit, name))
    for name, works in by_split.items():
        count = count_shards(works, spec, multiple)
        for index, dealt in enumerate(deal(works, count, spec.job.split.seed)):
            yield ShardPlan(name, index, count, tuple(dealt))


def count_shards(works: Sequence[Work], spec: PreprocessSpec, multiple: int) -> int:
    """How many files a split gets: what the job says, or about 128 MB each."""
    if not works:
        return 0
    wanted = spec.job.output.shards
    if wanted != "auto":
        return wanted
    size = sum(work.unit.rows for work in works) * 4 * len(spec.schema.features)
    if spec.windowing.windows_per_segment == 1:
        size = size * spec.windowing.length // spec.windowing.stride
    by_size = -(-size // SHARD_BYTES)
    return min(len(works), -(-by_size // multiple) * multiple)


def deal(works: Sequence[Work], count: int, seed: int) -> list[list[Work]]:
    """Deals work in an order that a seeded hash shuffles, each piece to the shard with the fewest rows.

    So a shard mixes assets, shards are about equal, and the result depends on
    nothing but the arguments.
    """
    shuffled = sorted(
        works, key=lambda work: (seeded_hash(seed, "deal", work.unit.asset.name, work.unit.index), work.unit.asset.name)
    )
    dealt: list[list[Work]] = [[] for _ in range(count)]
    fewest = [(0, index) for index in range(count)]
    for work in shuffled:
        rows, index = heapq.heappop(fewest)
        dealt[index].append(work)
        heapq.heappush(fewest, (rows + work.unit.rows, index))
    return dealt
