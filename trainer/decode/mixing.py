"""Mixup: two windows of a batch and what is wanted of them, mixed.

After Zhang et al. 2017, "mixup: beyond empirical risk minimization". Rows 2k and 2k + 1 of a global batch are mixed
with each other, each with a share of its own. Both are rows of one device where each has an even number of rows, so how
a batch is divided does not matter. A window's own share is the larger one.
"""

import numpy as np
import tensorflow as tf

from beamfeed.trainer.decode.draws import Draws

SHARE = ".share"  # what a batch calls the share of each window itself
OTHER = ".other/"  # begins the name of a field of the window that it is mixed with; no field of a dataset has one such
STEPS = 1024  # of the table of shares


def shares(parameter: float) -> np.ndarray:
    """The quantiles of the larger share, float32 `[STEPS + 1]`: of max(s, 1 - s) where s has Beta(a, a).

    The density of s at 1/2 and above is (s (1 - s))^(a - 1). That of u = (1 - s)^a, which goes from 0 to 2^-a, is
    s^(a - 1), which is finite everywhere: it is added up by trapezoids.
    """
    u = np.linspace(0.0, 0.5**parameter, 4 * STEPS + 1)
    share = 1 - u ** (1 / parameter)
    density = share ** (parameter - 1)
    below = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return np.interp(np.linspace(0, 1, STEPS + 1), below / below[-1], share).astype(np.float32)


def partners(batch: tf.Tensor) -> tf.Tensor:
    """The row that each of so many rows, an even number of them, is mixed with: 1, 0, 3, 2, ..."""
    return tf.bitwise.bitwise_xor(tf.range(batch), 1)


def draw_shares(parameter: float, draws: Draws) -> tf.Tensor:
    """How much of each window stays, float32 `[windows]`, from 0.5 to 1."""
    return draws.looked_up("mixup", shares(parameter))


def mixed(values: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    """Float32 `[windows, ...]`, each with the other one of its pair."""
    share = tf.reshape(share, [-1, *[1] * (values.shape.rank - 1)])
    return share * values + (1 - share) * tf.gather(values, partners(tf.shape(values)[0]))
