"""Puts irregular rows onto a regular grid of time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from beamfeed.transforms.sources.readers import batch_rows
from beamfeed.transforms.sources.timeseries.rows import Rows

How = Literal["mean", "first", "last", "min", "max"]
HELD_BATCHES = 4  # of one step; more rows are taken together


@dataclass(frozen=True)
class Begun:
    """The rows of one step of the grid that were taken together already.

    Attributes:
      total: float64 [features], the sum of the values present.
      count: int64 [features], how many there are.
      gap: whether one of the rows has a gap before it.
    """

    total: np.ndarray
    count: np.ndarray
    gap: bool


def resample(rows: Rows, every: int, method: How, begun: Begun | None = None) -> Rows:
    """One row for each step of the grid that has rows, labelled as its last one; the position is the step's number.

    Step k covers the times [k * every, (k + 1) * every). NaN counts for nothing; a
    step whose values are all NaN stays NaN.

    Args:
      rows: in order of time.
      every: the grid's step, in ticks.
      method: what becomes of the values of a step.
      begun: further rows of the first step, with how: mean.
    """
    step = rows.time // every
    first = np.flatnonzero(np.diff(step, prepend=step[0] - 1))
    with np.errstate(invalid="ignore"):
        values = reduce_steps(rows.values, first, method, begun)
    gap = np.logical_or.reduceat(rows.gap, first)
    gap[0] |= begun is not None and begun.gap
    last = np.append(first[1:], len(rows)) - 1
    return Rows(step[first], step[first] * every, values, gap, rows.labels[last])


def reduce_steps(values: np.ndarray, first: np.ndarray, method: How, begun: Begun | None = None) -> np.ndarray:
    """float32 [steps, features] of values [rows, features] whose steps start at rows `first`. NaN counts for nothing.

    Args:
      values: in order of time.
      first: int64 [steps], increasing from 0.
      method: what becomes of the values of a step.
      begun: further rows of the first step, with how: mean.
    """
    present = ~np.isnan(values)
    if method == "mean":
        total = np.add.reduceat(np.where(present, values, 0).astype(np.float64), first)
        count = np.add.reduceat(present, first, dtype=np.int64)
        if begun is not None:
            total[0] += begun.total
            count[0] += begun.count
        return np.where(count > 0, total / np.maximum(count, 1), np.nan).astype(np.float32)
    if method in ("min", "max"):
        return (np.fmin if method == "min" else np.fmax).reduceat(values, first)
    # The first or last row of a step that has a value, for each feature by itself.
    index = np.arange(len(values))[:, None]
    if method == "first":
        picked = np.minimum.reduceat(np.where(present, index, len(values) - 1), first)
    else:
        picked = np.maximum.reduceat(np.where(present, index, 0), first)
    values_picked = np.take_along_axis(values, picked, axis=0)
    return np.where(np.logical_or.reduceat(present, first), values_picked, np.float32(np.nan))


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


def resample_stream(stream: Iterator[Rows], every: int, method: How, limit: int) -> Iterator[Rows]:
    """`resample` and `fill_grid` of a stream; a step is done when the next one has begun.

    Holds a few batches of a step and one chunk of the stream, however many rows a step has.
    """
    pending: list[Rows] = []
    begun: Begun | None = None
    last: Rows | None = None
    for chunk in stream:
        if not len(chunk):
            continue
        rows = Rows.concatenate([*pending, chunk])
        open_step = rows.time[-1] // every
        cut = int(np.searchsorted(rows.time, open_step * every))
        if cut:
            done = fill_grid(resample(rows.take(slice(0, cut)), every, method, begun), every, limit, last)
            last, begun = done.take(slice(-1, None)), None
            yield done
        rows = rows.take(slice(cut, None))
        if len(rows) > HELD_BATCHES * batch_rows(rows.values.shape[1]):
            rows, begun = _take_together(rows, every, method, begun)
        pending = [rows]
    if pending:
        yield fill_grid(resample(pending[0], every, method, begun), every, limit, last)


def _take_together(rows: Rows, every: int, method: How, begun: Begun | None) -> tuple[Rows, Begun | None]:
    """Rows of one step as a single row that stands for them; with how: mean as that many sums and the last row."""
    if method != "mean":
        merged = resample(rows, every, method)
        return Rows(merged.position, rows.time[-1:], merged.values, merged.gap, merged.labels), None
    values = rows.values[:-1]
    present = ~np.isnan(values)
    total, count = np.where(present, values, 0).sum(axis=0, dtype=np.float64), present.sum(axis=0)
    gap = bool(rows.gap[:-1].any())
    if begun is not None:
        total, count, gap = total + begun.total, count + begun.count, gap or begun.gap
    return rows.take(slice(-1, None)), Begun(total, count, gap)
