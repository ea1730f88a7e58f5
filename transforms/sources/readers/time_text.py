"""Times as text: how they are written, and the nanoseconds that they stand for.

A way of writing is a format such as `%d.%m.%Y %H:%M`, or one of the three orders of a date: `ymd`, `dmy` and `mdy`.
An order takes dates with `-`, `.` or `/`, months as numbers or English names, and after them nothing, hours and
minutes, seconds, any number of decimals, AM or PM, and a zone such as Z or +01:00. Two orders more, `ym` and `my`, are
months and quarters without a day: their first one.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, compress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ORDERS = ("ymd", "dmy", "mdy", "ym", "my")
FIRST_YEAR, LAST_YEAR = 1824, 2115  # nanoseconds since 1970 that fit twice into an int64
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\.?"
_DATES = {
    "ymd": r"(?P<Y>\d{4})(?:[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})|(?P<m_>\d\d)(?P<d_>\d\d))",
    "dmy": rf"(?P<d>\d{{1,2}})(?:[-/.](?P<m>\d{{1,2}})[-/.]|[-/. ]?(?P<b>{_MONTH})[-/., ]+)(?P<Y>\d{{4}}|\d\d)",
    "mdy": rf"(?:(?P<m>\d{{1,2}})[-/.](?P<d>\d{{1,2}})[-/.]|(?P<b>{_MONTH}) +(?P<d_>\d{{1,2}}),? +)(?P<Y>\d{{4}}|\d\d)",
    "ym": rf"(?P<Y>(?:1[89]|2[01])\d\d)(?:[-/ ](?P<m>0?[1-9]|1[0-2])|[-/ ]?Q(?P<q>[1-4])|[-/ ]?(?P<b>{_MONTH}))",
    "my": rf"(?:(?P<m>0?[1-9]|1[0-2])[-/]|Q(?P<q>[1-4])[-/ ]|(?P<b>{_MONTH})[-/, ]+)(?P<Y>(?:1[89]|2[01])\d\d)",
}
_CLOCK = r"(?P<H>\d{1,2})[:.](?P<M>\d\d)(?:[:.](?P<S>\d\d)(?:[.,](?P<f>\d+))?)? ?(?P<p>[ap]\.?m\.?)?"
_COMPACT = r"(?P<H_>\d\d)(?P<M_>\d\d)(?P<S_>\d\d)(?:[.,](?P<f_>\d+))?"
_ZONE = r"(?P<z>z|utc|gmt|[+-]\d\d(?::?\d\d)?)"
_LETTERS = {
    "Y": r"(?P<Y>\d{4})", "y": r"(?P<Y>\d\d)", "m": r"(?P<m>\d{1,2})", "d": r"(?P<d>\d{1,2})", "e": r" ?(?P<d>\d{1,2})",
    "H": r"(?P<H>\d{1,2})", "I": r"(?P<H>\d{1,2})", "M": r"(?P<M>\d{1,2})", "S": r"(?P<S>\d{1,2})", "f": r"(?P<f>\d+)",
    "p": r"(?P<p>[ap]\.?m\.?)", "b": rf"(?P<b>{_MONTH})", "B": rf"(?P<b>{_MONTH})", "h": rf"(?P<b>{_MONTH})",
    "j": r"(?P<j>\d{1,3})", "z": _ZONE, "a": r"\pL+\.?", "A": r"\pL+\.?", "%": "%",
}  # fmt: skip
_SHORT = {"T": "%H:%M:%S", "R": "%H:%M", "F": "%Y-%m-%d", "D": "%m/%d/%y"}


_MOST_FAULTS = 1000  # times that one reading tells of: each reading more takes as long as the column is
NO_ZONE = "has no zone, other times of the files have one; source.time.zone says which it is in"
A_ZONE = "has a zone, other times of the files have none; source.time.zone says which those are in"


class BadTime(ValueError):
    """A time that cannot be read.

    Attributes:
      row: its place in the column.
      reason: why; it follows on `value`, where there is one.
      value: as it is written.
      others: what else the same reading found, in the order of rows; there may be more.
    """

    def __init__(self, row: int, reason: str, value: str | None = None, others: Sequence["BadTime"] = ()):
        super().__init__(row, reason, value)
        self.row, self.reason, self.value, self.others = row, reason, value, tuple(others)

    @property
    def fault(self) -> str:
        """What is wrong, without the place."""
        return self.reason if self.value is None else f"{self.value!r} {self.reason}"

    def __str__(self) -> str:
        return f"row {self.row}: {self.fault}"


@dataclass(frozen=True)
class TextTimes:
    """n times that were read.

    Attributes:
      local: int64 [n] nanoseconds since 1970, as the clock shows it.
      offset: int64 [n] nanoseconds that the clock is ahead of UTC; 0 where no zone is written.
      aware: bool [n], whether a zone is written.
    """

    local: np.ndarray
    offset: np.ndarray
    aware: np.ndarray


@lru_cache
def pattern_of(format_: str) -> str:
    """The regular expression (RE2) of a way of writing times.

    Raises:
      ValueError: if a format says something twice, or gives no date.
    """
    if format_ in ("ym", "my"):
        return rf"(?i)^\s*{_DATES[format_]}\s*$"
    if format_ in ORDERS:
        compact = f"|[T ]?{_COMPACT}" if format_ == "ymd" else ""
        return rf"(?i)^\s*{_DATES[format_]}(?:(?:[T ,]+{_CLOCK}{compact}) ?{_ZONE}?)?\s*$"
    text = re.sub(r"%([TRFD])", lambda match: _SHORT[match[1]], format_)
    # Files whose seconds are whole and files whose seconds have decimals are written by one and the same program.
    text = re.sub(r"%S[.,]%f", "%S", text)
    letters = _LETTERS if "%f" in text else {**_LETTERS, "S": r"(?P<S>\d{1,2})(?:[.,](?P<f>\d+))?"}
    pattern = "".join(
        letters[part[1]] if part[0] == "%" else r"\s+" if part.isspace() else re.sub(r"([^\w\s])", r"\\\1", part)
        for part in re.findall(r"%.|\s+|[^%\s]+", text)
    )
    groups = re.findall(r"\?P<(\w)>", pattern)
    if twice := [group for group in groups if groups.count(group) > 1]:
        raise ValueError(f"{format_!r} gives the {_WORDS[twice[0]]} twice")
    clock, day, month = {*"HMS"} & {*groups}, {*"dj"} & {*groups}, {*"mbj"} & {*groups}
    if "Y" not in groups or (clock and not day) or (day and not month):
        lacking = "a day" if clock and not day else "a month"
        raise ValueError(f"{format_!r} gives no date: it needs {lacking if 'Y' in groups else 'a year'}")
    return rf"(?i)^\s*{pattern}\s*$"


_WORDS = {"Y": "year", "m": "month", "b": "month", "d": "day", "j": "day", "H": "hour", "M": "minute", "S": "second",
          "f": "decimals of the second", "p": "half of the day", "z": "zone"}  # fmt: skip


def read_times(column: pa.Array, format_: str) -> TextTimes:
    """Reads a column of text, n values, none of them null.

    Args:
      column: string [n].
      format_: a format, or an order of a date.

    Raises:
      BadTime: at the first value that is not such a time; 31 February is none.
    """
    parts = pc.extract_regex(column, pattern_of(format_))
    if parts.null_count:
        raise _bad(column, parts.is_null().to_numpy(zero_copy_only=False), format_)
    fields = {field.name: parts.field(field.name) for field in parts.type}
    half = _text(fields, "p")
    hour = _number(fields, "H")
    fine = np.ones(len(column), bool)
    if half is not None:
        named, after = pc.not_equal(half, "").to_numpy(zero_copy_only=False), _starts(half, "p")
        fine &= ~named | ((hour >= 1) & (hour <= 12))
        hour = np.where(named, hour % 12 + 12 * after, hour)
    day, valid, outside = _days(fields)
    minute, second = _number(fields, "M"), _number(fields, "S")
    fine &= valid & (minute < 60) & (second <= 60) & ((hour < 24) | ((hour == 24) & (minute == 0) & (second == 0)))
    offset, aware, known_zone = _zone(fields, len(column))
    fine &= known_zone
    if not fine.all():
        raise _bad(column, ~fine, format_, outside)
    seconds = day * 86_400 + hour * 3600 + minute * 60 + second
    return TextTimes(seconds * 10**9 + _fraction(fields, len(column)), offset, aware)


def _text(parts: dict[str, pa.Array], name: str) -> pa.Array | None:
    """What stands for a part; of two places where it may stand, one is empty."""
    first, second = parts.get(name), parts.get(f"{name}_")
    if first is None or second is None:
        return second if first is None else first
    return pc.binary_join_element_wise(first, second, "")


def _number(parts: dict[str, pa.Array], name: str) -> np.ndarray:
    text = _text(parts, name)
    if text is None:
        return np.zeros(1, np.int64)
    return pc.if_else(pc.equal(text, ""), "0", text).cast(pa.int64()).to_numpy(zero_copy_only=False)


def _starts(column: pa.Array, letter: str) -> np.ndarray:
    return pc.starts_with(column, letter, ignore_case=True).to_numpy(zero_copy_only=False)


def _days(parts: dict[str, pa.Array]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Days since 1970, int64 [n], which of them exist, and which are in a year that is out of range."""
    written = _text(parts, "Y")
    year = _number(parts, "Y")
    short = pc.equal(pc.utf8_length(written), 2).to_numpy(zero_copy_only=False)
    year = np.where(short, year + np.where(year < 69, 2000, 1900), year)
    ones = np.ones(1, np.int64)
    day = _number(parts, "d") if {"d", "d_"} & parts.keys() else ones
    month = _number(parts, "m") if {"m", "m_", "b"} & parts.keys() else ones
    if (name := _text(parts, "b")) is not None:
        begun = pc.utf8_lower(pc.utf8_slice_codeunits(name, 0, 3))
        named = pc.fill_null(pc.index_in(begun, value_set=pa.array(_MONTHS)), -1).to_numpy(zero_copy_only=False) + 1
        month = np.where(named > 0, named, month)
    if "q" in parts:
        quarter = _number(parts, "q")
        month = np.where(quarter > 0, 3 * quarter - 2, month)
    valid = (year >= FIRST_YEAR) & (year <= LAST_YEAR)
    outside = ~valid
    year = np.where(valid, year, 1970)
    if "j" in parts:
        first = (year - 1970).astype("datetime64[Y]")
        number = _number(parts, "j")
        valid &= (number >= 1) & (first.astype("datetime64[D]") + (number - 1) < (first + 1).astype("datetime64[D]"))
        return first.astype("datetime64[D]").astype(np.int64) + number - 1, valid, outside
    valid &= (month >= 1) & (month <= 12) & (day >= 1)
    first = ((year - 1970) * 12 + np.where(valid, month, 1) - 1).astype("datetime64[M]")
    valid &= first.astype("datetime64[D]") + (day - 1) < (first + 1).astype("datetime64[D]")
    return first.astype("datetime64[D]").astype(np.int64) + day - 1, valid, outside


