"""Avro: rows in blocks, which are packed each by itself; some blocks are a group.

Where the blocks are is read of their heads. What they hold is unpacked here, up to a limit, and decoded by fastavro.
"""

import bz2
import io
import json
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.records.wire import decode_varint, encode_varint
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers.expected import Expected, Group, Look, TextOptions, batch_rows

GROUP_BYTES = 8 << 20
BLOCK_BYTES = 64 << 20  # of a block at most, packed or not
NESTED_BYTES = 8 << 20  # of one whose values hold values: a byte may become an object of 200 bytes
_DECODED_BYTES = 4 << 20  # that are decoded together where blocks are small
_HEAD_BYTES = 16 << 20  # of the schema at most
_NEXT_HEAD = 4 << 10  # that is read at a place on a disk to find the next block, and
_NEXT_REMOTE = 1 << 20  # in a bucket, where each read is a request
_DEPTH, _VALUES = 32, 100_000  # of a schema at most: types in types, values in a row
_MAGIC = b"Obj\x01"
_HEAD_SCHEMA = {
    "type": "record", "name": "Head", "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": len(_MAGIC)}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": 16}},
    ],
}  # fmt: skip
_BROKEN = (
    EOFError, IndexError, KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError, StopIteration,
    struct.error, zlib.error, lzma.LZMAError, OSError, pa.ArrowException,
)  # fmt: skip
_PLAIN = {
    "null": (0, pa.null()), "boolean": (1, pa.bool_()), "int": (1, pa.int32()), "long": (1, pa.int64()),
    "float": (4, pa.float32()), "double": (8, pa.float64()), "bytes": (1, pa.binary()), "string": (1, pa.string()),
}  # fmt: skip
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    **{("long", f"timestamp-{name}s"): pa.timestamp(unit, "UTC")
       for name, unit in (("milli", "ms"), ("micro", "us"), ("nano", "ns"))},
    **{("long", f"local-timestamp-{name}s"): pa.timestamp(unit)
       for name, unit in (("milli", "ms"), ("micro", "us"), ("nano", "ns"))},
}  # fmt: skip


@dataclass(frozen=True)
class _Type:
    """A type of the schema.

    Attributes:
      plain: as fastavro is to decode it: without logical types, text as bytes.
      arrow: what its values become; null where there are none of it alone.
      least: bytes that a value takes at least.
      values: that one holds, with itself.
    """

    plain: Any
    arrow: pa.DataType
    least: int
    values: int = 1


@dataclass(frozen=True)
class _Head:
    """The beginning of a file.

    Attributes:
      schema: the names and types of the columns.
      plain: the schema as fastavro is to decode it.
      least: bytes that a row takes at least.
      codec: that blocks are packed by.
      sync: the bytes behind each block.
      end: the byte that the first block starts at.
    """

    schema: pa.Schema
    plain: Any
    least: int
    codec: str
    sync: bytes
    end: int

    @property
    def most(self) -> int:
        """The bytes of a block at most."""
        return NESTED_BYTES if any(map(pa.types.is_nested, self.schema.types)) else BLOCK_BYTES


def look_at_avro(path: str, _: TextOptions) -> Look:
    """The names and types of the columns."""
    with storage.open_input(path) as source:
        return Look(_read_head(path, source).schema)


def avro_groups(path: str, expected: Expected) -> list[Group]:
    """The groups of rows, by the heads of the blocks."""
    with storage.open_input(path) as source:
        head = _read_head(path, source)
        expected.check(path, head.schema)
        return list(_groups(path, source, head))


def iter_avro(
    path: str, expected: Expected, names: Sequence[str], groups: Sequence[Group] | None, last_rows: int | None
) -> Iterator[tuple[Group, int, pa.RecordBatch]]:
    """Streams columns of groups of rows, see `iter_batches`."""
    with storage.open_input(path) as source:
        head = _read_head(path, source)
        expected.check(path, head.schema)
        columns = {place: column for place, column in enumerate(head.schema) if column.name in names}
        for group in _groups(path, source, head) if groups is None else groups:
            is_last = groups is not None and group is groups[-1]
            end = group.row + (group.rows if last_rows is None or not is_last else min(last_rows, group.rows))
            row = group.row
            for batch in _decode_group(path, source, head, group, columns):
                yield group, row, batch.slice(0, end - row)
                row += batch.num_rows
                if row >= end:
                    break


