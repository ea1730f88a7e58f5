"""Principal components of windows, from sums that are added up batch by batch."""

import numpy as np

WIDEST = 2048  # numbers in a window: the sums take their square, and the components its third power


class VectorSums:
    """Sums over windows that are flattened to vectors of `width` numbers.

    Args:
      width: numbers in a window. Beyond `WIDEST` means alone are kept.
    """

    def __init__(self, width: int):
        self.count = 0
        self._first: np.ndarray | None = None  # sums are of differences to it: small numbers, whatever the mean is
        self._sum = np.zeros(width)
        self._products = np.zeros((width, width)) if width <= WIDEST else None

    def add(self, vectors: np.ndarray) -> None:
        """Adds vectors `[n, width]`, n above 0."""
        vectors = vectors.astype(np.float64)
        if self._first is None:
            self._first = vectors[0]
        vectors = vectors - self._first
        self.count += len(vectors)
        self._sum += vectors.sum(axis=0)
        if self._products is not None:
            self._products += vectors.T @ vectors

    @property
    def mean(self) -> np.ndarray:
        """float64 `[width]`; of at least one vector."""
        assert self._first is not None
        return self._first + self._sum / self.count

    def components(self, count: int) -> np.ndarray:
        """The directions in which the vectors vary most: float64 `[width, count]`, of length 1 and at right angles.

        Raises:
          ValueError: if windows are wider than `WIDEST`.
        """
        if self._products is None:
            raise ValueError(f"windows of {len(self._sum)} numbers are wider than {WIDEST}")
        mean = self._sum / self.count
        _, vectors = np.linalg.eigh(self._products / self.count - np.outer(mean, mean))
        return vectors[:, ::-1][:, :count]
