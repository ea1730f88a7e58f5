import numpy as np
import pytest

from beamfeed.transforms.statistics.moments import Moments
from beamfeed.transforms.statistics.quantiles import RowSample
from beamfeed.transforms.statistics.scaling import QUANTILES, Scaling

WAYS = ("standard", "minmax", "robust", "none")


def scaling(values, how: str) -> Scaling:
    values = np.asarray(values, "f4")
    sample = RowSample.zero(values.shape[1]).extend(values, "a", np.arange(len(values)))
    return Scaling.of(Moments.of(values), how, sample.quantiles(QUANTILES))


def column(*values: float) -> np.ndarray:
    return np.array(values, "f4")[:, None]


def only(found: Scaling) -> tuple[float, float]:
    return float(found.offset[0]), float(found.divisor[0])


@pytest.mark.parametrize("how", WAYS)
def test_constant_and_empty_columns_scale_to_finite_values(how):
    values = np.stack([np.full(1000, 518.67), np.full(1000, np.nan), np.arange(1000)], 1).astype("f4")
    moments = Moments.of(values[:300]) + Moments.of(values[300:])
    assert moments.std()[0] == 0
    quantiles = RowSample.zero(values.shape[1]).extend(values, "a", np.arange(1000)).quantiles(QUANTILES)
    found = Scaling.of(moments, how, quantiles)
    offset, divisor = found.rows
    assert np.isfinite(offset).all()
    assert (divisor > 0).all()
    if how != "none":
        assert ((values[:, 0] - offset[0]) / divisor[0] == 0).all()
        assert (found.divisor > 0).tolist() == [False, False, True]
    nothing = Scaling.of(Moments.zero(2), how, RowSample.zero(2).quantiles(QUANTILES)).rows
    assert nothing.tolist() == [[0, 0], [1, 1]]


def test_robust_is_the_median_and_the_middle_half():
    rng = np.random.default_rng(0)
    values = rng.normal(50, 3, (4001, 1)).astype("f4")
    values[:200] = 1e6  # a sensor that fails
    low, median, high = np.quantile(values.astype("f8"), [0.25, 0.5, 0.75])
    assert only(scaling(values, "robust")) == (np.float32(median), np.float32(high - low))
    assert scaling(values, "standard").divisor[0] > 1e5


@pytest.mark.parametrize(
    ("changed", "divisor"),
    [
        (0.3, 2.0),  # the quarters differ
        (0.2, 2.0),  # the twentieths do
        (0.04, np.sqrt(0.04 * 0.96) * 2),  # neither: standard deviation
        (0.0, 0.0),  # constant
    ],
)
def test_robust_falls_back_to_wider_quantiles_and_then_to_the_deviation(changed, divisor):
    values = np.full((1000, 1), 7, "f4")
    values[: int(1000 * changed)] = 9
    found = only(scaling(values, "robust"))
    assert found == (7.0, pytest.approx(divisor, rel=1e-6))


def test_robust_without_a_value_in_the_sample_is_standard():
    values = column(np.nan, np.nan, np.nan, 1, 5)
    unseen = RowSample.zero(values.shape[1]).extend(values[:3], "a", np.arange(3)).quantiles(QUANTILES)
    assert only(Scaling.of(Moments.of(values), "robust", unseen)) == (3.0, 2.0)


@pytest.mark.parametrize("how", ["standard", "minmax", "robust"])
def test_what_float32_cannot_tell_apart_is_constant(how):
    values = np.full((100, 2), 16_777_216, "f4")
    values[:, 1] = 1e-3
    values[::2] = np.nextafter(values[::2], np.float32(np.inf))  # the next number that there is
    found = scaling(values, how)
    assert found.divisor.tolist() == [0, 0]
    assert found.rows[1].tolist() == [1, 1]
    small = column(*(np.arange(100) * 1e-20))
    assert 0 < scaling(small, how).divisor[0] < 1e-17


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (3, 250), (1e6, 1e6 + 2)])
def test_a_column_of_two_values_is_divided_by_their_distance_however_rare_one_is(low, high):
    rng = np.random.default_rng(0)
    rare, even, odd = rng.random(60_000) < 1e-3, rng.random(60_000) < 0.5, rng.random(60_000) < 1e-3
    values = np.stack([np.where(one, high, low) for one in (rare, even, odd)], 1).astype("f4")
    values[17, 2] = (low + high) / 2  # a third value
    values[::7] = np.nan
    moments = Moments.of(values[:20_000]) + Moments.of(values[20_000:])
    assert moments.two_valued().tolist() == [True, True, values[17, 2] in (low, high)]
    plain, found = Scaling.of(moments, "standard"), Scaling.of(moments, "standard").with_flags(moments)
    assert found.divisor[0] == high - low > 10 * plain.divisor[0]
    assert found.divisor[1] == high - low == pytest.approx(2 * plain.divisor[1], rel=1e-3)
    assert found.divisor[2] == plain.divisor[2]
    assert (found.offset == plain.offset).all()