def _read_head(path: str, source: Any) -> _Head:
    import fastavro  # by who reads Avro alone

    size = source.size()
    if not size:
        raise BadInput(path, "file", "the file is empty")
    for read in (64 << 10, 1 << 20, _HEAD_BYTES):
        data = source.read_at(min(read, size), 0)
        if not data.startswith(_MAGIC):
            raise BadInput(path, "file", "is not an Avro file")
        file = io.BytesIO(data)
        try:
            head: Any = fastavro.schemaless_reader(file, _HEAD_SCHEMA, None)
        except _BROKEN:
            if read < size:
                continue
            raise BadInput(path, "file", "ends within its schema") from None
        keys = head["meta"]
        codec = keys.get("avro.codec", b"null").decode("ascii", "replace")
        if codec not in _UNPACK:
            raise BadInput(path, "file", f"is packed by {codec[:40]!r}, which is not read; known: {', '.join(_UNPACK)}")
        with _as_broken(path, "file", "has a schema that cannot be read"):
            type_, columns = _Types(path).of_rows(json.loads(keys.get("avro.schema", b"")))
        return _Head(pa.schema(columns), type_.plain, type_.least, codec, head["sync"], file.tell())
    raise BadInput(path, "file", f"has a schema of more than {_HEAD_BYTES >> 20} MB")


def _parse_long(data: bytes, at: int) -> tuple[int, int]:
    """A number as Avro writes it, and the byte after it; a ValueError where it has no end."""
    number, at = decode_varint(data, at)
    return (number >> 1) ^ -(number & 1), at


def _encode_size(size: int) -> bytes:
    return encode_varint(size << 1)


