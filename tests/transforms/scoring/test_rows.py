"""Rows of windows against a plain loop, over random windows."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamfeed.contract.options import ROW_SCORES
from beamfeed.transforms.scoring.rows import Windows, rows_of_run, runs_of, score_rows, smoothed
from beamfeed.transforms.scoring.tails import Tail


def plain(start, length, values, how):
    rows = []
    for row in range(start[0], start[-1] + length):
        inside = [i for i, s in enumerate(start) if s <= row < s + length]
        if how == "mean":
            rows.append(
                [np.mean(part[~np.isnan(part)]) if any(~np.isnan(part)) else np.nan for part in values[inside].T]
            )
        elif how == "max":
            rows.append(np.max(values[inside], axis=0))
        else:  # the latest window whose last row is no later than this one; as long as there is none, the first
            ended = [i for i, s in enumerate(start) if s + length - 1 <= row]
            rows.append(values[ended[-1] if ended else 0])
    return np.array(rows)


@given(st.integers(1, 9), st.lists(st.integers(1, 9), max_size=30), st.integers(0, 99), st.sampled_from(ROW_SCORES))
def test_rows(length, steps, seed, how):
    start = 5 + np.cumsum([0, *(min(step, length) for step in steps)])
    values = np.random.default_rng(seed).normal(size=(len(start), 2))
    if how == "mean":
        values[::3, 1] = np.nan
    np.testing.assert_allclose(rows_of_run(start, length, values, how), plain(start, length, values, how), atol=1e-9)


@given(st.integers(1, 6), st.lists(st.integers(1, 20), max_size=20))
def test_runs_have_no_row_between_them_that_a_window_has(length, steps):
    start = np.cumsum([0, *steps])
    windows = Windows(start, start * 1.0, start + length - 1.0, np.zeros((len(start), 1)))
    runs = [start[run] for run in runs_of(windows, length, None)]
    assert np.concatenate(runs).tolist() == start.tolist()
    assert all((np.diff(run) <= length).all() for run in runs)
    assert all(after[0] > before[-1] + length for before, after in pairwise(runs))


def test_rows_on_both_sides_of_a_time_that_no_window_may_span_are_apart():
    start, length, step = np.array([0, 2, 4, 8, 12, 14]), 4, 0.1  # between the windows from 4 and 8 on are no rows
    time = start * step + np.where(start >= 8, 1000, 0)
    windows = Windows(start, time, time + 3 * step, np.ones((6, 1)))
    for max_gap, firsts in ((None, [0]), (step, [0, 8]), (2000, [0])):
        runs = list(score_rows(windows, length, "mean", 3, max_gap))
        assert [run.first for run in runs] == firsts
        assert sum(len(run.time) for run in runs) == 18


def test_times_that_are_rounded_part_no_rows():
    time = (17 * 10**17 + np.arange(1000) * 10**8) / 1e9  # 10 Hz in seconds since 1970
    start = np.arange(0, 1000, 4)
    for lost, parts in ((0, 1), (1, 2)):  # no row between two windows, or one of them
        late = time + 0.1 * lost * (np.arange(1000) >= 500)
        windows = Windows(start, late[start], late[start + 3], np.ones((250, 1)))
        assert len(list(runs_of(windows, 4, 0.1))) == parts


@pytest.mark.parametrize("rows", [1, 3, 50])
def test_smoothed(rows):
    values = np.random.default_rng(0).normal(size=(20, 2))
    expected = [values[max(0, at - rows + 1) : at + 1].mean(axis=0) for at in range(20)]
    np.testing.assert_allclose(smoothed(values, rows), expected)
    values[3] = np.nan
    with_gap = smoothed(values, rows)
    assert np.isnan(with_gap[3]).all() == (rows == 1)
    np.testing.assert_allclose(with_gap[-1], values[-rows:][~np.isnan(values[-rows:, 0])].mean(axis=0))


@pytest.mark.parametrize("odd", [1e18, 1e38, np.inf, np.nan])
@pytest.mark.parametrize("smooth", [1, 10])
def test_a_window_of_no_use_changes_its_own_rows_alone(odd, smooth):
    """Such as that of a row with 4294967295 where nothing was measured."""
    rng, count, length = np.random.default_rng(0), 200, 20
    start = np.arange(count)
    tail = Tail.of(rng.exponential(size=1000))

    def scores(measures):
        windows = Windows(start, start * 1.0, start + length - 1.0, tail.rarity(measures))
        (rows,) = score_rows(windows, length, "mean", smooth)
        return rows.scores

    measures = rng.exponential(size=(count, 2))
    measures[150:160] += 20  # the fault
    expected = scores(measures)
    measures[50, 0] = odd
    scores_with_it = scores(measures)
    row = np.arange(len(scores_with_it))
    apart = (row < 50) | (row >= 50 + length + smooth)
    np.testing.assert_allclose(scores_with_it[apart], expected[apart], atol=1e-6)
