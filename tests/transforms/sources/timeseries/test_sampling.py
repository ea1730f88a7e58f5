import pickle
from dataclasses import replace

import numpy as np
import pytest

from beamfeed.contract.config.prepare import Prepare, Scale
from beamfeed.transforms.sources.descriptors import Piece
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset
from beamfeed.transforms.sources.timeseries.sampling import (
    empty_sample,
    part_of_rows,
    scaling_of,
    settle,
    training_rows,
)
from beamfeed.transforms.sources.timeseries.scan import FileSlice
from beamfeed.transforms.statistics.moments import Moments
from beamfeed.transforms.statistics.quantiles import RowSample, capacity

FEATURES, ROWS, UNITS = 8, 20_000, 60


class Job:
    """Of a job no more than is asked for."""

    def __init__(self, **scale: object):
        self.prepare = Prepare.model_validate({"scale": scale})


def asset_of(name: str, rows: int, fleet_rows: int = 0) -> SeriesAsset:
    return SeriesAsset(name, (Piece(name, f"{name}.parquet", rows),), "train", fleet_rows=fleet_rows)


@pytest.mark.parametrize("per", ["fleet", "asset"])
def test_what_units_send_is_some_megabytes_however_large_the_fleet_is(per):
    job = Job(how="robust", per=per)
    one = np.random.default_rng(0).normal(size=(ROWS, FEATURES)).astype("f4")
    assets = [asset_of(f"pump-{i}", ROWS, fleet_rows=ROWS * UNITS) for i in range(UNITS)]
    sent, fleet = 0, empty_sample(FEATURES, job)
    for asset in assets:
        sample = RowSample.zero(one.shape[1]).extend(
            one, asset.name, np.arange(ROWS), part_of_rows(asset, FEATURES, job)
        )
        sample = settle(sample, asset, FEATURES, job)
        sent += len(pickle.dumps(sample))
        fleet += sample
    assert sent < 16 << 20  # one sample of each asset would be 40 MB
    assert len(fleet) == capacity(FEATURES)
    assert fleet.settled is None


def test_an_asset_with_its_own_scale_has_its_quantiles_taken_once():
    job = Job(how="robust", per="asset")
    values = np.random.default_rng(1).gamma(2, size=(5000, 2)).astype("f4")
    asset = asset_of("a", 5000, fleet_rows=10**12)
    sample = settle(
        RowSample.zero(values.shape[1]).extend(values, "a", np.arange(5000), part_of_rows(asset, 2, job)), asset, 2, job
    )
    assert len(sample) < 10
    assert settle(sample, asset, 2, job) is sample
    own = scaling_of(Moments.of(values), sample, Scale(how="robust"), settled=True)
    low, median, high = np.quantile(values.astype("f8"), [0.25, 0.5, 0.75], axis=0)
    np.testing.assert_array_equal(own.offset, median.astype("f4"))
    np.testing.assert_array_equal(own.divisor, (high - low).astype("f4"))


def test_other_ways_take_no_sample():
    job = Job(how="standard", per="asset")
    assert empty_sample(FEATURES, job) is None
    assert settle(None, asset_of("a", 9), FEATURES, job) is None
    moments = Moments.of(np.arange(8, dtype="f4")[:, None])
    assert scaling_of(moments, None, Scale(how="minmax")).divisor.tolist() == [7]
    assert scaling_of(moments, None, Scale(how="robust")).offset.tolist() == [3.5]  # no sample: as standard


@pytest.mark.parametrize("per", ["fleet", "asset"])
@pytest.mark.parametrize("how", ["rows", "time", "path"])
def test_where_few_rows_train_the_sample_is_of_all_of_them(per, how):
    """A thousandth of an asset trains: far fewer rows than a sample holds, so that quantiles are exact."""
    rows, train = 2_000_000, 2000
    pieces = (
        FileSlice("a", "a", train, groups=(), first=0, last=train - 1, split="train"),
        FileSlice("a", "b", rows - train, groups=(), first=train, last=rows - 1, split="test"),
    )
    cuts = {"rows": {"row_cuts": (train, train, rows)}, "time": {"cuts": (train, train)}, "path": {"by_path": True}}
    asset = SeriesAsset("a", pieces, None, total=rows, last=rows - 1, **cuts[how])
    assert training_rows(asset) == pytest.approx(train, abs=1)
    asset = replace(asset, fleet_rows=training_rows(asset))
    values = np.random.default_rng(0).normal(size=(train, FEATURES)).astype("f4")
    job = Job(how="robust", per=per)
    sample = RowSample.zero(values.shape[1]).extend(values, "a", np.arange(train), part_of_rows(asset, FEATURES, job))
    assert len(sample) == train
