"""Columns of text as numbers: what Arrow's own CSV reader does not take, and which value it was that it did not."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.transforms.sources.readers.cells import APOSTROPHES, SPACES
from beamfeed.transforms.sources.readers.dialect import FALSE_WORDS, TRUE_WORDS, Dialect, Numbers
from beamfeed.transforms.sources.readers.time_text import A_ZONE, NO_ZONE, BadTime, read_times

_EXPONENT = r"(?:[eE][+-]?\d+)?"
_NOT_FINITE = r"[+-]?(?i:inf(?:inity)?|nan)"
_PLUS = r"^\+(\d+)$"  # that Arrow's whole numbers have none of
_GROUPS = {" ": f"[{SPACES}]", "'": f"[{APOSTROPHES}]"}
# What Arrow casts to no number: other characters than those of numbers, NaN and infinity; after `nan(` may be anything.
_NO_FLOAT, _NO_INTEGER = r"^[^(]*(?:[^0-9aefintyAEFINTY+.(-]|\d[+-])", "[^0-9a-fA-FxX-]"


NUMBER = rf"^(?:[+-]?(?:\d+\.?\d*|\.\d+){_EXPONENT}|{_NOT_FINITE})$"  # with a point and without groups


class BadValue(ValueError):
    """Values that their column cannot hold.

    Attributes:
      rows: int64, their places in the column; there may be more.
      reason: why.
    """

    def __init__(self, rows: np.ndarray, reason: str):
        super().__init__(rows, reason)
        self.rows, self.reason = rows, reason


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
            for row in bad.rows.tolist():
                wrong[row] = f"{column[row].as_py().strip()[:100]!r} {bad.reason}"
            column = without_rows(column, bad.rows)


def without_rows(column: pa.StringArray, rows: np.ndarray | list[int]) -> pa.StringArray:
    """A column of which some rows are null."""
    keep = np.ones(len(column), bool)
    keep[rows] = False
    return pc.if_else(pa.array(keep), column, pa.scalar(None, pa.string()))


def convert(column: pa.StringArray, type_: pa.DataType, dialect: Dialect) -> pa.Array:
    """A column of text as one of `type_`: text, bools, numbers, or timestamps of nanoseconds.

    White space around values counts for nothing, but around text only where the file pads all of its values.

    Raises:
      BadValue: where some are none.
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
    plain = _plain(text, dialect.numbers)
    is_integer = pa.types.is_integer(type_)
    if is_integer:
        plain = pc.replace_substring_regex(plain, _PLUS, r"\1")
    try:
        return plain.cast(type_)
    except pa.ArrowInvalid:
        rows = _uncastable(plain, type_)
        raise BadValue(rows, _reason(text[int(rows[0])].as_py(), is_integer, dialect.numbers)) from None


def _uncastable(text: pa.StringArray, type_: pa.DataType) -> np.ndarray:
    """The rows, int64, of values that cannot be cast to a type: those that no pattern knows are cast one by one."""
    never = None
    if pa.types.is_floating(type_):
        fine, never = pc.match_substring_regex(text, NUMBER), _NO_FLOAT
    elif pa.types.is_integer(type_):  # the range decides of longer ones
        info, never = np.iinfo(type_.to_pandas_dtype()), _NO_INTEGER
        fine = pc.match_substring_regex(text, rf"^{'-?' if info.min else ''}\d{{1,{len(str(info.max)) - 1}}}$")
    else:
        fine = pc.is_null(text)
    rows = np.flatnonzero(pc.invert(pc.fill_null(fine, True)).to_numpy(zero_copy_only=False))
    coded = text.take(pa.array(rows)).dictionary_encode()
    castable = np.ones(len(coded.dictionary), bool)
    if never is not None:
        castable[pc.match_substring_regex(coded.dictionary, never).to_numpy(zero_copy_only=False)] = False
    for i in np.flatnonzero(castable).tolist():
        try:
            coded.dictionary[i : i + 1].cast(type_)
        except pa.ArrowInvalid:
            castable[i] = False
    return rows[~castable[coded.indices.to_numpy(zero_copy_only=False)]]


def _timestamps(text: pa.StringArray, type_: pa.TimestampType) -> pa.Array:
    """Times that begin with the year; those of a type with a zone need one of their own."""
    valid = pc.is_valid(text).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(valid)
    try:
        times = read_times(text.drop_null(), "ymd")
    except BadTime as bad:
        same_fault = rows[[fault.row for fault in (bad, *bad.others) if fault.reason == bad.reason]]
        raise BadValue(same_fault, bad.reason) from None
    aware = type_.tz is not None
    if (wrong := times.aware != aware).any():
        raise BadValue(rows[wrong], NO_ZONE if aware else A_ZONE)
    ticks = np.zeros(len(text), np.int64)
    ticks[valid] = times.local - times.offset
    return pa.array(ticks, pa.timestamp("ns", type_.tz), mask=~valid)


def _plain(text: pa.StringArray, numbers: Numbers) -> pa.StringArray:
    """Numbers with a point and without groups; what is not written so becomes none at all."""
    if numbers.thousands is not None:
        group, grouped = group_patterns(numbers)
        if pc.any(pc.match_substring_regex(text, group)).as_py():
            valid = pc.match_substring_regex(text, grouped)
            text = pc.if_else(valid, pc.replace_substring_regex(text, group, ""), text)
    if numbers.decimal == ".":
        return text
    plain = pc.invert(pc.match_substring(text, "."))  # a point is no part of a number, but for one between groups
    return pc.if_else(plain, pc.replace_substring(text, numbers.decimal, "."), "no number")


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
        raise BadValue(rows, "is neither true nor false")
    return pc.if_else(pc.is_null(text), pa.scalar(None, pa.bool_()), yes)


def _reason(value: str, is_integer: bool, numbers: Numbers) -> str:
    reason = "is not a whole number" if is_integer else "is not a number"
    if re.search(r"\d[.,' \u00a0\u202f]\d", value) and not (is_integer and value.count(numbers.decimal) == 1):
        reason += f"; source.csv.decimal is {numbers.decimal!r}"
        if (
            value.count(".") + value.count(",") + value.count("'") + value.count(" ") > 1
            or numbers.decimal not in value
        ):
            reason += f", thousands {'null' if numbers.thousands is None else repr(numbers.thousands)}"
    elif re.fullmatch(r"[^\d]{1,12}", value):
        reason += "; source.csv.null_words names words for missing values"
    return reason
