import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beamfeed.contract.config.split import SPLITS, Split
from beamfeed.contract.errors import UserError
from beamfeed.transforms.packing import Packed
from beamfeed.transforms.records.shard_plan import bucket_of_work, plan_shards
from beamfeed.transforms.sources.descriptors import Work
from beamfeed.transforms.sources.readers import Group
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset, cut_units
from beamfeed.transforms.sources.timeseries.scan import FileSlice
from beamfeed.transforms.sources.timeseries.windowing import Windowing
from beamfeed.transforms.splits import check_filled, cut_rows, first_names, split_of_asset

FRAMING = Windowing(length=4, stride=2, windows_per_segment=5, block=100, before=0, after=3)


def asset(name: str, rows: int, per_group: int = 100, **options) -> SeriesAsset:
    starts = range(0, rows, per_group)
    groups = tuple(Group(start, min(per_group, rows - start), place) for place, start in enumerate(starts))
    part = FileSlice(name, f"{name}.parquet", rows, 0, rows - 1, groups)
    return SeriesAsset(name, (part,), "train", total=rows, **options)


def test_the_split_of_an_asset_depends_on_its_name_alone():
    names = [f"m{i}" for i in range(1000)]
    found = {name: split_of_asset(name, Split()) for name in names}
    counts = Counter(found.values())
    assert counts["train"] == pytest.approx(800, abs=50)
    assert counts["eval"] == pytest.approx(100, abs=40)
    assert found != {name: split_of_asset(name, Split(), seed=8) for name in names}
    assert {split_of_asset(name, Split(train=0.9, eval=0.1, test=0)) for name in names} == {"train", "eval"}
    assert {split_of_asset(name, Split(train=1, eval=0, test=0)) for name in names} == {"train"}


@given(count=st.integers(1, 60), seed=st.integers(0, 200))
@settings(max_examples=60, deadline=None)
def test_a_split_that_would_stay_empty_is_refused_with_a_seed_that_fills_it(count, seed):
    names, split = [f"m{i}" for i in range(count)], Split(seed=seed)
    sizes = Counter(split_of_asset(name, split) for name in names)
    if all(sizes[name] for name in SPLITS):
        check_filled(sizes, names, split)
        return
    with pytest.raises(UserError) as told:
        check_filled(sizes, names, split)
    if count < 3:
        assert "split by time" in str(told.value)
        return
    better = int(re.search(r"split.seed=(\d+) gives", str(told.value))[1])
    assert {split_of_asset(name, split, better) for name in names} == set(SPLITS)


@given(count=st.integers(1, 60), most=st.integers(1, 12), seed=st.integers(0, 50))
@settings(max_examples=60, deadline=None)
def test_a_smoke_test_has_an_asset_of_each_split_that_the_fleet_has(count, most, seed):
    names, split = [f"m{i}" for i in range(count)], Split(seed=seed)
    first = first_names(reversed(names), split, most)
    assert len(first) == len(set(first)) == min(count, most)
    assert set(first) <= set(names)
    there = {split_of_asset(name, split) for name in names}
    chosen = {split_of_asset(name, split) for name in first}
    assert len(chosen) == min(most, len(there))
    assert chosen == set([name for name in SPLITS if name in there][:most])  # train before eval, and eval before test


@pytest.mark.parametrize(
    ("parts", "cuts"),
    [
        ({"train": 0.5, "eval": 0.3, "test": 0.2}, (50, 80, 100)),
        ({"train": 40}, (40, 100, 100)),
        ({"train": 40, "eval": 10}, (40, 50, 100)),
        ({"train": 40, "eval": 10, "test": 20}, (40, 50, 70)),
        ({"train": 40, "eval": 10, "test": 0}, (40, 50, 50)),
        ({"train": 40, "eval": "rest"}, (40, 100, 100)),
        ({"train": 40, "test": "rest", "eval": 0}, (40, 40, 100)),
        ({"train": 400, "eval": 10}, (100, 100, 100)),
    ],
)
def test_rows_are_cut_as_the_job_says(parts, cuts):
    assert cut_rows(100, Split(by="rows", **parts)) == cuts


def test_units_cover_an_asset_and_start_where_a_group_of_rows_does(monkeypatch):
    monkeypatch.setattr("beamfeed.transforms.sources.timeseries.plan.UNIT_BYTES", 4 * 3 * 250)
    units = list(cut_units(asset("m", 1030, per_group=90), FRAMING, features=3))
    assert [(unit.start, unit.end) for unit in units] == [(0, 270), (270, 540), (540, 810), (810, 1030)]
    assert [unit.is_last for unit in units] == [False] * 3 + [True]
    assert [(unit.asset.offset, [group.place for group in unit.asset.pieces[0].groups]) for unit in units] == [
        (0, [0, 1, 2]), (270, [3, 4, 5]), (540, [6, 7, 8]), (810, [9, 10, 11]),
    ]  # fmt: skip
    assert len(list(cut_units(asset("m", 1030, sort=True), FRAMING, features=3))) == 1
    assert len(list(cut_units(asset("m", 1030, per_group=1030), FRAMING, features=3))) == 1


@given(st.lists(st.integers(1, 1000), max_size=60), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_dealing_loses_nothing_and_is_even(rows, count):
    units = [unit for i, size in enumerate(rows) for unit in cut_units(asset(f"m{i}", size), FRAMING, 3)]
    works = [(Work(unit, "train"), 12 * unit.rows) for unit in units]

    def deal(works):
        return [list(plan.work) for plan in plan_shards([(0, list(works))], count, seed=7)]

    dealt = deal(works)
    assert len(dealt) == (count if works else 0)
    assert sorted(work.unit.asset.name for shard in dealt for work in shard) == sorted(
        unit.asset.name for unit in units
    )
    sizes = [sum(work.unit.rows for work in shard) for shard in dealt]
    assert max(sizes, default=0) - min(sizes, default=0) <= max(rows, default=0)
    assert deal(reversed(works)) == dealt
    by_bucket = {}
    for work, size in reversed(works):
        by_bucket.setdefault(bucket_of_work(work, 7), Packed()).append((work, size))
    assert [list(plan.work) for plan in plan_shards(by_bucket.items(), count, seed=7)] == dealt
