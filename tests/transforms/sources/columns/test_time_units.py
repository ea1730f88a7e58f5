import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from beamfeed.contract.config.duration import NANOSECONDS
from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.columns.time_units import PARTS, BadTime, TimeUnits, check_format, check_zone

NOON = 1_704_106_800_000_000_000  # 2024-01-01 11:00 UTC, noon in Berlin
DAY = 86_400 * 10**9


@pytest.mark.parametrize(
    ("column", "unit", "ticks"),
    [
        (pa.array([0, 1_500], pa.timestamp("ms", "UTC")), None, [0, 1_500_000_000]),
        (pa.array([0, 1], pa.date32()), None, [0, 86_400_000_000_000]),
        (pa.array([3, 4], pa.int32()), None, [3, 4]),
        (pa.array([3, 4], pa.uint8()), "s", [3_000_000_000, 4_000_000_000]),
        (pa.array([0.5, 1.25]), "ms", [500_000, 1_250_000]),
        (pa.array([0.5, 1.25]), None, [500_000_000, 1_250_000_000]),
        (pa.array([1_704_067_215.25, -0.25]), "s", [1_704_067_215_250_000_000, -250_000_000]),
        (pa.array([1_700_000_000.1, -1_700_000_000.1]), "s", [1_700_000_000_100_000_000, -1_700_000_000_100_000_000]),
        (pa.array([1_700_000_000_000.7]), "ms", [1_700_000_000_000_700_000]),
        (pa.array([19_675 + 0.1 / 86_400]), "d", [19_675 * 86_400 * 10**9 + 10**8]),
        (pa.array([1.7e18]), "ns", [17 * 10**17]),
        (pa.array([0.7, 123.456, 1e-9], pa.float32()), "s", [700_000_000, 123_456_000_000, 1]),
        (pa.array([2**53 + 1]), "ns", [2**53 + 1]),
        (pa.array([Decimal("1700000000.123456789")]), "s", [1_700_000_000_123_456_789]),
        (pa.array([Decimal("19675.000000000011574074")]), "d", [19_675 * 86_400 * 10**9 + 1000]),
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
        (TimeUnits("integer"), 1.5, 1),
        (TimeUnits("integer"), 0.5, 0),
        (TimeUnits("timestamp"), "0.57s", 570_000_000),
    ],
)
def test_durations(units, duration, ticks):
    assert units.duration(duration, "key") == ticks


def test_every_float_is_read_by_itself_and_stays_where_it_is_among_the_others():
    start, stamps = 1_700_000_000, np.arange(20_000)
    for step in (10**8, 10**6, 10**3):
        exact = start * 10**9 + step * stamps
        for column in (exact / 1e9, start + stamps * (step / 1e9)):  # the first of these is one float off, at times
            assert (TimeUnits("float", "s").ticks(pa.array(column)) == exact).all()
    narrow = (20_000 + stamps / 500).astype(np.float32)  # as near as that type can tell
    assert np.diff(TimeUnits("float").ticks(pa.array(narrow))).min() > 0
    for unit, first in (("us", 1.7e15), ("s", 1.7e9), ("s", 2e7), ("h", 4e5), ("d", 2e4)):
        near = np.cumsum([first + 0.3] + [np.spacing(first)] * 300)
        ticks = TimeUnits("float", unit).ticks(pa.array(near))
        assert np.diff(ticks).min() >= 0
        assert (ticks[3:] > ticks[:-3]).all()
        off = ticks - np.floor(near).astype(np.int64) * NANOSECONDS[unit] - near % 1 * NANOSECONDS[unit]
        assert np.abs(off).max() <= 1.25 * np.spacing(first) * NANOSECONDS[unit]
        assert [TimeUnits("float", unit).ticks(pa.array([one]))[0] for one in near[:9]] == ticks[:9].tolist()
    sizes = np.concatenate([[0], 10.0 ** np.linspace(-9, 9, 99)])
    for type_ in (np.float64, np.float32):
        for column in (sizes, -sizes, sizes[80:], sizes[90:]):
            ticks = TimeUnits("float").ticks(pa.array(column.astype(type_)))
            assert ticks.tolist() == [TimeUnits("float").ticks(pa.array([one]))[0] for one in column.astype(type_)]
    assert TimeUnits("float").ticks(pa.array([], pa.float64())).tolist() == []


