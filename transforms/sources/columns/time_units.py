"""What the values of a time column mean: columns of any type as int64 ticks, and durations in the same ticks.

A tick is a nanosecond for timestamps, for times as text, and for numeric columns
with a unit. For integers without a unit, and for numbers of rows, it is 1, for
floats without a unit 1e-9.
"""

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.duration import MOST_TICKS, NANOSECONDS
from beamfeed.contract.dataset.fields import Time
from beamfeed.contract.dataset.times import ticks_of, time_text
from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.columns.numbers import is_number, is_text, plain
from beamfeed.transforms.sources.readers.time_text import (
    A_ZONE,
    FIRST_YEAR,
    LAST_YEAR,
    NO_ZONE,
    BadTime,
    bad_times,
    pattern_of,
    read_times,
)

__all__ = ["PARTS", "BadTime", "TimeUnits", "check_format", "check_zone"]

FLOAT_TICKS = 1_000_000_000
NO_TIME = np.iinfo(np.int64).min  # of a row that does not tell its own
MOST_BAD_TIMES = 1000  # of a batch, before its file is given up
_OTHER_ORDER = {"dmy": "mdy", "mdy": "dmy"}
_NUMBERS = re.compile(r"\s*\d{1,2}\s*[-/. ]\s*\d{1,2}\b")
_POWERS = 10.0 ** np.arange(10)


# How times are written that stand in several columns of numbers, and what each of these may hold.
PARTS = "parts"
_PARTS = {
    "year": (FIRST_YEAR + 1, LAST_YEAR - 1), "month": (1, 12), "day": (1, 31), "hour": (0, 23), "minute": (0, 59),
    "second": (0, 59),
}  # fmt: skip


class SkippedHour(BadTime):
    """A time that the clocks of the zone never showed, as they were put forward."""


def is_doubtful(bad: BadTime, units: "TimeUnits") -> bool:
    """Whether a bad time says that the others may have been read wrongly: by another zone, or with day for month."""
    if bad.value is None:
        return isinstance(bad, SkippedHour)
    if _NUMBERS.match(bad.value) is None:  # a month by its name is that month in any order
        return False
    try:
        read_times(pa.array([bad.value]), _OTHER_ORDER[units.text])
    except (BadTime, KeyError):
        return False
    return True


