"""Puts irregular rows onto a regular grid of time."""

from collections.abc import Iterator
from typing import Literal

import numpy as np

from beamfeed.transforms.sources.timeseries.rows import Rows

How = Literal["mean", "first", "last", "min", "max"]


def resample(rows: Rows, every: int, how: How) -> Rows:
    """One row for each step of the grid that has rows, labelled as its last one; the position is the step's number.

    Step k covers the times [k * every, (k + 1) * every). NaN counts for nothing; a
    step whose values are all NaN stays NaN.

    Args:
      rows: in order of time.
      every: the grid's step, in ticks.
      how: what becomes of the values of a step.
    """
    step = rows.time // every
    first = np.flatnonzero(np.diff(step, prepend=step[0] - 1))
    with np.errstate(invalid="ignore"):
        values = _reduce(rows.values, first, how)
    last = np.append(first[1:], len(rows)) - 1
    return Rows(step[first], step[first] * every, values, np.logical_or.reduceat(rows.gap, first), rows.labels[last])


def _reduce(values: np.ndarray, first: np.ndarray, how: How) -> np.ndarray:
    """float32 [steps, features] of values [rows, features] whose steps start at the rows `first`."""
    present = ~np.isnan(values)
    if how == "mean":
        total = np.add.reduceat(np.where(present, values, 0).astype(np.float64), first)
        count = np.add.reduceat(present, first, dtype=np.int64)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan).astype(np.float32)
    if how in ("min", "max"):
        return (np.fmin if how == "min" else np.fmax).reduceat(values, first)
    # The first or last row of a step that has a value, for each feature by itself.
    index = np.arange(len(values))[:, None]
    if how == "first":
        picked = np.minimum.reduceat(np.where(present, index, len(values) - 1), first)
    else:
        picked = np.maximum.reduceat(np.where(present, index, 0), first)
    taken = np.take_along_axis(values, picked, axis=0)
    return np.where(np.logical_or.reduceat(present, first), taken, np.float32(np.nan))


def fill_grid(rows: Rows, every: int, limit: int, last: Rows | None) -> Rows:
    """Puts rows of NaN, with the label before them, into the holes of the grid that are at most `limit` steps long.

    A longer hole, or one at a gap, stays: positions jump there, and no window
    crosses it.

    Args:
      rows: from `resample`.
      every: the grid's step, in ticks.
      limit: the longest hole that is filled, in steps.
      last: the row before the first of `rows`, if there was one.
    """
    before = rows.position[:1] - 1 if last is None else last.position
    hole = np.diff(rows.position, prepend=before) - 1
    hole = np.where((hole > 0) & (hole <= limit) & ~rows.gap, hole, 0)
    if not hole.any():
        return rows
    size = len(rows) + int(hole.sum())
    target = np.arange(len(rows)) + np.cumsum(hole)
    position = np.empty(size, np.int64)
    position[target] = rows.position
    new = np.ones(size, bool)
    new[target] = False
    # Counted back from the row behind the hole.
    behind = np.repeat(np.arange(len(rows)), hole)
    position[new] = rows.position[behind] - (target[behind] - np.flatnonzero(new))
    values = np.full((size, rows.values.shape[1]), np.nan, np.float32)
    values[target] = rows.values
    gap = np.zeros(size, bool)
    gap[target] = rows.gap
    labels = np.empty((size, rows.labels.shape[1]), np.float32)
    labels[target] = rows.labels
    labels[new] = np.concatenate([rows.labels[:1] if last is None else last.labels, rows.labels])[behind]
    return Rows(position, position * every, values, gap, labels)


def resample_stream(stream: Iterator[Rows], every: int, how: How, limit: int) -> Iterator[Rows]:
    """`resample` and `fill_grid` of a stream; a step is done when the next one has begun."""
    held: list[Rows] = []
    last: Rows | None = None
    for chunk in stream:
        if not len(chunk):
            continue
        rows = Rows.concatenate([*held, chunk])
        open_step = rows.time[-1] // every
        cut = int(np.searchsorted(rows.time, open_step * every))
        held = [rows.take(slice(cut, None))]
        if cut:
            done = fill_grid(resample(rows.take(slice(0, cut)), every, how), every, limit, last)
            last = done.take(slice(-1, None))
            yield done
    if held and len(held[0]):
        yield fill_grid(resample(held[0], every, how), every, limit, last)
