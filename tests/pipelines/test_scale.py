"""Whole preprocessing runs with each way to scale, compared with NumPy on the raw files."""

import json

import numpy as np
import pytest
from fleets import make_table

from beamfeed.contract.config.load import load_job
from beamfeed.pipelines.job_check import check_job
from beamfeed.transforms.sources.timeseries import plan, source, windowing
from beamfeed.transforms.sources.timeseries.validate import validate_unit
from beamfeed.transforms.statistics import quantiles

pytestmark = pytest.mark.filterwarnings("ignore")
SPLITS = ("train", "eval", "test")


def write_fleet(fleet, assets: int = 7, rows: int = 90) -> dict[str, np.ndarray]:
    """Files with some values that are far off, and some missing; float32 [rows, 3] of each asset."""
    values = {}
    for i in range(assets):
        rng = np.random.default_rng(i)
        found = (rng.normal(size=(rows + 10 * i, 3)) * [1, 2, 3] + [0, 10, i]).astype("f4")
        found[5::40, 0], found[7::40, 1] = 1e5, np.nan
        fleet.write(f"m{i}.parquet", make_table(len(found), x0=found[:, 0], x1=found[:, 1], x2=found[:, 2]),
                    row_group_size=32)  # fmt: skip
        values[f"m{i}"] = found
    return values