@dataclass(frozen=True)
class TimeUnits:
    """What a time column counts.

    Attributes:
      kind: of the column's type; row where there is no column and rows count.
      unit: of numbers, or from one row to the next.
      text: how times are written as text: a format, or the order of a date.
      zone: of times that do not say theirs; times with a zone are made UTC in any case.
      aware: whether times say their zone; None where it does not matter, as `zone` makes all of them one.
    """

    kind: Literal["timestamp", "integer", "float", "row"]
    unit: str | None = None
    text: str = "ymd"
    zone: str | None = None
    aware: bool | None = None

    @classmethod
    def of(
        cls, type_: pa.DataType, unit: str | None, *, text: str | None = None, zone: str | None = None
    ) -> "TimeUnits | None":
        """The units of a column's type; None where the type is no time.

        Args:
          type_: of the column.
          unit: of its numbers.
          text: how its text is written, if it is known.
          zone: of times that do not say theirs.
        """
        if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
            aware = pa.types.is_timestamp(type_) and type_.tz is not None
            return cls("timestamp", text=text or "ymd", zone=zone, aware=None if zone else aware)
        if text is not None and (is_text(type_) or pa.types.is_integer(type_)):
            return cls("timestamp", text=text, zone=zone)
        if pa.types.is_integer(type_):
            return cls("integer", unit)
        if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
            return cls("float", unit)
        return None

    @property
    def counts(self) -> Time:
        """What a tick is, as the dataset tells it to who shows times."""
        if self.kind == "timestamp":
            return "instant"
        if self.unit is not None:
            return "duration"
        return "decimal" if self.kind == "float" else "number"

    def fault(self, type_: pa.DataType, *more: pa.DataType) -> str | None:
        """What keeps columns of these types from being read in these units; None if they can be.

        Args:
          type_: of the column.
          more: of the column of times of the day, or of month, day, hour and so on, where there are such.
        """
        if self.text == PARTS:
            wrong = [part for part in (type_, *more) if not is_number(part)]
            return f"is split into columns of which one is {wrong[0]}, not a number" if wrong else None
        clock = more[0] if more else None
        if clock is not None and not (pa.types.is_time(clock) or is_text(clock)):
            return f"has times of the day in a column that is {clock}"
        if clock is not None and pa.types.is_integer(type_):
            return None
        if self.kind == "timestamp":
            aware = pa.types.is_timestamp(type_) and type_.tz is not None
            if not is_text(type_) and self.aware not in (None, aware):
                return f"is {type_}: it {A_ZONE if aware else NO_ZONE}"
            fits = pa.types.is_timestamp(type_) or pa.types.is_date(type_) or is_text(type_)
            return None if fits or ("%" in self.text and pa.types.is_integer(type_)) else f"is {type_}"
        units = TimeUnits.of(type_, self.unit)
        fits = units is not None and (units.kind == self.kind or (self.kind, units.kind) == ("float", "integer"))
        return None if fits else f"is {type_}"

    def ticks(self, column: pa.Array, *more: pa.Array) -> np.ndarray:
        """int64 [n] ticks of a column of n times, of one of dates and one of times of the day, or of years, months ...

        Raises:
          BadTime: if a time is missing, out of range, or cannot be read.
        """
        for part in (column, *more):
            if part.null_count:
                row = pc.index(part.is_null(), True).as_py()
                raise BadTime(row, "the time is missing")
        if self.text == PARTS:
            return self._in_utc(_of_parts((column, *more)), aware=False)
        if self.kind == "timestamp":
            return _scaled(self._joined(column, *more) if more else self._nanoseconds(column), 1)
        return _of_numbers(column, self._tick)

    def rows(self, first: int, rows: int) -> np.ndarray:
        """int64 [rows] ticks of rows that count themselves, from `first` on."""
        return np.arange(first, first + rows) * self._tick

    def _nanoseconds(self, column: pa.Array) -> np.ndarray:
        """Of a column of timestamps, dates or text; a missing one of pandas stays the smallest number."""
        column = plain(column)
        if pa.types.is_timestamp(column.type):
            return self._in_utc(_since_1970(column, column.type.unit), aware=column.type.tz is not None)
        if pa.types.is_date(column.type):
            return self._in_utc(_since_1970(column.cast(pa.timestamp("s")), "s"), aware=False)
        text = column.cast(pa.string())
        times = read_times(text, self.text)
        if self.aware is not None and (times.aware != self.aware).any():
            raise bad_times(text, times.aware != self.aware, lambda *_: NO_ZONE if self.aware else A_ZONE)
        ticks = times.local - times.offset
        if self.zone is not None and not times.aware.all():
            without = np.flatnonzero(~times.aware)
            ticks[without] = self._in_utc(ticks[without], aware=False, rows=without)
        return ticks

    def _joined(self, date: pa.Array, clock: pa.Array) -> np.ndarray:
        """Of a column of dates and one of times of the day."""
        if pa.types.is_time(clock.type) and not is_text(date.type):
            days = replace(self, zone=None, aware=None)._nanoseconds(date)
            integer = pa.int32() if pa.types.is_time32(clock.type) else pa.int64()
            since_midnight = clock.cast(integer).cast(pa.int64()).to_numpy() * NANOSECONDS[clock.type.unit]
            return self._in_utc(days + since_midnight, aware=False)
        if pa.types.is_timestamp(date.type):  # as text it has a time of the day already
            date = date.cast(pa.date32(), safe=False)
        text = self
        if "%" not in self.text and not is_text(date.type):
            text = replace(self, text="ymd")
        parts = (plain(part).cast(pa.string()) for part in (date, clock))
        return text._nanoseconds(pc.binary_join_element_wise(*parts, " "))

    def _in_utc(self, local: np.ndarray, *, aware: bool, rows: np.ndarray | None = None) -> np.ndarray:
        """Moves times of a clock in `zone` to UTC; an hour that the clock shows twice is taken for its first.

        Args:
          local: int64 [n] nanoseconds.
          aware: whether they are in UTC already.
          rows: int64 [n], which of a column's they are, for messages; None if they are all.
        """
        if aware or self.zone is None:
            return local
        clock = pa.array(_scaled(local, 1), pa.timestamp("ns"))
        moved = pc.assume_timezone(clock, self.zone, ambiguous="earliest", nonexistent="earliest")
        lost = pc.not_equal(pc.local_timestamp(moved), clock)
        if pc.any(lost).as_py():
            at = pc.index(lost, True).as_py()
            when = str(local[at].astype("datetime64[ns]").astype("datetime64[s]")).replace("T", " ")
            row = at if rows is None else rows[at]
            raise SkippedHour(int(row), f"there is no {when} in {self.zone}, where clocks are put forward then")
        return moved.cast(pa.int64()).to_numpy()

    def instant(self, value: str | int | float, key: str) -> int:
        """Ticks of a time that the job file gives under `key`.

        Raises:
          UserError: if it is no time of the column's kind.
        """
        if self.kind != "timestamp":
            if isinstance(value, str):
                raise UserError(f"{key}: {value!r} is not a number, and the time column holds numbers")
            try:
                whole = self.kind != "float" and self._tick == 1  # what is at or after 100.5 is at or after 101
                return int(_of_numbers(pa.array([math.ceil(value) if whole else value]), self._tick)[0])
            except (ValueError, OverflowError):
                raise UserError(f"{key}: {value} is out of range") from None
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            raise UserError(f"{key}: {value!r} is not a time such as 2024-01-31 or 2024-01-31T12:00:00") from None
        aware = moment.tzinfo is not None
        moment = moment if aware else moment.replace(tzinfo=UTC)
        ticks = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
        if finer := re.search(r"[.,]\d{6}(\d{1,3})", str(value)):  # which a datetime has no room for
            ticks += int(finer[1].ljust(3, "0"))
        try:
            return int(self._in_utc(np.array([ticks]), aware=aware)[0])
        except BadTime as bad:
            raise UserError(f"{key}: {bad.fault}") from None

    def format(self, tick: int) -> str:
        """A time in ticks as a person writes it; of a column with times, in UTC where they say their zone."""
        if self.kind != "timestamp":
            return _number(tick / self._tick)
        zoned = self.aware or self.zone is not None
        return time_text(int(tick), "instant") + (" UTC" if zoned else "")

    def format_span(self, ticks: int) -> str:
        """So many ticks as a person writes them: 250ms, 1.5h; of a column without a unit, the number."""
        if self.kind != "timestamp" and self.unit is None:
            return _number(ticks / self._tick)
        unit = next((name for name in ("d", "h", "m", "s", "ms", "us") if ticks >= NANOSECONDS[name]), "ns")
        return _number(round(ticks / NANOSECONDS[unit], 3)) + unit

    @property
    def _tick(self) -> int:
        """Ticks of one, of a column of numbers."""
        return NANOSECONDS[self.unit] if self.unit else FLOAT_TICKS if self.kind == "float" else 1

    def duration(self, value: str | int | float, key: str, *, whole: bool = False) -> int:
        """Ticks of a duration that the job file gives under `key`, see `beamfeed.contract.dataset.times.ticks_of`.

        Raises:
          UserError: if one has a unit and the other has none, it is out of range, or it is not whole and must be.
        """
        return ticks_of(value, self.counts, key, self.unit, whole=whole)


