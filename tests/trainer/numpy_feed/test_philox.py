"""Random numbers, seeds and shuffles, against TensorFlow's own."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from beamfeed.trainer.numpy_feed.philox import draw, fold_in, shuffled

NUMBERS = st.integers(-(2**63), 2**63 - 1)
SEEDS = st.tuples(NUMBERS, NUMBERS)


def as_seeds(pairs) -> np.ndarray:
    return np.array(pairs, np.int64).reshape(-1, 2)


@given(st.lists(SEEDS, min_size=1, max_size=4), st.integers(1, 41))
@settings(max_examples=40)
def test_numbers_are_tensorflows(seeds, count):
    expected = [
        tf.random.stateless_uniform([count], tf.constant(seed, tf.int64), None, None, tf.uint32).numpy()
        for seed in seeds
    ]
    np.testing.assert_array_equal(draw(as_seeds(seeds), count), expected)


@given(SEEDS, st.lists(NUMBERS, min_size=1, max_size=4))
@settings(max_examples=40)
def test_seeds_of_64_bits_are_tensorflows(seed, data):
    expected = [tf.random.fold_in(tf.constant(seed, tf.int64), tf.constant(one, tf.int64)).numpy() for one in data]
    np.testing.assert_array_equal(fold_in(np.array(seed, np.int64), np.array(data, np.int64)), expected)


@given(SEEDS, st.integers(-(2**31), 2**31 - 1))
@settings(max_examples=40)
def test_seeds_of_32_bits_are_tensorflows(seed, data):
    expected = tf.random.fold_in(tf.constant(seed, tf.int64), tf.constant(data, tf.int32)).numpy()
    found = fold_in(np.array(seed, np.int64), data, bits=32)
    np.testing.assert_array_equal(found, expected)
    # It is int32 there: as a seed it means the same in both.
    np.testing.assert_array_equal(
        shuffled(found[None], 9)[0], tf.random.experimental.stateless_shuffle(tf.range(9), tf.constant(expected))
    )


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 6, 1000, 70_001])
def test_shuffles_are_tensorflows(size):
    seeds = as_seeds([(0, 0), (-1, 7), (2**62, -(2**61))])
    values = tf.range(size, dtype=tf.int64)
    expected = [tf.random.experimental.stateless_shuffle(values, tf.constant(seed)).numpy() for seed in seeds]
    np.testing.assert_array_equal(shuffled(seeds, size), expected)