@dataclass
class _Types:
    """Reads a schema, and guards against those that a small file could take all memory by."""

    path: str
    named: dict[str, _Type | None] = field(default_factory=dict)  # None while one is being defined

    def of_rows(self, schema: Any) -> tuple[_Type, list[pa.Field]]:
        """The type of a row, and the columns."""
        if not isinstance(schema, dict) or schema.get("type") not in ("record", "error"):
            raise self._bad("holds single values, not rows with columns")
        row, types = self._record(schema, "", 1)
        if row.least == 0:
            raise self._bad("holds rows without values")
        return row, [pa.field(part["name"], type_.arrow) for part, type_ in zip(schema["fields"], types, strict=True)]

    def of(self, schema: Any, space: str, depth: int) -> _Type:
        """A type where names without a dot belong to `space`."""
        if depth > _DEPTH:
            raise self._bad(f"has a schema of more than {_DEPTH} types in each other")
        if isinstance(schema, list):
            return self._union([self.of(member, space, depth + 1) for member in schema])
        if isinstance(schema, str):
            return self._of_name(schema, space)
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.of(kind, space, depth + 1)
        if kind in ("record", "error"):
            return self._record(schema, space, depth + 1)[0]
        if kind in ("enum", "fixed"):
            return self._enum_or_fixed(kind, schema, self._define(schema, space))
        if kind in ("array", "map"):
            item = self.of(schema["items" if kind == "array" else "values"], space, depth + 1)
            if kind == "array" and item.least == 0:
                raise self._bad("has arrays of items without values")
            plain = {"type": kind, "items" if kind == "array" else "values": item.plain}
            inner_type = pa.null() if pa.types.is_nested(item.arrow) else item.arrow
            arrow = pa.list_(inner_type) if kind == "array" else pa.map_(pa.string(), inner_type)
            return _Type(plain, arrow, 1, 1 + item.values)
        plain_type = self._of_name(kind, space)
        logical = _decimal(schema) if kind == "bytes" else _LOGICAL.get((kind, schema.get("logicalType")))
        return plain_type if logical is None else _Type(plain_type.plain, logical, plain_type.least)

    def _of_name(self, name: str, space: str) -> _Type:
        if name in _PLAIN:
            least, arrow = _PLAIN[name]
            return _Type("bytes" if name == "string" else name, arrow, least)
        full = name if "." in name else f"{space}.{name}".lstrip(".")
        if full not in self.named:
            raise self._bad(f"has a schema with the type {full[:80]!r}, which it does not define")
        if (type_ := self.named[full]) is None:
            raise self._bad(f"has a schema with the type {full[:80]!r}, which holds itself")
        return _Type(_plain_name(full), type_.arrow, type_.least, type_.values)

    def _define(self, schema: dict[str, Any], space: str) -> str:
        name, space = schema["name"], schema.get("namespace", space)
        full = name if "." in name or not space else f"{space}.{name}"
        if full in self.named:
            raise self._bad(f"has a schema that defines {full[:80]!r} twice")
        self.named[full] = None
        return full

    def _record(self, schema: dict[str, Any], space: str, depth: int) -> tuple[_Type, list[_Type]]:
        """The type of a record, and those of its fields."""
        name = self._define(schema, space)
        inner = name.rpartition(".")[0]
        types = [self.of(part["type"], inner, depth) for part in schema["fields"]]
        values = 1 + sum(type_.values for type_ in types)
        if values > _VALUES:
            raise self._bad(f"has a schema of more than {_VALUES:,} values in a row")
        fields = [{"name": f"f{place}", "type": type_.plain} for place, type_ in enumerate(types)]
        plain = {"type": "record", "name": _plain_name(name), "fields": fields}
        self.named[name] = record = _Type(plain, pa.struct([]), sum(type_.least for type_ in types), values)
        return record, types

    def _enum_or_fixed(self, kind: str, schema: dict[str, Any], name: str) -> _Type:
        if kind == "enum":
            type_ = _Type({"type": kind, "name": _plain_name(name), "symbols": schema["symbols"]}, pa.string(), 1)
        else:
            size = int(schema["size"])
            if size < 0:
                raise self._bad(f"has a schema with values of {size} bytes")
            plain = {"type": kind, "name": _plain_name(name), "size": size}
            type_ = _Type(plain, _decimal(schema) or pa.binary(), size)
        self.named[name] = type_
        return type_

    def _union(self, types: list[_Type]) -> _Type:
        arrows = {type_.arrow for type_ in types if not pa.types.is_null(type_.arrow)}
        if len(arrows) <= 1:
            arrow = next(iter(arrows), pa.null())
        elif all(pa.types.is_integer(type_) or pa.types.is_floating(type_) for type_ in arrows):
            arrow = pa.int64() if all(map(pa.types.is_integer, arrows)) else pa.float64()
        else:
            arrow = pa.dense_union([pa.field(str(place), type_) for place, type_ in enumerate(sorted(arrows, key=str))])
        least = 1 + min((type_.least for type_ in types), default=0)
        return _Type([type_.plain for type_ in types], arrow, least, 1 + sum(type_.values for type_ in types))

    def _bad(self, reason: str) -> BadInput:
        return BadInput(self.path, "file", reason)


def _decimal(schema: dict[str, Any]) -> pa.DataType | None:
    """The type of decimals; None of other values, and of decimals that no type of Arrow holds."""
    if schema.get("logicalType") != "decimal":
        return None
    precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
    return pa.decimal128(precision, scale) if 0 < precision <= 38 else None


def _plain_name(name: str) -> str:
    """A name without a name space, that any library takes."""
    return "t" + name.encode().hex()


@dataclass(frozen=True)
class _Block:
    """A block: it has so many rows, and its data are [start, end)."""

    rows: int
    start: int
    end: int


def _groups(path: str, source: Any, head: _Head) -> Iterator[Group]:
    """Blocks of about GROUP_BYTES, found by their heads."""
    row = rows = 0
    begin = head.end
    for block in _blocks(path, source, head):
        rows += block.rows
        if block.end - begin >= GROUP_BYTES:
            if rows:
                yield Group(row, rows, begin, block.end + 16 - begin)
            row, rows, begin = row + rows, 0, block.end + 16
    if rows:
        yield Group(row, rows, begin, source.size() - begin)


