"""How rare a value is among those of training, so that measures of any size and asset can be compared."""

from dataclasses import dataclass

import numpy as np

BODY = 0.95  # of the values of training are told from each other as they are; beyond, the tail is exponential
MOST = 4096  # values that stand for those of training
MOST_RARE = 1e6  # beyond, sums over rows would lose what the others are


@dataclass(frozen=True)
class Tail:
    """The distribution of a measure.

    Attributes:
      values: float64, rising, some of training.
      edge: where the tail begins, and
      mean_excess: by how much values of the tail are above that on average.
    """

    values: np.ndarray
    edge: float
    mean_excess: float

    @classmethod
    def of(cls, values: np.ndarray) -> "Tail":
        """That of some values `[n]`, n above 0; those that are no number do not count."""
        known = np.sort(values[np.isfinite(values)].astype(np.float64))
        if not len(known):
            known = np.zeros(1)
        if len(known) > MOST:  # evenly, so that ranks stay
            known = known[np.linspace(0, len(known) - 1, MOST).round().astype(int)]
        edge = float(np.quantile(known, BODY))
        above = known[known > edge]
        size = max(abs(float(known[-1])), 1e-12)
        return cls(known, edge, max(float((above - edge).mean()) if len(above) else 0.0, 1e-6 * size))

    def rarity(self, values: np.ndarray) -> np.ndarray:
        """-log10 of how often a value of training is as large, at most MOST_RARE, float64 `[n]`; NaN stays NaN.

        Up to `edge` by rank: (1 + values that are as large) / (1 + n). Beyond, (1 - BODY) * exp(-(x - edge) /
        mean_excess), the tail of peaks over a threshold whose excesses are exponential.
        """
        count = len(self.values)
        as_large = count - np.searchsorted(self.values, values, side="left")
        body = -np.log10((1 + as_large) / (1 + count))
        tail = -np.log10(1 - BODY) + (values - self.edge) / self.mean_excess / np.log(10)
        return np.where(np.isnan(values), np.nan, np.where(values > self.edge, np.clip(tail, 0, MOST_RARE), body))
