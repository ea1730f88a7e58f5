"""What is usual of an asset, against an independent oracle and on assets that differ."""

import numpy as np
import pytest
from scipy.spatial.distance import mahalanobis

from beamfeed.transforms.scoring.tails import Tail
from beamfeed.transforms.scoring.usual import LEAST_OWN, PRIOR, Cloud, Measured, Usual, compare

RNG = np.random.default_rng(0)
NONE = Measured(np.empty((0, 1)), np.empty((0, 2)))


def windows(rows, at=0.0, size=1.0, error=0.0):
    """Windows of an asset whose two latent numbers lie around a place, one about twice the other."""
    first = size * RNG.normal(size=rows)
    latent = np.stack([first, 2 * first + 0.1 * size * RNG.normal(size=rows)], axis=1) + at
    return Measured(error + RNG.exponential(size=(rows, 1)), latent)


def test_t_squared_is_the_square_of_mahalanobis_distance():
    latent = RNG.normal(size=(500, 3)) @ RNG.normal(size=(3, 3)) + [5, 0, -9]
    cloud = Cloud.of(latent)
    np.testing.assert_allclose(cloud.covariance, np.cov(latent.T, bias=True))
    inverse = np.linalg.inv(np.cov(latent.T, bias=True))
    some = RNG.normal(size=(20, 3)) * 9
    expected = [mahalanobis(row, latent.mean(axis=0), inverse) ** 2 for row in some]
    np.testing.assert_allclose(cloud.t2(some), expected, rtol=0.02)  # the ridge


def test_numbers_that_do_not_vary_or_are_sums_of_others_count_for_nothing_more():
    latent = RNG.normal(size=(500, 1)) * [1, 2, 0]
    cloud = Cloud.of(latent)
    np.testing.assert_allclose(
        cloud.t2(latent), ((latent[:, 0] - latent[:, 0].mean()) / latent[:, 0].std()) ** 2, atol=0.02
    )
    assert Cloud.of(np.ones((5, 2))).t2(np.ones((3, 2))).tolist() == [0, 0, 0]


def test_the_covariance_of_all_counts_beside_that_of_an_asset():
    fleet = Cloud.of(RNG.normal(size=(1000, 2)))
    own = 3 + 0.5 * RNG.normal(size=(PRIOR, 2))
    near = Cloud.of(own, fleet)
    np.testing.assert_allclose(near.mean, own.mean(axis=0))
    np.testing.assert_allclose(near.covariance, (np.cov(own.T, bias=True) + fleet.covariance) / 2)


@pytest.mark.parametrize("far", [0, 1e6])
def test_the_others_of_each_part(far):
    fleet = Cloud.of(RNG.normal(size=(1000, 3)))
    parts = [far + RNG.normal(size=(rows, 3)) * [1, 2, 3] for rows in (30, 31, 40)]
    for at, others in enumerate(Cloud.of_others(parts, fleet)):
        expected = Cloud.of(np.concatenate(parts[:at] + parts[at + 1 :]), fleet)
        np.testing.assert_allclose(others.mean, expected.mean)
        np.testing.assert_allclose(others.covariance, expected.covariance)


def test_an_asset_that_stood_still_in_training_may_stir():
    fleet = Usual.of(Measured(np.empty((1000, 0)), RNG.normal(size=(1000, 2))))
    still = Measured(np.empty((1000, 0)), 1 + 1e-3 * RNG.normal(size=(1000, 2)))
    stirs, moves = (Measured(np.empty((1, 0)), np.array([[1.0, to]])) for to in (1.05, 4.0))
    assert compare(stirs, still, NONE, fleet)[0, 0] < 2
    assert compare(moves, still, NONE, fleet)[0, 0] > 50
    nothing = Measured(np.empty((1000, 0)), np.full((1000, 2), np.nan))
    np.testing.assert_array_equal(compare(stirs, nothing, NONE, fleet), fleet.rarities(stirs))


@pytest.mark.parametrize(("numbers", "rows"), [(8, 1000), (16, 1000), (32, 2000)])
def test_new_windows_of_an_asset_are_as_rare_as_the_rarity_says(numbers, rows):
    """Windows of 32 rows that overlap, as most do: fitted to themselves, one in ten would be one in a thousand."""

    def overlapping(rows):
        sums = np.cumsum(RNG.normal(size=(rows + 32, numbers)), axis=0)
        return Measured(np.empty((rows, 0)), sums[32:] - sums[:-32])

    fleet = Usual.of(overlapping(20_000))
    shares = [(compare(overlapping(2000), overlapping(rows), NONE, fleet) > 3).mean() for _ in range(5)]
    assert np.mean(shares) < 0.006


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_has_no_rarity_and_spoils_no_other(odd):
    usual = windows(400)
    expected = Usual.of(usual).rarities(usual)
    with_odd = Measured(np.append(usual.measures, [[1.0]], axis=0), np.append(usual.latent, [[odd, 0]], axis=0))
    rarities = Usual.of(with_odd).rarities(with_odd)
    assert np.isnan(rarities[-1, 1])
    np.testing.assert_allclose(rarities[:-1], expected, atol=0.01)
    assert np.isnan(Usual.of(Measured(usual.measures, np.full((400, 2), odd))).rarities(usual)[:, 1]).sum() == 0


def test_without_latent_numbers_the_measures_are_all():
    measures = RNG.exponential(size=(300, 2))
    found = Usual.of(Measured(measures, np.empty((300, 0)))).rarities(Measured(measures, np.empty((300, 0))))
    for part in range(2):
        np.testing.assert_array_equal(found[:, part], Tail.of(measures[:, part]).rarity(measures[:, part]))


def test_an_asset_is_compared_with_itself():
    """Two assets far from each other: what is usual for one is not for the other, though it is for the fleet."""
    a, b = windows(400, at=-5, size=0.1), windows(400, at=5, size=2.0)
    fleet = Usual.of(Measured(*(np.concatenate(parts) for parts in ((a.measures, b.measures), (a.latent, b.latent)))))
    like_b = windows(50, at=5, size=2.0)
    assert np.median(compare(like_b, a, NONE, fleet)[:, 1]) > 5
    assert np.median(compare(like_b, b, NONE, fleet)[:, 1]) < 1
    assert np.median(fleet.rarities(like_b)[:, 1]) < 1
    few = Measured(a.measures[: LEAST_OWN - 1], a.latent[: LEAST_OWN - 1])
    np.testing.assert_array_equal(compare(like_b, few, NONE, fleet), fleet.rarities(like_b))


def test_an_asset_that_was_held_out_is_compared_with_all_and_with_itself():
    fleet = Usual.of(windows(1000, error=5.0))
    quiet = windows(1000)  # its errors are smaller than those of others, also where one is large for it
    fault = Measured(np.full((1, 1), 12.0), quiet.latent[:1])
    assert fleet.rarities(fault)[0, 0] < 4
    assert compare(fault, NONE, quiet, fleet)[0, 0] > 4
    odd = windows(1000, at=[50, -50])  # unlike the others all along
    assert np.median(compare(odd, NONE, odd, fleet)[:, 1]) > 5
    assert np.median(compare(odd, odd, NONE, fleet)[:, 1]) < 1  # one that trains is what is usual
