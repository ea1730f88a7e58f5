"""The principal components of windows that are flattened to vectors."""

import numpy as np

WIDEST = 2048  # numbers in a vector: sums of products take their square, and the components its third power
MOST_KEPT, MOST_BYTES = 2048, 64 << 20  # of wider vectors: these many at most are kept instead


class VectorSums:
    """Sums over vectors, for their mean and principal components.

    Of vectors wider than `WIDEST` the components are those of the first `MOST_KEPT`, or as many as `MOST_BYTES` hold.

    Args:
      width: numbers in a vector.

    Attributes:
      count: vectors that were added.
    """

    def __init__(self, width: int):
        self.count = 0
        self._first: np.ndarray | None = None  # sums are of differences to it: small numbers, whatever the mean is
        self._sum = np.zeros(width)
        self._products = np.zeros((width, width)) if width <= WIDEST else None
        self._vectors: list[np.ndarray] = []
        self._left = min(MOST_KEPT, MOST_BYTES // (4 * width)) if width > WIDEST else 0  # that may still be kept

    def add(self, vectors: np.ndarray) -> None:
        """Adds vectors `[n, width]`, n above 0."""
        if self._left:
            self._vectors.append(vectors[: self._left].astype(np.float32))
            self._left -= len(self._vectors[-1])
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

    @property
    def most(self) -> int:
        """How many components there are."""
        return min(len(self._sum), self.count if self._products is not None else sum(map(len, self._vectors)))

    def components(self, count: int) -> np.ndarray:
        """The directions in which the vectors vary most: float64 `[width, count]`, of length 1 and at right angles.

        Raises:
          ValueError: if there are fewer.
        """
        if count > self.most:
            raise ValueError(f"{count} components of {self.most}")
        if self._products is not None:
            mean = self._sum / self.count
            _, directions = np.linalg.eigh(self._products / self.count - np.outer(mean, mean))
            return directions[:, ::-1][:, :count]
        apart = np.concatenate(self._vectors) - self.mean
        _, shares = np.linalg.eigh(apart @ apart.T)  # vectors are fewer than they are wide
        directions = apart.T @ shares[:, ::-1][:, :count]
        return np.linalg.qr(directions)[0]  # of length 1 also where vectors do not differ
