"""The order of a training run's windows: which of them make up which global batch.

In each epoch the blocks of a split (runs of records, see `beamfeed.contract.dataset.blocks`)
are put in another order, and their windows are thought of as one long line. The
line is cut into lanes of equal length, and each lane fills its own rows of every
global batch: of a batch of 256 and 16 lanes, the third lane fills rows 32 to 47.
So a worker reads the lanes that its rows come from, and no more.

A round is some batches that follow each other. What a lane gives to a round is a
piece of its line, and that piece is permuted. So which windows a step gets is a
function of manifest, seed, epoch and step alone: it does not depend on the number
of workers, and reading can begin at any step without reading what comes before.

It is computed in the graph: a tf.data thread that asked Python could wait for ever
for a main thread that waits for it.

    blocks, in the epoch's order   |  7   |    2    |  5 |   0   |   3   | ...
    lanes                          |      0     |     1     |      2     | ...
    rounds of a lane               |  0 |  1 |2 |  0 |  1 |2|
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from beamfeed.trainer.feed.sharding import Share
from beamfeed.trainer.feed.shards import Index


class Line(NamedTuple):
    """An epoch's windows in one line.

    Attributes:
      order: int64 `[blocks]`, the numbers of the blocks, in their order.
      first: int64 `[blocks + 1]`, the place in the line of the first window of each.
    """

    order: tf.Tensor
    first: tf.Tensor


class Round(NamedTuple):
    """A worker's part of some global batches that follow each other.

    Attributes:
      blocks: int64 `[blocks]`, those to read, as numbers of the index.
      block: int64 `[windows]`, the place in `blocks` that each window comes from, batch after batch; -1 is padding.
      window: int64 `[windows]`, which of the block's windows it is.
    """

    blocks: tf.Tensor
    block: tf.Tensor
    window: tf.Tensor


@dataclass(frozen=True)
class Order:
    """The order of one worker's windows.

    Attributes:
      index: the blocks of the split.
      share: which rows of each global batch are this worker's.
      steps: global batches in an epoch.
      round_steps: global batches in a round.
      lanes: pieces that an epoch's line of windows is cut into; at most one for each row of a batch.
      seed: of the order; None keeps that of the manifest.
    """

    index: Index
    share: Share
    steps: int
    round_steps: int
    lanes: int
    seed: int | None

    @property
    def rounds(self) -> int:
        """Rounds in an epoch; the last one may have fewer batches."""
        return -(-self.steps // self.round_steps)

    def line(self, epoch: tf.Tensor) -> Line:
        """The line of an epoch, an int64 scalar."""
        order = tf.range(len(self.index.windows), dtype=tf.int64)
        if self.seed is not None:
            order = tf.random.experimental.stateless_shuffle(order, self._key(epoch))
        windows = tf.gather(tf.constant(self.index.windows), order)
        return Line(order, tf.concat([[0], tf.cumsum(windows)], 0))

    def round(self, line: Line, epoch: tf.Tensor, number: tf.Tensor, skip: tf.Tensor | int = 0) -> Round:
        """A worker's part of one round.

        Args:
          line: of the epoch.
          epoch: int64 scalar, its number.
          number: int64 scalar, of the round in the epoch.
          skip: batches of the round to leave out.
        """
        begin = number * self.round_steps
        count = tf.minimum(tf.constant(self.round_steps, tf.int64), self.steps - begin)
        key = None if self.seed is None else tf.random.fold_in(self._key(epoch), number + 1)
        places = tf.concat([self._places(lane, begin, count, key) for lane in self._own_lanes()], axis=1)
        place = tf.reshape(places[skip:], [-1])
        there = place < line.first[-1]
        place = tf.where(there, place, self._filler())
        in_line = tf.searchsorted(line.first, place, side="right", out_type=tf.int64) - 1
        needed, block = tf.unique(in_line, out_idx=tf.int64)
        window = tf.where(there, place - tf.gather(line.first, in_line), 0)
        return Round(tf.gather(line.order, needed), tf.where(there, block, -1), window)

    def _places(self, lane: int, begin: tf.Tensor, count: tf.Tensor, key: tf.Tensor | None) -> tf.Tensor:
        """Where in the line this worker's windows of a lane and round are, int64 `[batches, rows]`."""
        size, share = self.share.batch_size, self.share
        top, end = lane * size // self.lanes, (lane + 1) * size // self.lanes  # its rows of a batch
        rows = end - top
        places = tf.range(count * rows)
        if key is not None:
            places = tf.random.experimental.stateless_shuffle(places, tf.random.fold_in(key, lane))
        mine = slice(max(share.first, top) - top, min(share.end, end) - top)
        return self.steps * top + begin * rows + tf.reshape(places, [-1, rows])[:, mine]

    def blocks(self) -> np.ndarray:
        """The numbers of the blocks that this worker may need, int64; where each epoch has another order, all."""
        numbers = np.arange(len(self.index.windows))
        if self.seed is not None:
            return numbers
        size, ends = self.share.batch_size, np.cumsum(self.index.windows)
        starts, needed = ends - self.index.windows, np.zeros(len(numbers), bool)
        for lane in self._own_lanes():
            first, end = (self.steps * (edge * size // self.lanes) for edge in (lane, lane + 1))
            first = min(first, self._filler())
            needed |= (starts < max(end, first + 1)) & (ends > first)
        return numbers[needed & (self.index.windows > 0)]

    def _filler(self) -> int:
        """A place in the line that stands for what is not there: one that this worker reads, if there is any."""
        first = self.steps * (self._own_lanes()[0] * self.share.batch_size // self.lanes)
        return min(first, int(self.index.windows.sum()) - 1)

    def _own_lanes(self) -> range:
        """The lanes that fill rows of this worker."""
        size, share = self.share.batch_size, self.share
        low = next(lane for lane in range(self.lanes) if (lane + 1) * size // self.lanes > share.first)
        high = next(lane for lane in range(low, self.lanes) if (lane + 1) * size // self.lanes >= share.end)
        return range(low, high + 1)

    def _key(self, epoch: tf.Tensor) -> tf.Tensor:
        seed = ((self.seed or 0) + 2**63) % 2**64 - 2**63  # of 64 bits
        return tf.random.fold_in(tf.constant([0, seed], tf.int64), epoch)
