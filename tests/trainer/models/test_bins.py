"""Bins of a column's values, against plain loops."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from beamfeed.trainer.models.bins import LEAST_ROWS, encoding, find_edges

FLOATS = st.floats(-1e6, 1e6, width=32)


def encoded(value, edges, count):
    """As far as a value is into each bin."""
    shares = [min(1.0, max(0.0, (value - low) / (high - low))) for low, high in itertools.pairwise(edges)]
    return shares + [0.0] * (count - len(shares))


@given(arrays(np.float32, st.integers(1, 60), elements=FLOATS), st.integers(1, 20))
def test_edges_rise_from_the_lowest_value_within_the_values(values, count):
    edges = find_edges(values, count)
    assert edges[0] == values.min()
    assert edges[-1] <= values.max()
    assert len(edges) <= count + 1
    assert (np.diff(edges) > 0).all()
    assert set(edges) <= set(values.astype(np.float64))


@pytest.mark.parametrize("count", [1, 4, 16])
def test_bins_hold_equally_many_values(count):
    values = np.random.default_rng(0).normal(size=1600).astype("f4")
    edges = find_edges(values, count)
    within = [((low < values) & (values <= high)).sum() for low, high in itertools.pairwise(edges)]
    assert within == [1600 // count - 1, *[1600 // count] * (count - 1)]


def test_a_value_that_most_rows_share_takes_one_bin_of_many():
    values = np.concatenate([np.zeros(9000), np.random.default_rng(0).exponential(size=1000) + 1]).astype("f4")
    edges = find_edges(values, 16)
    assert edges[0] == 0
    assert len(edges) >= 10  # quantiles of all rows would leave two
    assert np.median(edges[1:]) == pytest.approx(np.median(values[9000:]), rel=0.2)


def test_values_too_near_for_float32_share_a_bin():
    edges = find_edges(np.array([1e4, 1e4 + 0.001, 1e4 + 1, 2e4], np.float32), 8)
    assert edges.tolist() == [1e4, 1e4 + 1, 2e4]


@given(arrays(np.float32, st.tuples(st.integers(1, 30), st.just(2)), elements=st.floats(-100, 100, width=16)))
def test_the_encoding_is_how_far_a_value_is_into_each_bin(some):
    rows = np.tile(some, (5 * LEAST_ROWS, 1))
    kernel, bias = encoding(rows, 5)
    shares = np.clip(rows[:, :, None] * kernel + bias, 0, 1)
    for column in range(2):
        edges = find_edges(rows[:, column], 5)
        expected = np.tile([encoded(float(value), edges, 5) for value in some[:, column]], (5 * LEAST_ROWS, 1))
        np.testing.assert_allclose(shares[:, column], expected, atol=2e-2 if len(edges) > 1 else 0)


def test_of_few_rows_there_are_fewer_bins():
    rows = np.random.default_rng(0).normal(size=(3 * LEAST_ROWS + 5, 1)).astype("f4")
    kernel, _ = encoding(rows, 64)
    assert kernel.shape == (1, 64)
    assert np.count_nonzero(kernel) == 3
