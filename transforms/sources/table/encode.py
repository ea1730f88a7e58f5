"""What a table's features make of its columns: written once, for the transform graph and for workers' arrays.

It takes each column that features read: float32 `[batch]`, NaN is missing; strings
`[batch]`, "" is missing; of times int64 `[batch]`, seconds since 1970, the smallest
number is missing. It gives `numbers` float32 `[batch, columns]`, `categories` int64
`[batch, columns]`, and a field for each text and each column that is passed on.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from beamfeed.contract.config.features import DATE_PARTS, Bucket, Categorical, Cross, DateParts, Own, Pass, Text
from beamfeed.transforms.sources.columns.time_units import NO_TIME
from beamfeed.transforms.sources.table.learned import NUMBERS, edges_mark, edges_of
from beamfeed.transforms.sources.table.schema import NamedFeature, TableSchema
from beamfeed.transforms.sources.table.statistics import numeric_features

CATEGORIES = "categories"
SEPARATOR = "\x1f"  # between the columns of a cross
Array = Any  # numbers, truth values or strings: of NumPy and Arrow, or tensors


class Operations(Protocol):
    """What both kinds of arrays can do, beside Python's operators."""

    def learned(self, name: str, shape: Sequence[int]) -> Array:
        """Float32 of this shape that the training rows gave."""

    def place(self, feature: NamedFeature, texts: Array) -> Array:
        """int64: the place of each string in the vocabulary of a feature, from 1; -1 is unseen."""

    def own(self, feature: NamedFeature, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """What a function of the user's own makes."""

    def stack(self, columns: Sequence[Array]) -> Array:
        """`[batch]` of each -> `[batch, columns]`."""

    def join(self, parts: Sequence[Array]) -> Array:
        """`[batch, n]` of each, side by side."""

    def columns(self, values: Array, places: Sequence[int]) -> Array:
        """Some columns of `[batch, columns]`."""

    def gather(self, values: np.ndarray, places: Array) -> Array:
        """The values at some places."""

    def where(self, condition: Array, one: Any, other: Array) -> Array:
        """By a condition one or the other; the result is of the type of the other."""

    def minimum(self, one: Array, other: Any) -> Array:
        """The smaller of two; NaN where one is."""

    def maximum(self, one: Array, other: Any) -> Array:
        """The larger of two; NaN where one is."""

    def is_finite(self, values: Array) -> Array:
        """Neither NaN nor infinite."""

    def sign(self, values: Array) -> Array:
        """-1, 0 or 1."""

    def log1p(self, values: Array) -> Array:
        """The logarithm of 1 + x, of numbers from 0 on."""

    def to_float(self, values: Array) -> Array:
        """Float32 of truth values."""

    def search(self, edges: Array, values: Array) -> Array:
        """int64: how many of the edges, which rise, are no greater."""

    def is_empty(self, texts: Array) -> Array:
        """Whether each string is ""."""

    def hashed(self, texts: Array, size: int) -> Array:
        """int64 from 0, less than `size`: FarmHash's Fingerprint64, modulo."""

    def joined(self, texts: Sequence[Array]) -> Array:
        """Strings with `SEPARATOR` between them."""

    def words(self, texts: Array, section: Text) -> tuple[Array, Any]:
        """The words of strings one after the other, and whose they are."""

    def ragged(self, ids: Array, words: Any) -> Array:
        """A number for each word, of any length."""

    def padded(self, ids: Array, words: Any, length: int) -> Array:
        """`[batch, length]`: the first numbers, then zeros."""

    def passed(self, values: Array) -> Array:
        """A column as it is."""


def encode(inputs: Mapping[str, Array], schema: TableSchema, of: Operations) -> dict[str, Array]:
    """The fields of some rows by name, from the columns that features read, by the operations `of` their arrays."""
    outputs: dict[str, Array] = {}
    numbers, categories = [], []
    numeric = numeric_features(schema)
    if numeric:
        columns = of.stack([inputs[feature.columns[0]] for feature in numeric])
        values, missing = scaled(columns, of.learned(NUMBERS, [3, len(numeric)]), numeric, of)
        numbers.append(values)
        flagged = [i for i, feature in enumerate(numeric) if feature.section.indicator]  # type: ignore[attr-defined]
        if flagged:
            numbers.append(of.to_float(of.columns(missing, flagged)))
    for feature in schema.features:
        section, column = feature.section, inputs[feature.columns[0]]
        match section:
            case Categorical() if section.hash:
                categories.append(hashed(column, section.hash, of))
            case Categorical():
                categories.append(spread(of.place(feature, column), column, section.unseen, of))
            case Bucket():
                edges: Array = np.array(section.edges, np.float32)
                if section.buckets:
                    edges = of.learned(edges_mark(feature), [edges_of(section)])
                categories.append(bucket_of(column, edges, of))
            case DateParts():
                parts = date_parts(column, section.parts, of)
                if section.cyclic:
                    circles = [on_circle(part, DATE_PARTS[name], of) for name, part in parts.items()]
                    numbers.append(of.stack([axis for circle in circles for axis in circle]))
                else:
                    categories += [part + 1 for part in parts.values()]
            case Cross():
                joined = of.joined([inputs[name] for name in feature.columns])
                categories.append(of.hashed(joined, section.hash))
            case Text():
                texts, words = of.words(column, section)
                place = of.place(feature, texts)
                ids = of.where(place < 0, 1, place + 1)
                if section.length == "ragged":
                    outputs[feature.name] = of.ragged(ids, words)
                else:
                    outputs[feature.name] = of.padded(ids, words, section.length)
            case Own():
                outputs |= of.own(feature, inputs)
            case Pass():
                outputs[feature.name] = of.passed(column)
    if numbers:
        outputs[NUMBERS] = of.join(numbers)
    if categories:
        outputs[CATEGORIES] = of.stack(categories)
    return outputs


def scaled(values: Array, rows: Array, features: Sequence[NamedFeature], of: Operations) -> tuple[Array, Array]:
    """Numbers `[batch, features]` scaled, and which are missing.

    Args:
      values: as the files have them.
      rows: float32 [3, features]: offset, divisor, and what stands for a missing one.
      features: Numeric.
      of: the operations of the arrays.
    """
    sections = [feature.section for feature in features]
    log = np.array([section.scale == "log" for section in sections])  # type: ignore[attr-defined]
    missing = ~of.is_finite(values)
    if log.any():
        values = of.where(log, of.sign(values) * of.log1p(abs(values)), values)
    values = (of.where(missing, rows[2], values) - rows[0]) / rows[1]
    clips = np.array([section.clip or math.inf for section in sections], np.float32)  # type: ignore[attr-defined]
    if np.isfinite(clips).any():
        values = of.minimum(of.maximum(values, -clips), clips)
    return values, missing


def hashed(texts: Array, size: int, of: Operations) -> Array:
    """int64 `[batch]`: 0 is missing, then `size` numbers."""
    return of.where(of.is_empty(texts), 0, 1 + of.hashed(texts, size))


def spread(place: Array, texts: Array, unseen: int, of: Operations) -> Array:
    """int64 `[batch]`: 0 is missing, then `unseen` numbers, then the terms in order."""
    known = place + unseen
    number = of.where(place < 0, 1, known) if unseen == 1 else of.where(place < 0, 1 + of.hashed(texts, unseen), known)
    return of.where(of.is_empty(texts), 0, number)


def bucket_of(values: Array, edges: Array, of: Operations) -> Array:
    """int64 `[batch]`: 0 is missing, then the buckets in order; an edge belongs to the bucket above it."""
    return of.where(~of.is_finite(values), 0, 1 + of.search(edges, values))


def date_parts(seconds: Array, names: Sequence[str], of: Operations) -> dict[str, Array]:
    """int64 `[batch]` of each part, from 0; -1 is missing. Months and days by Hinnant's `civil_from_days`."""
    days = seconds // 86_400
    time = seconds - days * 86_400
    era_day = (days + 719_468) % 146_097
    year = (era_day - era_day // 1460 + era_day // 36_524 - era_day // 146_096) // 365
    year_day = era_day - (365 * year + year // 4 - year // 100)
    month = (5 * year_day + 2) // 153  # from March
    parts = {
        "minute": time % 3600 // 60,
        "hour": time // 3600,
        "weekday": (days + 3) % 7,
        "day": year_day - (153 * month + 2) // 5,
        "month": (month + 2) % 12,
    }
    return {name: of.where(seconds == NO_TIME, -1, parts[name]) for name in names}


def on_circle(part: Array, period: int, of: Operations) -> list[Array]:
    """Sine and cosine of each place on a circle, float32 `[batch]`; both are 0 where it is missing."""
    # By a table, as TensorFlow's own sine may differ in its last bit with the place of a value in its batch.
    angles = [2 * math.pi * step / period for step in range(period)]
    tables = ([0.0, *map(function, angles)] for function in (math.sin, math.cos))
    return [of.gather(np.array(values, np.float32), part + 1) for values in tables]
