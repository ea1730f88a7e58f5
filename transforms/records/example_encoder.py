"""Blocks of records as serialized tf.train.Example, and their schema.

The bytes are laid out here (`beamfeed.contract.records.wire`). Encoders of protobuf and tfx_bsl write the
features, a map, in an order that changes from process to process, and equal input
must give equal files. Here keys are in alphabetical order, and a packed list of
floats is the memory of the array: one copy.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import LENGTHS, Field, Listed
from beamfeed.contract.records.examples import Features, features_of
from beamfeed.contract.records.wire import encode_varint, list_tag
from beamfeed.transforms.records.ranges import field_ranges
from beamfeed.transforms.sources.record_block import Ragged, RecordBlock

FEATURE_TYPES: dict[Listed, "schema_pb2.FeatureType"] = {
    "bytes": schema_pb2.BYTES,
    "float32": schema_pb2.FLOAT,
    "int64": schema_pb2.INT,
}


def schema_text(fields: Sequence[Field]) -> str:
    """The tensorflow-metadata Schema of the records, as text."""
    schema = schema_pb2.Schema()
    by_name = {field.name: field for field in fields}
    for name, key, listed, *_ in features_of(fields):
        feature = schema.feature.add(name=name, type=FEATURE_TYPES[listed])
        field = by_name.get(key)
        if field is not None and field.per == "record" and not field.is_ragged:  # it is there once
            feature.presence.min_fraction = 1.0
            feature.shape.SetInParent()
            for size in () if field.is_raw else field.shape:
                feature.shape.dim.add(size=size)
    return text_format.MessageToString(schema)


def encode_examples(block: RecordBlock, fields: Sequence[Field], windows: Windows) -> Iterator[bytes]:
    """Serialized Examples of the records of a block, in order.

    Args:
      block: the records.
      fields: what each holds.
      windows: of the dataset.

    Raises:
      JobFailed: if the block's values are not those of its rows and windows.
    """
    if not len(block):
        return
    contents = {}
    for field, ranges in field_ranges(block, fields, windows):
        values = block.values[field.name]
        if isinstance(values, Ragged):
            entries = values.edges * field.width
            contents[field.name] = _contents(field.listed, values.values).cut(entries[ranges])
            contents[field.name + LENGTHS] = _contents("int64", values.lengths).cut(ranges)
        else:
            listed = _memory(values, field) if field.is_raw else values
            contents[field.name] = _contents(field.listed, listed).cut(ranges * field.listed_width)
    features = features_of(fields)
    sizes, pieces = zip(*(contents[feature.key] for feature in features), strict=True)
    heads = zip(*map(_heads(features), zip(*sizes, strict=True)), strict=True)
    # By feature until here; from here on a record at a time, without a step of Python's own.
    yield from map(b"".join, zip(*chain.from_iterable(zip(heads, pieces, strict=True)), strict=True))


@dataclass(frozen=True)
class _Contents:
    """What the lists of a feature hold, of all values of a block: `at` int64 [n + 1] says where each starts."""

    memory: memoryview | bytes
    at: np.ndarray | int  # or how many bytes each takes

    def cut(self, ranges: np.ndarray) -> tuple[list[int], Iterator[memoryview | bytes]]:
        """How many bytes, and the bytes, of each record, whose values are [ranges[0, i], ranges[1, i])."""
        edges = ranges * self.at if isinstance(self.at, int) else self.at[ranges]
        return (edges[1] - edges[0]).tolist(), map(self.memory.__getitem__, map(slice, *edges.tolist()))


def _memory(values: np.ndarray, field: Field) -> pa.Array:
    """Each value's memory as a string: numbers `[n, *shape]` of the field's dtype -> binary `[n]`."""
    little = np.dtype(field.dtype).newbyteorder("<")
    data = pa.py_buffer(np.ascontiguousarray(values, little).reshape(-1).view(np.uint8))
    at = np.arange(len(values) + 1, dtype=np.int64) * (little.itemsize * field.width)
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(values), [None, pa.py_buffer(at), data])


def _contents(dtype: Listed, values: Any) -> _Contents:
    if dtype == "float32":
        return _Contents(np.ascontiguousarray(values, "<f4").reshape(-1).data.cast("B"), 4)
    if dtype == "int64":
        return _Contents(*varints(np.asarray(values).reshape(-1)))
    strings = values.cast(pa.large_binary())
    # Each with its tag and its length before it.
    data, at = varints(pc.binary_length(strings).to_numpy())
    buffers = [None, pa.py_buffer(at), pa.py_buffer(data)]
    lengths = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(strings), buffers)
    tag, nothing = (pa.scalar(text, pa.large_binary()) for text in (b"\x0a", b""))
    tagged = pc.binary_join_element_wise(tag, lengths, strings, nothing)
    _, offsets, joined = tagged.buffers()
    return _Contents(memoryview(joined or b""), np.frombuffer(offsets, np.int64)[tagged.offset :])


def varints(numbers: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Numbers in groups of 7 bits, lowest first; a negative one as 64 bits of two's complement.

    Args:
      numbers: int64 [n].

    Returns:
      the bytes of all of them, and int64 [n + 1], where each starts.
    """
    remaining = numbers.astype(np.int64).view(np.uint64)
    groups = np.zeros((len(remaining), 10), np.uint8)  # 70 bits: of 64 bits, the last has 1
    size = np.ones(len(remaining), np.int64)
    for k in range(10):
        groups[:, k] = remaining & np.uint64(0x7F)
        remaining = remaining >> np.uint64(7)
        more = remaining > 0
        if not more.any():
            break
        groups[more, k] |= 0x80
        size += more
    at = np.zeros(len(remaining) + 1, np.int64)
    np.cumsum(size, out=at[1:])
    return groups[np.arange(10) < size[:, None]].tobytes(), at


@lru_cache(maxsize=8)
def _heads(features: Features) -> Callable[[tuple[int, ...]], list[bytes]]:
    """What stands before the content of each feature, which only depends on their sizes in bytes."""

    @lru_cache(maxsize=1000)
    def heads_of(sizes: tuple[int, ...]) -> list[bytes]:
        heads = []
        for (name, _, dtype, *_), size in zip(features, sizes, strict=True):
            # Lists of numbers are one field.
            packed = b"" if dtype == "bytes" or not size else b"\x0a" + encode_varint(size)
            key = b"\x0a" + encode_varint(len(name.encode())) + name.encode()
            list_ = list_tag(dtype) + encode_varint(len(packed) + size) + packed
            value = b"\x12" + encode_varint(len(list_) + size) + list_
            heads.append(b"\x0a" + encode_varint(len(key) + len(value) + size) + key + value)
        heads[0] = b"\x0a" + encode_varint(sum(map(len, heads)) + sum(sizes)) + heads[0]
        return heads

    return heads_of
