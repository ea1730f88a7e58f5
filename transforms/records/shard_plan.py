"""Deals units out to shards: each shard is one file and one item of work."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from beamfeed.contract.config.job import SPLITS, SplitName
from beamfeed.transforms.sources.timeseries.plan import Asset, cut_units, seeded_hash
from beamfeed.transforms.sources.timeseries.preprocess import Recipe, Work

SHARD_BYTES = 128 << 20


@dataclass(frozen=True)
class Shard:
    """One TFRecord file to be: `index` of `count` in its split, from these units in this order."""

    split: SplitName
    index: int
    count: int
    work: tuple[Work, ...]


def plan_shards(assets: Iterable[Asset], recipe: Recipe, multiple: int) -> Iterator[Shard]:
    """The shards of all splits.

    Args:
      multiple: with shards: auto, the count is a multiple of this where there are as many units.
    """
    by_split: dict[SplitName, list[Work]] = {name: [] for name in SPLITS}
    for asset in assets:
        for unit in cut_units(asset, recipe.framing, len(recipe.columns.features)):
            for name in asset.splits:
                if asset.split is not None or getattr(recipe.job.split, name):
                    by_split[name].append(Work(unit, name))
    for name, works in by_split.items():
        count = count_shards(works, recipe, multiple)
        for index, dealt in enumerate(deal(works, count, recipe.job.split.seed)):
            yield Shard(name, index, count, tuple(dealt))


def count_shards(works: Sequence[Work], recipe: Recipe, multiple: int) -> int:
    """How many files a split gets: what the job says, or about 128 MB each."""
    if not works:
        return 0
    wanted = recipe.job.output.shards
    if wanted != "auto":
        return wanted
    size = sum(work.unit.rows for work in works) * 4 * len(recipe.columns.features)
    if recipe.framing.windows_per_segment == 1:
        size = size * recipe.framing.length // recipe.framing.stride
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