def _fraction(parts: dict[str, pa.Array], rows: int) -> np.ndarray:
    text = _text(parts, "f")
    if text is None:
        return np.zeros(rows, np.int64)
    digits = pc.utf8_slice_codeunits(pc.utf8_rpad(text, 9, "0"), 0, 9)
    return digits.cast(pa.int64()).to_numpy(zero_copy_only=False)


def _zone(parts: dict[str, pa.Array], rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nanoseconds ahead of UTC int64 [n], whether a zone is written, and whether there is such a one."""
    text = parts.get("z")
    if text is None:
        return np.zeros(rows, np.int64), np.zeros(rows, bool), np.ones(rows, bool)
    aware = pc.not_equal(text, "").to_numpy(zero_copy_only=False)
    number = pc.replace_substring_regex(text, r"[^0-9]", "")
    number = pc.utf8_slice_codeunits(pc.utf8_rpad(number, 4, "0"), 0, 4).cast(pa.int64()).to_numpy(zero_copy_only=False)
    minutes = (number // 100 * 60 + number % 100) * np.where(_starts(text, "-"), -1, 1)
    return minutes * 60 * 10**9, aware, (number % 100 < 60) & (number <= 1400)


def bad_times(column: pa.Array, wrong: np.ndarray, why: Callable[[int, str], str | None]) -> BadTime:
    """The first bad time of a column, and with it others.

    Args:
      column: string [n].
      wrong: bool [n], which are bad.
      why: the reason, by row and value; None where the time is missing.
    """
    rows = np.flatnonzero(wrong)[:_MOST_FAULTS]
    bad: list[BadTime] = []
    for row, value in zip(rows.tolist(), column.take(pa.array(rows)).to_pylist(), strict=True):
        reason = why(row, value)
        bad.append(BadTime(row, "the time is missing") if reason is None else BadTime(row, reason, value))
    bad[0].others = tuple(bad[1:])
    return bad[0]


def _bad(column: pa.Array, wrong: np.ndarray, format_: str, outside: np.ndarray | None = None) -> BadTime:
    def why(row: int, value: str) -> str | None:
        if not value.strip():
            return None
        if outside is not None and outside[row]:
            return f"is out of range: times are from {FIRST_YEAR} to {LAST_YEAR}"
        if format_ in ORDERS:
            return f"is not a time with {_ORDER_WORDS[format_]}; source.time.format says how times are written"
        return f"is not a time of source.time.format: {format_!r}"

    return bad_times(column, wrong, why)


_ORDER_WORDS = {
    "ym": "year-month",
    "my": "month year",
    "ymd": "year-month-day",
    "dmy": "day.month.year",
    "mdy": "month/day/year",
}


TYPOS = 20  # one date of so many may have day and month the other way round, and it is a typo


@dataclass(frozen=True)
class Guess:
    """What some values tell of how times are written.

    Attributes:
      how: an order of a date; None where they do not tell.
      unsure: a value that could be read in two ways, where nothing decides.
      is_usual: whether nothing but the point between numbers says so.
    """

    how: str | None
    unsure: str | None = None
    is_usual: bool = False


def vote(guesses: Iterable[Guess]) -> Counter[str]:
    """How often files have each order; what proves one outweighs what is only usual."""
    orders = [(guess.how, guess.is_usual) for guess in guesses if guess.how]
    return Counter(order for order, is_usual in orders if not is_usual) or Counter(order for order, _ in orders)


def guess_order(values: Iterable[str]) -> Guess:
    """The order of the dates that some values are written in: days and months are told apart by numbers above 12.

    Where a point stands between them, the day comes first unless a number says otherwise. A year of two digits may come
    first too, which only a format can say. Some values may be no times.
    """
    orders = Counter[str]()
    unsure = None
    dotted = True
    short: list[tuple[int, int, int]] = []  # dates whose year has two digits
    either = 0  # of these begin with a number that may be the day or the year
    count = wrong = 0
    for value in values:
        if not value or value.isspace():
            continue
        count += 1
        fits = [order for order in ORDERS if re.search(pattern_of(order).replace(r"\pL", r"[^\W\d_]"), value)]
        if not fits:
            wrong += 1
            continue
        numbers = re.match(r"\s*(\d{1,2})([-/.])(\d{1,2})\2(\d+)", value)
        if "ymd" in fits or numbers is None:
            orders[fits[0]] += 1
            continue
        first, second = int(numbers[1]), int(numbers[3])
        is_short = len(numbers[4]) == 2
        if is_short:
            short.append((first, second, int(numbers[4])))
            either += first > 12
        if first > 12 or second > 12:
            orders["dmy" if first > 12 else "mdy"] += 1
        if second <= 12 and (first <= 12 or is_short):
            unsure, dotted = value, dotted and numbers[2] == "."
    if short and orders.total() == either and not (is_first := _is_day_first(short)):
        orders.clear()
        dotted &= is_first is None
    (order, most), (_, others) = [*orders.most_common(2), (None, 0), (None, 0)][:2]
    if others * TYPOS > most or 2 * wrong >= max(1, count):
        return Guess(None)
    if order is not None:
        return Guess(order)
    if unsure is not None and dotted:
        return Guess("dmy", is_usual=True)
    return Guess(None, unsure)


def guess_orders(files: Iterable[Sequence[str]]) -> list[Guess]:
    """The order of the dates of several files: of each by itself, or where none proves one, of all together.

    Of files of one day each, only another file tells which of the numbers is the day.

    Args:
      files: values of each, in the order of the listing.
    """
    texts = list(files)
    guesses = [guess_order(values) for values in texts]
    if any(guess.how and not guess.is_usual for guess in guesses):
        return guesses
    are_dates = [guess != Guess(None) for guess in guesses]
    together = guess_order(chain.from_iterable(compress(texts, are_dates)))
    return [together if is_date else guess for guess, is_date in zip(guesses, are_dates, strict=True)]


def _is_day_first(dates: Sequence[tuple[int, int, int]]) -> bool | None:
    """Whether dates with a year of two digits begin with the day, not with the year; None where they do not tell.

    A year goes up to 99. Else it is the way in which they rise and take far less time.
    """
    first, month, last = np.array(dates).T
    for is_day_first, day in ((True, last), (False, first)):
        if ((month > 12) | (day < 1) | (day > 31)).sum() * TYPOS > len(dates):
            return is_day_first

    def times(year: np.ndarray, day: np.ndarray) -> tuple[int, int]:
        days = ((year + np.where(year < 69, 2000, 1900)) * 12 + month) * 31 + day
        return int((np.diff(days) < 0).sum()), int(np.ptp(days))

    (falls, span), (other_falls, other_span) = times(last, first), times(first, last)
    if 4 * span < other_span and falls <= 2 * other_falls:
        return True
    return False if 4 * other_span < span and other_falls <= 2 * falls else None


def are_aware(files: Iterable[Sequence[str]], order: str) -> bool:
    """Whether times say their zone, in most of the files; some values may be no times.

    Args:
      files: values of each.
      order: how they are written.
    """
    votes = Counter[bool]()
    for texts in files:
        while texts:
            try:
                votes[bool(read_times(pa.array(texts, pa.string()), order).aware.mean() > 0.5)] += 1
                break
            except BadTime as bad:
                wrong = {one.row for one in (bad, *bad.others)}
                texts = [text for row, text in enumerate(texts) if row not in wrong]
    return votes[True] > votes[False]


def first_parts(date: str) -> str:
    """What a date may begin with that can be read in several ways, for messages."""
    first, _, last = re.findall(r"\d+", date)[:3]
    parts = ["the day", *(["the month"] if int(first) <= 12 else []), *(["the year"] if len(last) == 2 else [])]
    return f"{', '.join(parts[:-1])} or {parts[-1]}"
