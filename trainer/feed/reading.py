"""Which rounds of an order a feed reads, from any step on, and how they become its batches."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from beamfeed.trainer.feed.batching import Batching
from beamfeed.trainer.feed.order import Line, Order

LAST = np.iinfo(np.int64).max
PREFETCH_BYTES = 8 << 20  # of batches made ready, but at least two; tf.data's own choice grows to hundreds of MB
PREFETCH_BATCHES = 64  # at most: thousands of tiny ones would be read for minutes, and many epochs of a small split
# No function of the feed has Python's control flow on tensors: to look for it takes seconds at the start of each run.
as_written = tf.autograph.experimental.do_not_convert


@dataclass(frozen=True)
class Reading:
    """The rounds that are read of an order, that of a `Batching`, and the batches that are cut of them."""

    order: Order
    batching: Batching

    def rounds(self, read: Callable[[tf.Tensor, tf.Tensor, Line, tf.Tensor], Any]) -> tf.data.Dataset:
        """What `read` makes of each round.

        Args:
          read: of the epoch and the round's number in it, int64 scalars; the line of the epoch; and how many batches of
            the round to leave out, an int64 scalar.
        """
        order, epochs, tuning = self.order, self.batching.epochs, self.batching.options.tuning
        epoch, step = self.batching.options.start
        first_epoch = epoch + step // order.steps
        begin, skip = divmod(step % order.steps, order.round_steps)
        last_epoch = LAST if epochs is None else epoch + epochs

        @as_written
        def to_rounds(epoch: tf.Tensor) -> tf.data.Dataset:
            first = tf.where(epoch == first_epoch, tf.constant(begin, tf.int64), 0) if begin else 0
            return _beside_each(tf.data.Dataset.range(first, order.rounds), (epoch, order.line(epoch)))

        @as_written
        def read_round(number: tf.Tensor, of_epoch: tuple[tf.Tensor, Line]) -> Any:
            epoch, line = of_epoch
            left_out = tf.constant(skip, tf.int64)
            if skip:
                resumed = (epoch == first_epoch) & (number == begin)
                left_out = tf.where(resumed, left_out, 0)
            return read(epoch, number, line, left_out)

        rounds = tf.data.Dataset.range(first_epoch, last_epoch).flat_map(to_rounds)
        threads = tuning.rounds if tuning.parallel else None
        return rounds.map(read_round, num_parallel_calls=threads, deterministic=True if threads else None)

    def batches(
        self,
        rounds: tf.data.Dataset,
        count: Callable[..., tf.Tensor],
        cut: Callable[..., Any],
        *,
        chunk: int,
        row_bytes: int,
        one_by_one: bool = False,
    ) -> tf.data.Dataset:
        """The batches of this worker's replicas, one of each after the other, some of them made ready.

        Args:
          rounds: that are cut.
          count: (components of a round) -> its rows, an int64 scalar.
          cut: (first, the components of a round) -> some of its rows, in batches' structure: `chunk` of them from the
            row `first` on, an int64 scalar; with `one_by_one` a single one, without an axis for it.
          chunk: rows that are cut off at a time.
          row_bytes: of a row, about.
          one_by_one: whether `chunk` is 1, and all replicas have as many rows. To put rows together that come one by
            one takes less time than to cut and join batches of one.
        """
        share, tuning = self.order.share, self.batching.options.tuning
        replicas = share.of.replicas

        @as_written
        def to_chunks(*components: Any) -> tf.data.Dataset:
            return _beside_each(tf.data.Dataset.range(0, count(*components), chunk), components)

        @as_written
        def cut_chunk(first: tf.Tensor, components: tuple[Any, ...]) -> Any:
            return cut(first, *components)

        threads = tf.data.AUTOTUNE if tuning.parallel else None
        chunks = rounds.flat_map(to_chunks)
        rows = chunks.map(cut_chunk, num_parallel_calls=threads, deterministic=True if threads else None)
        batches = (
            rows.batch(share.replica_sizes[0], drop_remainder=True)
            if one_by_one
            else rows.rebatch(share.replica_sizes, drop_remainder=True)
        )
        left = self.batching.left(self.order.steps)
        size = tf.data.INFINITE_CARDINALITY if left is None else left * replicas
        batches = batches.apply(tf.data.experimental.assert_cardinality(size))
        if tuning.prefetch:
            ready = min(PREFETCH_BYTES // (max(share.replica_sizes) * row_bytes), PREFETCH_BATCHES * replicas)
            batches = batches.prefetch(max(2 * replicas, ready))
        options = tf.data.Options()
        options.deterministic = True
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        return batches.with_options(options)


def _beside_each(numbers: tf.data.Dataset, others: Any) -> tf.data.Dataset:
    """Pairs of a number and the others, not copied; a function that passes them on would have to be traced."""
    return tf.data.Dataset.zip(numbers, tf.data.Dataset.from_tensors(others).repeat())