def robust(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, median, high = np.nanquantile(values.astype("f8"), [0.25, 0.5, 0.75], axis=0)
    return median, high - low


def assert_scaled(fleet, expected: dict[str, np.ndarray], least: int = 1, **tolerance: float) -> None:
    """Every window is its rows of the scaled assets."""
    seen = 0
    for split in SPLITS:
        for asset, windows in fleet.windows(split).items():
            for start, window in windows.items():
                np.testing.assert_allclose(window, expected[asset][start : start + 8], **tolerance)
                seen += 1
    assert seen >= least


def stats(fleet) -> dict:
    return json.loads((fleet.output / fleet.manifest.data / "stats.json").read_text())["features"]


@pytest.mark.parametrize(("per", "clip"), [("fleet", None), ("asset", 4)])
def test_robust_takes_the_median_and_the_middle_half(fleet, per, clip):
    values = write_fleet(fleet)
    fleet.job["prepare"] = {
        "scale": {"how": "robust", "per": per, "clip": clip}, "missing": {"fill": "constant", "value": -7},
    }  # fmt: skip
    assert fleet.preprocess() == 0
    of_fleet = robust(np.concatenate([values[name] for name in fleet.windows("train")]))
    by = {name: robust(rows) if per == "asset" else of_fleet for name, rows in values.items()}
    expected = {name: (rows - by[name][0]) / by[name][1] for name, rows in values.items()}
    assert np.nanmax(np.concatenate(list(expected.values()))) > 1000
    if clip is not None:
        expected = {name: np.clip(rows, -clip, clip) for name, rows in expected.items()}
    filled = {name: np.nan_to_num(rows, nan=-7) for name, rows in expected.items()}
    assert_scaled(fleet, filled, 7 * 40, rtol=1e-5, atol=1e-5)


def test_columns_of_two_values_keep_their_distance(fleet):
    """With `per: asset`, also in an asset where one is constant: it gets the fleet's divisor."""
    values = {}
    for i in range(7):
        rng = np.random.default_rng(i)
        rare = np.where((np.arange(90) % 45 == 44) & (i > 1), 250, 50)
        levels = rng.normal(size=(2, 90)) * (i + 1)
        values[f"m{i}"] = found = np.stack([levels[0], rare, levels[1]], axis=1).astype("f4")
        fleet.write(f"m{i}.parquet", make_table(90, x0=found[:, 0], x1=found[:, 1], x2=found[:, 2]))
    fleet.job["prepare"] = {"scale": {"how": "standard", "per": "asset", "flags": "range"}}
    assert fleet.preprocess() == 0
    divisors = {name: [rows[:, 0].std(), 200, rows[:, 2].std()] for name, rows in values.items()}
    expected = {name: (rows - rows.mean(axis=0)) / divisors[name] for name, rows in values.items()}
    assert_scaled(fleet, expected, 7 * 20, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("per", ["fleet", "asset"])
def test_robust_gives_the_same_bytes_however_units_are_cut(new_fleet, monkeypatch, per):
    """Also where a sample is not all rows, and where an asset breaks off in its last unit."""
    monkeypatch.setattr(quantiles, "MOST_ROWS", 24)
    monkeypatch.setattr(windowing, "SEGMENT_BYTES", 12 * 20)
    monkeypatch.setattr(windowing, "BLOCK_BYTES", 12 * 20)
    found = {}
    for name, unit_bytes, workers in (("whole", plan.UNIT_BYTES, 1), ("cut", 12 * 130, 2)):
        fleet = new_fleet(name)
        write_fleet(fleet, rows=600)
        fleet.write("broken.parquet", make_table(80, t=np.r_[0:78, 70, 71]), row_group_size=32)
        units = []
        monkeypatch.setattr(plan, "UNIT_BYTES", unit_bytes)
        monkeypatch.setattr(source, "validate_unit", lambda unit, *rest, units=units: (
            units.append(unit), validate_unit(unit, *rest))[1])  # fmt: skip
        fleet.job["split"] = {"by": "time"}
        fleet.job["prepare"] = {"duplicates": "reject"}
        fleet.job["output"]["records"] = "windows"
        overrides = [f"prepare.scale={{how: robust, per: {per}}}", f"launch.preprocess.workers={workers}"]
        assert fleet.preprocess(*overrides) == 0
        assert len(units) > 25 if name == "cut" else len(units) == 8
        assert len(fleet.rejects()) == 1
        scales = [path.read_bytes() for path in fleet.output.glob("data-*/transform_fn/assets/*")]
        assert len(scales) == (per == "asset")
        windows = {
            (split, asset, start): window.tobytes()
            for split in SPLITS for asset, some in fleet.windows(split).items() for start, window in some.items()
        }  # fmt: skip
        found[name] = scales, stats(fleet), windows
    assert found["whole"] == found["cut"]


def test_assets_of_quite_different_sizes_keep_their_own_scale(fleet):
    """From 0.4 to 2e7: deviations of the fleet are those between its assets, and say nothing of one of them."""
    for i, size in enumerate([0.4, 3, 5, 9, 70, 2e7]):
        table = make_table(100, seed=i)
        for k in range(3):
            values = np.random.default_rng(10 * i + k).normal(size, size, 100).astype("f4")
            table = table.set_column(table.schema.get_field_index(f"x{k}"), f"x{k}", [values])
        fleet.write(f"m{i}.parquet", table)
    fleet.job["split"] = {"by": "time"}
    fleet.job["prepare"] = {"scale": {"per": "asset"}}
    assert fleet.preprocess() == 0
    for asset, windows in fleet.windows("train").items():
        assert 0.4 < np.std(list(windows.values())) < 1.1, asset
    assert [stats(fleet)[f"x{k}"]["assets_under_min_divisor"] for k in range(3)] == [0, 0, 0]
    assert fleet.preprocess("prepare.scale.min_divisor=1") == 0
    words = "the scale of 3 of 6 assets is under prepare.scale.min_divisor (1 times the usual one)"
    assert [note.split(", so they")[0] for note in fleet.manifest.notes] == [f"x{k}: {words}" for k in range(3)]
    checked = check_job(load_job(str(fleet.write_job()), ["prepare.scale.min_divisor=1"]))
    assert list(checked.rehearsal.notes) == fleet.manifest.notes


def test_a_nearly_constant_sensor_of_one_asset_does_not_blow_up(fleet):
    """It moves in rows that it is tested on, by no more than others do all the time."""
    for i in range(6):
        table = make_table(200, seed=i)
        if i == 2:
            x1 = 10 + 1e-4 * np.random.default_rng(9).normal(size=200)
            x1[185:] += np.linspace(0, 2, 15)
            table = table.set_column(table.schema.get_field_index("x1"), "x1", [x1.astype("f4")])
        if i == 3:
            x2 = np.full(200, 20, "f4")
            x2[185:] += np.linspace(0, 2, 15, dtype="f4")
            table = table.set_column(table.schema.get_field_index("x2"), "x2", [x2])
        fleet.write(f"m{i}.parquet", table)
    fleet.job["split"] = {"by": "time"}
    fleet.job["prepare"] = {"scale": {"per": "asset"}}
    assert fleet.preprocess() == 0
    highest = {
        asset: max(np.abs(w).max() for w in windows.values()) for asset, windows in fleet.windows("test").items()
    }
    assert highest["m2"] < 150  # without min_divisor 20,000
    assert highest["m3"] < 5
    assert [stats(fleet)[f"x{k}"]["assets_under_min_divisor"] for k in range(3)] == [0, 1, 1]
