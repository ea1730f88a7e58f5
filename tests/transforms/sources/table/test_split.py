"""Splits of rows: their shares, and what depends on what."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamfeed.contract.config.split import Split
from beamfeed.transforms.sources.columns.time_units import TimeUnits
from beamfeed.transforms.sources.table.rows import TableRows
from beamfeed.transforms.sources.table.split import Stratifier, TimeCuts, split_rows
from beamfeed.transforms.splits import NONE

FRACTIONS = {"train": 0.6, "eval": 0.3, "test": 0.1}


def make_rows(count, first=0, **columns):
    return TableRows("a.csv", first, pa.RecordBatch.from_pydict({"x": pa.nulls(count)}), **columns)


def shares(places):
    return [float((places == place).mean()) for place in range(3)]


def test_rows_fall_by_their_fractions_and_by_nothing_else():
    split = Split(by="row", **FRACTIONS)
    whole = split_rows(make_rows(50_000), "a", split, None)
    assert shares(whole) == pytest.approx([0.6, 0.3, 0.1], abs=0.01)
    part = split_rows(make_rows(1000, first=7000), "a", split, None)
    assert (part == whole[7000:8000]).all()
    other = split_rows(make_rows(50_000), "b", split, None)
    assert (other == whole).mean() < 0.6
    seeded = split_rows(make_rows(50_000), "a", Split(by="row", seed=8, **FRACTIONS), None)
    assert (seeded == whole).mean() < 0.6


def test_keys_stay_together():
    keys = pa.array([f"customer {number % 997}" for number in range(50_000)])
    places = split_rows(make_rows(50_000, key=keys), "a", Split(by="key", **FRACTIONS), None)
    assert shares(places) == pytest.approx([0.6, 0.3, 0.1], abs=0.05)
    for number in range(0, 997, 50):
        assert len(set(places[number::997])) == 1


@pytest.mark.parametrize("fractions", [{"train": 1, "eval": 0, "test": 0}, {"train": 0.7, "eval": 0.3, "test": 0}])
def test_a_split_of_nothing_gets_nothing(fractions):
    places = split_rows(make_rows(50_000), "a", Split(by="row", **fractions), None)
    assert shares(places) == pytest.approx(list(fractions.values()), abs=0.01)
    assert (places == 2).sum() == 0


def test_times_and_the_gap():
    split = Split(by="time", train_from=10, eval_from=50, test_from=70, gap=5)
    cuts = TimeCuts.of(split, TimeUnits("integer"))
    places = split_rows(make_rows(100, time=np.arange(100)), "a", split, cuts)
    expected = [NONE] * 10 + [0] * 35 + [NONE] * 5 + [1] * 20 + [2] * 30
    assert places.tolist() == expected


def test_values():
    split = Split(by="column", column="year", train=["2022", "2023"], test=["2024"])
    values = pa.array(["2022", "2024", None, "2021", "2023"])
    assert split_rows(make_rows(5, split=values), "a", split, None).tolist() == [0, 2, NONE, NONE, 0]


@given(
    st.lists(st.sampled_from(["a", "a", "a", "a", "b", None]), min_size=1, max_size=400),
    st.integers(1, 60),
    st.integers(0, 5),
)
def test_each_class_has_its_share_in_any_run(labels, batch, seed):
    split = Split(by="row", stratify=True, seed=seed, **FRACTIONS)

    def deal(size):
        stratifier = Stratifier(seed, "a 0")
        parts = [labels[first : first + size] for first in range(0, len(labels), size)]
        rows = (make_rows(len(part), label=pa.array(part, pa.string())) for part in parts)
        return np.concatenate([split_rows(one, "a", split, None, stratifier) for one in rows])

    places = deal(batch)
    assert (places == deal(len(labels))).all()
    for name in ("a", "b"):
        of_class = places[[label == name for label in labels]]
        for place, share in enumerate(FRACTIONS.values()):
            assert abs((of_class == place).sum() - share * len(of_class)) < 4
