"""Rows of an array by their numbers, in TensorFlow's graph, from files that are mapped into memory.

Python is asked for nothing: a thread of tf.data that waits for its lock may wait for ever. Nor is any of TensorFlow's
readers of files: they read all that is before a range, too.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from beamfeed.contract.arrays.catalog import NamedArray
from beamfeed.contract.arrays.npy import item_bytes
from beamfeed.contract.arrays.stored import Stored
from beamfeed.contract.errors import UserError

ALIGNED = 64  # bytes; where values begin at a multiple of it, TensorFlow uses them in place
MOST_FILES = 16  # of an array in place: rows of each are gathered by themselves
AT_A_TIME = 8  # blocks that are copied at a time


class Blocks(NamedTuple):
    """Runs of rows that lie in one file of each array, int64 `[blocks]` each."""

    first: np.ndarray  # row
    rows: np.ndarray


def values_of(array: NamedArray, blocks: Blocks, paths: Sequence[str]) -> "Values":
    """The way to take rows of an array, whose files lie at these paths: in place, or by copying blocks first."""
    return InPlace(array, paths) if lies_in_place(array) else Copied(array, blocks, paths)


def lies_in_place(array: NamedArray) -> bool:
    """Whether the files of an array hold its values as TensorFlow has them in memory."""
    return len(array.parts) <= MOST_FILES and array.dtype != "bool" and all(
        part.stored.offset is not None
        and part.stored.offset % ALIGNED == 0
        and not part.stored.descr.startswith(">")
        for part in array.parts
    )  # fmt: skip


def _mapped(stored: Stored, path: str) -> tf.Tensor:
    """The bytes of a file up to the end of its values, uint8 `[bytes]`; none is read yet."""
    assert stored.offset is not None
    end = stored.offset + stored.rows * stored.row_bytes
    try:
        return tf.raw_ops.ImmutableConst(dtype=tf.uint8, shape=[end], memory_region_name=path)
    except tf.errors.OpError as error:
        raise UserError(f"{path}: cannot be mapped into memory: {error.message}") from None


class InPlace:
    """Takes rows of an array: each is copied once, from the pages of its file into the batch."""

    def __init__(self, array: NamedArray, paths: Sequence[str]):
        self._firsts = [part.first for part in array.parts]
        self._parts = []
        for part, path in zip(array.parts, paths, strict=True):
            with tf.device("CPU:0"):
                values = _mapped(part.stored, path)[part.stored.offset :]
                self._parts.append(_decoded(values, array, part.stored))

    def prepare(self, blocks: tf.Tensor) -> tf.Tensor:
        """What `take` needs of the blocks of a round, int64 `[blocks]`; here nothing."""
        return tf.zeros([], tf.int64)

    def take(self, prepared: tf.Tensor, rows: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        """Some rows, `[n, *shape]`, by their numbers, int64 `[n]`.

        `places`, int64 `[n]`, are theirs among the rows of the prepared blocks, one block after the other.
        """
        if len(self._parts) == 1:
            return tf.gather(self._parts[0], rows)
        part = tf.searchsorted(tf.constant(self._firsts, tf.int64), rows, side="right") - 1
        chosen = tf.dynamic_partition(tf.range(tf.size(rows)), part, len(self._parts))
        gathered = [
            tf.gather(values, tf.gather(rows, places_chosen) - first)
            for values, places_chosen, first in zip(self._parts, chosen, self._firsts, strict=True)
        ]
        return tf.ensure_shape(tf.dynamic_stitch(chosen, gathered), [None, *self._parts[0].shape[1:]])


class Copied:
    """As `InPlace`; the blocks of a round are copied first, to where TensorFlow can use them."""

    def __init__(self, array: NamedArray, blocks: Blocks, paths: Sequence[str]):
        stored = [part.stored for part in array.parts]
        firsts = np.array([part.first for part in array.parts])
        part = np.searchsorted(firsts, blocks.first, side="right") - 1
        begins = (
            np.array([entry.offset for entry in stored])[part] + (blocks.first - firsts[part]) * stored[0].row_bytes
        )
        self._columns = [
            tf.constant(column, tf.int64) for column in (part, begins, begins + blocks.rows * stored[0].row_bytes)
        ]
        with tf.device("CPU:0"):
            self._files = [_mapped(entry, path) for entry, path in zip(stored, paths, strict=True)]
        self._array, self._stored = array, stored[0]

    def prepare(self, blocks: tf.Tensor) -> tf.Tensor:
        """The rows of the blocks, `[rows, *shape]`."""
        part, begin, end = (tf.gather(column, blocks) for column in self._columns)
        count, width = tf.size(blocks), self._stored.row_bytes
        chunks = tf.TensorArray(tf.uint8, size=count, element_shape=[None, width], infer_shape=False)

        def copy(place: tf.Tensor, chunks: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            def of(file: tf.Tensor) -> tf.Tensor:
                return file[begin[place] : end[place]]

            if len(self._files) == 1:
                values = of(self._files[0])
            else:
                values = tf.switch_case(
                    tf.cast(part[place], tf.int32), [lambda file=file: of(file) for file in self._files]
                )
            return place + 1, chunks.write(place, tf.reshape(values, [-1, width]))

        _, chunks = tf.while_loop(
            lambda place, _: place < count, copy, (tf.constant(0), chunks), parallel_iterations=AT_A_TIME
        )
        return _decoded(tf.reshape(chunks.concat(), [-1]), self._array, self._stored)

    def take(self, prepared: tf.Tensor, rows: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        return tf.gather(prepared, places)


Values = InPlace | Copied


def _decoded(memory: tf.Tensor, array: NamedArray, stored: Stored) -> tf.Tensor:
    """Bytes of some rows, uint8 `[bytes]` -> `[rows, *shape]`; a copy is made of bools and big-endian numbers alone."""
    dtype = tf.as_dtype(array.dtype)
    if stored.descr.startswith(">"):
        size = item_bytes(stored.descr) // (2 if dtype.is_complex else 1)
        memory = tf.reshape(tf.reverse(tf.reshape(memory, [-1, size]), [1]), [-1])
    if dtype == tf.bool:
        memory = memory != 0
    elif dtype.size > 1:
        memory = tf.bitcast(tf.reshape(memory, [-1, dtype.size]), dtype)
    elif dtype != tf.uint8:
        memory = tf.bitcast(memory, dtype)
    return tf.reshape(memory, [-1, *array.shape])


def cut_blocks(arrays: Sequence[NamedArray], first: int, end: int, size: int) -> Blocks:
    """The rows [first, end) in runs of about so many bytes, none of which is in two files of an array."""
    rows = max(1, size // sum(array.row_bytes for array in arrays))
    edges = {first, end, *(part.first for array in arrays for part in array.parts if first < part.first < end)}
    starts = np.concatenate([np.arange(start, end, rows) for start, end in itertools.pairwise(sorted(edges))])
    return Blocks(starts, np.diff(starts, append=end))


def batch_bytes(arrays: Sequence[NamedArray]) -> int:
    """Of one row of all arrays, in a batch."""
    return sum(tf.as_dtype(array.dtype).size * math.prod(array.shape) for array in arrays)