@pytest.mark.parametrize(
    ("units", "value", "ticks"),
    [
        (TimeUnits("float", "s"), 1_700_000_000.1, 1_700_000_000_100_000_000),
        (TimeUnits("float"), 3, 3 * 10**9),
        (TimeUnits("integer"), 100.5, 101),
        (TimeUnits("integer", "s"), 100.5, 100_500_000_000),
        (TimeUnits("timestamp"), "2024-01-01T11:00:00.123456789", NOON + 123_456_789),
        (TimeUnits("timestamp"), "2024-01-01T12:00:00.1234567+01:00", NOON + 123_456_700),
        (TimeUnits("timestamp", zone="Europe/Berlin"), "2024-01-01 12:00:00.25", NOON + 250_000_000),
        (TimeUnits("timestamp"), "1969-12-31T23:59:59.999999999", -1),
    ],
)
def test_a_time_of_the_job_is_the_same_as_in_a_column(units, value, ticks):
    assert units.instant(value, "key") == ticks


def test_a_number_of_the_job_that_is_no_time():
    for value in (1e300, float("inf"), float("nan"), 2**70):
        for kind in ("integer", "float"):
            with pytest.raises(UserError, match=r"split.eval_from: .* is out of range"):
                TimeUnits(kind).instant(value, "split.eval_from")


def test_durations_that_do_not_fit():
    with pytest.raises(UserError, match=r"prepare.max_gap: 5 needs a unit such as '5s'"):
        TimeUnits("timestamp").duration(5, "prepare.max_gap")
    with pytest.raises(UserError, match=r"'5s' has a unit but the time column has none"):
        TimeUnits("integer").duration("5s", "prepare.max_gap")
    for units, value in (
        (TimeUnits("float"), 1e10),
        (TimeUnits("integer", "d"), 1e6),
        (TimeUnits("integer"), 2**62 - 1),
    ):
        with pytest.raises(UserError, match=r"prepare.max_gap: \d+\.?\d* is out of range"):
            units.duration(value, "prepare.max_gap")
    for units, value, allowed in ((TimeUnits("integer"), 0.5, "1, the time column holds whole numbers"),
                                  (TimeUnits("float"), 1e-10, "0.000000001"),
                                  (TimeUnits("timestamp"), "1.5ns", "1ns")):  # fmt: skip
        with pytest.raises(UserError, match=rf"prepare.resample.every: '?{value}'? is not a multiple of {allowed}$"):
            units.duration(value, "prepare.resample.every", whole=True)


def test_bad_times_name_their_row():
    with pytest.raises(BadTime, match=r"row 1: the time is missing"):
        TimeUnits("integer").ticks(pa.array([1, None]))
    with pytest.raises(BadTime, match=r"row 2: the time is nan"):
        TimeUnits("float").ticks(pa.array([1.0, 2.0, float("nan")]))
    with pytest.raises(BadTime, match=r"row 0: the time 17\d+ is out of range; check source.time.unit"):
        TimeUnits("integer", "s").ticks(pa.array([1_700_000_000_000]))
    assert TimeUnits.of(pa.string(), None) is None
    assert TimeUnits("float").fault(pa.int64()) is None
    assert TimeUnits("integer").fault(pa.float64()) == "is double"