def _blocks(path: str, source: Any, head: _Head) -> Iterator[_Block]:
    """The blocks of a file; of what they hold nothing is read but what lies by their heads."""
    total, ahead = source.size(), _NEXT_REMOTE if storage.is_remote(path) else _NEXT_HEAD
    window, begin, place, row = b"", 0, head.end, 0
    while place < total:
        first = place - 16  # the sync marker before, which says that no number led astray
        if first < begin or place + 20 > begin + len(window):
            window, begin = source.read_at(min(ahead, total - first), first), first
        if window[first - begin : place - begin] != head.sync:
            raise BadInput(path, f"row {row}", "is not in a whole block: the marker before it is not the file's")
        block = _block(path, head, window[place - begin : place - begin + 20], place, total, row)
        yield block
        place, row = block.end + 16, row + block.rows
    if head.end < total and source.read_at(16, total - 16) != head.sync:
        raise BadInput(path, f"row {row}", "is not in a whole block: the file does not end in its marker")


def _block(path: str, head: _Head, data: bytes, place: int, total: int, row: int) -> _Block:
    """The block whose head `data` begins with, at a place of a file of `total` bytes."""
    try:
        rows, at = _parse_long(data, 0)
        size, at = _parse_long(data, at)
    except ValueError:
        raise BadInput(path, f"row {row}", "is not in a whole block: its head is broken") from None
    if not 0 <= rows <= head.most or size < 0:
        raise BadInput(path, f"row {row}", f"is in a block that has {rows} rows in {size} bytes by its head")
    if place + at + size + 16 > total:
        raise BadInput(path, f"row {row}", f"is not in a whole block: its {size:,} bytes end behind the file")
    if size > head.most:
        raise BadInput(path, f"row {row}", f"is in a block of {size:,} bytes; at most {head.most >> 20} MB are read")
    return _Block(rows, place + at, place + at + size)


def _decode_group(
    path: str, source: Any, head: _Head, group: Group, columns: dict[int, pa.Field]
) -> Iterator[pa.RecordBatch]:
    """Some columns of a group's rows, by their places in a row."""
    data = source.read_at(group.size, group.place)
    place, row, first = 0, group.row, group.row
    plain: list[bytes] = []
    size = 0
    while place < len(data):
        block = _block(path, head, data[place : place + 20], place, len(data), row)
        with _as_broken(path, f"row {row}"):
            unpacked = _UNPACK[head.codec](data[block.start : block.end], head.most)
        if len(unpacked) > head.most:
            raise BadInput(path, f"row {row}", f"is in a block of more than {head.most >> 20} MB when unpacked")
        if block.rows * head.least > len(unpacked):
            raise BadInput(path, f"row {row}", f"is in a block of {len(unpacked):,} bytes, too few for its rows")
        if size and size + len(unpacked) > _DECODED_BYTES:
            yield from _decode(path, head, plain, first, columns)
            plain, size, first = [], 0, row
        plain += [_encode_size(block.rows), _encode_size(len(unpacked)), unpacked, head.sync]
        size += len(unpacked)
        place, row = block.end + 16, row + block.rows
    if row != group.row + group.rows:
        raise BadInput(path, "file", "has other blocks than when it was planned")
    yield from _decode(path, head, plain, first, columns)


