"""What docs/data_model.md says of the fine points: which row wins, where cuts lie, what a gap is."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from beamfeed.contract.config.load import load_job
from beamfeed.contract.config.split import Split
from beamfeed.transforms.sources import make_source
from beamfeed.transforms.splits import cut_span

PATTERN = {"from": "path", "pattern": "(?P<asset>m)_"}


@pytest.fixture
def judge(fleet, tmp_path):
    """By asset, the verdict and the rows of each split, as they are written but for scaling; without Beam."""
    fleet.job |= {"windows": {"length": 1, "stride": 1}, "prepare": {"scale": {"how": "none"}}}
    fleet.job["split"] = {"by": "asset", "train": 1, "eval": 0, "test": 0}
    fleet.job.pop("train")

    def run():
        job = load_job(str(fleet.write_job()))
        source, files = make_source(job, job.source.list_files())
        by_asset = defaultdict(list)
        for file in files:
            for piece in source.scan(file, str(tmp_path)):
                by_asset[piece.asset].append(piece)
        found = {}
        for name, pieces in by_asset.items():
            asset = source.plan(name, pieces)
            verdict = source.judge(asset, [source.validate(unit) for unit in source.units(asset)])
            rows = defaultdict(list)
            for work, _ in source.works(verdict):
                for block in source.read(work, None, verdict.statistics):
                    rows[work.split] += [[float(one) for one in row] for row in block.values["values"]]
            found[name] = verdict, dict(rows)
        return found

    return run


def series(times, **columns) -> pa.Table:
    return pa.table({"t": np.asarray(times), "x0": np.asarray(times, "f4")} | columns)


@pytest.mark.parametrize(("how", "winner"), [("first", 1.0), ("last", 2.0)])
@pytest.mark.parametrize("begins", [0, 5])
def test_of_several_files_the_one_that_begins_first_comes_first(fleet, judge, how, winner, begins):
    """Of files that begin at one time, the one whose path comes first in the alphabet does."""
    fleet.write("m_b.parquet", series(range(begins, 10), x1=np.full(10 - begins, 1.0)))
    fleet.write("m_a.parquet", series(range(5, 15), x1=np.full(10, 2.0)))
    fleet.job["source"] |= {"asset": PATTERN, "features": ["x1"]}
    fleet.job["prepare"]["duplicates"] = how
    values = judge()["m"][1]["train"]
    if begins == 5:
        winner = 3 - winner
    assert values == [[1.0]] * (5 - begins) + [[winner]] * 5 + [[2.0]] * 5


def test_fractions_of_time_are_cut_at_the_nearest_tick():
    assert cut_span(1000, Split(by="time", train=0.7, eval=0.15, test=0.15)) == (700, 850)
    assert cut_span(10, Split(by="time", train=0.66, eval=0.17, test=0.17)) == (7, 8)
    assert [cut_span(rows, Split(by="rows", train=0.5, eval=0.5, test=0))[0] for rows in (5, 7)] == [2, 4]  # halves


def test_by_column_a_step_of_the_grid_may_be_in_two_splits(fleet, judge):
    parts = pa.array(["train"] * 6 + ["test"] * 6)
    fleet.write("m.parquet", series(range(12), part=parts))
    fleet.job["split"] = {"by": "column", "column": "part", "train": ["train"], "test": ["test"]}
    fleet.job["prepare"] |= {"resample": {"every": 4, "how": "mean"}}
    _, rows = judge()["m"]
    assert rows == {"train": [[1.5], [4.5]], "test": [[6.5], [9.5]]}  # the step from 4 to 7 is in both


def test_by_time_no_step_of_the_grid_is_in_two_splits(fleet, judge):
    fleet.write("m.parquet", series(range(12)))
    fleet.job["split"] = {"by": "time", "test_from": 6}
    fleet.job["prepare"] |= {"resample": {"every": 4, "how": "mean"}}
    _, rows = judge()["m"]
    assert rows == {"train": [[1.5], [5.5]], "test": [[9.5]]}


@pytest.mark.parametrize(("max_gap", "filled"), [(None, [5, 6, 7, 8, 9]), (6, [5, 6, 7, 8, 9]), (5, [])])
def test_a_step_longer_than_max_gap_is_a_gap_where_its_hole_would_be_filled_too(fleet, judge, max_gap, filled):
    fleet.write("m.parquet", series([0, 1, 2, 3, 4, 10, 11, 12]))
    fleet.job["prepare"] |= {"resample": {"every": 1, "how": "mean"}, "missing": {"fill": "linear", "limit": 10}}
    fleet.job["prepare"] |= {} if max_gap is None else {"max_gap": max_gap}
    _, rows = judge()["m"]
    assert rows["train"] == [[float(time)] for time in [0, 1, 2, 3, 4, *filled, 10, 11, 12]]


def test_training_rows_without_a_window_set_the_scale_of_their_asset(fleet, judge):
    fleet.write("m.parquet", series(range(20)))
    fleet.job |= {"windows": {"length": 6, "stride": 1}, "split": {"by": "time", "eval_from": 4, "test_from": 14}}
    fleet.job["prepare"] = {"scale": {"how": "standard", "per": "asset"}}
    verdict, rows = judge()["m"]
    assert not verdict.trains
    assert sorted(rows) == ["eval", "test"]
    assert verdict.statistics.moments.rows == 4
    assert verdict.statistics.moments.mean().tolist() == [1.5]
