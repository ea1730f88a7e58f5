from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beamfeed.contract.config.split import Split
from beamfeed.transforms.records.shard_plan import deal
from beamfeed.transforms.sources.base import Work
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset, cut_units
from beamfeed.transforms.sources.timeseries.scan import FileSlice
from beamfeed.transforms.sources.timeseries.windowing import Windowing
from beamfeed.transforms.splits import assign_splits

FRAMING = Windowing(length=4, stride=2, windows_per_segment=5, block=100, before=0, after=3)


def asset(name: str, rows: int, **options) -> SeriesAsset:
    part = FileSlice(name, f"{name}.parquet", rows, 0, rows - 1, (0,), (rows,), True)
    return SeriesAsset(name, (part,), "train", **options)


def test_splits_do_not_depend_on_the_other_assets():
    names = [f"m{i}" for i in range(1000)]
    some, more = assign_splits(names[:500], Split()), assign_splits(names, Split())
    assert all(more[name] == split for name, split in some.items())
    counts = Counter(more.values())
    assert counts["train"] == pytest.approx(800, abs=50)
    assert counts["eval"] == pytest.approx(100, abs=40)
    assert assign_splits(names, Split(seed=8)) != more


@given(count=st.integers(1, 40), seed=st.integers(0, 200))
@settings(max_examples=100, deadline=None)
def test_no_split_that_is_asked_for_is_empty_if_there_are_enough_assets(count, seed):
    names = [f"m{i}" for i in range(count)]
    found = set(assign_splits(names, Split(seed=seed)).values())
    assert len(found) >= min(count, 3)
    assert set(assign_splits(names, Split(train=0.9, eval=0.1, test=0, seed=seed)).values()) <= {"train", "eval"}
    assert set(assign_splits(names, Split(train=1, eval=0, test=0, seed=seed)).values()) == {"train"}


def test_units_cover_an_asset_and_start_at_blocks(monkeypatch):
    monkeypatch.setattr("beamfeed.transforms.sources.timeseries.plan.UNIT_BYTES", 4 * 3 * 250)
    units = list(cut_units(asset("m", 1030), FRAMING, features=3))
    assert [(unit.start, unit.end) for unit in units] == [
        (0, 200), (200, 400), (400, 600), (600, 800), (800, 1000), (1000, 1030),
    ]  # fmt: skip
    assert [unit.is_last for unit in units] == [False] * 5 + [True]
    assert len(list(cut_units(asset("m", 1030, sort=True), FRAMING, features=3))) == 1


@given(st.lists(st.integers(1, 1000), max_size=60), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_dealing_loses_nothing_and_is_even(rows, count):
    units = [unit for i, size in enumerate(rows) for unit in cut_units(asset(f"m{i}", size), FRAMING, 3)]
    works = [(Work(unit, "train"), 12 * unit.rows) for unit in units]
    dealt = deal(works, count, seed=7)
    assert len(dealt) == count
    assert sorted(work.unit.asset.name for shard in dealt for work in shard) == sorted(
        unit.asset.name for unit in units
    )
    sizes = [sum(work.unit.rows for work in shard) for shard in dealt]
    assert max(sizes) - min(sizes) <= max(rows, default=0)
    assert deal(list(reversed(works)), count, seed=7) == dealt