def _decode(
    path: str, head: _Head, blocks: list[bytes], row: int, columns: dict[int, pa.Field]
) -> Iterator[pa.RecordBatch]:
    """Some columns of the rows of unpacked blocks, the first of which is `row`."""
    import fastavro  # by who reads Avro alone

    start = [_MAGIC, _encode_size(1)]
    for text in (b"avro.schema", json.dumps(head.plain).encode()):
        start += [_encode_size(len(text)), text]
    file = io.BytesIO(b"".join([*start, b"\0", head.sync, *blocks]))
    # A dict of Python's takes more room than a row of Arrow's.
    most = batch_rows(8 * len(head.schema))
    with _as_broken(path, f"row {row}"):
        decoded = fastavro.reader(file, handle_unicode_errors="replace")
    while True:
        with _as_broken(path, f"row {row}"):
            rows: list[Any] = list(islice(decoded, most))
            arrays = [_column([*map(itemgetter(f"f{place}"), rows)], column.type) for place, column in columns.items()]
        if not rows:
            return
        # Of a batch without columns a struct still says how many rows it has.
        fields = [*columns.values()]
        structs = pa.StructArray.from_arrays(arrays, fields=fields) if fields else pa.array([{}] * len(rows))
        yield pa.RecordBatch.from_struct_array(structs)
        row += len(rows)


def _column(values: list[Any], type_: pa.DataType) -> pa.Array:
    """Decoded values of a column as its Arrow type. Text that is not UTF-8 stays as it is: who reads it says so."""
    if pa.types.is_decimal(type_):
        return _decimals(pa.array(values, pa.binary()), type_)
    if pa.types.is_nested(type_):
        return pa.nulls(len(values), type_)
    if pa.types.is_string(type_):
        return pa.array(values, pa.binary()).view(type_)
    if pa.types.is_temporal(type_):
        return pa.array(values, pa.int32() if type_.bit_width == 32 else pa.int64()).view(type_)
    return pa.array(values, type_)


def _decimals(column: pa.BinaryArray, type_: pa.DataType) -> pa.Array:
    """Numbers of two's complement, the highest byte first, as decimals of 16 bytes, the lowest first."""
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    ends, lengths = offsets[1:], np.diff(offsets)
    if len(lengths) and lengths.max() > 16:
        raise ValueError(f"a decimal of {lengths.max()} bytes")
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    numbers = np.zeros((len(column), 16), np.uint8)
    for place in range(int(lengths.max(initial=0))):
        has = lengths > place
        numbers[has, place] = data[ends[has] - 1 - place]
    negative = np.zeros(len(column), bool)
    filled = lengths > 0
    negative[filled] = data[offsets[:-1][filled]] >= 0x80
    numbers[negative[:, None] & (np.arange(16) >= lengths[:, None])] = 0xFF
    valid = column.is_valid()
    decimals = pa.Array.from_buffers(type_, len(column), [valid.buffers()[1], pa.py_buffer(numbers.tobytes())])
    decimals.validate(full=True)  # a number of more digits than the schema says
    return decimals


def _unpack_snappy(data: bytes, most: int) -> bytes:
    size, _ = decode_varint(data, 0)
    if size > most:
        return bytes(most + 1)
    unpacked = pa.decompress(data[:-4], size, codec="snappy", asbytes=True)
    if zlib.crc32(unpacked) != int.from_bytes(data[-4:], "big"):
        raise ValueError("the checksum of a block is not that of its bytes")
    return unpacked


def _unpack_zstd(data: bytes, most: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        return stream.read_buffer(most + 1).to_pybytes()  # `read` never frees what it was to fill of a broken one


_UNPACK: dict[str, Callable[[bytes, int], bytes]] = {
    "null": lambda data, _: data,
    "deflate": lambda data, most: zlib.decompressobj(-15).decompress(data, most + 1),
    "snappy": _unpack_snappy,
    "zstandard": _unpack_zstd,
    "bzip2": lambda data, most: bz2.BZ2Decompressor().decompress(data, most + 1),
    "xz": lambda data, most: lzma.LZMADecompressor(memlimit=128 << 20).decompress(data, most + 1),
}  # by their names in a file, up to a byte more than `most`


@contextmanager
def _as_broken(path: str, place: str, fault: str = "cannot be read") -> Iterator[None]:
    """Turns what decoders raise of broken bytes into BadInput."""
    try:
        yield
    except BadInput:
        raise
    except _BROKEN as error:
        message = " ".join(str(error).split())[:200] or type(error).__name__
        raise BadInput(path, place, f"{fault}: {'lacks ' if isinstance(error, KeyError) else ''}{message}") from None