@pytest.mark.parametrize(
    ("column", "units"),
    [
        (pa.array([0, -(2**63)]), TimeUnits("integer")),
        (pa.array([0, -(2**63)]), TimeUnits("integer", "ns")),
        (pa.array([0, -(2**63)], pa.timestamp("ns")), TimeUnits("timestamp")),
        (pa.array([0, -(2**63)], pa.timestamp("us", "UTC")), TimeUnits("timestamp")),
        (pa.array(["2024-01-01", " "]), TimeUnits("timestamp")),
    ],
)
def test_a_missing_time_of_pandas_is_no_time(column, units):
    with pytest.raises(BadTime, match=r"row 1: the time is missing"):
        units.ticks(column)


def test_times_out_of_range():
    for column, unit in ((pa.array([0, 2**62]), None), (pa.array([0, 2**64 - 1], pa.uint64()), None),
                         (pa.array([0.0, 1e300]), "s")):  # fmt: skip
        with pytest.raises(BadTime, match=r"row 1: the time .* is out of range"):
            TimeUnits.of(column.type, unit).ticks(column)


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view(),
                                   pa.dictionary(pa.int8(), pa.string())])  # fmt: skip
def test_times_as_text_of_any_type(type_):
    column = pa.array(["01.01.2024 11:00", "02.01.2024 11:00:00.5"]).cast(type_)
    assert TimeUnits.of(type_, None, text="dmy").ticks(column).tolist() == [NOON, NOON + DAY + 5 * 10**8]


