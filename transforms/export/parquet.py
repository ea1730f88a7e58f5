"""Parquet: a file for each shard, a column for each field."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.transforms.export.base import Export, Format, ShardExport, target
from beamfeed.transforms.export.items import ItemField, Items, fixed_shape
from beamfeed.transforms.sources.record_block import Ragged, Values

GROUP_BYTES = 32 << 20  # of values in a row group
KEY = b"beamfeed"  # of the schema's metadata


class Parquet(Format):
    """Parquet files with typed columns; lists of one size where a field has a shape."""

    name: ClassVar[str] = "parquet"
    suffix: ClassVar[str] = ".parquet"

    def write(self, export: Export, shard: ShardExport, items: Iterator[Items]) -> None:
        schema, fields = arrow_schema(export, shard), export.fields
        columns = ([to_arrow(field, part.values[field.field.name]) for field in fields] for part in items)
        batches = (pa.RecordBatch.from_arrays(arrays, schema=schema) for arrays in columns)
        write_batches(target(export, shard, self.suffix), schema, batches)


def write_batches(
    path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], facts: Callable[[], Mapping[bytes, bytes]] = dict
) -> int:
    """Writes a Parquet file of some batches, which appears when it is whole; returns how many rows it has.

    Args:
      path: of the file.
      schema: of the batches.
      batches: in order.
      facts: called when all are written, gives what the metadata says besides.
    """
    import pyarrow.parquet as pq

    words = [name for column in schema for name in _words_of(column.name, column.type)]
    with (
        storage.open_output(path) as file,
        pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=words) as writer,
    ):
        waiting: list[pa.RecordBatch] = []
        size = rows = 0
        for batch in batches:
            waiting.append(batch)
            size += batch.nbytes
            rows += batch.num_rows
            if size >= GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(waiting, schema))
                waiting, size = [], 0
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting, schema))
        writer.add_key_value_metadata(facts())
    return rows


def _words_of(name: str, kind: pa.DataType) -> list[str]:
    """What a file calls the values of a column, if they are words: numbers rarely repeat, and so need no dictionary."""
    while isinstance(kind, pa.ListType | pa.FixedSizeListType):
        name, kind = f"{name}.list.element", kind.value_type
    return [name] if pa.types.is_string(kind) or pa.types.is_binary(kind) else []


def arrow_schema(export: Export, shard: ShardExport) -> pa.Schema:
    """The columns, with what the manifest says of them."""
    content = {"dataset": export.manifest.name, "split": shard.split, **export.content}
    columns = [pa.field(column.field.name, arrow_type(column), nullable=False) for column in export.fields]
    return pa.schema(columns, {KEY: json.dumps(content).encode()})


def arrow_type(column: ItemField) -> pa.DataType:
    """The type of a field's column. A complex number is a list of two: the real part and the imaginary one."""
    dtype = np.dtype("S" if column.field.dtype == "bytes" else column.field.dtype)
    kind = pa.binary() if column.field.dtype == "bytes" else pa.from_numpy_dtype(_real(dtype))
    for size in reversed((*fixed_shape(column), *([2] if dtype.kind == "c" else []))):
        kind = _list_type(kind, size)
    if column.field.is_ragged:
        kind = pa.list_(_item(kind))
        if column.time is not None:
            kind = _list_type(kind, column.time)
    return kind


def to_arrow(column: ItemField, values: Values) -> pa.Array:
    """The values of a field as its column."""
    if not isinstance(values, Ragged):
        return _nested(values, fixed_shape(column))
    edges = pa.array(values.edges.astype(np.int32))
    entries = _nested(values.values, fixed_shape(column))
    lists = pa.ListArray.from_arrays(edges, entries, type=pa.list_(_item(entries.type)))
    return lists if column.time is None else _fixed(lists, column.time)


def _nested(values: np.ndarray | pa.Array, shape: Sequence[int]) -> pa.Array:
    column: Any
    if isinstance(values, np.ndarray):
        flat = np.ascontiguousarray(values).reshape(-1)
        if flat.dtype.kind == "c":
            flat, shape = flat.view(_real(flat.dtype)), (*shape, 2)
        column = pa.array(flat)
    else:
        column = values.cast(pa.binary())
    for size in reversed(shape):
        column = _fixed(column, size)
    return column


def _fixed(values: pa.Array, size: int) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(values, type=_list_type(values.type, size))


def _list_type(of: pa.DataType, size: int) -> pa.DataType:
    return pa.list_(_item(of), size)


def _item(of: pa.DataType) -> pa.Field:
    return pa.field("element", of, nullable=False)


def _real(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
