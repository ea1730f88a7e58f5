"""Cuts preprocessed rows into runs, and runs into segments that hold whole windows.

A window is `length` rows that follow each other: no gap, no dropped row and no
end of a split among them. It starts at an absolute position (row of the asset, or
step of the time grid) that is a multiple of `stride`. A segment is the rows of some
windows that follow each other in one run; each window is in exactly one segment.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.windows import count_rows, count_windows, end_window, first_row, first_window
from beamfeed.transforms.sources.timeseries.rows import Rows

SEGMENT_BYTES = 64 << 10
MAX_SEGMENT_BYTES = 4 << 20
BLOCK_BYTES = 8 << 20  # of float32: what the kernels work on at a time

Owned = tuple[int | None, int | None]  # positions [start, end) at which windows begin; None is open
ALL: Owned = (None, None)


@dataclass(frozen=True)
class Windowing:
    """Sizes that follow from the windows and the number of features, all in rows.

    Blocks are what the kernels see at a time: the windows that start in
    [k * block, (k + 1) * block), with `before` rows more in front and `after`
    behind, which filling, the last windows and their labels need: those look `ahead` rows
    further than the end of their window. The last `targets` of a window's `length` rows are
    what is to be forecast.
    """

    length: int
    stride: int
    windows_per_segment: int
    block: int
    before: int
    after: int
    resampled: bool = False
    ahead: int = 0
    targets: int = 0

    @property
    def inputs(self) -> int:
        """Rows of a window that a model gets."""
        return self.length - self.targets

    @property
    def span(self) -> int:
        """Rows between the beginnings of segments: only at multiples of it does a unit begin to own windows."""
        return self.windows_per_segment * self.stride

    @property
    def context(self) -> int:
        """How many rows around those that windows begin at are needed."""
        return self.before + self.after

    @classmethod
    def of(
        cls, windows: Windows, features: int, *, single: bool, fill_rows: int = 0, linear: bool = False,
        resampled: bool = False, ahead: int = 0, targets: int = 0,
    ) -> "Windowing":  # fmt: skip
        """The sizes for a job.

        Args:
          windows: of the dataset, with the rows to be forecast.
          features: columns of a row.
          single: one window per segment (records: windows).
          fill_rows: how far filling looks back, in rows.
          linear: whether filling looks ahead as far.
          resampled: whether positions are steps of a time grid.
          ahead: how far labels look behind the end of a window, in rows.
          targets: rows of a window that are to be forecast.
        """
        row = 4 * features
        # Segments that follow each other share length - stride rows: 16 windows' length keeps that under 7 %.
        rows = min(max(SEGMENT_BYTES // row, 16 * windows.length), max(MAX_SEGMENT_BYTES // row, windows.length))
        per_segment = 1 if single else max(1, count_windows(rows, windows.length, windows.stride))
        span = per_segment * windows.stride
        least = max(BLOCK_BYTES // row, 4 * (windows.length + ahead + 2 * fill_rows))
        return cls(
            length=windows.length,
            stride=windows.stride,
            windows_per_segment=per_segment,
            block=max(1, least // span) * span,
            before=fill_rows,
            after=windows.length - 1 + ahead + (fill_rows if linear else 0),
            resampled=resampled,
            ahead=ahead,
            targets=targets,
        )


@dataclass(frozen=True)
class Segments:
    """Segments as row ranges of a block: segment i is rows [first[i], first[i] + rows[i])."""

    first: np.ndarray  # int64 [segments]
    rows: np.ndarray  # int64 [segments]

    def __len__(self) -> int:
        return len(self.first)


def find_runs(rows: Rows, valid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row ranges [start, end) of the runs: valid rows that follow each other without a gap.

    Args:
      rows: in order of time.
      valid: bool [n], False for rows that are dropped.
    """
    follows = np.zeros(len(rows) + 1, bool)
    follows[1:-1] = valid[1:] & valid[:-1] & ~rows.gap[1:]
    if len(rows) and rows.position[-1] - rows.position[0] >= len(rows):  # they increase, so none is left out otherwise
        follows[1:-1] &= np.diff(rows.position) == 1
    starts = np.flatnonzero(valid & ~follows[:-1])
    ends = np.flatnonzero(valid & ~follows[1:]) + 1
    return starts, ends