@pytest.mark.parametrize(
    ("column", "ticks"),
    [
        (pa.array(["2024-01-01 12:00", "2024-01-01 11:00Z"]), [NOON, NOON]),
        (pa.array([NOON // 10**9 + 3600], pa.timestamp("s")), [NOON]),
        (pa.array([NOON // 10**9], pa.timestamp("s", "America/New_York")), [NOON]),
        (pa.array(["2024-07-01 12:00"]), [NOON + 182 * DAY - 3600 * 10**9]),
        (pa.array([19_723], pa.date32()), [NOON - 12 * 3600 * 10**9]),
        (pa.array([20240101]), [NOON - 12 * 3600 * 10**9]),
    ],
)
def test_the_zone_of_times_that_do_not_say_theirs(column, ticks):
    text = "%Y%m%d" if pa.types.is_integer(column.type) else "ymd"
    units = TimeUnits.of(column.type, None, text=text, zone="Europe/Berlin")
    assert units.ticks(column).tolist() == ticks


def test_the_hours_of_a_clock_change():
    units = TimeUnits("timestamp", zone="Europe/Berlin")
    summer = units.ticks(pa.array(["2024-10-27 01:59", "2024-10-27 02:00", "2024-10-27 03:00"]))
    assert np.diff(summer).tolist() == [60 * 10**9, 2 * 3600 * 10**9]
    for column in (["2024-03-31 01:59", "2024-03-31 02:30:00"], ["2024-03-31 01:30:00Z", "2024-03-31 02:30"]):
        with pytest.raises(BadTime, match=r"row 1: there is no 2024-03-31 02:30:00 in Europe/Berlin"):
            units.ticks(pa.array(column))


def test_times_with_and_without_a_zone_do_not_mix():
    aware = TimeUnits.of(pa.timestamp("s", "UTC"), None)
    plain = TimeUnits.of(pa.timestamp("s"), None)
    assert "timestamp[ms]: it has no zone, other times of the files have one" in aware.fault(pa.timestamp("ms"))
    assert "has no zone" in aware.fault(pa.date32())
    assert "source.time.zone says which those are in" in plain.fault(pa.timestamp("ms", "UTC"))
    assert aware.fault(pa.timestamp("ns", "Asia/Tokyo")) is None
    assert aware.fault(pa.string()) is None
    with pytest.raises(BadTime, match=r"row 1: '2024-01-01' has no zone, other times of the files have one"):
        aware.ticks(pa.array(["2024-01-01 00:00Z", "2024-01-01"]))
    with pytest.raises(BadTime, match=r"row 0: '2024-01-01 00:00\+01:00' has a zone, other times of the files have"):
        plain.ticks(pa.array(["2024-01-01 00:00+01:00"]))
    zone = TimeUnits.of(pa.timestamp("s"), None, zone="UTC")
    assert zone.fault(pa.timestamp("ms", "UTC")) is None
    assert zone.fault(pa.int64()) == "is int64"


@pytest.mark.parametrize(
    ("date", "clock", "text"),
    [
        (pa.array(["01.01.2024"]), pa.array(["11:00:00"]), "dmy"),
        (pa.array(["01/01/2024"]), pa.array(["11:00 AM"]), "%m/%d/%Y %I:%M %p"),
        (pa.array([19_723], pa.date32()), pa.array([39_600], pa.time32("s")), None),
        (pa.array([19_723 * 86_400], pa.timestamp("s")), pa.array([39_600 * 10**9], pa.time64("ns")), None),
        (pa.array([19_723 * 86_400], pa.timestamp("s")), pa.array(["11:00"]), None),
        (pa.array(["2024-01-01"]), pa.array([39_600_000], pa.time32("ms")), "ymd"),
    ],
)
def test_date_and_time_in_two_columns(date, clock, text):
    units = TimeUnits.of(date.type, None, text=text)
    assert units.ticks(date, clock).tolist() == [NOON]
    berlin = TimeUnits.of(date.type, None, text=text, zone="Europe/Berlin")
    assert berlin.ticks(date, clock).tolist() == [NOON - 3600 * 10**9]
    with pytest.raises(BadTime, match=r"row 0: the time is missing"):
        units.ticks(date, pa.nulls(1, clock.type))


def test_a_zone_or_a_format_that_cannot_be():
    check_zone("Europe/Berlin")
    check_zone("+05:30")
    check_format(None)
    with pytest.raises(UserError, match=r"source.time.zone: 'Nowhere/Else' is not known on this machine"):
        check_zone("Nowhere/Else")
    with pytest.raises(UserError, match=r"source.time.format: '%H:%M' gives no date"):
        check_format("%H:%M")


def test_times_whose_parts_have_a_column_each():
    moments = [
        datetime.datetime(1999, 12, 31, 23, 59, 58),
        datetime.datetime(2024, 2, 29),
        datetime.datetime(1900, 1, 1),
    ]
    units = TimeUnits("timestamp", text=PARTS, aware=False)
    names = ("year", "month", "day", "hour", "minute", "second")
    for count in range(2, 7):
        columns = [pa.array([getattr(moment, name) for moment in moments]) for name in names[:count]]
        least = [1, 1, 1, 0, 0, 0]
        expected = [datetime.datetime(*moment.timetuple()[:count], *least[count:6]) for moment in moments]
        ticks = units.ticks(*columns)
        assert ticks.tolist() == [
            round((one - datetime.datetime(1970, 1, 1)).total_seconds()) * 10**9 for one in expected
        ]
    berlin = TimeUnits("timestamp", text=PARTS, zone="Europe/Berlin")
    assert berlin.ticks(*(pa.array([part]) for part in (2024, 7, 1, 2))) == [1719792000 * 10**9]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((2023, 2, 29), "there is no day 29 in the month 2023-02"),
        ((2023, 13, 1), "the month 13 is none: it is a whole number from 1 to 12"),
        ((2023, 1, 1, 24), "the hour 24 is none: it is a whole number from 0 to 23"),
        ((2023, 1, 1.5), "the day 1.5 is none"),
        ((23, 1, 1), "the year 23 is none"),
        ((float("nan"), 1, 1), "the year nan is none"),
    ],
)
def test_parts_that_are_none(parts, message):
    columns = [pa.array([good, part], pa.float64()) for good, part in zip((2024, 1, 1, 1), parts, strict=False)]
    with pytest.raises(BadTime) as caught:
        TimeUnits("timestamp", text=PARTS, aware=False).ticks(*columns)
    assert caught.value.row == 1
    assert message in caught.value.fault
