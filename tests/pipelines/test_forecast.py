"""Forecasts, from the files to the batches that a trainer gets, against plain loops over the files."""

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from feeds import batch_reader
from fleets import files_of, make_table

from beamfeed.trainer.tools.inspect_dataset import describe

pytestmark = pytest.mark.filterwarnings("ignore")
LENGTH, STRIDE, AHEAD = 6, 2, 4


@pytest.fixture
def walks(fleet):
    """Three assets of 120 rows; of x1, some values are missing."""
    rng = np.random.default_rng(5)
    for number in range(3):
        table = make_table(120, seed=number)
        holes = table["x1"].to_numpy().copy()
        holes[rng.random(120) < 0.04] = np.nan
        fleet.write(f"m{number}.parquet", table.set_column(table.schema.get_field_index("x1"), "x1", [holes]))
    fleet.job["windows"] = {"length": LENGTH, "stride": STRIDE}
    fleet.job["split"] = {"by": "rows", "train": 60, "eval": 30, "test": 30}
    fleet.job["label"] = {"name": "later", "ahead": {"rows": AHEAD, "columns": ["x1", "x0"]}}
    fleet.job["prepare"] = {"missing": {"fill": "forward", "limit": 2}, "scale": {"how": "standard", "clip": 1.5}}
    del fleet.job["train"]
    return fleet


def columns_of(fleet) -> dict[str, np.ndarray]:
    """Of each asset the rows of all features, float32 `[rows, 3]`."""
    import pyarrow.parquet as pq

    tables = {path.stem: pq.read_table(path) for path in sorted(fleet.files.glob("*.parquet"))}
    return {asset: np.stack([table[f"x{i}"].to_numpy() for i in range(3)], axis=1) for asset, table in tables.items()}


