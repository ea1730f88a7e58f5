"""Rounds of a training's order -> rows, from the shards or from memory."""

from typing import Protocol

import numpy as np
import tensorflow as tf

from beamfeed.trainer.feed.reader import Blocks, read_blocks, warn_of_damage
from beamfeed.trainer.feed.sampler import Index
from beamfeed.trainer.feed.windowing import MISMATCH, Frame, Rows, find_windows, parse

GROUP_BYTES = 16 << 20  # read into memory at a time


class Source(Protocol):
    """Where rows come from."""

    def rows(self, blocks: tf.Tensor, block: tf.Tensor) -> tuple[Rows, tf.Tensor]:
        """The rows of some blocks, and `block` as places among those.

        Args:
          blocks: int64 `[blocks]`, numbers of the index.
          block: int64 `[windows]`, places in `blocks`, or -1.
        """


class Shards:
    """Reads the blocks of shards that are not compressed.

    Args:
      paths: of the shards, in the manifest's order.
      index: of their blocks.
      open_blocks: how many are read at a time.
      parallel: whether by several threads.
      skip_corrupt: whether damaged blocks are passed over.
    """

    def __init__(
        self, paths: list[str], index: Index, frame: Frame, *, open_blocks: int, parallel: bool, skip_corrupt: bool
    ):
        self._paths, self._frame = tf.constant(paths), frame
        self._index = Index(*(tf.constant(column) for column in index))
        self._open_blocks, self._parallel = open_blocks, parallel
        self._skip_corrupt = skip_corrupt

    def records(self, blocks: tf.Tensor) -> tf.Tensor:
        """The serialized records of the blocks, strings `[records + 1]`; the last one is empty."""
        shard, offset, records, _, size = (tf.gather(column, blocks) for column in self._index)
        wanted = Blocks(tf.gather(self._paths, shard), offset, records, size)
        serialized = read_blocks(
            wanted, open_blocks=self._open_blocks, parallel=self._parallel, skip_corrupt=self._skip_corrupt
        )
        return warn_of_damage(wanted, serialized) if self._skip_corrupt else serialized

    def rows(self, blocks: tf.Tensor, block: tf.Tensor) -> tuple[Rows, tf.Tensor]:
        values, counts = parse(self.records(blocks), self._frame.features)
        return self.find(values, counts, blocks), block

    def find(self, values: tf.Tensor, counts: tf.Tensor, blocks: tf.Tensor) -> Rows:
        """The windows of the blocks in these rows.

        Raises:
          tf.errors.InvalidArgumentError: if there are others than the index says, and damaged blocks are
            not passed over.
        """
        records = tf.gather(self._index.records, blocks)
        whole = tf.debugging.assert_equal(tf.size(counts, tf.int64), tf.reduce_sum(records) + 1, MISMATCH)
        with tf.control_dependencies([whole] if whole is not None else []):
            rows = find_windows(values, tf.identity(counts), records, self._frame)
        if self._skip_corrupt:
            return rows
        same = tf.debugging.assert_equal(rows.windows, tf.gather(self._index.windows, blocks), MISMATCH)
        with tf.control_dependencies([same] if same is not None else []):
            return rows._replace(starts=tf.identity(rows.starts))


class Memory:
    """Holds all rows of the shards, read once: those of other workers as well, as each epoch shares them out anew."""

    def __init__(self, shards: Shards, index: Index, rows: int, features: int):
        values = np.empty([rows, features], np.float32)
        counts, filled = [], 0

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
        def read(blocks: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return parse(shards.records(blocks), features)

        groups = np.flatnonzero(np.diff(np.cumsum(index.bytes) // GROUP_BYTES, prepend=-1))
        for blocks in np.split(np.arange(len(index.bytes)), groups[1:]):
            some, lengths = (part.numpy() for part in read(blocks))
            values[filled : filled + len(some)] = some
            filled += len(some)
            counts.append(lengths[:-1])  # the last record is the empty one
        counts.append(np.zeros(1, np.int64))
        everything = tf.range(len(index.bytes), dtype=tf.int64)
        self._rows = shards.find(tf.constant(values[:filled]), tf.constant(np.concatenate(counts)), everything)

    def rows(self, blocks: tf.Tensor, block: tf.Tensor) -> tuple[Rows, tf.Tensor]:
        return self._rows, tf.where(block < 0, block, tf.gather(tf.concat([blocks, [0]], 0), tf.maximum(block, 0)))
