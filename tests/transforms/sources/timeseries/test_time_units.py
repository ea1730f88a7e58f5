import numpy as np
import pyarrow as pa
import pytest

from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.timeseries.time_units import BadTime, TimeUnits


@pytest.mark.parametrize(
    ("column", "unit", "ticks"),
    [
        (pa.array([0, 1_500], pa.timestamp("ms", "UTC")), None, [0, 1_500_000_000]),
        (pa.array([0, 1], pa.date32()), None, [0, 86_400_000_000_000]),
        (pa.array([3, 4], pa.int32()), None, [3, 4]),
        (pa.array([3, 4], pa.uint8()), "s", [3_000_000_000, 4_000_000_000]),
        (pa.array([0.5, 1.25]), "ms", [500_000, 1_250_000]),
        (pa.array([0.5, 1.25]), None, [500_000_000, 1_250_000_000]),
    ],
)
def test_ticks(column, unit, ticks):
    units = TimeUnits.of(column.type, unit)
    assert units.ticks(column).tolist() == ticks
    assert units.ticks(column).dtype == np.int64


@pytest.mark.parametrize(
    ("units", "duration", "ticks"),
    [
        (TimeUnits("timestamp"), "5s", 5_000_000_000),
        (TimeUnits("integer", "ms"), "5s", 5_000_000_000),
        (TimeUnits("integer", "ms"), 5, 5_000_000),
        (TimeUnits("integer"), 5, 5),
        (TimeUnits("float"), 0.5, 500_000_000),
    ],
)
def test_durations(units, duration, ticks):
    assert units.duration(duration, "key") == ticks


def test_durations_that_do_not_fit():
    with pytest.raises(UserError, match=r"prepare.max_gap: 5 needs a unit such as '5s'"):
        TimeUnits("timestamp").duration(5, "prepare.max_gap")
    with pytest.raises(UserError, match=r"'5s' has a unit but the time column has none"):
        TimeUnits("integer").duration("5s", "prepare.max_gap")


def test_bad_times_name_their_row():
    with pytest.raises(BadTime, match="row 1: the time is missing"):
        TimeUnits("integer").ticks(pa.array([1, None]))
    with pytest.raises(BadTime, match="row 2: the time is nan"):
        TimeUnits("float").ticks(pa.array([1.0, 2.0, float("nan")]))
    with pytest.raises(BadTime, match=r"row 0: the time 17\d+ is out of range; check source.time.unit"):
        TimeUnits("integer", "s").ticks(pa.array([1_700_000_000_000]))
    assert TimeUnits.of(pa.string(), None) is None
    assert TimeUnits("float").reads(pa.int64())
    assert not TimeUnits("integer").reads(pa.float64())
