"""A sample of rows whose quantiles stand for those of all rows; the same bytes in whatever order it is put together.

Each row has a hash of its asset's name and its position. The sample is the rows with
the smallest hashes: which ones these are depends on the data alone, not on how units
are cut, who reads them, or how often. Of at most `capacity` rows all are kept, and
their quantiles are exact. Of more, the rank of a quantile is off by less than
sqrt(11 / capacity) but for one time in a thousand million (Dvoretzky, Kiefer and
Wolfowitz 1956, with Massart's constant); its standard deviation is sqrt(q (1 - q) / capacity).
"""

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from beamfeed.transforms.statistics.hashes import hash_numbers

SAMPLE_BYTES = 1_000_000  # of hashes and values
MOST_ROWS = 16_384
_HASHES = 1 << 64


def capacity(features: int) -> int:
    """The rows of a sample: as many as are under 1 MB, at most 16,384."""
    return max(1, min(MOST_ROWS, SAMPLE_BYTES // (4 * features + 8)))


def share(rows: int, features: int, spare: int) -> float:
    """The part of so many rows that `spare` samples hold, at most 1. What has a larger hash need not be looked at.

    Args:
      rows: of which a sample is to be taken; 0 where that is not known.
      features: of each.
      spare: how many times a sample to allow for; more where some of the rows may turn out not to count.
    """
    return min(1.0, spare * capacity(features) / rows) if rows else 1.0


@lru_cache(maxsize=64)
def _seed(asset: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(asset.encode(), digest_size=8).digest(), "little"))


@dataclass(frozen=True, eq=False)
class RowSample:
    """The rows with the smallest hashes, in order of these.

    Attributes:
      hashes: uint64 [rows].
      values: float32 [rows, features]; NaN is missing.
      settled: float64 [quantiles, features] where they were taken from more rows than are kept here, see `settle`.
    """

    hashes: np.ndarray
    values: np.ndarray
    settled: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.hashes)

    def __add__(self, other: "RowSample") -> "RowSample":
        hashes = np.concatenate([self.hashes, other.hashes])
        return _smallest(hashes, np.concatenate([self.values, other.values]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowSample) and self._bytes() == other._bytes()

    def __hash__(self) -> int:
        return hash(self._bytes())

    def _bytes(self) -> tuple[bytes, ...]:
        settled = b"" if self.settled is None else self.settled.tobytes()
        return self.hashes.tobytes(), self.values.tobytes(), settled

    @classmethod
    def zero(cls, features: int) -> "RowSample":
        """Of no rows."""
        return cls(np.empty(0, np.uint64), np.empty((0, features), np.float32))

    def extend(self, values: np.ndarray, asset: str, positions: np.ndarray, part: float = 1.0) -> "RowSample":
        """The sample of these and some more rows, which are rows of an asset.

        Args:
          values: float32 [rows, features]; NaN is missing.
          asset: name of the asset.
          positions: int64 [rows], of the rows in the asset.
          part: only of rows in this part of the hashes, from 0 to 1.
        """
        hashes = hash_numbers(positions, _seed(asset))
        indices = _below(hashes, part)
        if len(self) == capacity(values.shape[1]):
            indices = indices[hashes[indices] <= self.hashes[-1]]
        if not len(indices):
            return self
        return self + RowSample(hashes[indices], values[indices])

    def quantiles(self, q: tuple[float, ...], features: slice = slice(None)) -> np.ndarray:
        """float64 [q, features], between the two nearest values on a straight line; NaN where no value is present."""
        values = self.values[:, features].astype(np.float64)
        result = np.full((len(q), values.shape[1]), np.nan)
        has_values = ~np.isnan(values).all(axis=0)
        if has_values.any():
            take = np.nanquantile if np.isnan(values).any() else np.quantile
            result[:, has_values] = take(values[:, has_values], q, axis=0)
        return result

    def settle(self, q: tuple[float, ...], part: float) -> "RowSample":
        """Takes the quantiles now, and keeps of the rows only those in a part of the hashes.

        For the sample of a whole asset that goes on as a part of the fleet's. A sum is of other rows: it has nothing
        settled.
        """
        indices = _below(self.hashes, part)
        return RowSample(self.hashes[indices], self.values[indices], self.quantiles(q))


def _below(hashes: np.ndarray, part: float) -> np.ndarray:
    """The rows whose hash is in the first part of all hashes."""
    limit = int(part * _HASHES)
    return np.arange(len(hashes)) if limit >= _HASHES else np.flatnonzero(hashes < np.uint64(limit))


def _smallest(hashes: np.ndarray, values: np.ndarray) -> RowSample:
    """As many rows as a sample has, in order. Equal hashes are put in order by the values, so that all is."""
    rows = capacity(values.shape[1])
    if len(hashes) > rows:
        indices = np.flatnonzero(hashes <= np.partition(hashes, rows - 1)[rows - 1])
        hashes, values = hashes[indices], values[indices]
    order = np.argsort(hashes, kind="stable")
    if len(order) > 1 and not np.diff(hashes[order]).all():
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        order = np.lexsort((*bits.T, hashes))
    order = order[:rows]
    return RowSample(hashes[order], np.ascontiguousarray(values[order], np.float32))
