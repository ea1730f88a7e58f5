"""The windows of one asset -> the scores of its rows: each row is in several windows, which overlap."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

How = Literal["mean", "max", "last"]


@dataclass(frozen=True)
class Windows:
    """Windows of an asset, by rising start.

    Attributes:
      start: int64 `[n]`, the position of the first row of each.
      time, until: float64 `[n]`, the times of its first and last row.
      rarities: float64 `[n, parts]`, of each measure, `-log10` of how often training has one as large.
    """

    start: np.ndarray
    time: np.ndarray
    until: np.ndarray
    rarities: np.ndarray


@dataclass(frozen=True)
class ScoredRows:
    """Rows of an asset that follow each other.

    Attributes:
      first: the position of the first.
      time: float64 `[rows]`.
      scores: float32 `[rows, 1 + parts]`: the score, and the rarity by each measure.
    """

    first: int
    time: np.ndarray
    scores: np.ndarray


def runs_of(windows: Windows, length: int, max_gap: float | None) -> Iterator[slice]:
    """Windows `[n]` in runs between which there are rows that no window has, or more time than windows may span.

    Args:
      windows: of an asset.
      length: rows of a window.
      max_gap: of two rows of a window, in the numbers of its times; None: any time.
    """
    parted = np.diff(windows.start) > length
    if max_gap is not None:  # where windows overlap, time goes back
        until, time = windows.until[:-1], windows.time[1:]
        # With room for times that were rounded: seconds since 1970 are floats 2.4e-7 apart.
        room = np.maximum(max_gap * 1e-6, 2 * np.spacing(np.maximum(np.abs(until), np.abs(time))))
        parted |= time - until > max_gap + room
    edges = np.flatnonzero(parted) + 1
    for first, end in zip([0, *edges.tolist()], [*edges.tolist(), len(parted) + 1], strict=True):
        yield slice(first, end)


def rows_of_run(start: np.ndarray, length: int, values: np.ndarray, how: How) -> np.ndarray:
    """The value of each row of a run of windows, from the first row of its first to the last row of its last window.

    Args:
      start: int64 `[n]`, rising, the rows that windows begin at; no more than `length` apart.
      length: rows of a window.
      values: float64 `[n, parts]`, of the windows; NaN counts as none in means.
      how: mean or max of the windows that a row is in, or the last window that has ended at it, which is what is known
        at the time of the row; rows before the end of the first window get that one.

    Returns:
      float64 `[rows, parts]`.
    """
    rows = int(start[-1] - start[0]) + length
    at = start - start[0]
    if how == "mean":
        known = ~np.isnan(values)
        parts = np.where(known, values, 0.0), known if not known.all() else known[:, :1]
        return _means(*(_added_up(at, length, rows, part) for part in parts))
    place = np.arange(rows)
    if how == "last":
        return values[np.maximum(np.searchsorted(at + length - 1, place, side="right") - 1, 0)]
    first = np.searchsorted(at + length, place, side="right")
    end = np.searchsorted(at, place, side="right")
    most = values[first].copy()
    for step in range(1, int((end - first).max())):
        inside = first + step < end
        most[inside] = np.maximum(most[inside], values[(first + step)[inside]])
    return most


def _added_up(at: np.ndarray, length: int, rows: int, values: np.ndarray) -> np.ndarray:
    """Of each row, the sum over the windows that it is in, float64 `[rows, parts]`."""
    steps = np.zeros((rows + 1, values.shape[1]))
    if (np.diff(at) > 0).all():  # as a rule; `add.at` takes ten times as long
        steps[at] += values
        steps[at + length] -= values
    else:
        np.add.at(steps, at, values)
        np.subtract.at(steps, at + length, values)
    sums: np.ndarray = steps.cumsum(axis=0)
    return sums[:-1]


def smoothed(values: np.ndarray, rows: int) -> np.ndarray:
    """The mean of each row and those before it, `rows` in all, float64 `[n, parts]`: none of later ones."""
    if rows <= 1:
        return values
    end = np.arange(1, len(values) + 1)
    first = np.maximum(0, end - rows)
    sums, counts = (
        np.concatenate([np.zeros((1, values.shape[1])), part.cumsum(axis=0)])
        for part in (np.nan_to_num(values, nan=0.0), ~np.isnan(values) * 1.0)
    )
    return _means(sums[end] - sums[first], counts[end] - counts[first])


def _means(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Their quotients; NaN where nothing was counted."""
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0.5)


def score_rows(
    windows: Windows, length: int, how: How, smooth: int, max_gap: float | None = None
) -> Iterator[ScoredRows]:
    """The scores of an asset's rows, run by run.

    The score of a window is its largest rarity. A row has the mean or max of the windows that it is in, or the last
    that has ended.

    Args:
      windows: of the asset.
      length: rows of a window.
      how: see `rows_of_run`.
      smooth: rows whose mean a row gets.
      max_gap: see `runs_of`.
    """
    for run in runs_of(windows, length, max_gap):
        start, rarities = windows.start[run], windows.rarities[run]
        largest = np.nanmax(rarities, axis=1, keepdims=True)
        values = smoothed(rows_of_run(start, length, np.concatenate([largest, rarities], axis=1), how), smooth)
        values = values.astype(np.float32)  # means of the same rarities differ in their last bits
        position = np.concatenate([start, start + length - 1])
        times = np.concatenate([windows.time[run], windows.until[run]])
        order = np.argsort(position, kind="stable")
        rows = start[0] + np.arange(len(values))
        yield ScoredRows(int(start[0]), np.interp(rows, position[order], times[order]), values)
