"""How far missing values come together in some assets, so that many rows tell no more than few independent ones."""

from dataclasses import dataclass

import numpy as np

from beamfeed.transforms.statistics.sums import add_fields


@dataclass(frozen=True)
class Clumps:
    """Exact sums over assets, each with n rows of which m lack a value of a column; `a + b` is that of both.

    Attributes:
      assets: those that have rows.
      rows, rows_squared: of n and n ** 2.
      missing, products, missing_squared: by column, of m, n * m and m ** 2.
    """

    assets: int
    rows: int
    rows_squared: int
    missing: tuple[int, ...]
    products: tuple[int, ...]
    missing_squared: tuple[int, ...]

    @classmethod
    def of(cls, counts: np.ndarray) -> "Clumps":
        """Those of some assets.

        Args:
          counts: int64 `[assets, 1 + columns]`, the rows of each, and of these without a value of each column.
        """
        exact = counts[counts[:, 0] > 0].astype(object)  # as squares may be larger than int64
        rows, missing = exact[:, 0], exact[:, 1:]
        by_column = (tuple(some.sum(axis=0).tolist()) for some in (missing, rows[:, None] * missing, missing**2))
        return cls(len(rows), sum(rows.tolist()), sum((rows**2).tolist()), *by_column)

    def __add__(self, other: "Clumps") -> "Clumps":
        return add_fields(self, other)

    def design_effects(self) -> list[float]:
        """By column, how many times the variance of the share of missing values is that of independent rows.

        So many rows count as one (Kish 1965, "Survey Sampling"). It is at least 1, and that where nothing tells.
        """
        effects = []
        for missing, product, squared in zip(self.missing, self.products, self.missing_squared, strict=True):
            effect = 1.0
            if self.assets > 1 and 0 < missing < self.rows:
                share = missing / self.rows
                apart = squared - 2 * share * product + share**2 * self.rows_squared
                effect = self.assets / (self.assets - 1) * apart / (missing * (1 - share))
            effects.append(max(1.0, effect))
        return effects
