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

It is written in operations that NumPy and TensorFlow's graph both have, in whole numbers, so it is the same in both.
For tf.data it is computed in the graph: a thread of it that asked Python could wait for ever for a main thread that
waits for it. PyTorch's users have no TensorFlow.

    blocks, in the epoch's order   |  7   |    2    |  5 |   0   |   3   | ...
    lanes                          |      0     |     1     |      2     | ...
    rounds of a lane               |  0 |  1 |2 |  0 |  1 |2|
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from beamfeed.trainer.feed.sharding import Share
from beamfeed.trainer.feed.shards import Index
from beamfeed.trainer.operations import GOLDEN, NUMPY, Array, Operations, mix

MIXINGS = 3  # with fewer, tests tell permutations from chance
LEAST_BITS = 8  # of the numbers that are permuted: of fewer, some permutations come more often than others


class Line(NamedTuple):
    """An epoch's windows in one line.

    Attributes:
      order: int64 `[blocks]`, the numbers of the blocks, in their order.
      first: int64 `[blocks]`, the place in the line of the first window of each.
      state: uint64 `[1]`, of the random numbers that its rounds are permuted by.
    """

    order: Array
    first: Array
    state: Array


class Round(NamedTuple):
    """A worker's part of some global batches that follow each other.

    Attributes:
      blocks: int64 `[blocks]`, those to read, as numbers of the index, each once.
      first: int64 `[blocks]`, the place in the line of the first window of each.
      block: integers `[windows]`, the place in `blocks` that each window comes from, batch after batch.
      place: int64 `[windows]`, the window's place in the line.
      present: bool `[windows]`, false for padding, which has the block and the place of the last window of the line.
    """

    blocks: Array
    first: Array
    block: Array
    place: Array
    present: Array


class Rows(NamedTuple):
    """A worker's rows of a global batch, int64 `[rows]` each.

    Attributes:
      lane: which lane fills it.
      top: the first row of that lane.
      width: how many rows that lane fills.
      within: which of them it is.
    """

    lane: np.ndarray
    top: np.ndarray
    width: np.ndarray
    within: np.ndarray


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
      operations: what it is computed with.
    """

    index: Index
    share: Share
    steps: int
    round_steps: int
    lanes: int
    seed: int | None
    operations: Operations = NUMPY

    @property
    def rounds(self) -> int:
        """Rounds in an epoch; the last one may have fewer batches."""
        return -(-self.steps // self.round_steps)

    def line(self, epoch: Array | int) -> Line:
        """The line of an epoch, an int64 scalar."""
        ops, blocks = self.operations, len(self.index.windows)
        seed = mix(np.array([(self.seed or 0) % 2**64], np.uint64), np.right_shift)
        state = mix(seed ^ ops.cast(epoch, np.uint64), ops.shift)
        if self.seed is None:
            order = ops.range(0, blocks, 1)
        else:
            order = ops.cast(permutations(state, np.zeros(1, np.uint64), np.array([blocks]), blocks, ops), np.int64)
        windows = ops.gather(self.index.windows, order)
        return Line(order, ops.cumsum(windows) - windows, state)

    def round(self, line: Line, number: Array | int, skip: Array | int = 0, stride: int = 1) -> Round:
        """A worker's part of one round.

        Args:
          line: of the epoch.
          number: int64 scalar, of the round in the epoch.
          skip: batches of the round to leave out at its begin.
          stride: of the others each so many-th is wanted.
        """
        ops, rows = self.operations, self._rows
        begin = number * self.round_steps
        count = ops.minimum(self.steps - begin, self.round_steps)
        first = self.steps * rows.top + begin * rows.width  # in the line, of what the lane gives to the round
        at = ops.range(skip, count, stride)[:, None] * rows.width
        if self.seed is None:
            place = ops.flat(at + (rows.within + first))
        else:
            lanes, tops = np.unique(rows.lane, return_index=True)
            nth, sizes = (number + 1) * self.lanes + lanes, count * rows.width[tops]
            most = min(self.steps, self.round_steps) * int(rows.width.max())
            numbers = permutations(line.state, nth, sizes, most, ops)
            place = ops.gather(numbers, at + (rows.within + count * (rows.top - rows.top[0])))
            place = ops.flat(ops.cast(place, np.int64) + first)
        present = place <= self._last
        place = ops.minimum(place, self._last)
        needed, block = ops.unique(ops.search(line.first, place) - 1)
        return Round(ops.gather(line.order, needed), ops.gather(line.first, needed), block, place, present)

    def blocks(self) -> np.ndarray:
        """The numbers of the blocks that this worker may need, int64; where each epoch has another order, all."""
        windows, rows = self.index.windows, self._rows
        if self.seed is not None:
            return np.arange(len(windows))
        low = np.minimum(self.steps * rows.top, self._last)
        high = np.maximum(self.steps * (rows.top + rows.width), low + 1)
        end = np.cumsum(windows)
        needed = [(end > first) & (end - windows < last) for first, last in set(zip(low, high, strict=True))]
        return np.flatnonzero(np.any(needed, axis=0) & (windows > 0))

    @cached_property
    def _rows(self) -> Rows:
        edges = np.arange(self.lanes + 1) * self.share.batch_size // self.lanes
        row = np.arange(self.share.first, self.share.end)
        lane = np.searchsorted(edges, row, side="right") - 1
        return Rows(lane, edges[lane], edges[lane + 1] - edges[lane], row - edges[lane])

    @cached_property
    def _last(self) -> int:
        """The last place in the line. Padding is looked up there, so it takes a round one block more at most."""
        return int(self.index.windows.sum()) - 1


def permutations(state: Array, nth: Array, sizes: Array, most: int, ops: Operations) -> Array:
    """The numbers from 0 to below each size in an order by chance, one permutation after the other.

    All numbers of so many bits are sent through functions that give each of them once. A shift brings higher bits into
    lower ones; what RC6 does (Rivest, Robshaw, Sidney, Yin 1998), x (2x + an odd number), brings lower bits into higher
    ones. Those that are below the size are kept.

    Args:
      state: uint64 `[1]`, of random numbers.
      nth: int64 `[permutations]`, which of those that may be drawn from this state.
      sizes: int64 `[permutations]`.
      most: what no size is above.
      ops: the operations.

    Returns:
      uint32 `[sum of the sizes]`.
    """
    bits = max(LEAST_BITS, (most - 1).bit_length())
    # Times the first, only the lowest `bits` are left: faster in the graph than `&`.
    top, down = (ops.constant(np.uint32(number)) for number in (1 << 32 - bits, 32 - bits // 2))
    draw = ops.cast(nth, np.uint64) * np.uint64(MIXINGS) + np.arange(MIXINGS, dtype=np.uint64)[:, None]
    draws = mix(state + draw * GOLDEN, ops.shift)[..., None]  # `[mixings, permutations, 1]`
    terms, factors = ops.cast(ops.shift(draws, np.uint64(32)), np.uint32), ops.cast(draws, np.uint32) | np.uint32(1)
    numbers = ops.cast(ops.range(0, 1 << bits, 1), np.uint32)
    for term, factor in zip(ops.unstack(terms), ops.unstack(factors), strict=True):
        numbers = numbers ^ ops.shift(numbers * top, down)
        numbers = numbers + term
        numbers = numbers * (numbers + numbers + factor)
    numbers = numbers & np.uint32((1 << bits) - 1)
    return ops.mask(numbers, numbers < ops.cast(sizes, np.uint32)[:, None])
