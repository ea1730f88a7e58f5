"""The public steps: what they read, what they refuse, and that no record is written that cannot be read."""

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from fleets import make_table

from beamfeed.contract.config.prepare import Missing, Windows
from beamfeed.contract.errors import UserError
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.steps import EncodeWindows, ReadTimeseries, encode_block, read_blocks

WINDOWS = Windows(length=8, stride=4)


def read(path, features=("x0", "x1"), time="t", unit=None, missing=Missing()):
    windowing = ReadTimeseries(time, features, WINDOWS, missing).windowing
    return list(read_blocks(str(path), time, unit, tuple(features), windowing))


@pytest.fixture
def table():
    return make_table(100, seed=3)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_file_is_read_in_the_order_of_the_names(tmp_path, table, suffix):
    path = tmp_path / f"pump{suffix}"
    (pq.write_table if suffix == ".parquet" else pa.csv.write_csv)(table, path)
    (block,) = read(path, ["x2", "x0"])
    assert block.asset == "pump"
    np.testing.assert_allclose(block.values, np.stack([table["x2"], table["x0"]], 1), rtol=1e-6)
    np.testing.assert_array_equal(block.time, np.arange(100))


def damaged(table, change):
    columns = {name: table[name] for name in table.column_names}
    return pa.table({**columns, **change(columns)})


SHUFFLED = np.array([0, 2, 1, *range(3, 100)])
CASES = {
    "a column is missing": (lambda c: {}, ["x0", "nothing"], "column nothing: is missing; the file has t, x0, x1, x2"),
    "a column of text": (lambda c: {"x0": pa.array(["a"] * 100)}, ["x0"], "column x0: is string, a number is needed"),
    "the time is text": (lambda c: {"t": pa.array(["a"] * 100)}, ["x0"], "column t: is string, it must be timestamp"),
    "the time goes back": (lambda c: {"t": pa.array(SHUFFLED)}, ["x0"], "row 2: the time does not increase"),
    "two rows of one time": (lambda c: {"t": pa.array(np.zeros(100, int))}, ["x0"], "row 1: the time does not"),
}


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_used_is_told_with_its_place(tmp_path, table, case, suffix):
    change, features, told = CASES[case]
    path = tmp_path / f"pump{suffix}"
    (pq.write_table if suffix == ".parquet" else pa.csv.write_csv)(damaged(table, change), path)
    with pytest.raises(BadInput) as caught:
        read(path, features)
    assert str(caught.value).startswith(f"{path}: {told}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": "x0"}, "features is 'x0', it must be a list"),
        ({"features": []}, "features is \\[\\], it must be a list"),
        ({"time_unit": "year"}, "time_unit is 'year', it must be one of ns, us"),
    ],
)
def test_wrong_arguments_are_told_at_once(arguments, message):
    with pytest.raises(UserError, match=message):
        ReadTimeseries(**{"time": "t", "features": ["x0"], "windows": WINDOWS, **arguments})


@pytest.mark.parametrize("shape", [(10, 2), (101, 2), (100,), (100, 0), (100, 2, 1)])
def test_a_step_cannot_change_the_rows(tmp_path, table, shape):
    pq.write_table(table, tmp_path / "pump.parquet")
    (block,) = read(tmp_path / "pump.parquet")
    with pytest.raises(ValueError, match=r"it must be \[100, features\]"):
        block.with_values(np.zeros(shape))


def test_a_step_that_divides_by_zero_leaves_missing_values(tmp_path, table):
    pq.write_table(table, tmp_path / "pump.parquet")
    (block,) = read(tmp_path / "pump.parquet")
    values = block.values.copy()
    values[3, 0], values[5, 1] = np.inf, -np.inf
    changed = block.with_values(values)
    assert np.argwhere(np.isnan(changed.values)).tolist() == [[3, 0], [5, 1]]
    assert changed.values.dtype == np.float32
    assert values[3, 0] == np.inf  # what was given is not touched


def test_windows_are_those_of_a_plain_loop_with_missing_values(tmp_path, table):
    x = table["x0"].to_numpy().copy()
    x[[20, 50, 51, 52]] = np.nan
    pq.write_table(damaged(table, lambda c: {"x0": pa.array(x)}), tmp_path / "pump.parquet")
    missing = Missing(fill="forward", limit=1)
    (block,) = read(tmp_path / "pump.parquet", ["x0"], missing=missing)
    tripled = block.with_values(np.repeat(block.values, 3, axis=1))
    filled = x.copy()
    filled[20], filled[50] = x[19], x[49]
    expected = {
        start: filled[start : start + 8]
        for start in range(0, 100 - 8 + 1, 4)
        if not np.isnan(filled[start : start + 8]).any()
    }
    found = {}
    for record in encode_block(tripled, WINDOWS, missing):
        feature = tf.train.Example.FromString(record).features.feature
        values = np.array(feature["values"].float_list.value, "f4").reshape(-1, 3)
        for at in range(0, len(values) - 7, 4):
            found[feature["start"].int64_list.value[0] + at] = values[at : at + 8]
    assert found.keys() == expected.keys()
    for start, window in found.items():
        np.testing.assert_array_equal(window, np.repeat(expected[start][:, None], 3, axis=1))


def test_a_file_shorter_than_a_window_gives_no_record(tmp_path):
    pq.write_table(make_table(7), tmp_path / "pump.parquet")
    assert [
        record for block in read(tmp_path / "pump.parquet") for record in encode_block(block, WINDOWS, Missing())
    ] == []


def test_a_bad_file_stops_a_pipeline_with_its_name(tmp_path):
    (tmp_path / "empty.parquet").touch()
    pipeline = beam.Pipeline("FnApiRunner")
    blocks = pipeline | beam.Create([str(tmp_path / "empty.parquet")]) | ReadTimeseries("t", ["x0"], WINDOWS)
    _ = blocks | EncodeWindows(WINDOWS)
    with pytest.raises(Exception, match=r"empty.parquet.*: file: the file is empty"):
        pipeline.run()