def ticks_of_rows(
    units: TimeUnits, columns: Sequence[pa.Array], has_time: np.ndarray
) -> tuple[np.ndarray, dict[int, BadTime]]:
    """int64 [n] ticks of some rows, and of which rows the times cannot be read, and why; NO_TIME of these and others.

    With MOST_BAD_TIMES of these no row has a time: that column holds something else.

    Args:
      units: of the times.
      columns: of n rows, as for `TimeUnits.ticks`.
      has_time: bool [n], the rows.
    """
    bad_times = dict[int, BadTime]()
    if len(has_time) and has_time.all():
        with suppress(BadTime):  # it is found once more below
            ticks = units.ticks(*columns)
            return ticks if ticks.flags.owndata else ticks.copy(), bad_times  # else they would hold a whole batch
    ticks = np.full(len(has_time), NO_TIME)
    while len(bad_times) < MOST_BAD_TIMES:
        rows = np.flatnonzero(has_time)
        parts = columns if len(rows) == len(ticks) else [column.take(pa.array(rows)) for column in columns]
        try:
            if len(rows):
                ticks[rows] = units.ticks(*parts)
            break
        except BadTime as first:
            bad_times |= {int(rows[bad.row]): bad for bad in (first, *first.others)}
            has_time = has_time.copy()
            has_time[list(bad_times)] = False
    return ticks, bad_times


