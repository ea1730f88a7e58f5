"""Segments as serialized tf.train.Example, and the features that they hold.

The bytes are laid out here, after the wire format of protocol buffers
(https://protobuf.dev/programming-guides/encoding) and the messages of
tensorflow/core/example/feature.proto. Encoders of protobuf and tfx_bsl write the
features, a map, in an order that changes from process to process, and equal input
must give equal files. Here keys are in alphabetical order, and a packed list of
floats is the memory of the array: one copy.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_transform.tf_metadata import schema_utils

from beamfeed.contract.dataset.fields import Field
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.windowing import Segments

# The features of a record. `start` is the position of its first row in the asset, `first_time` and
# `last_time` are ticks (see sources/timeseries/time_units.py), `values` is [rows, features] in row-major order.
ASSET, FIRST_TIME, LAST_TIME, START, VALUES = "asset", "first_time", "last_time", "start", "values"

_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = b"\x0a", b"\x12", b"\x1a"  # fields 1, 2, 3 of Feature


def record_fields(features: Sequence[str]) -> list[Field]:
    """The fields of the records of series."""
    numbers = [Field(name=name, dtype="int64", role="key", per="record") for name in (FIRST_TIME, LAST_TIME, START)]
    values = Field(name=VALUES, dtype="float32", shape=(len(features),), role="input", columns=list(features))
    return [Field(name=ASSET, dtype="bytes", role="key", per="record"), *numbers, values]


def schema_text() -> str:
    """The tensorflow-metadata Schema of the records, as text."""
    spec: dict = {name: tf.io.FixedLenFeature([], tf.int64) for name in (FIRST_TIME, LAST_TIME, START)}
    spec[ASSET] = tf.io.FixedLenFeature([], tf.string)
    spec[VALUES] = tf.io.VarLenFeature(tf.float32)
    return text_format.MessageToString(schema_utils.schema_from_feature_spec(spec))


def encode_examples(asset: str, rows: Rows, values: np.ndarray, segments: Segments) -> Iterator[bytes]:
    """Serialized Examples of the segments of a block, in order.

    Args:
      asset: its name.
      rows: of the block.
      values: float32 [n, features], the filled values of `rows`.
      segments: row ranges of the block, a record each.
    """
    memory = np.ascontiguousarray(values, "<f4").data.cast("B")
    row = 4 * values.shape[1]
    asset_entry = _entry(ASSET, _BYTES_LIST, _field(b"\x0a", asset.encode()))
    last = segments.first + segments.rows - 1
    numbers = zip(
        varints(rows.time[segments.first]),
        varints(rows.time[last]),
        varints(rows.position[segments.first]),
        (segments.first * row).tolist(),
        (segments.rows * row).tolist(),
        strict=True,
    )
    for first_time, last_time, start, at, size in numbers:
        heads = _heads(len(asset_entry), len(first_time), len(last_time), len(start), size)
        yield b"".join(
            (heads[0], asset_entry, heads[1], first_time, heads[2], last_time, heads[3], start, heads[4],
             memory[at : at + size])
        )  # fmt: skip


def varints(numbers: np.ndarray) -> list[bytes]:
    """Each int64 in groups of 7 bits, lowest first; a negative one as 64 bits of two's complement."""
    left = numbers.astype(np.uint64)[:, None] >> np.arange(0, 70, 7, dtype=np.uint64)  # of 64 bits, the last has 1
    more = left[:, 1:] > 0
    groups = (left & np.uint64(0x7F)).astype(np.uint8)
    groups[:, :-1] |= more.astype(np.uint8) << 7
    data = groups.tobytes()
    return [data[10 * i : 10 * i + size] for i, size in enumerate((more.sum(axis=1) + 1).tolist())]


@lru_cache(maxsize=1000)
def _heads(asset: int, first_time: int, last_time: int, start: int, values: int) -> tuple[bytes, ...]:
    """What stands before the asset's entry and the four numbers, which only depends on the bytes that they take."""
    heads = [
        _entry(name, kind, _field(b"\x0a", bytes(size)))[: -size or None]
        for name, kind, size in (
            (FIRST_TIME, _INT64_LIST, first_time),
            (LAST_TIME, _INT64_LIST, last_time),
            (START, _INT64_LIST, start),
            (VALUES, _FLOAT_LIST, values),
        )
    ]
    features = asset + sum(map(len, heads)) + first_time + last_time + start + values
    return b"\x0a" + _varint(features), *heads


def _entry(name: str, kind: bytes, values: bytes) -> bytes:
    """An entry of the map Features.feature: the name, and a Feature that holds a list."""
    feature = _field(kind, values)
    return _field(b"\x0a", _field(b"\x0a", name.encode()) + _field(b"\x12", feature))


def _field(tag: bytes, content: bytes) -> bytes:
    """A length-delimited field."""
    return tag + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    return varints(np.array([number]))[0]