def _members(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of groups of so many members each, int64 [members]: the group of each member, and its place in the group."""
    group = np.repeat(np.arange(len(counts)), counts)
    return group, np.arange(len(group)) - np.repeat(np.cumsum(counts) - counts, counts)


@dataclass(frozen=True)
class WindowRuns:
    """Windows of a block that follow each other: run i has `windows[i]`, the first starts at the row `row[i]`."""

    row: np.ndarray  # int64 [runs]
    number: np.ndarray  # int64 [runs], of the first window, counted from position 0
    windows: np.ndarray  # int64 [runs], at least 1

    def starts(self, stride: int) -> tuple[np.ndarray, np.ndarray]:
        """For each window, int64 [windows] each: the row of the block, and the position, that it starts at."""
        run, nth = _members(self.windows)
        return self.row[run] + nth * stride, first_row(self.number[run] + nth, stride)

    def keep(self, keep: np.ndarray, stride: int) -> "WindowRuns":
        """Some of the windows, bool [windows]; a run ends where one is left out."""
        run, nth = _members(self.windows)
        joined = keep[1:] & keep[:-1] & (run[1:] == run[:-1])
        first = np.flatnonzero(keep & ~np.append(False, joined))
        last = np.flatnonzero(keep & ~np.append(joined, False))
        run, nth = run[first], nth[first]
        return WindowRuns(self.row[run] + nth * stride, self.number[run] + nth, last - first + 1)


def find_windows(rows: Rows, valid: np.ndarray, windowing: Windowing, owned: tuple[int, int]) -> WindowRuns:
    """All windows that start at a position in [own[0], own[1]), with the rows behind them that labels need."""
    starts, ends = find_runs(rows, valid)
    stride, position = windowing.stride, rows.position[starts]
    low = first_window(np.maximum(position, owned[0]), stride)
    end = position + (ends - starts) - windowing.ahead
    high = np.minimum(end_window(end, windowing.length, stride), first_window(owned[1], stride))
    full = high > low
    return WindowRuns((starts + first_row(low, stride) - position)[full], low[full], (high - low)[full])


def cut_segments(runs: WindowRuns, windowing: Windowing) -> Segments:
    """The segments of windows that follow each other."""
    stride, per, low = windowing.stride, windowing.windows_per_segment, runs.number
    high = low + runs.windows
    # Segments are cut at multiples of windows_per_segment, so they do not depend on where a block starts.
    pieces = (high - 1) // per - low // per + 1
    run, nth = _members(pieces)
    first = np.maximum(low[run], (low[run] // per + nth) * per)
    last = np.minimum(high[run], (low[run] // per + nth + 1) * per) - 1
    return Segments(
        first=runs.row[run] + first_row(first - low[run], stride),
        rows=count_rows(last - first + 1, windowing.length, stride),
    )


def iter_blocks(
    stream: Iterator[Rows], windowing: Windowing, owned: Owned = ALL
) -> Iterator[tuple[Rows, tuple[int, int]]]:
    """Regroups a stream of rows into blocks, each with the positions whose windows it owns.

    Holds no more than one block with its surroundings and one chunk of the stream.

    Args:
      stream: rows of one asset and split, in order.
      windowing: the sizes of blocks.
      owned: the positions [start, end) to own; rows around them are surroundings.
    """
    start, end = owned
    if end is not None:
        stream = _until(stream, end + windowing.after)
    for block, (low, high) in _iter_blocks(stream, windowing, start):
        if end is not None and low >= end:
            return
        yield block, (low if start is None else max(low, start), high if end is None else min(high, end))


def _until(stream: Iterator[Rows], position: int) -> Iterator[Rows]:
    """The stream up to the chunk that reaches a position: nothing more is read."""
    for chunk in stream:
        yield chunk
        if len(chunk) and chunk.position[-1] >= position:
            return


def _iter_blocks(
    stream: Iterator[Rows], windowing: Windowing, start: int | None
) -> Iterator[tuple[Rows, tuple[int, int]]]:
    pending: list[Rows] = []
    number: int | None = None  # of the next block
    needed = -(2**63) if start is None else start // windowing.block * windowing.block - windowing.before
    for chunk in stream:
        if not len(chunk) or chunk.position[-1] < needed:
            continue
        pending.append(chunk)
        if number is None:
            number = int(chunk.position[0] if start is None else max(start, chunk.position[0])) // windowing.block
        if chunk.position[-1] >= (number + 1) * windowing.block + windowing.after:
            number, rest = yield from _cut_blocks(Rows.concatenate(pending), number, windowing, ended=False)
            pending = [rest]
    if number is not None:
        yield from _cut_blocks(Rows.concatenate(pending), number, windowing, ended=True)


def _cut_blocks(
    rows: Rows, number: int, windowing: Windowing, ended: bool
) -> Generator[tuple[Rows, tuple[int, int]], None, tuple[int, Rows]]:
    """Yields the blocks that `rows` completes; returns the next block's number and the rows that it needs."""
    while len(rows):
        owned = number * windowing.block, (number + 1) * windowing.block
        if rows.position[-1] < (owned[0] if ended else owned[1] + windowing.after):
            break
        yield rows.between(owned[0] - windowing.before, owned[1] + windowing.after), owned
        rest = rows.between(owned[1], None)
        number = int(rest.position[0]) // windowing.block if len(rest) else number + 1  # jumps over a long gap
        rows = rows.between(number * windowing.block - windowing.before, None)
    return number, rows