def test_a_column_without_two_values_is_no_flag():
    moments = Moments.of(np.array([[np.nan, 5, 1], [np.nan, 5, 2]], "f4"))
    assert moments.two_valued().tolist() == [False, False, True]
    assert not Moments.zero(2).two_valued().any()
    plain = Scaling.of(moments, "standard")
    np.testing.assert_array_equal(plain.with_flags(moments).rows[:, :2], plain.rows[:, :2])


def test_robust_without_quantiles_and_other_ways_are_refused():
    with pytest.raises(ValueError, match="'robust'"):
        Scaling.of(Moments.zero(1), "robust")
    with pytest.raises(ValueError, match="'median'"):
        Scaling.of(Moments.zero(1), "median")


def test_no_divisor_of_an_asset_is_under_the_least_divisor():
    fleet = Scaling(np.zeros(5, "f4"), np.array([100, 100, 100, 100, 0], "f4"))
    asset = Scaling(np.arange(5, dtype="f4"), np.array([50, 0.5, 0, 1, 0.001], "f4"))
    assert asset.under_min(fleet, 0.01).tolist() == [False, True, True, False, False]
    found = asset.at_least(fleet, 0.01)
    assert found.offset.tolist() == asset.offset.tolist()
    np.testing.assert_allclose(found.divisor, [50, 1, 100, 1, 0.001])  # a constant one gets the fleet's
    off = asset.at_least(fleet, 0)
    assert off.divisor.tolist() == asset.divisor.tolist()
    assert off.rows[1].tolist() == [50, 0.5, 1, 1, np.float32(0.001)]


def test_the_least_divisor_is_of_what_assets_usually_have_not_of_how_far_apart_they_are():
    divisors = np.array([[0.04, 3], [0.5, 0], [7.9, 0], [20, 0], [2e7, 0]], "f4")
    own = [Scaling(np.zeros(2, "f4"), one) for one in divisors]
    fleet = Scaling(np.zeros(2, "f4"), np.array([9e6, 5], "f4")).with_usual(sum(one.sizes for one in own))
    assert fleet.usual.tolist() == [
        6,
        3,
    ]  # the medians of what is not constant, 7.9 and 3, lie from 4 to 8, and from 2 to 4
    scaled = np.array([one.at_least(fleet, 0.05).divisor for one in own])
    np.testing.assert_allclose(scaled[:, 0], [0.3, 0.5, 7.9, 20, 2e7])
    assert scaled[:, 1].tolist() == [3, 5, 5, 5, 5]  # a constant one gets the fleet's
    counts = sum(one.count_under(fleet, 0.05) for one in own)
    assert counts.tolist() == [[1, 4], [1, 0], [5, 5]]
    every = np.array([2.0**-149, 2.0**-126, 1, 1.5, 3e38, 0], "f4")
    found = Scaling(np.zeros(6, "f4"), np.full(6, 7, "f4")).with_usual(Scaling(np.zeros(6, "f4"), every).sizes)
    assert found.usual.tolist() == [2.0**-148, 1.5 * 2.0**-126, 1.5, 1.5, 1.5 * 2.0**127, 7]


def test_features_and_assets_under_the_least_divisor_are_counted():
    fleet = Scaling(np.zeros(3, "f4"), np.array([9, 9, 0], "f4"))
    divisors = np.array([[5, 5, 5], [0.001, 5, 0], [0.002, 0, 0], [5, 5, 0]], "f4")
    counts = sum(Scaling(np.zeros(3, "f4"), own).count_under(fleet, 0.01) for own in divisors)
    assert counts.tolist() == [[2, 1, 0], [2, 0, 0], [4, 4, 4]]
