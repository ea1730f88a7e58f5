"""Segments as serialized tf.train.Example, and the features that they hold."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_transform.tf_metadata import schema_utils
from tfx_bsl.coders import example_coder

from transforms.rows import Rows
from transforms.segment import Segments

# The features of a record. `start` is the position of its first row in the asset, `first_time` and
# `last_time` are ticks of the job's clock, `values` is [rows, features] in row-major order.
ASSET, START, FIRST_TIME, LAST_TIME, VALUES = "asset", "start", "first_time", "last_time", "values"
ENCODE_BYTES = 16 << 20  # of values handed to the encoder at a time


def schema_text() -> str:
    """The tensorflow-metadata Schema of the records, as text."""
    spec: dict = {name: tf.io.FixedLenFeature([], tf.int64) for name in (START, FIRST_TIME, LAST_TIME)}
    spec[ASSET] = tf.io.FixedLenFeature([], tf.string)
    spec[VALUES] = tf.io.VarLenFeature(tf.float32)
    return text_format.MessageToString(schema_utils.schema_from_feature_spec(spec))


def encode(asset: str, rows: Rows, values: np.ndarray, segments: Segments) -> Iterator[list[bytes]]:
    """Serialized Examples of the segments of a block, in order, some at a time.

    Args:
      values: float32 [n, features], the filled values of `rows`.
    """
    sizes = segments.rows * (values.shape[1] * 4)
    chunk = np.cumsum(sizes) // ENCODE_BYTES
    for number in np.unique(chunk):
        picked = np.flatnonzero(chunk == number)
        yield _encode(asset, rows, values, segments.first[picked], segments.rows[picked])


def _encode(asset: str, rows: Rows, values: np.ndarray, first: np.ndarray, count: np.ndarray) -> list[bytes]:
    ends = np.cumsum(count)
    index = np.arange(ends[-1]) + np.repeat(first - (ends - count), count)
    offsets = np.concatenate([[0], ends]) * values.shape[1]
    columns = {
        ASSET: _one_each(pa.repeat(pa.scalar(asset.encode(), pa.large_binary()), len(first))),
        START: _one_each(pa.array(rows.position[first])),
        FIRST_TIME: _one_each(pa.array(rows.time[first])),
        LAST_TIME: _one_each(pa.array(rows.time[first + count - 1])),
        VALUES: pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values[index].ravel())),
    }
    return example_coder.RecordBatchToExamplesEncoder().encode(pa.RecordBatch.from_pydict(columns))


def _one_each(column: pa.Array) -> pa.LargeListArray:
    return pa.LargeListArray.from_arrays(pa.array(np.arange(len(column) + 1)), column)
