"""Many bad times cost their rows, and a reading of the column for some hundred of them, not for each."""

import numpy as np
import pyarrow as pa
import pytest
from series import schema_of
from table_rows import read_rows

from beamfeed.transforms.sources.columns import time_units
from beamfeed.transforms.sources.columns.time_units import NO_TIME, BadTime, TimeUnits
from beamfeed.transforms.sources.readers import BAD as BAD_ROWS
from beamfeed.transforms.sources.readers import iter_batches, values
from beamfeed.transforms.sources.readers.dialect import Dialect
from beamfeed.transforms.sources.readers.time_text import NO_ZONE, read_times
from beamfeed.transforms.sources.readers.values import convert_all
from beamfeed.transforms.sources.timeseries.row_keys import read_ticks

BAD = {7: "2020-99-99 00:00:00", 90: "noon", 91: "1066-01-01", **{i: f"{i}" for i in range(1000, 1300)}}
TEXT = [BAD.get(i, f"2020-01-01 {i // 3600:02}:{i // 60 % 60:02}:{i % 60:02}") for i in range(3000)]


@pytest.fixture
def readings(monkeypatch):
    """Counts how often a column is read; short ones, which are single values, do not count."""
    sizes: list[int] = []

    def counted(column: pa.Array, how: str) -> object:
        sizes.append(len(column))
        return read_times(column, how)

    for module in (values, time_units):
        monkeypatch.setattr(module, "read_times", counted)
    return sizes


def test_of_values(readings):
    column, wrong = convert_all(pa.array(TEXT), pa.timestamp("ns"), Dialect(("t",)))
    assert {row: reason.split("'")[1] for row, reason in wrong.items()} == BAD
    assert "1066-01-01' is out of range" in wrong[91]
    assert np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist() == sorted(BAD)
    assert len(readings) < 5


def test_of_a_series(tmp_path, readings):
    path = tmp_path / "a.csv"
    path.write_text("t,x0\n" + "".join(f"{t},{i}\n" for i, t in enumerate(TEXT)))
    schema = schema_of(path, "t")
    readings.clear()
    (_, _, batch), *_ = iter_batches(str(path), schema, ["t", BAD_ROWS])
    ticks, wrong = read_ticks(str(path), batch, schema, np.arange(batch.num_rows))
    assert sorted(wrong) == np.flatnonzero(ticks == NO_TIME).tolist() == sorted(BAD)
    assert len([size for size in readings if size > 1]) < 10  # of single values it is asked whether others are doubtful


def test_of_a_table(tmp_path, readings):
    (tmp_path / "a.csv").write_text("t,x\n" + "".join(f"{t},{i}\n" for i, t in enumerate(TEXT)))
    found, wrong = read_rows(tmp_path / "a.csv", {"t": "date", "x": "numeric"})
    assert (len(found), sorted(wrong)) == (3000, sorted(BAD))
    assert len([size for size in readings if size > 2000]) < 10


def test_of_zones_that_are_missing():
    text = pa.array(["2020-01-01T00:00Z", "2020-01-01T00:01", "2020-01-01T00:02Z", "2020-01-01T00:03"])
    units = TimeUnits("timestamp", text="ymd", aware=True)
    with pytest.raises(BadTime) as error:
        units.ticks(text)
    assert [(bad.row, bad.reason) for bad in (error.value, *error.value.others)] == [(1, NO_ZONE), (3, NO_ZONE)]
