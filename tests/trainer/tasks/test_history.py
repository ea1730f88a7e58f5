"""The period of series, from how they correlate with themselves."""

import math

import pytest

from beamfeed.trainer.tasks.history import main_period


@pytest.mark.parametrize("period", [4, 7, 24])
def test_a_wave_has_its_period_and_not_a_multiple(period):
    assert main_period([math.cos(2 * math.pi * lag / period) for lag in range(4 * period)]) == period


def test_the_stronger_of_two_periods_is_told():
    waves = [math.cos(2 * math.pi * lag / 24) + 0.2 * math.cos(2 * math.pi * lag / 6) for lag in range(100)]
    assert main_period(waves) == 24


@pytest.mark.parametrize(
    "covariance",
    [[], [0.0] * 9, [float("nan")] * 9, [1 / (1 + lag) for lag in range(50)], [1.0, *([0.01, -0.01] * 20)]],
)
def test_what_does_not_repeat_has_none(covariance):
    assert main_period(covariance) is None