def _number(value: float) -> str:
    return f"{value:.10g}"


def check_format(format_: str | None) -> None:
    """Raises UserError if a time format of the job file does not tell a time."""
    try:
        if format_ is not None:
            pattern_of(format_)
    except ValueError as error:
        raise UserError(f"source.time.format: {error}") from None


def check_zone(zone: str | None) -> None:
    """Raises UserError if this machine does not know a time zone."""
    try:
        if zone is not None:
            pc.assume_timezone(pa.array([0], pa.timestamp("ns")), zone, ambiguous="earliest", nonexistent="earliest")
    except pa.ArrowInvalid:
        raise UserError(
            f"source.time.zone: {zone!r} is not known on this machine (is its package tzdata there?)"
        ) from None


def _since_1970(column: pa.Array, unit: str) -> np.ndarray:
    values = column.cast(pa.int64()).to_numpy()
    try:
        return _scaled(values, NANOSECONDS[unit])
    except BadTime as bad:
        if values[bad.row] == np.iinfo(np.int64).min:
            raise
        when = str(values[bad.row].astype(f"datetime64[{unit}]")).replace("T", " ")
        reason = f"the time {when} is out of range: times are from {FIRST_YEAR} to {LAST_YEAR}"
        raise BadTime(bad.row, reason) from None


def _of_numbers(column: pa.Array, factor: int) -> np.ndarray:
    """int64 [n] ticks of integers, decimals or floats, of which one counts `factor` ticks.

    Raises:
      BadTime: for one that is not finite, or out of range.
    """
    is_decimal = pa.types.is_decimal(column.type)
    if not is_decimal and not pa.types.is_floating(column.type):
        try:
            values = column.cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            row = int(np.asarray(column.to_numpy(zero_copy_only=False) >= 2**63).argmax())
            raise BadTime(row, f"the time {column[row]} is out of range") from None
        return _scaled(values, factor)
    values = column.cast(pa.float64(), safe=False).to_numpy()
    bad = ~np.isfinite(values)
    if bad.any():
        raise BadTime(int(bad.argmax()), f"the time is {values[bad.argmax()]}")
    with np.errstate(over="ignore"):
        _check_range(values * factor, values)
    if is_decimal:
        exact = column.cast(pa.decimal256(60, 25), safe=False)  # with room for days in nanoseconds
        ticks = pc.multiply(exact, pa.scalar(Decimal(factor), pa.decimal256(15, 0)))
        return pc.round(ticks).cast(pa.int64()).to_numpy()
    return _of_floats(column.to_numpy(), factor)


