"""Rarity against counts, and against the tail that the values were drawn from."""

import numpy as np
import pytest
from scipy import stats

from beamfeed.transforms.scoring.tails import BODY, MOST_RARE, Tail


def test_within_the_body_it_is_a_count():
    values = np.random.default_rng(0).permutation(1000).astype(float)
    tail = Tail.of(values)
    for value in (0.0, 10.0, 500.0, 949.0):
        expected = -np.log10((1 + np.sum(values >= value)) / 1001)
        assert tail.rarity(np.array([value]))[0] == pytest.approx(expected)


def test_beyond_it_an_exponential_tail_goes_on():
    values = np.random.default_rng(0).exponential(3.0, 4000)
    rarity = Tail.of(values).rarity(np.array([30.0, 60.0]))
    np.testing.assert_allclose(rarity, -stats.expon.logsf([30, 60], scale=3.0) / np.log(10), rtol=0.15)


def test_it_rises_and_does_not_hang_on_size_or_order():
    rng = np.random.default_rng(1)
    values, new = rng.gamma(2.0, size=500), np.sort(rng.gamma(2.0, 5.0, size=300))
    rarity = Tail.of(values).rarity(new)
    assert (np.diff(rarity) >= -0.02).all()  # where the tail begins, by a rank
    np.testing.assert_allclose(Tail.of(1e6 * values[::-1]).rarity(1e6 * new), rarity, rtol=1e-9)
    assert np.isnan(Tail.of(values).rarity(np.array([np.nan]))[0])


@pytest.mark.parametrize("values", [np.zeros(50), np.full(3, 7.0), np.array([np.nan, 1.0])])
def test_values_that_do_not_vary(values):
    rarity = Tail.of(values).rarity(np.array([np.nanmax(values), np.nanmax(values) + 1]))
    assert np.isfinite(rarity).all()
    assert rarity[1] > 3 > rarity[0]


def test_many_values_are_represented_by_some():
    values = np.random.default_rng(2).normal(size=100_000)
    few, edge = Tail.of(values), np.quantile(values, BODY)
    assert len(few.values) == 4096
    assert few.edge == pytest.approx(edge, rel=1e-2)


def test_nothing_is_rarer_than_sums_can_take():
    tail = Tail.of(np.random.default_rng(0).normal(size=1000))
    assert tail.rarity(np.array([1e12, 1e300, np.inf])).tolist() == [MOST_RARE] * 3
