"""Serialized records -> windows. Windows are indices until the last step, `gather`."""

import math
from typing import NamedTuple

import tensorflow as tf

from beamfeed.contract.dataset.windows import count_windows, first_row

MISMATCH = "the windows in the shards differ from the manifest"


class Frame(NamedTuple):
    """The shape of a window, and the rows from one to the next."""

    length: int
    stride: int
    features: int

    @property
    def bytes(self) -> int:
        """Of one window of float32."""
        return 4 * self.length * self.features


class Rows(NamedTuple):
    """The rows of some blocks, and where windows are in them.

    Attributes:
      values: float32 `[rows, features]`.
      starts: int64 `[windows]`, the rows at which windows start.
      first: int64 `[blocks]`, how many windows are before each block's.
      windows: int64 `[blocks]`, how many each block has.
      piece: int64 scalar, rows that can be copied as one: all windows start and end at multiples of it.
    """

    values: tf.Tensor
    starts: tf.Tensor
    first: tf.Tensor
    windows: tf.Tensor
    piece: tf.Tensor


def parse(serialized: tf.Tensor, features: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Strings `[records]` -> their rows, float32 `[rows, features]`, and how many rows each has, int64 `[records]`.

    An empty string is a record without rows.
    """
    spec = {"values": tf.io.RaggedFeature(tf.float32, row_splits_dtype=tf.int64)}
    values = tf.io.parse_example(serialized, spec)["values"]
    return tf.reshape(values.flat_values, [-1, features]), values.row_lengths() // features


def find_windows(values: tf.Tensor, counts: tf.Tensor, records: tf.Tensor, frame: Frame) -> Rows:
    """Where the windows of some blocks are.

    Args:
      values: the rows, float32 `[rows, features]`.
      counts: rows of each record, int64 `[records]`.
      records: of each block, int64 `[blocks]`; records after the last block's have no rows.
      frame: the shape of a window.
    """
    in_record = count_windows(counts, frame.length, frame.stride)
    windows = tf.ragged.range(in_record)
    begins = tf.cumsum(counts, exclusive=True)  # the row at which each record begins
    starts = first_row(windows.flat_values, frame.stride) + tf.gather(begins, windows.value_rowids())
    before = tf.concat([[0], tf.cumsum(in_record)], 0)  # windows before each record
    edges = tf.gather(before, tf.concat([[0], tf.cumsum(records)], 0))
    return Rows(values, starts, edges[:-1], edges[1:] - edges[:-1], piece_rows(counts, frame))


def piece_rows(counts: tf.Tensor, frame: Frame) -> tf.Tensor:
    """The rows that can be copied as one piece: all windows start and end at multiples of it.

    A segment holds the rows of its windows and no more, so this is the greatest
    common divisor of length and stride, unless somebody else wrote the records.
    """
    piece = math.gcd(frame.length, frame.stride)
    return tf.where(tf.reduce_all(counts % piece == 0), tf.constant(piece, tf.int64), tf.constant(1, tf.int64))


def locate_windows(rows: Rows, block: tf.Tensor, window: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The starts of windows, int64 `[windows]`, and whether each is there, bool `[windows]`.

    Args:
      rows: of the blocks, as `find_windows` gives them.
      block: the place of each window's block, -1 where there is no window.
      window: which of the block's windows it is.
    """
    # One block and one window more, without rows: what is not there is looked up in them.
    have = tf.gather(tf.concat([rows.windows, [0]], 0), tf.maximum(block, 0))
    first = tf.gather(tf.concat([rows.first, [0]], 0), tf.maximum(block, 0))
    there = (block >= 0) & (window < have)
    place = tf.where(there, first + window, 0)
    return tf.gather(tf.concat([rows.starts, [0]], 0), place), there


def replace_missing(starts: tf.Tensor, there: tf.Tensor) -> tf.Tensor:
    """Puts the windows that are there in the place of those that are not, in turn.

    Raises:
      tf.errors.InvalidArgumentError: if none is there.
    """
    found = tf.boolean_mask(starts, there)
    count = tf.size(found, tf.int64)
    with tf.control_dependencies([tf.debugging.assert_positive(count, MISMATCH)]):
        others = tf.gather(found, tf.range(tf.size(starts, tf.int64)) % count)
    return tf.where(there, starts, others)


def point_to_zeros(rows: Rows, starts: tf.Tensor, there: tf.Tensor, frame: Frame) -> tuple[tf.Tensor, tf.Tensor]:
    """Adds a window of zeros behind the rows, and points to it where no window is: values and starts."""
    values = tf.concat([rows.values, tf.zeros([frame.length, frame.features])], 0)
    return values, tf.where(there, starts, tf.shape(rows.values, tf.int64)[0])


def gather(values: tf.Tensor, starts: tf.Tensor, piece: tf.Tensor, frame: Frame) -> tf.Tensor:
    """The windows that start at `starts`: float32 `[windows, length, features]`.

    Copies pieces and not rows: with length 64 and stride 16, 4 a window.
    """
    pieces = tf.reshape(values, tf.stack([-1, piece * frame.features]))
    index = (starts // piece)[:, None] + tf.range(frame.length // piece)[None]
    return tf.reshape(tf.gather(pieces, index), [-1, frame.length, frame.features])
