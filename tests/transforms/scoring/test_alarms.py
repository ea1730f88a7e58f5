"""The threshold against the distribution that scores were drawn from; intervals against a plain loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from beamfeed.transforms.scoring.alarms import intervals, pairs_of, peaks_over_threshold


@pytest.mark.parametrize("shape", [0.0, 0.2, -0.3])
def test_the_threshold_is_exceeded_as_often_as_it_may_be(shape):
    distribution = stats.genpareto(shape)
    scores = distribution.rvs(50_000, random_state=0)
    for risk in (1e-2, 1e-3, 1e-4):
        assert distribution.sf(peaks_over_threshold(scores, risk)) == pytest.approx(risk, rel=0.35)


def test_few_scores_and_none():
    assert peaks_over_threshold(np.arange(10.0), 0.1) == pytest.approx(np.quantile(np.arange(10.0), 0.9))
    assert peaks_over_threshold(np.full(1000, 3.0), 0.001) == 3
    assert peaks_over_threshold(np.array([np.nan]), 0.001) == np.inf


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 5), st.integers(0, 4))
def test_intervals(flagged, least, gap):
    found = [row for first, end in intervals(np.array(flagged, bool), least, gap).tolist() for row in range(first, end)]
    runs: list[list[int]] = []
    for row in [row for row, flag in enumerate(flagged) if flag]:
        if runs and row - runs[-1][-1] - 1 <= gap:
            runs[-1] += range(runs[-1][-1] + 1, row + 1)
        else:
            runs.append([row])
    assert found == [row for run in runs if len(run) >= least for row in run]


@pytest.mark.parametrize("seed", range(5))
def test_the_windows_that_touch_an_interval(seed):
    rng = np.random.default_rng(seed)
    edges = np.sort(rng.choice(200, 2 * rng.integers(1, 20), replace=False)).reshape(-1, 2)
    starts, length = rng.integers(0, 200, 50), int(rng.integers(1, 30))
    expected = {
        (window, at)
        for window, start in enumerate(starts)
        for at, (first, last) in enumerate(edges)
        if start <= last and start + length > first
    }
    windows, intervals = pairs_of(starts, length, *edges.T)
    assert len(windows) == len(expected)
    assert set(zip(windows.tolist(), intervals.tolist(), strict=True)) == expected
