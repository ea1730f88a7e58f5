"""Rows of an array by their numbers, in TensorFlow's graph: from a mapped file, or by ranges.

Python is asked for nothing: a thread of tf.data that waits for its lock may wait for ever.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from beamfeed.contract import storage
from beamfeed.contract.arrays.catalog import NamedArray

ALIGNED = 64  # bytes; where values begin at a multiple of it, TensorFlow uses them in place
MOST_MAPPED = 16  # files of an array: rows of each are gathered by themselves
MOST_OPEN = 4  # blocks that are read at a time; from gs:// more, where each waits for an answer
MOST_OPEN_REMOTE = 32
# What tf.io.decode_raw cannot give, and what is taken for it.
DECODED = {
    tf.bool: tf.uint8, tf.float16: tf.uint16, tf.uint32: tf.int32, tf.uint64: tf.int64, tf.complex64: tf.float32, tf.complex128: tf.float64,
}  # fmt: skip


class Blocks(NamedTuple):
    """Runs of rows that lie in one file of each array, int64 `[blocks]` each."""

    first: np.ndarray  # row
    rows: np.ndarray


class Values(Protocol):
    """Where rows of an array come from. A round of batches is prepared once, then rows are taken from it."""

    def prepare(self, blocks: tf.Tensor) -> tf.Tensor:
        """What is needed of some blocks, int64 `[blocks]`, to take rows of them."""

    def take(self, prepared: tf.Tensor, rows: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        """Some rows, `[n, *shape]`.

        Args:
          prepared: of the round.
          rows: int64 `[n]`, their numbers.
          places: int64 `[n]`, their places among the rows of the prepared blocks, each of which has as many as the
            largest.
        """


def values_of(array: NamedArray, blocks: Blocks, *, parallel: bool) -> Values:
    """The way to take rows of an array: in place where the files can be mapped, else by ranges."""
    return Mapped(array) if can_map(array) else Ranged(array, blocks, parallel=parallel)


def can_map(array: NamedArray) -> bool:
    """Whether all files of an array can be used in place: on a disk, and as TensorFlow has values in memory."""
    return len(array.parts) <= MOST_MAPPED and array.dtype != "bool" and all(
        not storage.is_remote(part.stored.file.path)
        and part.stored.offset is not None
        and part.stored.offset % ALIGNED == 0
        and not part.stored.descr.startswith(">")
        for part in array.parts
    )  # fmt: skip


class Mapped:
    """Rows of files that are mapped into memory: each is copied once, from the pages of the file into the batch."""

    def __init__(self, array: NamedArray):
        self._firsts = [part.first for part in array.parts]
        self._parts = [_mapped(array, place) for place in range(len(array.parts))]

    def prepare(self, blocks: tf.Tensor) -> tf.Tensor:
        return tf.zeros([], tf.int64)

    def take(self, prepared: tf.Tensor, rows: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        if len(self._parts) == 1:
            return tf.gather(self._parts[0], rows)
        part = tf.searchsorted(tf.constant(self._firsts, tf.int64), rows, side="right") - 1
        chosen = tf.dynamic_partition(tf.range(tf.size(rows)), part, len(self._parts))
        found = [
            tf.gather(values, tf.gather(rows, some) - first)
            for values, some, first in zip(self._parts, chosen, self._firsts, strict=True)
        ]
        return tf.ensure_shape(tf.dynamic_stitch(chosen, found), [None, *self._parts[0].shape[1:]])


def _mapped(array: NamedArray, place: int) -> tf.Tensor:
    """The values of a file of an array, `[rows, *shape]`, in place; no byte is read yet."""
    stored = array.parts[place].stored
    assert stored.offset is not None
    dtype = tf.as_dtype(array.dtype)
    end = stored.offset + stored.rows * stored.row_bytes
    with tf.device("CPU:0"):
        whole = tf.raw_ops.ImmutableConst(dtype=tf.uint8, shape=[end], memory_region_name=stored.file.path)
        values = whole[stored.offset :]
        if dtype.size > 1:
            values = tf.bitcast(tf.reshape(values, [-1, dtype.size]), dtype)
        elif dtype != tf.uint8:
            values = tf.bitcast(values, dtype)
        return tf.reshape(values, [stored.rows, *array.shape])


class Ranged:
    """Rows of blocks that are read by one range each, local or gs://.

    Args:
      array: whose rows.
      blocks: none of them is in two files of it.
      parallel: whether several are read at a time.
    """

    def __init__(self, array: NamedArray, blocks: Blocks, *, parallel: bool):
        firsts = np.array([part.first for part in array.parts])
        part = np.searchsorted(firsts, blocks.first, side="right") - 1
        stored = [one.stored for one in array.parts]
        row_bytes = stored[0].row_bytes
        offsets = np.array([one.offset for one in stored])[part] + (blocks.first - firsts[part]) * row_bytes
        sizes = np.array([one.file.size for one in stored])[part]
        length = blocks.rows * row_bytes
        self._paths = tf.constant([one.file.path for one in stored])
        self._columns = [tf.constant(column, tf.int64) for column in (part, offsets, length, sizes - offsets - length)]
        self._most = int(blocks.rows.max())
        self._row_bytes, self._shape, self._dtype = row_bytes, array.shape, tf.as_dtype(array.dtype)
        self._little = not stored[0].descr.startswith(">")
        remote = storage.is_remote(stored[0].file.path)
        self._open = MOST_OPEN_REMOTE if remote else MOST_OPEN
        self._parallel = parallel

    def prepare(self, blocks: tf.Tensor) -> tf.Tensor:
        """The values of the blocks, `[blocks * rows of the largest, *shape]`."""

        def read(part: tf.Tensor, offset: tf.Tensor, length: tf.Tensor, after: tf.Tensor) -> tf.data.Dataset:
            path = tf.gather(self._paths, part)
            return tf.data.FixedLengthRecordDataset(path, length, offset, after, buffer_size=length)

        wanted = tuple(tf.gather(column, blocks) for column in self._columns)
        found = tf.data.Dataset.from_tensor_slices(wanted).interleave(
            read,
            cycle_length=self._open,
            num_parallel_calls=self._open if self._parallel else None,
            deterministic=True if self._parallel else None,
        )
        strings = found.batch(tf.size(blocks, tf.int64)).get_single_element()
        return self._decode(strings)

    def _decode(self, strings: tf.Tensor) -> tf.Tensor:
        plain = DECODED.get(self._dtype, self._dtype)
        decoded = tf.io.decode_raw(
            strings, plain, little_endian=self._little, fixed_length=self._most * self._row_bytes
        )
        flat = tf.reshape(decoded, [-1])
        if self._dtype == tf.bool:
            flat = flat != 0
        elif plain != self._dtype:
            wide = self._dtype.size // plain.size
            flat = tf.bitcast(tf.reshape(flat, [-1, wide]) if wide > 1 else flat, self._dtype)
        return tf.reshape(flat, [-1, *self._shape])

    def take(self, prepared: tf.Tensor, rows: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        return tf.gather(prepared, places)


def cut_blocks(arrays: Sequence[NamedArray], first: int, end: int, size: int) -> Blocks:
    """The rows [first, end) in runs of about so many bytes, none of which is in two files of an array."""
    rows = max(1, size // sum(array.row_bytes for array in arrays))
    edges = {first, end, *(part.first for array in arrays for part in array.parts if first < part.first < end)}
    starts = np.concatenate([np.arange(one, two, rows) for one, two in itertools.pairwise(sorted(edges))])
    return Blocks(starts, np.diff(starts, append=end))


def batch_bytes(arrays: Sequence[NamedArray]) -> int:
    """Of one row of all arrays, in a batch."""
    return sum(tf.as_dtype(array.dtype).size * math.prod(array.shape) for array in arrays)
