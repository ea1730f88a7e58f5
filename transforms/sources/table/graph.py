"""The tensorflow-transform graph of a table: from raw columns by name to what a model gets. Serving runs the very same.

It takes each column that features read: float32 `[batch]`, NaN is missing; strings
`[batch]`, "" is missing; of times int64 `[batch]`, seconds since 1970, the smallest
number is missing. It gives `numbers` float32 `[batch, columns]`, `categories` int64
`[batch, columns]`, and a field for each text and each column that is passed on. What
was learned of the training rows is in it as constants, and vocabularies as files.
"""

import math
from collections.abc import Callable, Sequence

import apache_beam as beam
import numpy as np
import tensorflow as tf
from tensorflow_transform import tf_utils

from beamfeed.contract import storage
from beamfeed.contract.config.features import (
    DATE_PARTS,
    Bucket,
    Categorical,
    Cross,
    DateParts,
    Own,
    Pass,
    Text,
)
from beamfeed.transforms.sources.table.learned import bucket_edges, number_rows, vocabulary
from beamfeed.transforms.sources.table.own import call_own
from beamfeed.transforms.sources.table.rows import NO_TIME
from beamfeed.transforms.sources.table.schema import NamedFeature, TableSchema
from beamfeed.transforms.sources.table.statistics import NO_TERM, TableStatistics, counted_features, numeric_features
from beamfeed.transforms.sources.table.words import words_of
from beamfeed.transforms.statistics.graph import BuildTransform, Columns, Preprocess, known, known_file

NUMBERS, CATEGORIES = "numbers", "categories"


def write_vocabulary(folder: str, name: str, terms: list[str]) -> str:
    """A file with a line for each term; tf.lookup needs one, so the first is of no term. Returns its path."""
    path = storage.join(folder, f"{name}.txt")
    storage.write_text(path, "".join(term + "\n" for term in [NO_TERM, *terms]))
    return path


def build_transform(schema: TableSchema, rows: beam.PCollection | None = None) -> BuildTransform:
    """A step that makes the graph of one TableStatistics.

    Args:
      schema: of the job.
      rows: PCollection of RecordBatch, the training rows, for the analyzers of functions of the user's own.
    """
    inputs = {name: (type_, ()) for name, type_ in input_types(schema).items()}
    return BuildTransform(inputs, lambda statistics: preprocessing_fn(schema, statistics), rows)


def input_types(schema: TableSchema) -> dict[str, tf.DType]:
    """What the graph takes: the columns that features read."""
    read = dict.fromkeys(column for feature in schema.features for column in feature.columns)
    types = dict.fromkeys(schema.numbers, tf.float32) | dict.fromkeys(schema.texts, tf.string)
    return {name: types.get(name, tf.int64) for name in read}


