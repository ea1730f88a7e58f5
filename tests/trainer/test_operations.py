"""The mixing function, against the published generator."""

import numpy as np
import pytest
import tensorflow as tf

from beamfeed.trainer.operations import GOLDEN, NUMPY, mix


@pytest.mark.parametrize("shift", [NUMPY.shift, tf.bitwise.right_shift])
def test_the_mixing_function_is_the_published_one(shift):
    # The first numbers of SplitMix64 from the seed 1234567, as its reference implementation gives them.
    states = np.array([1234567], np.uint64) + np.arange(5, dtype=np.uint64) * GOLDEN
    assert np.asarray(mix(states, shift)).tolist() == [
        6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821
    ]  # fmt: skip
