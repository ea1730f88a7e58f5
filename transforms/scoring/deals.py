"""What two sides would be if their rows were dealt to them at random: how much they differ then is noise. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from beamfeed.contract.records.pieces import ranges

DEALS = 200
LEAST_ASSETS = 8  # of a side; fewer are cut into runs of rows
RUNS = 40  # of a side, then
_MOST_RUNS = 1 << 20  # of an asset
_MOST_ROWS = 10**9 - 1  # that NumPy deals


def deal_rows(counts: np.ndarray) -> np.ndarray:
    """Rows that each stand for themselves, dealt to two sides as large as they are, int64 `[DEALS, 2, bins]`.

    Where there are more than NumPy deals, one stands for several; fewer rows differ more, so that noise is not too low.

    Args:
      counts: int64 `[2, bins]`, rows of both sides.
    """
    random = np.random.default_rng(0)
    counts = counts // max(1, -(-int(counts.sum()) // _MOST_ROWS))
    total, first = counts.sum(axis=0), int(counts[0].sum())
    dealt = random.multivariate_hypergeometric(total, first, size=DEALS, method="marginals")
    return np.stack([dealt, total - dealt], axis=1)


@dataclass(frozen=True, eq=False)
class AssetDeals:
    """Assets as a whole, or runs of their rows where assets are few, dealt to two sides.

    Those that are on one side alone are dealt among each other. Of an asset that is on both sides, the two parts, or
    the runs, are: that it differs from other assets is on both sides, and no noise. Who gets a unit of the other side
    counts its rows as if it were as large as its own are on average, as one side may be a year and the other a day.

    Attributes:
      units: of both sides, the unit of each sampled row.
      weights: float64 `[2, DEALS, units]`, how much each row of a unit counts on a side; 0 on the other.
    """

    units: tuple[np.ndarray, np.ndarray]
    weights: np.ndarray

    @classmethod
    def of(cls, one: np.ndarray, other: np.ndarray) -> "AssetDeals":
        """Those of sampled rows.

        Args:
          one: of one side, float32 `[n, 2]`: of each row a number of its asset, and its position there.
          other: likewise.
        """
        runs = (np.unique(_runs(places), return_inverse=True, return_counts=True) for places in (one, other))
        names, units, sizes = zip(*runs, strict=True)
        assets = [name // _MOST_RUNS for name in names]
        shared = np.intersect1d(assets[0], assets[1])
        strata = np.concatenate([np.where(np.isin(side, shared), side, -1) for side in assets])
        strata = np.unique(strata, return_inverse=True)[1]
        side = np.repeat([0, 1], [len(some) for some in names])
        sums, counts = np.zeros((2, strata.max(initial=-1) + 1)), np.zeros((2, strata.max(initial=-1) + 1))
        np.add.at(sums, (side, strata), np.concatenate(sizes))
        np.add.at(counts, (side, strata), 1)
        mean = sums / np.maximum(1, counts)
        factors = mean[:, strata] / np.maximum(1e-9, mean[side, strata])
        is_first = _deal(strata, side)
        return cls((units[0], units[1]), np.stack([is_first, ~is_first]) * factors[:, None])

    def counts(self, codes: Sequence[np.ndarray], bins: int) -> np.ndarray:
        """float64 `[DEALS, 2, bins]`, the rows that both sides get.

        Args:
          codes: of both sides, the bin of each sampled row.
          bins: in all.
        """
        first = self.units[0].max(initial=-1) + 1
        every = np.zeros((self.weights.shape[2], bins))
        np.add.at(every, (self.units[0], codes[0]), 1)
        np.add.at(every, (self.units[1] + first, codes[1]), 1)
        return np.asarray((self.weights @ every).swapaxes(0, 1))


def _runs(places: np.ndarray) -> np.ndarray:
    """int64 `[n]`, a number of the asset of each row and of the run of rows there: the first, unless assets are few."""
    assets, numbers = np.unique(places[:, 0], return_inverse=True)
    runs = np.zeros(len(places), np.int64)
    if 0 < len(assets) < LEAST_ASSETS:
        for number in range(len(assets)):
            mine = np.flatnonzero(numbers == number)
            many = max(1, round(RUNS * len(mine) / len(places)))
            ranks = np.argsort(np.argsort(places[mine, 1], kind="stable"), kind="stable")
            runs[mine] = ranks * many // len(mine)
    return places[:, 0].astype(np.int64) * _MOST_RUNS + runs


def _deal(strata: np.ndarray, side: np.ndarray) -> np.ndarray:
    """Bool `[DEALS, units]`: which units a deal gives to the first side: of each stratum as many as it had.

    Args:
      strata: int64 `[units]`, from 0.
      side: that has each unit.
    """
    order = np.argsort(strata, kind="stable")
    sizes = np.bincount(strata)
    firsts = np.bincount(strata, weights=side == 0)
    takes = ranges(0, sizes) < firsts[strata[order]]
    random, deals = np.random.default_rng(0), np.zeros((DEALS, len(strata)), bool)
    for deal in deals:
        deal[np.lexsort((random.random(len(strata)), strata))] = takes
    return deals
