"""Consecutive rows of one asset, as the kernels see them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Rows:
    """n rows of one asset and one split, in order of time.

    Attributes:
      position: int64 [n], increasing: the row of the asset, or the step of the time grid.
      time: int64 [n], in ticks, see time_units.py.
      values: float32 [n, features]; NaN is missing.
      gap: bool [n]; True where a row does not continue the one before it.
      labels: float32 [n, labels], of classes their place; NaN is missing.
    """

    position: np.ndarray
    time: np.ndarray
    values: np.ndarray
    gap: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.position)

    def take(self, rows: slice | np.ndarray) -> "Rows":
        """Some of the rows."""
        return Rows(self.position[rows], self.time[rows], self.values[rows], self.gap[rows], self.labels[rows])

    def between(self, start: int, end: int | None) -> "Rows":
        """The rows at positions in [start, end), without copying."""
        low = int(np.searchsorted(self.position, start))
        high = len(self) if end is None else int(np.searchsorted(self.position, end))
        return self.take(slice(low, high))

    @staticmethod
    def concatenate(chunks: Sequence["Rows"]) -> "Rows":
        """The rows of several chunks, one after the other."""
        if len(chunks) == 1:
            return chunks[0]
        columns = [(chunk.position, chunk.time, chunk.values, chunk.gap, chunk.labels) for chunk in chunks]
        return Rows(*map(np.concatenate, zip(*columns, strict=True)))
