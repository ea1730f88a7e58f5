"""Types of Arrow columns, and columns as float32 matrices."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.dataset.raw_values import WHOLE_NUMBER

_NUMBER = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"
NEAR_BYTES = 128 << 10  # of a matrix that is filled column by column; a core's own cache holds them
LEAST_ROWS = 1024  # at once, or the calls of NumPy would take longer than what they do


def plain(column: pa.Array) -> pa.Array:
    """The values themselves, of a column that may be a dictionary's."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def plain_type(type_: pa.DataType) -> pa.DataType:
    """That of the values, of a column that may be a dictionary's."""
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def is_number(type_: pa.DataType) -> bool:
    """Whether a column of this type is read as numbers: integers, floats, bools, decimals, dictionaries of them."""
    type_ = plain_type(type_)
    return (
        pa.types.is_integer(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_boolean(type_)
        or pa.types.is_decimal(type_)
        or pa.types.is_null(type_)
    )


def is_name(type_: pa.DataType) -> bool:
    """Whether a column of this type names things: text, or what is written as text in one way."""
    type_ = plain_type(type_)
    return not (pa.types.is_nested(type_) or pa.types.is_null(type_) or pa.types.is_floating(type_))


def is_text(type_: pa.DataType) -> bool:
    """Whether a column of this type holds text."""
    type_ = plain_type(type_)
    return pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)


def to_float32(column: pa.Array) -> np.ndarray:
    """float32 [n] of a numeric column; null becomes NaN, infinity stays."""
    if column.type == pa.float32() and not column.null_count:  # first: there may be ten thousand of these
        return column.to_numpy()
    column = plain(column)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    elif pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    if column.type != pa.float32():
        column = column.cast(pa.float32(), safe=False)
    if column.null_count:
        column = pc.fill_null(column, float("nan"))
    return column.to_numpy(zero_copy_only=False)


def pack(batch: pa.RecordBatch, features: Sequence[str]) -> np.ndarray:
    """float32 [rows, features], in the order of `features`; null, NaN and infinity are NaN: missing."""
    packed = np.empty((batch.num_rows, len(features)), np.float32)
    columns = [to_float32(batch.column(name)) for name in features]
    rows = max(LEAST_ROWS, NEAR_BYTES // max(1, 4 * len(features)))
    for at in range(0, batch.num_rows, rows):
        part = packed[at : at + rows]
        for i, column in enumerate(columns):
            part[:, i] = column[at : at + rows]
        is_finite = np.isfinite(part)
        if not is_finite.all():
            part[~is_finite] = np.nan
    return packed


def parse_numbers(texts: pa.StringArray) -> tuple[pa.FloatArray, dict[int, str]]:
    """Texts as float32 [n]; by their rows those that are no numbers, which are null."""
    fits = pc.fill_null(pc.match_substring_regex(texts, _NUMBER), True)
    bad = {at: texts[at].as_py() for at in np.flatnonzero(~fits.to_numpy(zero_copy_only=False)).tolist()}
    return pc.if_else(fits, texts, pa.scalar(None, pa.string())).cast(pa.float32()), bad


def is_missing(column: pa.Array) -> np.ndarray:
    """Bool [n]: null, or no finite number."""
    if pa.types.is_floating(column.type):
        return ~np.isfinite(column.to_numpy(zero_copy_only=False))
    return column.is_null().to_numpy(zero_copy_only=False)


def whole_numbers(texts: pa.StringArray) -> pa.StringArray:
    """Names, however a file writes those that are numbers: pandas makes 7.0 of 7 where others are missing."""
    if not pc.any(pc.match_substring(texts, ".0")).as_py():  # a quarter of the time
        return texts
    return pc.replace_substring_regex(texts, WHOLE_NUMBER, r"\1")
