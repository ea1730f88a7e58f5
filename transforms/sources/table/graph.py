"""The transform graph of a table: the operations of `encode` on tensors. Serving runs the very same."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft

from beamfeed.contract.config.features import Text
from beamfeed.transforms.sources.table.encode import SEPARATOR, encode
from beamfeed.transforms.sources.table.learned import vocabulary_file
from beamfeed.transforms.sources.table.own import call_own
from beamfeed.transforms.sources.table.schema import NamedFeature, TableSchema
from beamfeed.transforms.sources.table.statistics import NO_TERM
from beamfeed.transforms.sources.table.words import MARKS, SPACES
from beamfeed.transforms.statistics import graph
from beamfeed.transforms.statistics.graph import Marks


class Tensors:
    """Operations on tensors, in a graph.

    Args:
      marks: what stands in it for what will be learned.
    """

    minimum = staticmethod(tf.minimum)
    maximum = staticmethod(tf.maximum)
    is_finite = staticmethod(tf.math.is_finite)
    sign = staticmethod(tf.sign)
    log1p = staticmethod(tf.math.log1p)
    hashed = staticmethod(tf.strings.to_hash_bucket_fast)
    passed = staticmethod(tf.identity)

    def __init__(self, marks: Marks):
        self._marks = marks

    def learned(self, name: str, shape: Sequence[int]) -> tf.Tensor:
        return self._marks.numbers(name, shape)

    def place(self, feature: NamedFeature, texts: tf.Tensor) -> tf.Tensor:
        name = vocabulary_file(feature.name)
        file = self._marks.file(name, NO_TERM.encode() + b"\n")
        return tft.make_and_track_object(lambda: _table_of(file), name=name).lookup(texts)

    def own(self, feature: NamedFeature, inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return call_own(feature, dict(inputs))

    def stack(self, columns: Sequence[tf.Tensor]) -> tf.Tensor:
        return tf.stack(columns, axis=-1)

    def join(self, parts: Sequence[tf.Tensor]) -> tf.Tensor:
        return tf.concat(parts, axis=-1)

    def columns(self, values: tf.Tensor, places: Sequence[int]) -> tf.Tensor:
        return tf.gather(values, places, axis=-1)

    def gather(self, values: np.ndarray, places: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.constant(values), places)

    def where(self, condition: Any, one: Any, other: tf.Tensor) -> tf.Tensor:
        return tf.where(condition, tf.cast(one, other.dtype), other)

    def to_float(self, values: tf.Tensor) -> tf.Tensor:
        return tf.cast(values, tf.float32)

    def search(self, edges: Any, values: tf.Tensor) -> tf.Tensor:
        return tf.searchsorted(edges, values, side="right", out_type=tf.int64)

    def is_empty(self, texts: tf.Tensor) -> tf.Tensor:
        return texts == ""

    def joined(self, texts: Sequence[tf.Tensor]) -> tf.Tensor:
        return tf.strings.join(texts, separator=SEPARATOR)

    def words(self, texts: tf.Tensor, section: Text) -> tuple[tf.Tensor, tf.RaggedTensor]:
        words = words_of(texts, section)
        return words.flat_values, words

    def ragged(self, ids: tf.Tensor, words: tf.RaggedTensor) -> tf.RaggedTensor:
        return words.with_flat_values(ids)

    def padded(self, ids: tf.Tensor, words: tf.RaggedTensor, length: int) -> tf.Tensor:
        return words.with_flat_values(ids).to_tensor(shape=[None, length])


def words_of(texts: tf.Tensor, section: Text) -> tf.RaggedTensor:
    """The words of strings `[batch]`: strings `[batch, words]`."""
    if section.lower:
        texts = tf.strings.lower(texts, encoding="utf-8")
    if section.split == "characters":
        return tf.strings.unicode_split(texts, "UTF-8", errors="replace")
    texts = tf.strings.regex_replace(texts, SPACES, " ")
    if section.split == "words":
        texts = tf.strings.regex_replace(texts, MARKS, r" \1 ")
    return tf.strings.split(texts)


def _table_of(file: str) -> tf.lookup.StaticHashTable:
    line, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
    lines = tf.lookup.TextFileInitializer(file, tf.string, line, tf.int64, number)
    return tf.lookup.StaticHashTable(lines, default_value=-1)


def input_types(schema: TableSchema) -> dict[str, tf.DType]:
    """What the graph takes: the columns that features read."""
    read = dict.fromkeys(column for feature in schema.features for column in feature.columns)
    types = dict.fromkeys(schema.numbers, tf.float32) | dict.fromkeys(schema.texts, tf.string)
    return {name: types.get(name, tf.int64) for name in read}


def trace_table(schema: TableSchema, folder: str) -> None:
    """Writes the graph of a table without functions of the user's own, with marks for what `learned_of` gives."""
    inputs = {name: (type_, ()) for name, type_ in input_types(schema).items()}
    graph.trace(lambda columns, marks: encode(columns, schema, Tensors(marks)), inputs, folder)
