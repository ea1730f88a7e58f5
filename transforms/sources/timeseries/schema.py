"""Which columns of the files a job reads, and Arrow columns as float32 matrices."""

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.transforms.sources.timeseries.time_units import Clock


@dataclass(frozen=True)
class Columns:
    """The columns that every file of the job must hold."""

    time: str
    time_type: pa.DataType  # as the sampled files have it; CSV is parsed with it
    clock: Clock
    features: tuple[str, ...]
    asset: str | None  # with asset: {column: ...}
    split: str | None  # with split: {by: column} where the files hold the column
    booleans: frozenset[str] = frozenset()  # features that a CSV writes as true and false

    @property
    def names(self) -> list[str]:
        """All of them, each once, in the order they are read."""
        keys = [self.time, *(name for name in (self.asset, self.split) if name)]
        return list(dict.fromkeys([*keys, *self.features]))


def match_features(patterns: Sequence[str], names: Sequence[str], never: Sequence[str]) -> list[str]:
    """The columns that names and globs ask for: in the order of the patterns, then of the files.

    A glob never takes one of `never` (the time and the asset), a name may.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if any(c in pattern for c in "*?["):
            found.update(dict.fromkeys(n for n in names if fnmatch.fnmatchcase(n, pattern) and n not in never))
        elif pattern in names:
            found[pattern] = None
    return list(found)


def is_number(type_: pa.DataType) -> bool:
    """Whether a column of this type is read as numbers: integers, floats, bools, decimals, dictionaries of them."""
    if pa.types.is_dictionary(type_):
        return is_number(type_.value_type)
    return (
        pa.types.is_integer(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_boolean(type_)
        or pa.types.is_decimal(type_)
        or pa.types.is_null(type_)
    )


def to_float32(column: pa.Array) -> np.ndarray:
    """float32 [n] of a numeric column; null becomes NaN, infinity stays."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
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
    for i, name in enumerate(features):
        packed[:, i] = to_float32(batch.column(name))
    np.copyto(packed, np.nan, where=~np.isfinite(packed))
    return packed
