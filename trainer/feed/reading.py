"""Which rounds of an order a feed reads, from any step on, and how its batches leave it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from beamfeed.trainer.feed.sampler import Line, Order

LAST = np.iinfo(np.int64).max
PREFETCH_BYTES = 8 << 20  # of batches made ready, but at least two; tf.data's own choice grows to hundreds of MB
PREFETCH_BATCHES = 64  # at most: thousands of tiny ones would be read for minutes, and many epochs of a small split
# No function of the feed has Python's control flow on tensors: to look for it takes seconds at the start of each run.
as_written = tf.autograph.experimental.do_not_convert


@dataclass(frozen=True)
class Reading:
    """The rounds that are read of an order.

    Attributes:
      order: of the epochs' windows.
      start: the first epoch that is read, and the first of its batches.
      epochs: how many; None reads without end.

    Raises:
      ValueError: if there is no such start.
    """

    order: Order
    start: tuple[int, int]
    epochs: int | None

    def __post_init__(self) -> None:
        steps = self.order.steps
        if min(self.start) < 0 or (self.epochs is not None and self.start[1] > self.epochs * steps):
            raise ValueError(
                f"start is {self.start}, there are {steps} batches in each of {self.epochs or 'many'} epochs"
            )

    def rounds(
        self, read: Callable[[tf.Tensor, tf.Tensor, Line, tf.Tensor], Any], threads: int | None
    ) -> tf.data.Dataset:
        """What `read` makes of each round.

        Args:
          read: of the epoch and the round's number in it, int64 scalars; the line of the epoch; and how many batches of
            the round to leave out, an int64 scalar.
          threads: that call it at a time; None: the one that asks.
        """
        order, (epoch, step) = self.order, self.start
        first_epoch = epoch + step // order.steps
        begin, skip = divmod(step % order.steps, order.round_steps)
        last_epoch = LAST if self.epochs is None else epoch + self.epochs

        @as_written
        def to_rounds(epoch: tf.Tensor) -> tf.data.Dataset:
            line = order.line(epoch)
            first = tf.where(epoch == first_epoch, tf.constant(begin, tf.int64), 0)
            # What a function only passes on costs nothing.
            return tf.data.Dataset.range(first, order.rounds).map(lambda number: (epoch, number, line))

        @as_written
        def read_round(epoch: tf.Tensor, number: tf.Tensor, line: Line) -> Any:
            resumed = (epoch == first_epoch) & (number == begin)
            return read(epoch, number, line, tf.where(resumed, tf.constant(skip, tf.int64), 0))

        rounds = tf.data.Dataset.range(first_epoch, last_epoch).flat_map(to_rounds)
        return rounds.map(read_round, num_parallel_calls=threads, deterministic=True if threads else None)

    def finish(self, batches: tf.data.Dataset, row_bytes: int, prefetch: bool = True) -> tf.data.Dataset:
        """The batches of this worker's replicas, with their number, some of them made ready.

        Args:
          batches: one of each replica after the other.
          row_bytes: of a row of them, about.
          prefetch: whether batches are made ready while others are used.
        """
        share = self.order.share
        replicas = share.of.replicas
        left = None if self.epochs is None else self.epochs * self.order.steps - self.start[1]
        size = tf.data.INFINITE_CARDINALITY if left is None else left * replicas
        batches = batches.apply(tf.data.experimental.assert_cardinality(size))
        if prefetch:
            ready = min(PREFETCH_BYTES // (max(share.replica_sizes) * row_bytes), PREFETCH_BATCHES * replicas)
            batches = batches.prefetch(max(2 * replicas, ready))
        options = tf.data.Options()
        options.deterministic = True
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        return batches.with_options(options)
