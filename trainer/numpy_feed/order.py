"""The order of windows that `beamfeed.trainer.feed.sampler` has, computed in NumPy.

That module says what lanes and rounds are, and why TensorFlow computes them in its graph. Here nobody waits for
Python's lock inside of tf.data, and PyTorch's users have no TensorFlow. A test compares the two, round by round.
"""

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from beamfeed.trainer.feed.sharding import Share
from beamfeed.trainer.feed.shards import Index
from beamfeed.trainer.numpy_feed.philox import fold_in, shuffled


class Line(NamedTuple):
    """An epoch's windows in one line.

    Attributes:
      order: int64 `[blocks]`, the numbers of the blocks, in their order.
      first: int64 `[blocks + 1]`, the place in the line of the first window of each.
    """

    order: np.ndarray
    first: np.ndarray


class Round(NamedTuple):
    """A worker's part of some global batches that follow each other.

    Attributes:
      blocks: int64 `[blocks]`, those to read, as numbers of the index.
      block: int64 `[batches, rows]`, the place in `blocks` that each window comes from; -1 is padding.
      window: int64 `[batches, rows]`, which of the block's windows it is.
    """

    blocks: np.ndarray
    block: np.ndarray
    window: np.ndarray


@dataclass(frozen=True)
class Order:
    """The order of one worker's windows; the attributes are those of `beamfeed.trainer.feed.sampler.Order`."""

    index: Index
    share: Share
    steps: int
    round_steps: int
    lanes: int
    seed: int | None

    def line(self, epoch: int) -> Line:
        """The line of an epoch."""
        order = np.arange(len(self.index.windows))
        if self.seed is not None:
            order = shuffled(self._key(epoch)[None], len(order))[0]
        return Line(order, np.concatenate([[0], np.cumsum(self.index.windows[order])]))

    def round(self, line: Line, epoch: int, number: int, batches: np.ndarray | slice = slice(None)) -> Round:
        """A worker's part of one round.

        Args:
          line: of the epoch.
          epoch: its number.
          number: of the round in the epoch.
          batches: which of the round's are wanted.
        """
        begin = number * self.round_steps
        count = min(self.round_steps, self.steps - begin)
        place = np.concatenate(self._places(begin, count, epoch, number), axis=1)[batches]
        there = place < line.first[-1]
        in_line = np.searchsorted(line.first, place[there], side="right") - 1
        needed, inverse = np.unique(in_line, return_inverse=True)
        block, window = np.full(place.shape, -1), np.zeros(place.shape, np.int64)
        block[there], window[there] = inverse, place[there] - line.first[in_line]
        return Round(line.order[needed], block, window)

    def _places(self, begin: int, count: int, epoch: int, number: int) -> list[np.ndarray]:
        """Where in the line this worker's windows of a round are, for each of its lanes int64 `[batches, rows]`."""
        size, share = self.share.batch_size, self.share
        edges = [lane * size // self.lanes for lane in range(self.lanes + 1)]
        own = [
            (lane, top, end)
            for lane, (top, end) in enumerate(itertools.pairwise(edges))
            if top < share.end and end > share.first
        ]
        orders = self._orders([(lane, count * (end - top)) for lane, top, end in own], epoch, number)
        return [
            self.steps * top
            + begin * (end - top)
            + orders[lane].reshape(count, end - top)[:, max(share.first, top) - top : min(share.end, end) - top]
            for lane, top, end in own
        ]

    def _orders(self, lanes: list[tuple[int, int]], epoch: int, number: int) -> dict[int, np.ndarray]:
        """The order of each lane's piece of a round, by its lane and size; those of one size are drawn together."""
        if self.seed is None:
            return {lane: np.arange(size) for lane, size in lanes}
        key = fold_in(self._key(epoch), number + 1)
        found: dict[int, np.ndarray] = {}
        for size in {size for _, size in lanes}:
            same = [lane for lane, one in lanes if one == size]
            found |= dict(zip(same, shuffled(fold_in(key, np.array(same), bits=32), size), strict=True))
        return found

    def _key(self, epoch: int) -> np.ndarray:
        seed = ((self.seed or 0) + 2**63) % 2**64 - 2**63  # of 64 bits
        return fold_in(np.array([0, seed], np.int64), epoch)