def _of_floats(values: np.ndarray, factor: int) -> np.ndarray:
    """int64 [n] ticks of floats, with no more decimals of a second than each tells by itself: 1700000000.1 has one.

    All stay in order, and those that are more than two steps of their type apart stay apart.

    Args:
      values: float [n], as wide as in the file.
      factor: ticks of one.
    """
    if not len(values):
        return np.zeros(0, np.int64)
    wide = values.astype(np.float64, copy=False)
    floored = np.floor(wide)  # by itself, as a float has no room for nanoseconds since 1970
    rest = wide - floored
    rest *= factor
    sizes = np.abs(values)
    spacing = _spacing(np.array([sizes.min(), sizes.max()]), factor)  # the larger, the more
    zeros = _zeros(spacing)
    if zeros[1] == 0:
        ticks = np.round(rest)
    else:
        spacing = spacing[:1] if spacing[0] == spacing[1] else _spacing(sizes, factor)
        zeros = zeros[:1] if zeros[0] == zeros[1] else _zeros(spacing)
        ticks = _rounded(rest, zeros)
        # A float that was computed, such as ns / 1e9, is one off at times; a narrow one was rounded from a wide one.
        slack = spacing * (1.25 if values.dtype == np.float64 else 0.5)
        rows = np.flatnonzero((np.abs(ticks - rest) >= slack) & (zeros > 0))
        ticks[rows] = _rounded(rest[rows], (zeros[rows] if len(zeros) > 1 else zeros) - 1)
    whole = floored.astype(np.int64)
    whole *= factor
    whole += ticks.astype(np.int64)
    return whole


def _spacing(sizes: np.ndarray, factor: int) -> np.ndarray:
    """Ticks from a float to the next larger one, float64 [n]."""
    return np.spacing(sizes).astype(np.float64) * factor


def _zeros(spacing: np.ndarray) -> np.ndarray:
    """How many digits at the end of their ticks floats do not tell, int64 [n]."""
    return np.clip(np.ceil(np.log10(spacing)), 0, 9).astype(np.int64)


def _rounded(ticks: np.ndarray, zeros: np.ndarray) -> np.ndarray:
    """Float64 [n] ticks with so many zeros at the end, int64 [n], or [1] for all."""
    units = _POWERS[zeros]
    return np.round(ticks / units) * units


def _of_parts(columns: Sequence[pa.Array]) -> np.ndarray:
    """int64 [n] nanoseconds since 1970 of columns of years, months, days, hours, minutes, seconds: the first of these.

    Raises:
      BadTime: for a number that is none of a calendar or a clock.
    """
    first = {"month": 1, "day": 1}
    parts = {}
    for (name, (low, high)), column in zip(_PARTS.items(), columns, strict=False):
        numbers = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        bad = ~((numbers >= low) & (numbers <= high) & (numbers == np.floor(numbers)))
        if bad.any():
            row = int(bad.argmax())
            raise BadTime(row, f"the {name} {numbers[row]:g} is none: it is a whole number from {low} to {high}")
        parts[name] = numbers.astype(np.int64)
    rows = len(columns[0])
    year, month, day, hour, minute, second = (parts.get(name, np.full(rows, first.get(name, 0))) for name in _PARTS)
    begins = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = begins.astype("datetime64[D]") + (day - 1)
    bad = days.astype("datetime64[M]") != begins
    if bad.any():
        row = int(bad.argmax())
        raise BadTime(row, f"there is no day {day[row]} in the month {begins[row]}")
    seconds = days.astype("datetime64[s]").astype(np.int64) + (hour * 60 + minute) * 60 + second
    return seconds * 1_000_000_000


def _scaled(values: np.ndarray, factor: int) -> np.ndarray:
    most = MOST_TICKS // factor - 1
    if len(values) and (values.min() < -most or values.max() > most):
        _check_range(values if factor == 1 else values.astype(np.float64) * factor, values)
    return values if factor == 1 else values * factor


def _check_range(scaled: np.ndarray, values: np.ndarray) -> None:
    bad = (scaled >= MOST_TICKS) | (scaled <= -MOST_TICKS)  # and not by abs: that of the smallest number is itself
    if bad.any():
        row = int(bad.argmax())
        if values.dtype == np.int64 and values[row] == np.iinfo(np.int64).min:
            raise BadTime(row, "the time is missing (NaT)")
        raise BadTime(row, f"the time {values[row]} is out of range; check source.time.unit")
