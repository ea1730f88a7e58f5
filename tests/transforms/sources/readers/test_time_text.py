"""Times as text against Python's own datetime."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest

from beamfeed.transforms.sources.readers.time_text import (
    BadTime,
    Guess,
    are_aware,
    first_parts,
    guess_order,
    guess_orders,
    pattern_of,
    read_times,
    vote,
)


def nanoseconds(*when: int, more: int = 0) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp()) * 10**9 + more


@pytest.mark.parametrize(
    ("how", "text", "expected"),
    [
        ("ymd", "2024-02-29", nanoseconds(2024, 2, 29)),
        ("ymd", "2024-02-29 13:14", nanoseconds(2024, 2, 29, 13, 14)),
        ("ymd", "2024/2/9T13:14:15", nanoseconds(2024, 2, 9, 13, 14, 15)),
        ("ymd", "2024-02-29T13:14:15.5", nanoseconds(2024, 2, 29, 13, 14, 15, more=500_000_000)),
        ("ymd", "2024-02-29 13:14:15,123456789", nanoseconds(2024, 2, 29, 13, 14, 15, more=123_456_789)),
        ("ymd", "2024-02-29 13:14:15.1234567891", nanoseconds(2024, 2, 29, 13, 14, 15, more=123_456_789)),
        ("ymd", "20240229T131415", nanoseconds(2024, 2, 29, 13, 14, 15)),
        ("ymd", "20240229131415", nanoseconds(2024, 2, 29, 13, 14, 15)),
        ("ymd", "20240229", nanoseconds(2024, 2, 29)),
        ("ymd", " 2024-02-29 24:00:00 ", nanoseconds(2024, 3, 1)),
        ("dmy", "29.02.2024 13:14:15", nanoseconds(2024, 2, 29, 13, 14, 15)),
        ("dmy", "9.2.24 3:04", nanoseconds(2024, 2, 9, 3, 4)),
        ("dmy", "09-Feb-2024 03:04:05 PM", nanoseconds(2024, 2, 9, 15, 4, 5)),
        ("dmy", "9 September 1999", nanoseconds(1999, 9, 9)),
        ("mdy", "02/09/2024 12:04:05 AM", nanoseconds(2024, 2, 9, 0, 4, 5)),
        ("mdy", "2/9/99 12:04 p.m.", nanoseconds(1999, 2, 9, 12, 4)),
        ("mdy", "Feb 9, 2024, 3:04", nanoseconds(2024, 2, 9, 3, 4)),
        ("%d.%m.%Y %H:%M:%S", "09.02.2024 03:04:05", nanoseconds(2024, 2, 9, 3, 4, 5)),
        ("%d.%m.%Y %H:%M:%S", "09.02.2024 03:04:05.25", nanoseconds(2024, 2, 9, 3, 4, 5, more=250_000_000)),
        ("%Y%m%d-%H%M%S,%f", "20240209-030405", nanoseconds(2024, 2, 9, 3, 4, 5)),
        ("%D %I:%M %p", "02/09/24 03:04 pm", nanoseconds(2024, 2, 9, 15, 4)),
        ("%Y-%j", "2024-366", nanoseconds(2024, 12, 31)),
        ("%A, %d %B %Y %Hh%M", "Friday, 09 February 2024 03h04", nanoseconds(2024, 2, 9, 3, 4)),
        ("%d/%m/%Y:%T:%f", "09/02/2024:03:04:05:007", nanoseconds(2024, 2, 9, 3, 4, 5, more=7_000_000)),
        ("100%% %F", "100% 2024-02-09", nanoseconds(2024, 2, 9)),
        ("ym", "2024-02", nanoseconds(2024, 2, 1)),
        ("ym", "2024/2", nanoseconds(2024, 2, 1)),
        ("ym", "2024 Sep", nanoseconds(2024, 9, 1)),
        ("ym", "2004-Q4", nanoseconds(2004, 10, 1)),
        ("ym", "2004q1", nanoseconds(2004, 1, 1)),
        ("my", "Jan 2024", nanoseconds(2024, 1, 1)),
        ("my", "September, 2024", nanoseconds(2024, 9, 1)),
        ("my", "11/2024", nanoseconds(2024, 11, 1)),
        ("my", "Q2 2024", nanoseconds(2024, 4, 1)),
        ("%Y-%m", "2024-02", nanoseconds(2024, 2, 1)),
        ("%b %Y", "Feb 2024", nanoseconds(2024, 2, 1)),
        ("%YM%m", "2024M11", nanoseconds(2024, 11, 1)),
        ("year %Y", "year 1999", nanoseconds(1999, 1, 1)),
    ],
)
def test_times(how, text, expected):
    found = read_times(pa.array([text, text]), how)
    assert found.local.tolist() == [expected] * 2
    assert found.local.dtype == np.int64
    assert not found.aware.any()


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("Z", 0), (" UTC", 0), ("+01:00", 60), ("-0530", -330), ("+02", 120), (" +14:00", 840)],
)
def test_zones_that_are_written(text, minutes):
    found = read_times(pa.array(["2024-02-29 13:14:15" + text, "2024-02-29 13:14:15"]), "ymd")
    assert found.aware.tolist() == [True, False]
    assert found.offset.tolist() == [minutes * 60 * 10**9, 0]
    assert found.local.tolist() == [nanoseconds(2024, 2, 29, 13, 14, 15)] * 2


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("ymd", "2023-02-29"), ("ymd", "2024-13-01"), ("ymd", "2024-00-01"), ("ymd", "2024-01-01 24:00:01"),
        ("ymd", "2024-01-01 12:60"), ("ymd", "2024-01-01x"), ("ymd", "2024-1"), ("ymd", "2024111"), ("ymd", "17"),
        ("ymd", "2024-01-01 13:00 PM"), ("ymd", "2024-01-01 00:00 AM"), ("ymd", "2024-01-01 12:00+15:00"),
        ("ym", "2024-13"), ("ym", "2024-00"), ("ym", "2024-01-01"), ("ym", "1234-01"), ("my", "13/2024"),
        ("ym", "2004-Q5"), ("dmy", "31.04.2024"), ("dmy", "13.13.2024"), ("dmy", "1.1.024"),
        ("mdy", "13/01/2024"), ("mdy", "Foo 9, 2024"), ("%d.%m.%Y", "01.02.2024 10:00"), ("%Y-%j", "2023-366"),
        ("%d.%m.%Y %H:%M", "01.02.2024 10:00:00"), ("dmy", "1.234,5"), ("%Y.%m", "2024x02"),
    ],
)  # fmt: skip
def test_what_is_no_time(how, text):
    good = {"ym": "2024-01", "my": "1/2024", "%Y.%m": "2024.01",
            "ymd": "2024-01-01", "dmy": "1.1.2024", "mdy": "1/1/2024", "%d.%m.%Y": "1.1.2024", "%Y-%j": "2024-001",
            "%d.%m.%Y %H:%M": "1.1.2024 1:00"}[how]  # fmt: skip
    with pytest.raises(BadTime) as error:
        read_times(pa.array([good, text, text]), how)
    assert str(error.value).startswith(f"row 1: {text!r} is not a time ")


@pytest.mark.parametrize("text", ["9999-12-31", "0001-01-01", "2116-01-01 10:00", "1823-12-31"])
def test_a_year_out_of_range_is_told_as_such(text):
    with pytest.raises(BadTime) as error:
        read_times(pa.array(["2115-12-31", "1824-01-01", text]), "ymd")
    assert str(error.value) == f"row 2: {text!r} is out of range: times are from 1824 to 2115"


def test_times_of_any_year_are_pythons():
    rng = np.random.default_rng(3)
    start = datetime(1900, 1, 1, tzinfo=UTC)
    whens = [start + timedelta(microseconds=int(n)) for n in rng.integers(0, 200 * 365 * 86_400 * 10**6, 2000)]
    zones = [timezone(timedelta(minutes=int(n))) for n in rng.integers(-12 * 60, 14 * 60, 2000)]
    exact = [(when - start) // timedelta(microseconds=1) * 1000 + int(start.timestamp()) * 10**9 for when in whens]
    for how, format_ in {
        "ymd": "%Y-%m-%dT%H:%M:%S.%f",
        "dmy": "%d %b %Y %I:%M:%S.%f %p",
        "mdy": "%m/%d/%Y %H:%M:%S.%f",
        "%j in %Y, %M past %H and %S.%f": "%j in %Y, %M past %H and %S.%f",
    }.items():
        assert read_times(pa.array([when.strftime(format_) for when in whens]), how).local.tolist() == exact
    aware = [when.astimezone(zone).isoformat() for when, zone in zip(whens, zones, strict=True)]
    found = read_times(pa.array(aware), "ymd")
    assert (found.local - found.offset).tolist() == exact


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["2024-01-02", "", "2024-01-02 10:00:00Z"], Guess("ymd")),
        (["01.02.2024 10:00", "13.02.2024 10:00"], Guess("dmy")),
        (["01.02.2024 10:00", "05.02.2024 10:00"], Guess("dmy", is_usual=True)),
        (["31/01/2024"] * 40 + ["01/13/2024"], Guess("dmy")),  # a typo
        (["01/02/2024 10:00", "05/02/2024 10:00"], Guess(None, "05/02/2024 10:00")),
        (["01/02/2024 10:00", "01/13/2024 10:00"], Guess("mdy")),
        (["01/02/2024 10:00", "31/12/2024 10:00"], Guess("dmy")),
        (["13/01/2024", "01/13/2024"], Guess(None)),
        (["24-01-30", "24-01-31", "24-02-01"], Guess(None, "24-02-01")),
        (["24.01.30", "24.01.31", "24.02.01"], Guess(None, "24.02.01")),
        (["05-01-30", "05-01-31", "05-02-01"], Guess(None, "05-02-01")),
        (["99-12-31", "99-12-30"], Guess(None, "99-12-30")),
        (["30-01-24", "31-01-24", "01-02-24"], Guess("dmy")),
        (["25/12/24", "03/01/24", "14/05/24", "30/01/23"], Guess("dmy")),
        (["31-01-24 10:00", "31-01-24 11:00"], Guess(None, "31-01-24 11:00")),
        (["31.01.24 10:00", "31.01.24 11:00"], Guess("dmy", is_usual=True)),
        (["31/12/98", "31/12/99", "31/12/00"], Guess("dmy")),
        (["01/30/24", "01/31/24", "02/01/24"], Guess("mdy")),
        (
            [f"{28 + month % 4}/{1 + month % 12:02}/{1 + month // 12:02}" for month in range(288)],
            Guess(None, "31/12/24"),
        ),
        (["02-Jan-2024 10:00:00 PM"], Guess("dmy")),
        (["Jan 2, 2024"], Guess("mdy")),
        (["pump", "2024-01-02"], Guess(None)),
        (["12.5", "13.5"], Guess(None)),
        (["2024-01", "2024-12"], Guess("ym")),
        (["2004-Q1", "2004-Q2"], Guess("ym")),
        (["Jan 2024", "May 2024"], Guess("my")),
        (["01/2024", "02/2024"], Guess("my")),
        (["2024-01", "2024-01-02"], Guess(None)),
        (["1000-10", "3000-10"], Guess(None)),
        ([], Guess(None)),
    ],
)
def test_the_order_of_a_date_is_told_by_numbers_above_12(values, expected):
    assert guess_order(values) == expected


@pytest.mark.parametrize(
    ("format_", "expected"),
    [
        ("%d/%m/%y", Guess("dmy")),
        ("%d-%m-%y", Guess("dmy")),
        ("%d.%m.%y", Guess("dmy")),
        ("%m/%d/%y", Guess("mdy")),
        ("%y.%m.%d", Guess(None, "24.02.12 23:00")),  # with a point, the day alone would be usual
        ("%y-%m-%d", Guess(None, "24-02-12 23:00")),
    ],
)
def test_of_files_of_a_day_each_the_others_tell(format_, expected):
    days = [datetime(2024, 1, 20, tzinfo=UTC) + timedelta(days=day) for day in range(24)]
    files = [[day.strftime(format_) + f" {hour:02}:00" for hour in range(24)] for day in days]
    guesses = guess_orders([*files, ["pump"], []])
    if format_ != "%m/%d/%y":  # of which a day above 12 is proof
        assert guesses == [expected] * len(files) + [Guess(None)] * 2
    orders = vote(guesses)
    assert list(orders) == ([expected.how] if expected.how else [])
    assert guess_orders([["01/02/2024"], ["31/01/2024"]]) == [Guess(None, "01/02/2024"), Guess("dmy")]


def test_whether_times_say_their_zone_is_as_in_most_of_the_files():
    assert are_aware([["no", "2024-01-01Z", "2024-01-02"], ["2024-13-01", "2024-01-01 10:00+01:00"]], "ymd") is False
    assert are_aware([["2024-13-01", "no", "2024-01-01 10:00+01:00"], ["none"], []], "ymd") is True


def test_what_a_date_may_begin_with():
    assert first_parts("03/04/2024 10:00") == "the day or the month"
    assert first_parts("24-01-31") == "the day or the year"
    assert first_parts("03.04.05") == "the day, the month or the year"


def test_a_format_that_cannot_be():
    with pytest.raises(ValueError, match="gives the day twice"):
        pattern_of("%d.%d.%Y")
    for format_, what in (("%H:%M:%S", "year"), ("%d %H", "year"), ("%Y %d", "month"), ("%Y-%m %H:%M", "day")):
        with pytest.raises(ValueError, match=f"gives no date: it needs a {what}"):
            pattern_of(format_)
