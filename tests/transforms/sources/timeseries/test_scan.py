"""What planning reads of a file: from the footer where it says enough, and never something wrong."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fleets import make_table

from beamfeed.contract.config.sources.timeseries import AssetFrom
from beamfeed.contract.storage import stat
from beamfeed.transforms.sources.columns.time_units import TimeUnits
from beamfeed.transforms.sources.timeseries.scan import scan_file
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema

PATH = AssetFrom(**{"from": "path"})


def columns(type_: pa.DataType, **options) -> SeriesSchema:
    return SeriesSchema(
        "t", type_, TimeUnits.of(type_, options.pop("unit", None)), ("x0",), asset=None, split=None, **options
    )


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(
    ("type_", "tick"),
    [
        (pa.int64(), 1),
        (pa.int32(), 1),
        (pa.uint16(), 1),
        (pa.float64(), 10**9),
        (pa.float32(), 10**9),
        (pa.date32(), 86_400 * 10**9),
        (pa.timestamp("s"), 10**9),
        (pa.timestamp("ms", "UTC"), 10**6),
        (pa.timestamp("us"), 10**3),
        (pa.timestamp("ns", "Europe/Berlin"), 1),
    ],
)
def test_the_range_of_times(tmp_path, type_, tick, statistics):
    times = np.array([7, 3, 50, 12, 9])
    if pa.types.is_floating(type_):
        table = make_table(5, features=1, t=pa.array(times.astype("f4"), type_))
    else:
        table = make_table(5, features=1, t=pa.array(times, pa.int32()).cast(pa.int64()).cast(type_, safe=False)
                           if not pa.types.is_date(type_) else pa.array(times, pa.int32()).cast(type_))  # fmt: skip
    path = str(tmp_path / "m.parquet")
    pq.write_table(table, path, row_group_size=2, write_statistics=statistics)
    (part,) = scan_file(stat(path), PATH, columns(type_), None, scratch="")
    assert (part.first, part.last) == (3 * tick, 50 * tick)
    assert (part.asset, part.rows, [group.rows for group in part.groups]) == ("m", 5, [2, 2, 1])


def test_old_timestamps_of_twelve_bytes(tmp_path):
    times = pa.array([10**9, 5 * 10**9], pa.timestamp("ns"))
    path = str(tmp_path / "m.parquet")
    pq.write_table(make_table(2, features=1, t=times), path, use_deprecated_int96_timestamps=True)
    (part,) = scan_file(stat(path), PATH, columns(pa.timestamp("ns")), None, scratch="")
    assert (part.first, part.last) == (10**9, 5 * 10**9)


def test_nested_columns_do_not_shift_the_time(tmp_path):
    nested = pa.array([{"a": 100, "b": 200}] * 3)
    table = pa.table({"s": nested, "t": [5, 6, 7], "x0": [1.0, 2.0, 3.0]})
    path = str(tmp_path / "m.parquet")
    pq.write_table(table, path)
    (part,) = scan_file(stat(path), PATH, columns(pa.int64()), None, scratch="")
    assert (part.first, part.last) == (5, 7)
