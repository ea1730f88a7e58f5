"""Random numbers for each window that depend on its place in the training run alone.

They come from a hash of seed, place and what they are for, in whole numbers: so they are the same in any batch, on any
worker, and in a run that goes on.
"""

import numpy as np
import tensorflow as tf

from beamfeed.trainer.operations import GOLDEN, mix

BITS = 24  # that float32 holds exactly
PURPOSES = (
    "flip y", "flip x", "crop", "crop y", "crop x", "rotate", "bright", "contrast", "cutout y", "cutout x", "mixup"
)  # fmt: skip


class Draws:
    """Numbers by chance for some windows, all drawn in one pass: what is not used costs next to nothing.

    Args:
      seed: of the run.
      numbers: int64 `[windows]`, the place of each in the run.
    """

    def __init__(self, seed: int, numbers: tf.Tensor):
        words = np.array([int.from_bytes(purpose.encode()[:8].ljust(8), "big") for purpose in PURPOSES], np.uint64)
        keys = mix(mix(np.array([seed % 2**64], np.uint64), np.right_shift) ^ words, np.right_shift)
        places = tf.bitcast(numbers, tf.uint64) * GOLDEN
        bits = mix(places[None] + (keys - GOLDEN)[:, None], tf.bitwise.right_shift)
        shares = tf.cast(tf.bitwise.right_shift(bits, np.uint64(64 - BITS)), tf.float32) * 2.0**-BITS
        self.numbers = numbers
        self._shares = dict(zip(PURPOSES, tf.unstack(shares, len(PURPOSES)), strict=True))

    def uniform(self, purpose: str, low: float = 0.0, high: float = 1.0) -> tf.Tensor:
        """Float32 `[windows]`, from `low` to below `high`; others for another purpose."""
        share = self._shares[purpose]
        return share if (low, high) == (0.0, 1.0) else low + share * (high - low)

    def chance(self, purpose: str) -> tf.Tensor:
        """Bool `[windows]`: true for about every second one."""
        return self.uniform(purpose) < 0.5

    def looked_up(self, purpose: str, table: np.ndarray) -> tf.Tensor:
        """Float32 `[windows]` of a distribution, by its quantiles at even steps from 0 to 1, float32 `[steps]`."""
        place = self.uniform(purpose) * (len(table) - 1)
        below = tf.cast(place, tf.int32)
        quantiles = tf.constant(table, tf.float32)
        low, high = tf.gather(quantiles, below), tf.gather(quantiles, below + 1)
        return low + (place - tf.cast(below, tf.float32)) * (high - low)
