"""Which columns may be the time, and what they count."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.duration import NANOSECONDS
from beamfeed.contract.config.sources.timeseries import TimeColumn
from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.columns.time_units import BadTime, TimeUnits
from beamfeed.transforms.sources.readers.time_text import FIRST_YEAR, LAST_YEAR, first_parts
from beamfeed.transforms.sources.timeseries.times import OpenDate, resolve_time
from beamfeed.transforms.suggest.columns import Column, tokens
from beamfeed.transforms.suggest.dialects import cells_of
from beamfeed.transforms.suggest.options import Options
from beamfeed.transforms.suggest.sample import Sample

_NAMES = frozenset((
    "t", "ts", "time", "times", "timestamp", "datetime", "date", "when", "epoch", "elapsed", "cycle", "cycles", "step",
    "steps", "tick", "ticks", "frame", "seconds", "second", "sec", "minutes", "hours", "days", "zeit", "uhrzeit",
    "zeitstempel", "datum", "year",
))  # fmt: skip
_UNITS = {
    "ns": "ns", "us": "us", "ms": "ms", "millis": "ms", "milliseconds": "ms", "s": "s", "sec": "s", "secs": "s",
    "second": "s", "seconds": "s", "min": "m", "mins": "m", "minute": "m", "minutes": "m", "h": "h", "hr": "h",
    "hours": "h", "hour": "h", "days": "d", "day": "d",
}  # fmt: skip
_EPOCHS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_COMPACT = {14: "%Y%m%d%H%M%S", 12: "%Y%m%d%H%M", 8: "%Y%m%d"}  # by their digits
_CLOCK = re.compile(r"\s*\d{1,2}:\d\d(:\d\d([.,]\d+)?)?\s*([AaPp][Mm])?\s*")
_DOTTED_CLOCK = re.compile(r"\s*\d{1,2}\.\d\d\.\d\d\s*")  # or a date: the name of the column tells
_CLOCK_NAMES = frozenset(("time", "hour", "clock", "uhrzeit", "zeit", "hora", "heure", "ora", "tid"))
_OPEN = re.compile(
    r"\s*\d{1,2}([-/.])\d{1,2}\1(\d{4}|\d\d)(?:[ T]+\d{1,2}[:.]\d\d([:.]\d\d)?(?:[.,]\d+)?( ?[AaPp][Mm])?)?\s*"
)
_MONTH = re.compile(r"\s*(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\s*", re.IGNORECASE)
_FAR_DATE = r"\d{4}-\d\d(-\d\d)?"
_WRONG = 20  # values of a column that may be no times


# What columns of the parts of a time are called, in order.
_PARTS = (
    ("year", "yr", "yyyy"), ("month", "mnth", "mon", "mm"), ("day", "date_of_month", "day_of_month", "dom", "dd"),
    ("hour", "hr", "hh"), ("minute", "min"), ("second", "sec"),
)  # fmt: skip


@dataclass(frozen=True)
class Time:
    """A column, or several, that may be the time.

    Attributes:
      section: `source.time` of the job file.
      why: what says so, for a comment.
      units: what its values mean.
      ticks: int64 [rows] of each sampled table, in the units' ticks.
      valid: bool [rows] of each, whether the value is a time.
      sure: whether it is a time whatever the order of the rows.
    """

    section: dict[str, Any]
    why: str
    units: TimeUnits
    ticks: tuple[np.ndarray, ...]
    valid: tuple[np.ndarray, ...]
    sure: bool

    @property
    def known(self) -> list[np.ndarray]:
        """The ticks of each table that are times."""
        return [ticks[valid] for ticks, valid in zip(self.ticks, self.valid, strict=True)]

    @property
    def columns(self) -> tuple[str, ...]:
        return TimeColumn.model_validate(self.section).columns

    def span(self, ticks: float) -> str | int | float:
        """A duration as the job file has it: `5s`, or a plain number where the time has no unit."""
        if self.units.kind in ("integer", "row") and self.units.unit is None:
            return max(1, round(ticks))
        if self.units.kind == "float" and self.units.unit is None:
            return float(f"{ticks / NANOSECONDS['s']:.6g}")
        return format_nanoseconds(ticks)


def format_nanoseconds(ticks: float) -> str:
    """Nanoseconds in the largest unit that leaves a short number: 5s, 1.5h, 250ms."""
    for unit in ("d", "h", "m", "s", "ms", "us"):
        size = NANOSECONDS[unit]
        if ticks >= size:
            number = f"{ticks / size:.3g}" if ticks / size < 1000 else str(round(ticks / size))
            if abs(float(number) * size - ticks) <= 0.005 * ticks:
                return f"{number}{unit}"
    return f"{max(1, round(ticks))}ns"


def find_times(sample: Sample, columns: Mapping[str, Column], options: Options) -> list[Time]:
    """The columns that may be the time, the likeliest first.

    Raises:
      UserError: if the user names one that holds no times.
    """
    times = []
    candidates = list(_candidates(sample, columns))
    if options.time:  # a number that is none of them counts something
        candidates = [candidate for candidate in candidates if candidate[0]["column"] == options.time]
        candidates = candidates or [({"column": options.time}, "as --time says", True)]
    for section, why, sure in candidates:
        try:
            times.append(_time(sample, section, why, sure))
        except OpenDate:
            times += _either_way(sample, section["column"])
        except UserError:
            continue
    times = [time for time in times if any(valid.any() for valid in time.valid)]
    if options.time and not times:
        raise UserError(
            f"--time {options.time}: holds no times that are known, such as {columns[options.time].example!r}; "
            "source.time.format of a job file says how they are written"
        )
    return times


def _candidates(sample: Sample, columns: Mapping[str, Column]) -> Iterator[tuple[dict[str, Any], str, bool]]:
    """Sections `source.time`, why, and whether the values are times in any case."""
    dates, clocks = [], []
    for name, column in columns.items():
        type_ = sample.types[name]
        if pa.types.is_time(type_) or (column.kind == "text" and _is_clock(column)):
            clocks.append(name)
        elif column.kind == "time" or pa.types.is_temporal(type_) or column.kind == "text":
            dates.append(name)
    for date in dates:
        for clock in clocks:
            yield {"column": [date, clock]}, f"{date} holds dates, {clock} times of the day", True
    for name in dates:
        if columns[name].distinct > 1 or columns[name].rows == 1:
            kind = "timestamps" if columns[name].kind == "time" else f"times as text, such as {columns[name].example!r}"
            yield {"column": name}, f"{name} holds {kind}", True
    if parts := _parts(columns):  # which may stand beside a date that tells more
        yield {"column": parts}, f"{', '.join(parts)} hold its parts", True
    if in_words := _year_and_month(columns):
        yield {"column": in_words[0], "format": in_words[1]}, f"{', '.join(in_words[0])} hold its parts", True
    for name, column in columns.items():
        if column.kind in ("number", "text") and (format_ := _compact(column)):
            yield {"column": name, "format": format_}, f"{name} holds times such as {column.example}", True
    unit_texts = _units_below_names(sample)
    numbers = [column for column in columns.values() if column.kind == "number" and column.distinct > 1]
    named = [column for column in numbers if named_time(column.name)]
    nameless = [column for column in numbers[:2] if re.fullmatch(r"f\d", column.name) and column.whole]
    for column in [*named, *nameless]:
        text = f"{column.name} rises from row to row"
        unit = _epoch(column) or _unit(column.name)
        if unit is None and (unit := _unit(unit_texts.get(column.name, ""))):
            text += f", and a line below the names says {unit_texts[column.name]!r}"
        section = {"column": column.name} | ({"unit": unit} if unit else {})
        yield section, text, False


def _is_clock(column: Column) -> bool:
    """Whether a column of text holds times of the day."""
    text = str(column.example)
    by_name = bool(_CLOCK_NAMES.intersection(tokens(column.name))) and bool(_DOTTED_CLOCK.fullmatch(text))
    return by_name or bool(_CLOCK.fullmatch(text))


def _parts(columns: Mapping[str, Column]) -> list[str]:
    """The columns of whole numbers that hold year, month, day ..., by their names; none without year and month."""
    numbers = [name for name, column in columns.items() if column.kind == "number" and column.whole]
    by_name = {name.strip().lower(): name for name in numbers}
    named = (next((by_name[name] for name in names if name in by_name), None) for names in _PARTS)
    parts = [name for name in takewhile(bool, named) if name]
    return parts if len(parts) > 1 else []


def _year_and_month(columns: Mapping[str, Column]) -> tuple[list[str], str] | None:
    """A column of years and one of months in words, by their names, and their format; None where these are not."""
    by_name = {name.strip().lower(): name for name in columns}
    pair = [next((by_name[name] for name in names if name in by_name), None) for names in _PARTS[:2]]
    if any(name in by_name for name in _PARTS[2]):  # then these two tell too little
        return None
    match [columns[name] for name in pair if name]:
        case [Column(kind="number", whole=True), Column(kind="text", example=str(month))] if _MONTH.fullmatch(month):
            return [name for name in pair if name], "%Y %b" if len(month.strip()) == 3 else "%Y %B"
    return None


def _unit(text: str) -> str | None:
    """The unit that the last word of a text says."""
    return next((_UNITS[word] for word in tokens(text)[-1:] if word in _UNITS), None)


def _units_below_names(sample: Sample) -> dict[str, str]:
    """What stands between the names and the rows of a text, by the names: units, mostly."""
    dialects = ((path, look.dialect) for path, look in sample.looks.items() if look.dialect is not None)
    path, dialect = next(dialects, ("", None))
    if dialect is None or dialect.header_line is None or dialect.first_line <= dialect.header_end:
        return {}
    cells = cells_of(path, dialect, dialect.header_end)
    return {name: cell.strip() for name, cell in zip(dialect.names, cells, strict=False)}


def counted_times(sample: Sample, column: Column) -> bool:
    """Whether a column holds dates, a row each and in order, of which some are too far off to be read.

    The year is written first, so that they are in order as texts are.
    """
    if column.missing or not begins_as_date(column):
        return False
    parts = [batch.column(column.name).to_pylist() for batch in sample.batches]
    years = {int(text.strip()[:4]) for part in parts for text in part if re.match(rf"\s*{_FAR_DATE}", text)}
    rises = all(before < after for part in parts for before, after in pairwise(part))
    return rises and not all(FIRST_YEAR < year < LAST_YEAR for year in years)


def begins_as_date(column: Column) -> bool:
    """Whether texts begin as dates do, the year first, also where they are too far off to be read."""
    return column.kind == "text" and bool(re.match(rf"\s*{_FAR_DATE}", str(column.example)))


def named_time(name: str) -> bool:
    """Whether the first or the last word of a name says that it counts time."""
    return bool(_NAMES & {*tokens(name)[:1], *tokens(name)[-1:]})


def _compact(column: Column) -> str | None:
    """The format of times such as 20240131235900."""
    text = str(column.example)
    is_compact = re.fullmatch(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(\d{4}|\d{6})?", text)
    return _COMPACT[len(text)] if is_compact else None


def _epoch(column: Column) -> str | None:
    """The unit of numbers that count from 1970 on and are in 1990 to 2100."""
    return next((unit for unit, size in _EPOCHS.items() if 6.3e8 <= abs(column.example) / size < 4.1e9), None)


def _time(sample: Sample, section: dict[str, Any], why: str, sure: bool) -> Time:
    """Reads a column as a time.

    Raises:
      UserError: if it holds none.
    """
    time = TimeColumn.model_validate(section)
    units = resolve_time(time, sample.types, sample.looks, sample.text).units
    columns = ([batch.column(name) for name in time.columns] for batch in sample.batches)
    ticks, valid = zip(*(read_ticks(units, *parts) for parts in columns), strict=True)
    if np.concatenate(valid).mean() < 0.5:
        raise UserError(f"{' and '.join(time.columns)}: holds no times")
    return Time(section, why, units, ticks, valid, sure)


def read_ticks(units: TimeUnits, *columns: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Ticks and which of them are times; one that cannot be read is passed over, if they are few."""
    ticks, valid = np.zeros(len(columns[0]), np.int64), np.zeros(len(columns[0]), bool)
    nulls = np.logical_or.reduce([column.is_null().to_numpy(zero_copy_only=False) for column in columns])
    remaining = np.flatnonzero(~nulls)
    for _ in range(_WRONG):
        rows = pa.array(remaining)
        try:
            ticks[remaining] = units.ticks(*(column.take(rows) for column in columns))
        except BadTime as bad:
            remaining = np.delete(remaining, bad.row)
            continue
        valid[remaining] = True
        break
    return ticks, valid


