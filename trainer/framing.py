"""Pools of records -> windows. Windows are indices until the last step, `gather`."""

import math
from typing import NamedTuple

import tensorflow as tf

from trainer.shares import Share


class Frame(NamedTuple):
    """The shape of a window, and the rows from one to the next."""

    length: int
    stride: int
    features: int

    @property
    def bytes(self) -> int:
        """Of one window of float32."""
        return 4 * self.length * self.features


def parse(serialized: tf.Tensor, features: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Strings `[records]` -> their rows, float32 `[rows, features]`, and how many rows each has, int64 `[records]`."""
    spec = {"values": tf.io.RaggedFeature(tf.float32, row_splits_dtype=tf.int64)}
    values = tf.io.parse_example(serialized, spec)["values"]
    return tf.reshape(values.flat_values, [-1, features]), values.row_lengths() // features


def find_starts(counts: tf.Tensor, frame: Frame, key: tf.Tensor | None) -> tf.Tensor:
    """The rows at which the windows of a pool start, int64 `[windows]`, permuted if there is a key.

    Args:
      counts: rows of each record, int64 `[records]`.
    """
    windows = tf.ragged.range(tf.maximum((counts - frame.length) // frame.stride + 1, 0))
    first = tf.cumsum(counts, exclusive=True)
    starts = windows.flat_values * frame.stride + tf.gather(first, windows.value_rowids())
    return starts if key is None else tf.random.experimental.stateless_shuffle(starts, key)


def block_rows(counts: tf.Tensor, frame: Frame) -> tf.Tensor:
    """The rows that can be copied as one piece: all windows of the pool start and end at multiples of it.

    A segment holds the rows of its windows and no more, so this is the greatest
    common divisor of length and stride, unless somebody else wrote the records.
    """
    block = math.gcd(frame.length, frame.stride)
    return tf.where(tf.reduce_all(counts % block == 0), tf.constant(block, tf.int64), tf.constant(1, tf.int64))


def gather(rows: tf.Tensor, starts: tf.Tensor, block: tf.Tensor, frame: Frame) -> tf.Tensor:
    """The windows that start at `starts`: float32 `[windows, length, features]`.

    Copies blocks and not rows: with length 64 and stride 16, 4 pieces a window.
    """
    blocks = tf.reshape(rows, tf.stack([-1, block * frame.features]))
    index = (starts // block)[:, None] + tf.range(frame.length // block)[None]
    return tf.reshape(tf.gather(blocks, index), [-1, frame.length, frame.features])


def take_share(pools: tf.data.Dataset, share: Share, limit: int, windows: int, chunk: int) -> tf.data.Dataset:
    """Keeps the starts that are this worker's, and cuts them into chunks that end where its batches do.

    Only the first `limit` windows are kept, and the pools are read until `windows` have been seen.

    Args:
      pools: of (rows, starts, block).
      chunk: windows gathered at a time, a multiple of `share.size`.

    Returns:
      A data set of (rows, starts, block, first, end): a chunk is `starts[first:end]`, at most `chunk` windows.
    """

    def own(seen: tf.Tensor, pool: tuple) -> tuple:
        rows, starts, block = pool
        place = seen + tf.range(tf.size(starts, tf.int64))
        if share.workers == 1:
            mine = starts[: tf.maximum(limit - seen, 0)]
        else:
            row = place % share.batch
            mine = tf.boolean_mask(starts, (row >= share.first) & (row < share.end) & (place < limit))
        filled = tf.clip_by_value(seen % share.batch - share.first, 0, share.size) % share.size
        return seen + tf.size(starts, tf.int64), (seen, rows, mine, block, filled)

    def cut(_: tf.Tensor, rows: tf.Tensor, starts: tf.Tensor, block: tf.Tensor, filled: tf.Tensor) -> tf.data.Dataset:
        # The first chunk completes the batch that the pool before has begun, so
        # that batches are copied once more only where two pools meet.
        count = (filled + tf.size(starts, tf.int64) + chunk - 1) // chunk
        edges = tf.maximum(tf.range(count + 1) * chunk - filled, 0)
        chunks = tf.data.Dataset.from_tensor_slices((edges[:-1], edges[1:]))
        # What a function only passes on costs nothing; slicing here would run it for each chunk.
        return chunks.map(lambda first, end: (rows, starts, block, first, end))

    owned = pools.scan(tf.constant(0, tf.int64), own).take_while(lambda seen, *_: seen < windows)
    return owned.flat_map(cut)


def pad(windows: tf.data.Dataset, share: Share, count: int, frame: Frame) -> tf.data.Dataset:
    """Exactly `count` batches of windows and weights; zeros of weight 0 follow the last window."""
    weighted = windows.map(lambda batch: (batch, tf.ones(tf.shape(batch)[:1])))
    zeros = (tf.zeros([share.size, frame.length, frame.features]), tf.zeros([share.size]))
    filled = weighted.concatenate(tf.data.Dataset.from_tensors(zeros).repeat())
    # Zipped with a range and not taken: this asks for one batch too many, and a
    # cache upstream is complete only when its end has been asked for.
    batches = filled.rebatch(share.replica_sizes, drop_remainder=True)
    return tf.data.Dataset.zip((batches, tf.data.Dataset.range(count))).map(lambda batch, _: batch)
