"""From windows to rows: each row is in several windows, which overlap."""

from collections.abc import Iterator
from typing import Literal

import numpy as np

How = Literal["mean", "max", "last"]


def runs_of(start: np.ndarray, length: int) -> Iterator[slice]:
    """Windows `[n]`, by rising start, in runs between which there are rows that no window has."""
    edges = np.flatnonzero(np.diff(start) > length) + 1
    for first, end in zip([0, *edges.tolist()], [*edges.tolist(), len(start)], strict=True):
        yield slice(first, end)


def rows_of_run(start: np.ndarray, length: int, values: np.ndarray, how: How) -> np.ndarray:
    """The value of each row of a run of windows, from the first row of its first to the last row of its last window.

    Args:
      start: int64 `[n]`, rising, the rows that windows begin at; no more than `length` apart.
      length: rows of a window.
      values: float64 `[n, parts]`, of the windows.
      how: mean or max of the windows that a row is in, or of the first in which it is the last row (of rows before
        that, the first window), which is what is known at the time of the row.

    Returns:
      float64 `[rows, parts]`.
    """
    rows = int(start[-1] - start[0]) + length
    at = start - start[0]
    if how == "mean":
        sums, counts = np.zeros((rows + 1, values.shape[1])), np.zeros(rows + 1)
        np.add.at(sums, at, values)
        np.add.at(sums, at + length, -values)
        np.add.at(counts, at, 1)
        np.add.at(counts, at + length, -1)
        return sums.cumsum(axis=0)[:-1] / counts.cumsum()[:-1, None]
    place = np.arange(rows)
    if how == "last":
        return values[np.minimum(np.searchsorted(at + length - 1, place, side="left"), len(at) - 1)]
    first = np.searchsorted(at + length, place, side="right")
    end = np.searchsorted(at, place, side="right")
    most = values[first].copy()
    for step in range(1, int((end - first).max())):
        inside = first + step < end
        most[inside] = np.maximum(most[inside], values[(first + step)[inside]])
    return most


def smoothed(values: np.ndarray, rows: int) -> np.ndarray:
    """The mean of each row and those before it, `rows` in all, float64 `[n, parts]`: none of later ones."""
    if rows <= 1:
        return values
    sums = np.concatenate([np.zeros((1, values.shape[1])), values.cumsum(axis=0)])
    end = np.arange(1, len(values) + 1)
    first = np.maximum(0, end - rows)
    return (sums[end] - sums[first]) / (end - first)[:, None]
