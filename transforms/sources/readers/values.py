"""Columns of text as numbers: what Arrow's own CSV reader does not take, and which value it was that it did not."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.transforms.sources.readers.dialect import FALSE_WORDS, TRUE_WORDS, Dialect, Numbers
from beamfeed.transforms.sources.readers.time_text import A_ZONE, NO_ZONE, BadTime, read_times

_EXPONENT = r"(?:[eE][+-]?\d+)?"
_NOT_FINITE = r"[+-]?(?i:inf(?:inity)?|nan)"
_PLUS = r"^\+(\d+)$"  # that Arrow's whole numbers have none of
_GROUPS = {" ": "[ \u00a0\u202f\u2009]", "'": "['\u2019]"}


NUMBER = rf"^(?:[+-]?(?:\d+\.?\d*|\.\d+){_EXPONENT}|{_NOT_FINITE})$"  # with a point and without groups


class BadValue(ValueError):
    """A value that its column cannot hold.

    Attributes:
      row: its place in the column.
      value: as it is written.
      reason: why.
      rows: int64, the places of such values, as far as they are known.
    """

    def __init__(self, row: int, value: str, reason: str, rows: np.ndarray | None = None):
        super().__init__(row, value, reason)
        self.row, self.value, self.reason, self.rows = row, value, reason, rows


def convert_all(column: pa.StringArray, type_: pa.DataType, dialect: Dialect) -> tuple[pa.Array, dict[int, str]]:
    """As `convert`, but for values that the column cannot hold: these are missing.

    Returns:
      the column, and by their rows what is wrong with the others.
    """
    wrong: dict[int, str] = {}
    while True:
        try:
            return convert(column, type_, dialect), wrong
        except BadValue as bad:
            rows = np.array([bad.row]) if bad.rows is None else bad.rows
            for row in rows.tolist():
                value = column[row].as_py().strip()
                wrong[row] = f"{value[:100]!r} {bad.reason}"
            keep = np.ones(len(column), bool)
            keep[rows] = False
            column = pc.if_else(pa.array(keep), column, pa.scalar(None, pa.string()))


def convert(column: pa.StringArray, type_: pa.DataType, dialect: Dialect) -> pa.Array:
    """A column of text as one of `type_`: text, bools, numbers, or timestamps of nanoseconds.

    White space around values counts for nothing, but around text only where the file pads all of its values.

    Raises:
      BadValue: at the first value that is none.
    """
    if pa.types.is_string(type_):
        return pc.utf8_trim_whitespace(column) if dialect.padded else column
    text = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(text, value_set=pa.array(dialect.null_words, pa.string()))
    text = pc.if_else(missing, pa.scalar(None, pa.string()), text)
    if pa.types.is_boolean(type_):
        return _bools(text)
    if pa.types.is_timestamp(type_):
        return _timestamps(text, type_)
    plain = _plain(text, dialect)
    is_integer = pa.types.is_integer(type_)
    try:
        return plain.cast(type_)
    except pa.ArrowInvalid:
        if is_integer:
            plain = pc.replace_substring_regex(plain, _PLUS, r"\1")
    try:
        return plain.cast(type_)
    except pa.ArrowInvalid:
        rows = np.flatnonzero(~(_fit(plain, type_) if is_integer else _match(plain, NUMBER)))
        if not (len(rows) and (is_integer or pa.types.is_floating(type_))):
            rows = np.flatnonzero(~_cast_alone(plain, type_))
        row = int(rows[0])
        raise BadValue(row, text[row].as_py(), _reason(text[row].as_py(), is_integer, dialect), rows) from None


def _match(text: pa.StringArray, pattern: str) -> np.ndarray:
    """Which values are missing or match a pattern, bool [n]."""
    return pc.fill_null(pc.match_substring_regex(text, pattern), True).to_numpy(zero_copy_only=False)


def _fit(text: pa.StringArray, type_: pa.DataType) -> np.ndarray:
    """Which values are missing or whole numbers that a type of whole numbers holds, bool [n]."""
    info = np.iinfo(type_.to_pandas_dtype())
    digits = len(str(info.max))
    sign = "-?" if info.min else ""
    fine = _match(text, rf"^(?:{sign}\d{{1,{digits - 1}}}|0[xX][0-9A-Fa-f]{{1,{info.bits // 4}}})$")
    long = np.flatnonzero(_match(text, rf"^{sign}0*\d{{{digits}}}$") & ~fine)  # the range decides
    longest = text.take(pa.array(long))
    size = pc.replace_substring_regex(longest, rf"^-?0*(\d{{{digits}}})$", r"\1")  # as many digits as the limit
    limit = pc.if_else(pc.starts_with(longest, "-"), str(-int(info.min)), str(info.max))
    fine[long] = pc.less_equal(size, limit).to_numpy(zero_copy_only=False)
    return fine


def _cast_alone(text: pa.StringArray, type_: pa.DataType) -> np.ndarray:
    """Which values can be cast to a type, bool [n]: slow, for what no pattern tells."""
    coded = text.dictionary_encode()
    fine = np.ones(len(coded.dictionary) + 1, bool)
    for i in range(len(coded.dictionary)):
        try:
            coded.dictionary[i : i + 1].cast(type_)
        except pa.ArrowInvalid:
            fine[i] = False
    return fine[pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)]


def _timestamps(text: pa.StringArray, type_: pa.TimestampType) -> pa.Array:
    """Times that begin with the year; those of a type with a zone need one of their own."""
    valid = pc.is_valid(text).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(valid)
    try:
        times = read_times(text.drop_null(), "ymd")
    except BadTime as bad:
        same_fault = rows[[fault.row for fault in (bad, *bad.others) if fault.reason == bad.reason]]
        raise BadValue(int(same_fault[0]), text[int(same_fault[0])].as_py(), bad.reason, same_fault) from None
    aware = type_.tz is not None
    if (wrong := times.aware != aware).any():
        rows = rows[wrong]
        raise BadValue(int(rows[0]), text[int(rows[0])].as_py(), NO_ZONE if aware else A_ZONE, rows)
    ticks = np.zeros(len(text), np.int64)
    ticks[valid] = times.local - times.offset
    return pa.array(ticks, pa.timestamp("ns", type_.tz), mask=~valid)


def _plain(text: pa.StringArray, dialect: Dialect) -> pa.StringArray:
    """Numbers with a point and without groups; what is no number of the dialect becomes none at all."""
    if dialect.thousands is not None:
        group, grouped = group_patterns(dialect.numbers)
        if pc.any(pc.match_substring_regex(text, group)).as_py():
            valid = pc.match_substring_regex(text, grouped)
            text = pc.if_else(valid, pc.replace_substring_regex(text, group, ""), text)
    if dialect.decimal == ".":
        return text
    plain = pc.invert(pc.match_substring(text, "."))  # a point is no part of a number, but for one between groups
    return pc.if_else(plain, pc.replace_substring(text, dialect.decimal, "."), "no number")


def group_patterns(numbers: Numbers) -> tuple[str, str]:
    """Patterns of what stands between groups of three digits, and of a number with such groups; "" if there are none.

    Both are of RE2, which TensorFlow has, too.
    """
    if numbers.thousands is None:
        return "", ""
    group = _GROUPS.get(numbers.thousands, re.escape(numbers.thousands))
    return group, rf"^[+-]?\d{{1,3}}(?:{group}\d{{3}})+(?:{re.escape(numbers.decimal)}\d*)?{_EXPONENT}$"


def _bools(text: pa.StringArray) -> pa.BooleanArray:
    yes = pc.is_in(text, value_set=pa.array(TRUE_WORDS))
    is_bool = pc.or_(pc.is_null(text), pc.or_(yes, pc.is_in(text, value_set=pa.array(FALSE_WORDS))))
    if not pc.all(is_bool).as_py():
        rows = np.flatnonzero(~is_bool.to_numpy(zero_copy_only=False))
        raise BadValue(int(rows[0]), text[int(rows[0])].as_py(), "is neither true nor false", rows)
    return pc.if_else(pc.is_null(text), pa.scalar(None, pa.bool_()), yes)


def _reason(value: str, is_integer: bool, dialect: Dialect) -> str:
    reason = "is not a whole number" if is_integer else "is not a number"
    if re.search(r"\d[.,' \u00a0\u202f]\d", value) and not (is_integer and value.count(dialect.decimal) == 1):
        reason += f"; source.csv.decimal is {dialect.decimal!r}"
        if (
            value.count(".") + value.count(",") + value.count("'") + value.count(" ") > 1
            or dialect.decimal not in value
        ):
            reason += f", thousands {'null' if dialect.thousands is None else repr(dialect.thousands)}"
    elif re.fullmatch(r"[^\d]{1,12}", value):
        reason += "; source.csv.null_words names words for missing values"
    return reason