def preprocessing_fn(schema: TableSchema, statistics: beam.PCollection) -> Preprocess:
    """The function that tensorflow-transform traces into the graph."""

    def table_of(feature: NamedFeature, place: int, like: tf.Tensor) -> tf.Tensor:
        def learn(counted: TableStatistics, folder: str) -> str:
            return write_vocabulary(folder, f"{feature.name}_terms", vocabulary(counted.counts[place], feature.section))

        return known_file(like, statistics, learn, f"Learn {feature.name}", NO_TERM.encode() + b"\n")

    def look_up(feature: NamedFeature, terms: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
        """int64: the terms in order, from 1; -1 is unseen."""
        place = [other.name for other in counted_features(schema)].index(feature.name)
        place_found, _ = tf_utils.construct_and_lookup_table(_table_of, table_of(feature, place, like), terms)
        return place_found

    def transform(inputs: Columns) -> Columns:
        outputs: Columns = {}
        numbers, categories = [], []
        numeric = numeric_features(schema)
        if numeric:
            first = inputs[numeric[0].columns[0]]
            shape = [3, len(numeric)]
            rows = known(first, statistics, lambda counted, _: number_rows(counted, schema), "Learn numbers", shape)
            values, missing = scaled(tf.stack([inputs[one.columns[0]] for one in numeric], axis=-1), rows, numeric)
            numbers.append(values)
            flagged = [i for i, one in enumerate(numeric) if one.section.indicator]  # type: ignore[attr-defined]
            if flagged:
                numbers.append(tf.cast(tf.gather(missing, flagged, axis=-1), tf.float32))
        for feature in schema.features:
            section, values = feature.section, inputs[feature.columns[0]]
            match section:
                case Categorical():
                    place_found = hashed(values, section.hash) if section.hash else None
                    if place_found is None:
                        place_found = spread(look_up(feature, values, values), values, section.unseen)
                    categories.append(place_found)
                case Bucket():
                    edges = tf.constant(section.edges, tf.float32)
                    if section.buckets:
                        edges = known(values, statistics, _edges_of(feature, schema), f"Learn {feature.name}", [None])
                    categories.append(bucket_of(values, edges))
                case DateParts():
                    parts = date_parts(values, section.parts)
                    if section.cyclic:
                        numbers += [one for name, part in parts.items() for one in on_circle(part, DATE_PARTS[name])]
                    else:
                        categories += [part + 1 for part in parts.values()]
                case Cross():
                    joined = tf.strings.join([inputs[name] for name in feature.columns], separator="\x1f")
                    categories.append(tf.strings.to_hash_bucket_fast(joined, section.hash))
                case Text():
                    words = words_of(values, section)
                    place = look_up(feature, words.flat_values, values)
                    ids = words.with_flat_values(tf.where(place < 0, tf.constant(1, tf.int64), place + 1))
                    if section.length == "ragged":
                        outputs[feature.name] = ids
                    else:
                        outputs[feature.name] = ids.to_tensor(shape=[None, section.length])
                case Own():
                    outputs |= call_own(feature, inputs)
                case Pass():
                    outputs[feature.name] = tf.identity(values)
        if numbers:
            wide = [part if part.shape.rank == 2 else part[:, None] for part in numbers]
            outputs[NUMBERS] = tf.concat(wide, axis=-1)
        if categories:
            outputs[CATEGORIES] = tf.stack(categories, axis=-1)
        return outputs

    return transform


def _edges_of(feature: NamedFeature, schema: TableSchema) -> Callable[[TableStatistics, str], np.ndarray]:
    return lambda counted, _: bucket_edges(counted, feature, schema)


def _table_of(file: tf.Tensor) -> tf.lookup.StaticHashTable:
    line, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
    lines = tf.lookup.TextFileInitializer(file, tf.string, line, tf.int64, number)
    return tf.lookup.StaticHashTable(lines, default_value=-1)


def scaled(values: tf.Tensor, rows: tf.Tensor, features: list[NamedFeature]) -> tuple[tf.Tensor, tf.Tensor]:
    """Numbers `[batch, features]` scaled, and which are missing.

    Args:
      values: as the files have them.
      rows: float32 [3, features]: offset, divisor, and what stands for a missing one.
      features: Numeric.
    """
    sections = [feature.section for feature in features]
    log = np.array([section.scale == "log" for section in sections])  # type: ignore[attr-defined]
    missing = ~tf.math.is_finite(values)
    if log.any():
        values = tf.where(log, tf.sign(values) * tf.math.log1p(tf.abs(values)), values)
    values = (tf.where(missing, rows[2], values) - rows[0]) / rows[1]
    clips = np.array([section.clip or math.inf for section in sections], np.float32)  # type: ignore[attr-defined]
    if np.isfinite(clips).any():
        values = tf.minimum(tf.maximum(values, -clips), clips)
    return values, missing


def hashed(values: tf.Tensor, size: int) -> tf.Tensor:
    """int64 `[batch]`: 0 is missing, then `size` numbers."""
    return tf.where(values == "", tf.constant(0, tf.int64), 1 + tf.strings.to_hash_bucket_fast(values, size))


def spread(place: tf.Tensor, values: tf.Tensor, unseen: int) -> tf.Tensor:
    """int64 `[batch]`: 0 is missing, then `unseen` numbers, then the terms in order."""
    unseen_place = tf.constant(1, tf.int64) if unseen == 1 else 1 + tf.strings.to_hash_bucket_fast(values, unseen)
    return tf.where(values == "", tf.constant(0, tf.int64), tf.where(place < 0, unseen_place, place + unseen))


def bucket_of(values: tf.Tensor, edges: tf.Tensor) -> tf.Tensor:
    """int64 `[batch]`: 0 is missing, then the buckets in order; an edge belongs to the bucket above it."""
    place = tf.searchsorted(edges, values, side="right", out_type=tf.int64)
    return tf.where(tf.math.is_finite(values), 1 + place, tf.constant(0, tf.int64))


def date_parts(seconds: tf.Tensor, names: Sequence[str]) -> dict[str, tf.Tensor]:
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
    return {name: tf.where(seconds == NO_TIME, tf.constant(-1, tf.int64), parts[name]) for name in names}


def on_circle(part: tf.Tensor, period: int) -> list[tf.Tensor]:
    """Sine and cosine of each place on a circle, float32 `[batch]`; both are 0 where it is missing."""
    # By a table, as TensorFlow's own sine may differ in its last bit with the place of a value in its batch.
    angles = [2 * math.pi * step / period for step in range(period)]
    tables = ([0.0, *map(of, angles)] for of in (math.sin, math.cos))
    return [tf.gather(tf.constant(values, tf.float32), part + 1) for values in tables]