def plain_windows(rows: np.ndarray, begin: int, end: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Windows of one asset in the rows [begin, end), filled forward, and the rows behind them as they are."""
    filled = rows.copy()
    for i in range(begin + 1, end):
        for column in range(3):
            first = max(begin, i - 2)
            if np.isnan(filled[i, column]) and not np.isnan(rows[first:i, column]).all():
                filled[i, column] = filled[i - 1, column]
    found = []
    for start in range(begin + begin % STRIDE, end - LENGTH - AHEAD + 1, STRIDE):
        frame, future = filled[start : start + LENGTH + AHEAD], rows[start + LENGTH : start + LENGTH + AHEAD, [1, 0]]
        if not np.isnan(frame).any() and not np.isnan(future).any():
            found.append((filled[start : start + LENGTH], future))
    return found


def plain_batches(output, split: str) -> Iterator[dict[str, np.ndarray]]:
    """Windows one by one, as the feed without TensorFlow gives them."""
    return (batch.fields for batch in batch_reader(output, split, batch_size=1).read())


def in_order(pairs: list[tuple[np.ndarray, np.ndarray]]) -> list[tuple[np.ndarray, np.ndarray]]:
    return sorted(pairs, key=lambda pair: pair[1].tobytes())


def assert_same(found: list[tuple[np.ndarray, np.ndarray]], expected: list[tuple[np.ndarray, np.ndarray]]) -> None:
    assert len(found) == len(expected) > 0
    for (values, later), (window, future) in zip(in_order(found), in_order(expected), strict=True):
        np.testing.assert_array_equal(later, future)  # as the files have it: neither clipped nor filled
        np.testing.assert_allclose(values, window, rtol=1e-5, atol=1e-5)


def test_windows_and_the_rows_behind_them_are_those_of_the_files(walks):
    assert walks.preprocess() == 0
    manifest, rows = walks.manifest, columns_of(walks)
    assert (manifest.windows.length, manifest.windows.stride) == (LENGTH + AHEAD, STRIDE)
    field = manifest.field("later")
    assert f"{'windows':13}6 rows and 4 ahead, every 2" in describe(manifest)
    assert (field.part, manifest.field("values").part) == ((LENGTH, LENGTH + AHEAD), (0, LENGTH))
    training = np.concatenate([one[:60] for one in rows.values()]).astype("f8")
    mean, std = np.nanmean(training, axis=0), np.nanstd(training, axis=0)
    for unit, place in zip(field.units, (1, 0), strict=True):
        np.testing.assert_allclose([unit.std, unit.offset, unit.divisor], [std[place], mean[place], std[place]], 1e-6)

    from beamfeed import load_dataset

    for split, begin, end in (("train", 0, 60), ("eval", 60, 90), ("test", 90, 120)):
        expected = [
            (np.clip((window - mean) / std, -1.5, 1.5), future)
            for one in rows.values()
            for window, future in plain_windows(one, begin, end)
        ]
        assert manifest.splits[split].windows == len(expected)
        batches = list(load_dataset(walks.output, split, batch_size=1).as_numpy_iterator())
        assert_same([(batch["values"][0], batch["later"][0]) for batch in batches], expected)
        plain = [
            (values, later)
            for batch in plain_batches(walks.output, split)
            for values, later in zip(batch["values"], batch["later"], strict=True)
        ]
        assert_same(plain, expected)


def test_several_workers_get_the_rows_of_the_same_batches(walks):
    assert walks.preprocess() == 0
    from beamfeed import Distribution, load_dataset

    def batches(worker: int, workers: int) -> list[dict[str, np.ndarray]]:
        place = Distribution(worker=worker, workers=workers)
        reader = load_dataset(walks.output, "train", batch_size=6, shuffle=50, distribution=place)
        return list(reader.as_numpy_iterator())

    whole = batches(0, 1)
    for workers in (2, 3):
        parts = [batches(worker, workers) for worker in range(workers)]
        for name in ("values", "later"):
            for number, batch in enumerate(whole):
                np.testing.assert_array_equal(np.concatenate([part[number][name] for part in parts]), batch[name])


def test_files_do_not_hang_on_workers_nor_windows_on_how_records_are_written(walks, new_fleet):
    assert walks.preprocess() == 0
    before = files_of(walks.output)
    assert walks.preprocess("launch.preprocess.workers=3", "output.path=" + str(walks.folder / "again")) == 0
    assert files_of(walks.folder / "again") == before
    assert walks.preprocess("output.records=windows", "output.path=" + str(walks.folder / "single")) == 0

    def pairs(output) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(batch["values"][0], batch["later"][0]) for batch in plain_batches(output, "train")]

    assert_same(pairs(walks.folder / "single"), pairs(walks.output))


def test_steps_of_a_grid_are_forecast_as_its_values_are_made(fleet):
    rng = np.random.default_rng(2)
    times = np.sort(rng.choice(600, 420, replace=False))
    values = (10 + np.cumsum(rng.normal(size=420))).astype("f4")
    fleet.write("a.parquet", pa.table({"t": times, "x0": values}))
    fleet.job["windows"] = {"length": LENGTH, "stride": 1}
    fleet.job["split"] = {"train": 1, "eval": 0, "test": 0}
    fleet.job["label"] = {"ahead": {"rows": AHEAD}}
    fleet.job["prepare"] = {"resample": {"every": 3}}  # holes of up to 5 steps are filled, in windows
    del fleet.job["train"]
    assert fleet.preprocess() == 0
    steps = {step: values[times // 3 == step].mean(dtype="f8") for step in np.unique(times // 3)}
    behind = [range(first + LENGTH, first + LENGTH + AHEAD) for first in range(min(steps), max(steps))]
    expected = [[steps[step] for step in rows] for rows in behind if all(step in steps for step in rows)]
    found = [batch["label"][0, :, 0] for batch in plain_batches(fleet.output, "train")]
    assert 0 < len(expected) < len(behind) - LENGTH - AHEAD, "no step was without rows"
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("how", ["robust", "minmax", "none"])
def test_units_turn_scaled_columns_back(walks, how):
    del walks.job["prepare"]["scale"]
    assert walks.preprocess(f"prepare.scale.how={how}") == 0
    units = walks.manifest.field("later").units
    known = np.concatenate([one[:, 1] for one in columns_of(walks).values()])
    for batch in plain_batches(walks.output, "eval"):
        for values in batch["values"]:
            turned = values[:, 1] * units[0].divisor + units[0].offset
            assert np.nanmin(np.abs(known[None] - turned[:, None]), axis=1).max() < 1e-5 * units[0].std


def test_rows_too_few_for_a_forecast_are_told(walks, capfd):
    assert walks.preprocess("label.ahead.rows=200") == 1
    assert "100.0% of the assets were rejected" in capfd.readouterr().err
    (reason,) = {reject["reason"] for reject in rejects(walks)}
    assert reason == "has 120 rows, a window and the 200 rows behind it need 206 (windows.length)"


def rejects(fleet) -> list[dict]:
    return [
        json.loads(line) for path in fleet.folder.rglob("rejects/*.jsonl") for line in path.read_text().splitlines()
    ]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("label.ahead.columns=[x_1]", "label.ahead.columns: 'x_1' is none of source.features; did you mean 'x1'?"),
        ("prepare.scale={per: asset}", "label.ahead: does not go with prepare.scale.per: asset"),
        ("train={task: {name: regress, target: later}, model: {name: recurrent}, workdir: w}",
         "train.task: the label 'later' has 'ahead', use {name: forecast}"),
        ("train={task: {name: forecast, target: late}, model: {name: dlinear}, workdir: w}",
         "train.task.target: there is no such label: 'late'; did you mean 'later'?"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(walks, capfd, override, message):
    assert walks.preprocess(override) == 2
    (line,) = capfd.readouterr().err.strip().splitlines()
    assert message in line


def test_a_column_that_never_changes_is_no_forecast(fleet, capfd):
    for number in range(3):
        fleet.write(f"m{number}.parquet", make_table(60, seed=number, x1=np.full(60, 7, "f4")))
    fleet.job["label"] = {"ahead": {"rows": 3}}
    fleet.job["split"] = {"by": "rows", "train": 0.6, "eval": 0.2, "test": 0.2}
    del fleet.job["train"]
    assert fleet.preprocess() == 1
    assert "label 'label': x1 is the same in every training row" in capfd.readouterr().err
