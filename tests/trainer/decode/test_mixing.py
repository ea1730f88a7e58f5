"""Mixup's shares against NumPy's beta distribution, and what is mixed with what."""

import numpy as np
import pytest
import tensorflow as tf

from beamfeed.trainer.decode.draws import Draws
from beamfeed.trainer.decode.mixing import draw_shares, mixed, partners, shares


@pytest.mark.parametrize("parameter", [0.1, 0.2, 0.5, 1.0, 3.0])
def test_shares_are_the_larger_ones_of_a_beta_distribution(parameter):
    drawn = np.random.default_rng(0).beta(parameter, parameter, 200_000)
    wanted = np.quantile(np.maximum(drawn, 1 - drawn), [0.02, 0.1, 0.25, 0.5, 0.75, 0.9])
    found = draw_shares(parameter, Draws(1, tf.range(100_000, dtype=tf.int64))).numpy()
    assert found.min() >= 0.5
    assert found.max() <= 1
    np.testing.assert_allclose(np.quantile(found, [0.02, 0.1, 0.25, 0.5, 0.75, 0.9]), wanted, atol=0.01)
    assert (np.diff(shares(parameter)) <= 0).all() or (np.diff(shares(parameter)) >= 0).all()


def test_neighbours_are_mixed_in_pairs():
    np.testing.assert_array_equal(partners(tf.constant(6)), [1, 0, 3, 2, 5, 4])
    values = np.arange(12, dtype="f4").reshape(4, 3)
    share = np.array([1.0, 0.5, 0.75, 0.9], "f4")
    found = mixed(tf.constant(values), tf.constant(share))
    wanted = share[:, None] * values + (1 - share)[:, None] * values[[1, 0, 3, 2]]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
