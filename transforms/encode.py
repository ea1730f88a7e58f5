"""Segments as serialized tf.train.Example, and the features that they hold.

The bytes are laid out here, after the wire format of protocol buffers
(https://protobuf.dev/programming-guides/encoding) and the messages of
tensorflow/core/example/feature.proto. Encoders of protobuf and tfx_bsl write the
features, a map, in an order that changes from process to process, and equal input
must give equal files. Here keys are in alphabetical order, and a packed list of
floats is the memory of the array: one copy.
"""

import struct
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_transform.tf_metadata import schema_utils

from transforms.rows import Rows
from transforms.segment import Segments

# The features of a record. `start` is the position of its first row in the asset, `first_time` and
# `last_time` are ticks of the job's clock, `values` is [rows, features] in row-major order.
ASSET, FIRST_TIME, LAST_TIME, START, VALUES = "asset", "first_time", "last_time", "start", "values"

_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = b"\x0a", b"\x12", b"\x1a"  # fields 1, 2, 3 of Feature


def schema_text() -> str:
    """The tensorflow-metadata Schema of the records, as text."""
    spec: dict = {name: tf.io.FixedLenFeature([], tf.int64) for name in (FIRST_TIME, LAST_TIME, START)}
    spec[ASSET] = tf.io.FixedLenFeature([], tf.string)
    spec[VALUES] = tf.io.VarLenFeature(tf.float32)
    return text_format.MessageToString(schema_utils.schema_from_feature_spec(spec))


def encode(asset: str, rows: Rows, values: np.ndarray, segments: Segments) -> Iterator[bytes]:
    """Serialized Examples of the segments of a block, in order.

    Args:
      values: float32 [n, features], the filled values of `rows`.
    """
    values = np.ascontiguousarray(values, "<f4")
    asset_entry = _entry(ASSET, _BYTES_LIST, _field(b"\x0a", asset.encode()))
    first, last = segments.first, segments.first + segments.rows - 1
    numbers = zip(rows.time[first].tolist(), rows.time[last].tolist(), rows.position[first].tolist(), strict=True)
    for at, count, (first_time, last_time, start) in zip(first.tolist(), segments.rows.tolist(), numbers, strict=True):
        features = b"".join(
            (
                asset_entry,
                _int64_entry(FIRST_TIME, first_time),
                _int64_entry(LAST_TIME, last_time),
                _int64_entry(START, start),
                _entry(VALUES, _FLOAT_LIST, _field(b"\x0a", values[at : at + count].tobytes())),
            )
        )
        yield _field(b"\x0a", features)


def _entry(name: str, kind: bytes, values: bytes) -> bytes:
    """An entry of the map Features.feature: the name, and a Feature that holds a list."""
    feature = _field(kind, values)
    return _field(b"\x0a", _field(b"\x0a", name.encode()) + _field(b"\x12", feature))


def _int64_entry(name: str, value: int) -> bytes:
    return _entry(name, _INT64_LIST, _field(b"\x0a", _varint(value)))


def _field(tag: bytes, content: bytes) -> bytes:
    """A length-delimited field."""
    return tag + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """A number in groups of 7 bits, lowest first; a negative one as 64 bits of two's complement."""
    if 0 <= value < 0x80:
        return struct.pack("B", value)
    value &= (1 << 64) - 1
    groups = bytearray()
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)
