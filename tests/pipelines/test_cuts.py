"""Where splits cut an asset: what a split holds, and that nothing of it is lost or in another one. Whole runs."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from fleets import make_table

PATTERN = r"(?P<part>[a-z]+)/(?P<asset>m\d)[^/]*\.parquet$"
PATHS = {"from": "path", "pattern": PATTERN}
FOLDERS = {"by": "column", "column": "part", "train": ["train"], "test": ["test"]}
PLAIN = {"scale": {"how": "none"}}
SPLITS = ("train", "eval", "test")


def series(times: range | np.ndarray) -> pa.Table:
    """A series whose values are its times."""
    times = np.asarray(times)
    return pa.table({"t": times, "x0": times.astype("f4")})


def times(fleet, split: str) -> Counter:
    """How often each value is in a window of one row."""
    return Counter(int(w[0, 0]) for by in fleet.windows(split).values() for w in by.values())


@pytest.fixture
def rows(fleet):
    """Windows of one row, as the files have them."""
    fleet.job["source"]["features"] = ["x0"]
    fleet.job |= {"prepare": PLAIN, "windows": {"length": 1}}
    return fleet


def test_fractions_of_rows_count_the_rows_that_are_left_after_merging(rows):
    for i in range(2):
        rows.write(f"m{i}.parquet", series(np.repeat(np.arange(100), 2)))
    rows.job |= {"split": {"by": "rows", "train": 0.8, "eval": 0.1, "test": 0.1}}
    assert rows.preprocess() == 0
    found = {split: times(rows, split) for split in SPLITS}
    assert [sorted(found[split]) for split in SPLITS] == [[*range(80)], [*range(80, 90)], [*range(90, 100)]]


def test_an_overlap_in_time_is_seen_also_behind_a_short_file(rows):
    rows.write("train/m0-1.parquet", series(range(0, 400, 2)))
    rows.write("train/m0-2.parquet", series(range(21, 31, 2)))
    rows.write("test/m0-3.parquet", series(range(101, 141, 2)))
    rows.write("train/m1.parquet", series(range(10)))
    rows.job["source"]["asset"] = PATHS
    rows.job |= {"split": FOLDERS}
    rows.write("test/m1-2.parquet", series(range(10, 20)))
    assert rows.preprocess("limits.max_rejected_fraction=0.6") == 0
    (reject,) = rows.rejects()
    assert reject["asset"] == "m0"
    assert "overlaps in time with" in reject["reason"]


def test_files_in_no_list_part_those_before_from_those_after(rows):
    for part, low in [("train", 0), ("skip", 20), ("train", 40), ("test", 60), ("skip", 80)]:
        rows.write(f"{part}/m0-{low}.parquet", series(range(low, low + 20)))
    rows.write("skip/m0-in-between.parquet", series(range(5, 15)))  # in the time of others: as if it were not there
    rows.job["source"]["asset"] = PATHS
    rows.job |= {"split": FOLDERS, "windows": {"length": 4}, "label": {"derive": "remaining_life"}}
    rows.job["train"]["task"] = {"name": "regress"}
    assert rows.preprocess() == 0
    train, life = rows.windows("train")["m0"], rows.labels("train")["m0"]
    assert all(window[-1, 0] - window[0, 0] == 3 for window in train.values())
    assert sorted(window[0, 0] for window in train.values()) == [*range(17), *range(40, 57)]
    assert {window[-1, 0] + life[start] for start, window in train.items()} == {99}
    (note,) = [note for note in rows.manifest.notes if "in no list of split" in note]
    assert "50" in note
    assert "part is 'skip'" in note


def test_test_from_comes_after_eval_from(rows, capfd):
    rows.write("m0.parquet", series(range(300)))
    rows.job |= {"split": {"by": "time", "eval_from": 200, "test_from": 100}}
    assert rows.preprocess() == 2
    assert capfd.readouterr().err == "split.test_from: 100 must be later than split.eval_from, which is 200\n"


@pytest.mark.parametrize("parts", [{"train": 0.8, "eval": 0.2, "test": 0}, {"train": 1, "eval": 0, "test": 0}])
def test_the_last_row_of_a_long_time_is_in_a_split(rows, parts):
    day = 86_400 * 10**9
    for i, days in enumerate((300, 365)):
        stamps = pa.array(np.arange(days) * day, pa.timestamp("ns"))
        rows.write(f"m{i}.parquet", pa.table({"t": stamps, "x0": np.arange(days, dtype="f4")}))
    rows.job |= {"split": {"by": "time", **parts}}
    assert rows.preprocess() == 0
    found = times(rows, "train") + times(rows, "eval")
    assert found == Counter([*range(300), *range(365)])


def test_rows_do_not_cut_a_grid(rows, capfd):
    rows.write("m0.parquet", series(range(300)))
    rows.job["prepare"] = {**PLAIN, "resample": {"every": 3}}
    rows.job |= {"split": {"by": "rows", "train": 40}}
    assert rows.preprocess() == 2
    assert "split.by: rows does not go with prepare.resample" in capfd.readouterr().err


BY_TIME, BY_PHASE = (
    {"by": "time", "eval_from": 150},
    {"by": "column", "column": "phase", "train": ["a"], "eval": ["b"]},
)


@pytest.mark.parametrize(
    ("how", "split"), [("standard", BY_TIME), ("standard", BY_PHASE), ("minmax", BY_PHASE), ("robust", BY_TIME)]
)
def test_an_asset_without_training_values_gets_the_scale_of_the_fleet(fleet, how, split):
    for i in range(4):
        begin = 150 if i == 3 else 0
        values = 300 + np.random.default_rng(i).normal(size=200).astype("f4")
        phase = np.where(np.arange(begin, begin + 200) < 150, "a", "b")
        fleet.write(f"m{i}.parquet", make_table(200, t=np.arange(begin, begin + 200), x0=values, phase=phase))
    fleet.job["source"]["features"] = ["x0"]
    fleet.job |= {"prepare": {"scale": {"how": how, "per": "asset"}}, "split": split}
    assert fleet.preprocess() == 0
    assert all(abs(window).max() < 10 for window in fleet.windows("eval")["m3"].values())
