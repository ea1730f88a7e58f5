"""NumPy: a .npy file for each field and split, in the dataset's order, to be mapped into memory.

Every shard writes its own part of each file, so that shards can be written at the same time and none is held.
"""

import math
import os
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract import storage
from beamfeed.contract.errors import UserError
from beamfeed.transforms.export.base import Export, Format, ShardExport
from beamfeed.transforms.export.items import ItemField, Items, bytes_of, fixed_shape
from beamfeed.transforms.sources.record_block import Ragged

PART = ".part"  # ends the name of a file that is not whole
STRINGS, VALUES, OFFSETS = ".strings", ".values", ".offsets"


class Array(NamedTuple):
    """A file: the shape of one of its rows, its dtype, and whether it says where something begins: one row more."""

    shape: tuple[int, ...]
    dtype: str
    offsets: bool = False


class NumpyFiles(Format):
    """Arrays of all items. Strings, and values of any length, are two: values, and where each begins in them."""

    name: ClassVar[str] = "numpy"

    def check(self, export: Export) -> None:
        if storage.is_remote(export.out):
            raise UserError(f"--out {export.out}: --to numpy writes in the middle of files, which a bucket cannot")

    def measure(self, export: Export, items: Iterator[Items]) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for batch in items:
            for column in export.fields:
                counts.update({name: len(rows) for name, rows in rows_of(column, batch, {}).items()})
        return counts

    def prepare(
        self, export: Export, shards: Sequence[ShardExport], measured: Mapping[str, Mapping[str, int]]
    ) -> list[ShardExport]:
        arrays, placed = _arrays(export), []
        for split in export.splits:
            sums = dict.fromkeys(arrays, 0)
            for shard in (shard for shard in shards if shard.split == split):
                placed.append(replace(shard, before=dict(sums)))
                for name in arrays:
                    sums[name] += measured[shard.path].get(name, 0)
            folder = os.path.join(export.out, split)
            os.makedirs(folder, exist_ok=True)
            for name, array in arrays.items():
                _create(os.path.join(folder, f"{name}.npy{PART}"), array, sums[name])
        return placed

    def write(self, export: Export, shard: ShardExport, items: Iterator[Items]) -> None:
        arrays, at = _arrays(export), dict(shard.before)
        paths = {name: os.path.join(export.out, shard.split, f"{name}.npy{PART}") for name in arrays}
        heads = {name: np.lib.format.open_memmap(path, mode="r").offset for name, path in paths.items()}
        for batch in items:
            for column in export.fields:
                for name, rows in rows_of(column, batch, at).items():
                    array = arrays[name]
                    row = np.dtype(array.dtype).itemsize * math.prod(array.shape)
                    with open(paths[name], "r+b") as file:
                        file.seek(heads[name] + (at[name] + array.offsets) * row)
                        file.write(np.ascontiguousarray(rows, array.dtype).reshape(-1).view(np.uint8).data)
                    at[name] += len(rows)

    def finish(self, export: Export, shards: Sequence[ShardExport]) -> list[str]:
        names = []
        for split in export.splits:
            for name in _arrays(export):
                path = os.path.join(export.out, split, f"{name}.npy")
                if os.path.exists(path + PART):  # else it was done before
                    os.replace(path + PART, path)
                names.append(f"{split}/{name}.npy")
        return names


def _arrays(export: Export) -> dict[str, Array]:
    """The files of all fields."""
    return {name: array for column in export.fields for name, array in arrays_of(column).items()}


def arrays_of(column: ItemField) -> dict[str, Array]:
    """The files of a field, by the beginnings of their names."""
    name, shape, is_text = column.field.name, fixed_shape(column), column.field.dtype == "bytes"
    arrays = {}
    if column.field.is_ragged:
        arrays[name + OFFSETS] = Array((), "<i8", offsets=True)
    if is_text:
        arrays[name + (STRINGS if column.field.is_ragged else OFFSETS)] = Array((), "<i8", offsets=True)
        return {**arrays, name + VALUES: Array((), "|u1")}
    dtype = np.dtype(column.field.dtype).newbyteorder("<").str
    return {**arrays, name + VALUES if column.field.is_ragged else name: Array(shape, dtype)}


def rows_of(column: ItemField, items: Items, before: Mapping[str, int]) -> dict[str, np.ndarray]:
    """What some items put into the files of a field.

    Args:
      column: the field.
      items: some of them.
      before: rows that are in each file already: what begins here begins behind them.
    """
    values, name = items.values[column.field.name], column.field.name
    rows: dict[str, np.ndarray] = {}
    entries: Any = values
    inner = name + OFFSETS
    if isinstance(values, Ragged):
        entries, inner = values.values, name + STRINGS
        width = math.prod(fixed_shape(column)) if isinstance(entries, pa.Array) else 1
        start = before.get(name + (STRINGS if isinstance(entries, pa.Array) else VALUES), 0) // width
        rows[name + OFFSETS] = start + np.cumsum(values.lengths)
    if isinstance(entries, pa.Array):
        start = before.get(name + VALUES, 0)
        rows[inner] = start + np.cumsum(pc.binary_length(entries).to_numpy(zero_copy_only=False).astype(np.int64))
        return {**rows, name + VALUES: bytes_of(entries)}
    return {**rows, name + VALUES if isinstance(values, Ragged) else name: entries}


def _create(path: str, array: Array, rows: int) -> None:
    """Makes a file of zeros; one that is there, from a first try, stays."""
    if os.path.exists(path):
        return
    temporary = f"{path}.{uuid.uuid4().hex}"
    shape = (rows + array.offsets, *array.shape)
    np.lib.format.open_memmap(temporary, mode="w+", dtype=array.dtype, shape=shape)
    os.replace(temporary, path)
