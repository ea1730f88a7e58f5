"""Design effects against the variance of shares of assets that are drawn, and where there is nothing to tell."""

import numpy as np
import pytest

from beamfeed.transforms.statistics.clumps import Clumps
from beamfeed.transforms.statistics.sums import add_known


def test_the_design_effect_is_how_much_more_shares_vary() -> None:
    """Of assets of 100 rows, that lack values independently, by a share of their own, and all or none."""
    random, assets, rows = np.random.default_rng(0), 20_000, 100
    shares = np.stack([np.full(assets, 0.2), random.beta(2, 8, assets), random.random(assets) < 0.2], axis=1)
    missing = random.binomial(rows, shares)
    clumps = Clumps.of(np.column_stack([np.full(assets, rows), missing]))
    assert clumps.design_effects() == pytest.approx([1, 1 + 99 / 11, 100], rel=0.05)
    drawn = random.integers(0, assets, (2000, 50))
    variance = (missing[drawn].sum(axis=1) / (50 * rows)).var(axis=0)
    independent = 0.2 * 0.8 / (50 * rows)
    assert clumps.design_effects() == pytest.approx(variance / independent, rel=0.15)


def test_clumps_add_up() -> None:
    """To the same whatever the order, also of large assets; those without rows are none."""
    random = np.random.default_rng(1)
    counts = np.column_stack([random.integers(1, 10**10, 6), random.integers(0, 10**9, (6, 2))])
    parts = [Clumps.of(counts[at : at + 1]) for at in range(6)]
    total = Clumps.of(np.concatenate([counts, np.zeros((1, 3), np.int64)]))
    assert sum(parts[1:], parts[0]) == sum(parts[::-1][1:], parts[-1]) == total
    assert add_known(None, add_known(total, None)) == total
    assert add_known(parts[0], parts[1]) == Clumps.of(counts[:2])


@pytest.mark.parametrize("counts", [[[0, 0]], [[10, 5]], [[10, 0], [20, 0]], [[10, 10], [20, 20]]])
def test_where_nothing_tells_rows_are_independent(counts: list[list[int]]) -> None:
    assert Clumps.of(np.array(counts)).design_effects() == [1]
