"""Serialized records -> the values of their fields, checked against each other."""

from typing import NamedTuple

import tensorflow as tf

from beamfeed.contract.dataset.fields import LENGTHS, Field, Listed
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.trainer.feed.fields import Wanted

MISMATCH = "the windows in the shards differ from the manifest"
LISTED: dict[Listed, tf.DType] = {"float32": tf.float32, "int64": tf.int64, "bytes": tf.string}
NOT_DECODED = {tf.uint32: tf.int32, tf.uint64: tf.int64}  # by tf.io.decode_raw, and what has the same size


class Parsed(NamedTuple):
    """The values of some records, those of each after those of the one before it.

    Attributes:
      columns: the values of each wanted field, `[values, *shape]`. Where values may be of any length, their entries,
        `[entries, *shape[1:]]`, and under `<name>.lengths` how many each value has, int64 `[values]`.
      rows: int64 `[records]`, how many each has.
      there: int64 `[records]`, 0 for an empty string and 1 for a record.
    """

    columns: dict[str, tf.Tensor]
    rows: tf.Tensor
    there: tf.Tensor


def parse(serialized: tf.Tensor, wanted: Wanted) -> Parsed:
    """Parses strings `[records]`. An empty string is a record without any value.

    Raises:
      tf.errors.InvalidArgumentError: with MISMATCH and the name of the field, if a field does not have a whole value
        for each row, window, or the record; or TensorFlow's own, if it is of another dtype.
    """
    found = tf.io.parse_example(serialized, _features(wanted))
    there = tf.cast(tf.strings.length(serialized) > 0, tf.int64)
    counts = {field.name: _count(found, field) for field in wanted.parsed}
    rows = counts[wanted.rows_of.name]
    framed = count_windows(rows, wanted.windows.length, wanted.windows.stride)
    expected = {"row": rows, "window": framed, "record": there}
    checks = [
        tf.debugging.Assert(
            _is_whole(found, field, counts[field.name]) & tf.reduce_all(counts[field.name] == expected[field.per]),
            [f"{MISMATCH}: field {field.name}"],
        )
        for field in wanted.parsed
    ]
    with tf.control_dependencies([check for check in checks if check is not None]):  # there are none in eager mode
        columns = {field.name: tf.reshape(_values(found, field), _shape(field)) for field in wanted.stored}
        rows = tf.identity(rows)
    lengths = [field.name + LENGTHS for field in wanted.stored if field.is_ragged]
    return Parsed(columns | {name: found[name].flat_values for name in lengths}, rows, there)


def _features(wanted: Wanted) -> dict[str, tf.io.RaggedFeature]:
    """What is parsed of each record."""
    dtypes = {field.name: LISTED[field.listed] for field in wanted.parsed}
    dtypes |= {field.name + LENGTHS: tf.int64 for field in wanted.parsed if field.is_ragged}
    return {name: tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64) for name, dtype in dtypes.items()}


def _count(found: dict[str, tf.RaggedTensor], field: Field) -> tf.Tensor:
    """How many values of a field each record has."""
    if field.is_ragged:
        return found[field.name + LENGTHS].row_lengths()
    return found[field.name].row_lengths() // field.listed_width


def _is_whole(found: dict[str, tf.RaggedTensor], field: Field, count: tf.Tensor) -> tf.Tensor:
    """Whether no value has a part missing, nor an entry that is of none."""
    entries = count
    positive = tf.constant(True)
    if field.is_ragged:
        lengths = found[field.name + LENGTHS]
        entries = tf.reduce_sum(lengths, axis=1)
        positive = tf.reduce_all(lengths.flat_values >= 0)
    if field.is_raw:
        positive = tf.reduce_all(tf.strings.length(found[field.name].flat_values) == field.bytes)
    return positive & tf.reduce_all(found[field.name].row_lengths() == entries * field.listed_width)


def _values(found: dict[str, tf.RaggedTensor], field: Field) -> tf.Tensor:
    values = found[field.name].flat_values
    if not field.is_raw:
        return values
    dtype = tf.as_dtype(field.dtype)
    decoded = tf.io.decode_raw(values, NOT_DECODED.get(dtype, dtype))
    return tf.bitcast(decoded, dtype) if dtype in NOT_DECODED else decoded


def _shape(field: Field) -> list[int]:
    return [-1, *(size for size in field.shape if size is not None)]