def _either_way(sample: Sample, name: str) -> list[Time]:
    """Dates such as 03/04/2024 or 24-01-31 in the order in which times rise, and span less."""
    values = [value for batch in sample.batches for value in batch.column(name).to_pylist() if value]
    match = _OPEN.fullmatch(values[0])
    if match is None:
        return []
    mark, year, seconds, half = match[1], "%Y" if len(match[2]) == 4 else "%y", match[3], match[4]
    clock = "" if ":" not in values[0] else f" %{'I' if half else 'H'}:%M{':%S' if seconds else ''}"
    clock += " %p" if half else ""
    ways = []
    orders = {"the day": ("%d", "%m", year), "the month": ("%m", "%d", year)}
    if year == "%y":
        orders["the year"] = ("%y", "%m", "%d")
    for part, order in orders.items():
        format_ = mark.join(order) + clock
        why = f"CHECK THIS: {values[0]!r} may begin with {first_parts(values[0])}. Here {part} is first"
        try:
            ways.append(_time(sample, {"column": name, "format": format_}, why, True))
        except UserError:
            continue
    return sorted(ways, key=_disorder)[:1]


def _disorder(time: Time) -> tuple[int, int, int]:
    """How often times fall, how long they span, and how long all tables do, which may have a day each."""
    falls = sum(int((np.diff(ticks) < 0).sum()) for ticks in time.known)
    spans = [int(np.ptp(ticks)) for ticks in (*time.known, np.concatenate(time.known)) if len(ticks)]
    return falls, sum(spans[:-1]), spans[-1]
