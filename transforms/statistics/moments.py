"""Statistics of float32 columns that come out the same to the last bit in whatever order they are combined.

Each batch gives its count, mean and sum of squared deviations (M2) in float64.
They are added up as exact fractions: n, S1 = n * mean, S2 = M2 + n * mean^2. Exact
addition has no order, and M2 / n = S2 / n - (S1 / n)^2 loses nothing to
cancellation (the pairwise form of Chan, Golub and LeVeque 1979, without rounding).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import add
from typing import Any

import numpy as np

_ROUNDING = 1e-9  # of the square of a range


@dataclass(frozen=True)
class Moments:
    """Sums over rows, a tuple of `features` long each."""

    rows: int
    count: tuple[int, ...]  # values present
    s1: tuple[Fraction, ...]
    s2: tuple[Fraction, ...]
    low: tuple[float, ...]  # inf where no value is present
    high: tuple[float, ...]  # -inf

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(
            self.rows + other.rows,
            tuple(map(add, self.count, other.count)),
            tuple(map(add, self.s1, other.s1)),
            tuple(map(add, self.s2, other.s2)),
            tuple(map(min, self.low, other.low)),
            tuple(map(max, self.high, other.high)),
        )

    @classmethod
    def zero(cls, features: int) -> "Moments":
        """Of no rows."""
        nothing = (Fraction(0),) * features
        return cls(0, (0,) * features, nothing, nothing, (np.inf,) * features, (-np.inf,) * features)

    @classmethod
    def of(cls, values: np.ndarray) -> "Moments":
        """The moments of float32 [rows, features]; NaN is missing."""
        rows, features = values.shape
        if not rows:
            return cls.zero(features)
        wide = np.ascontiguousarray(values.T).astype(np.float64)  # [features, rows]: sums run along memory
        absent = np.isnan(wide)
        if absent.any():
            count = rows - absent.sum(axis=1)
            low = np.where(absent, np.inf, wide).min(axis=1)
            high = np.where(absent, -np.inf, wide).max(axis=1)
            mean = np.where(absent, 0, wide).sum(axis=1) / np.maximum(count, 1)
            wide -= mean[:, None]
            wide[absent] = 0
        else:
            count = np.full(features, rows)
            low, high = wide.min(axis=1), wide.max(axis=1)
            mean = wide.mean(axis=1)
            wide -= mean[:, None]
        m2 = np.einsum("ij,ij->i", wide, wide)
        s1 = tuple(int(n) * Fraction(float(m)) for n, m in zip(count, mean, strict=True))
        s2 = tuple(
            Fraction(float(q)) + int(n) * Fraction(float(m)) ** 2 for n, m, q in zip(count, mean, m2, strict=True)
        )
        return cls(rows, tuple(map(int, count)), s1, s2, tuple(map(float, low)), tuple(map(float, high)))

    def mean(self) -> np.ndarray:
        """float64 [features]; 0 where no value is present."""
        return np.array([float(s / n) if n else 0.0 for s, n in zip(self.s1, self.count, strict=True)])

    def std(self) -> np.ndarray:
        """float64 [features]: of the whole population; exactly 0 for a constant column."""
        spans = zip(self.count, self.s1, self.s2, self.low, self.high, strict=True)
        return np.array([float(s2 / n - (s1 / n) ** 2) ** 0.5 if n and low < high else 0.0
                         for n, s1, s2, low, high in spans])  # fmt: skip

    def two_valued(self) -> np.ndarray:
        """Bool [features]: whether every value is the lowest or the highest, which differ.

        The variance of values from low to high is at most (mean - low) * (high - mean), and reaches it with values at
        both ends alone (Bhatia and Davis 2000). One value in between of some hundred million may go unseen.
        """
        low, high, mean = np.array(self.low), np.array(self.high), self.mean()
        differ = low < high  # of no values, they are infinite the other way
        low, high = np.where(differ, low, 0), np.where(differ, high, 0)
        most = (mean - low) * (high - mean)
        return differ & (most - np.square(self.std()) <= _ROUNDING * np.square(high - low))

    def describe(self, features: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Of each feature what people ask for, for a JSON file; None where no value is present."""
        mean, std = self.mean(), self.std()
        return {
            name: {
                "count": self.count[i],
                "missing": self.rows - self.count[i],
                "mean": float(mean[i]) if self.count[i] else None,
                "std": float(std[i]) if self.count[i] else None,
                "min": self.low[i] if self.count[i] else None,
                "max": self.high[i] if self.count[i] else None,
                "constant": bool(self.count[i] and self.low[i] == self.high[i]),
            }
            for i, name in enumerate(features)
        }
