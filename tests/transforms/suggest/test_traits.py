"""How the values of series are scaled, repeat, and are alike: against series that were made so."""

import numpy as np
import pytest

from beamfeed.transforms.suggest.traits import BETWEEN, MOST_LATENT, Traits

RNG = np.random.default_rng(0)


def traits(*assets):
    """Of assets of one run each."""
    return Traits(tuple((np.asarray(values, "f4").reshape(len(values), -1),) for values in assets))


def waves(rows, period, noise=0.3, columns=2):
    angles = 2 * np.pi * (np.arange(rows)[:, None] / period + RNG.random(columns))
    return np.sin(angles) + noise * RNG.normal(size=(rows, columns))


def walk(rows, columns=2):
    return np.cumsum(RNG.normal(size=(rows, columns)), axis=0)


@pytest.mark.parametrize("period", [7, 12, 24, 48, 288])
def test_the_period_of_waves_and_of_short_pulses(period):
    rows = 10 * period
    pulses = np.where(np.arange(rows) % period < max(1, period // 10), 1.0, 0.0) + 0.05 * RNG.normal(size=rows)
    assert traits(waves(rows, period)).period == pytest.approx(period, abs=period // 50)
    assert traits(pulses).period == period
    drifting = waves(rows, period) + np.linspace(0, 20, rows)[:, None] + 0.02 * walk(rows)
    assert traits(drifting).period == pytest.approx(period, abs=period // 20)


def test_days_within_weeks_are_the_period():
    hours = np.arange(24 * 7 * 12)
    day = np.sin(2 * np.pi * hours / 24)
    load = np.where(hours // 24 % 7 < 5, 1.0, 0.5) * day + 0.1 * RNG.normal(size=len(hours))
    assert traits(load).period == 24


def test_noise_walks_and_few_repetitions_have_no_period():
    for seed in range(5):
        noise = np.random.default_rng(seed).normal(size=(2000, 3))
        assert traits(noise).period == 0
        assert traits(np.cumsum(noise, axis=0)).period == 0
    assert traits(waves(100, 30)).period == 0  # three of them
    assert traits(waves(500, 20), noise[:500, :2], noise[500:1000, :2]).period == 0  # of one asset in three
    assert traits(np.ones((500, 2))).period == 0
    assert Traits(()).period == 0


def test_how_far_assets_are_apart():
    alike = [RNG.normal(size=(300, 2)) for _ in range(6)]
    assert traits(*alike).apart == pytest.approx(1, abs=0.05)
    levels = [values + 10 * asset for asset, values in enumerate(alike)]
    assert traits(*levels).apart == pytest.approx(1 + 100 * 35 / 12, rel=0.1)  # the variance of 0 to 5
    assert traits(alike[0]).apart == 1 < BETWEEN
    sizes = traits(*(size * values for size, values in zip((0.04, 1, 1, 1, 1, 2e7), alike, strict=True)))
    assert sizes.apart > 1e10
    assert sizes.least_divisor == pytest.approx(0.04, rel=0.1)


def test_in_scaled_units_each_column_weighs_alike_but_for_a_rare_flag():
    rows = 4000
    rare = RNG.random(rows) < 0.002
    series = traits(np.stack([500 + 30 * RNG.normal(size=rows), rare, np.full(rows, 7)], axis=1))
    assert series.flags == 1
    ((run,),) = series.scaled(False).assets
    assert run.std(axis=0) == pytest.approx([1, np.sqrt(rare.mean() * (1 - rare.mean())), 0], abs=1e-3)
    holes = np.array([0, np.nan, 2, 3, np.nan])[:, None].repeat(2, axis=1)
    ((run,),) = Traits(((holes.astype("f4"),),)).scaled(False).assets
    assert np.diff(run[:4], axis=0) == pytest.approx(np.full((3, 2), run[1, 0] - run[0, 0]))
    assert run[4].tolist() == run[3].tolist()


def test_each_asset_in_its_own_units():
    assets = [size * RNG.normal(size=(300, 2)) + size for size in (0.01, 1, 1e6)]
    for (run,) in traits(*assets).scaled(True).assets:
        assert run.mean(axis=0) == pytest.approx([0, 0], abs=1e-4)
        assert run.std(axis=0) == pytest.approx([1, 1], abs=1e-4)


def test_latent_numbers_explain_the_variance_as_all_components_do():
    hidden = RNG.normal(size=(3000, 3)) @ RNG.normal(size=(3, 40))
    series = traits(hidden + 0.01 * RNG.normal(size=hidden.shape))
    count, share = series.latent(1)
    variances = np.linalg.eigvalsh(np.cov(series.assets[0][0].T))[::-1]
    assert count == 3
    assert share == pytest.approx(variances[:3].sum() / variances.sum(), abs=1e-3)
    noise = traits(RNG.normal(size=(3000, 64)))
    assert noise.latent(1)[0] == 8  # one in eight
    assert noise.latent(32)[0] == 8  # more would keep noise
    assert traits(hidden @ RNG.normal(size=(40, 64))).latent(8)[0] == 3 * 8
    wider = RNG.normal(size=(3000, 34)) @ RNG.normal(size=(34, 600))
    assert traits(wider).latent(1)[0] == MOST_LATENT
    assert traits(np.ones((50, 1))).latent(80) == (1, 1.0)  # no window is so long


def test_what_differs_more_other_assets_or_later_rows():
    mixing = RNG.normal(size=(8, 3, 12))

    def parts(early, late):
        """An asset of hidden numbers that two mixings show, one after the other, with gaps."""
        hidden = RNG.normal(size=(600, 3))
        values = np.concatenate([hidden[:420] @ mixing[early], hidden[420:] @ mixing[late]])
        return tuple(np.split((values + 0.1 * RNG.normal(size=values.shape)).astype("f4"), [30, 31, 300]))

    alike = Traits(tuple(parts(0, 0) for _ in range(8))).likeness(4)
    assert alike == pytest.approx((1, 1), abs=0.15)
    differing = Traits(tuple(parts(asset, asset) for asset in range(8))).likeness(4)
    assert differing.other > 1.5 > 1.2 > differing.later
    wearing = Traits(tuple(parts(0, 1) for _ in range(8))).likeness(4)
    assert wearing.later > 3 > 1.2 > wearing.other
    assert Traits(tuple(parts(asset, asset) for asset in range(3))).likeness(4) == (1, 1)  # too few to tell
    assert Traits(tuple(parts(asset, asset) for asset in range(8))).likeness(300) == (1, 1)  # too short
