"""Random numbers for each window that depend on its place in the training run alone.

They come from a hash of seed, place and what they are for, in whole numbers: so they are the same in any batch, on any
worker, and in a run that goes on.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

# The mixing function of SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").
GOLDEN = 0x9E3779B97F4A7C15
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
MASK = (1 << 64) - 1
BITS = 24  # that float32 holds exactly
PURPOSES = (
    "flip y", "flip x", "crop", "crop y", "crop x", "rotate", "bright", "contrast", "cutout y", "cutout x", "mixup"
)  # fmt: skip


class Draws:
    """Numbers by chance for some windows, all drawn in one pass: what is not used costs next to nothing.

    Args:
      seed: of the run.
      numbers: int64 `[windows]`, the place of each in the run.
      purposes: what numbers are drawn for.
    """

    def __init__(self, seed: int, numbers: tf.Tensor, purposes: Sequence[str] = PURPOSES):
        keys = [mix(mix(seed & MASK) ^ int.from_bytes(what.encode()[:8].ljust(8), "big")) for what in purposes]
        places = tf.bitcast(numbers, tf.uint64) * _constant(GOLDEN)
        bits = _mixed(places[None] + tf.constant(np.array(keys, np.uint64))[:, None])
        shares = tf.cast(tf.bitwise.right_shift(bits, _constant(64 - BITS)), tf.float32) * 2.0**-BITS
        self.numbers = numbers
        self._shares = dict(zip(purposes, tf.unstack(shares, len(purposes)), strict=True))

    def uniform(self, what: str, low: float = 0.0, high: float = 1.0) -> tf.Tensor:
        """Float32 `[windows]`, from `low` to below `high`; others for another purpose."""
        share = self._shares[what]
        return share if (low, high) == (0.0, 1.0) else low + share * (high - low)

    def chance(self, what: str) -> tf.Tensor:
        """Bool `[windows]`: true for about every second one."""
        return self.uniform(what) < 0.5

    def looked_up(self, what: str, table: np.ndarray) -> tf.Tensor:
        """Float32 `[windows]` of a distribution, by its quantiles at even steps from 0 to 1, float32 `[steps]`."""
        place = self.uniform(what) * (len(table) - 1)
        below = tf.cast(place, tf.int32)
        known = tf.constant(table, tf.float32)
        low, high = tf.gather(known, below), tf.gather(known, below + 1)
        return low + (place - tf.cast(below, tf.float32)) * (high - low)


def mix(number: int) -> int:
    """SplitMix64 of one number, of 64 bits."""
    number = (number + GOLDEN) & MASK
    number = ((number ^ (number >> 30)) * FIRST) & MASK
    number = ((number ^ (number >> 27)) * SECOND) & MASK
    return number ^ (number >> 31)


def _mixed(numbers: tf.Tensor) -> tf.Tensor:
    """The same of uint64 `[n]`, to which GOLDEN has been added."""
    numbers = _shifted(numbers, 30) * _constant(FIRST)
    numbers = _shifted(numbers, 27) * _constant(SECOND)
    return _shifted(numbers, 31)


def _shifted(numbers: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.bitwise_xor(numbers, tf.bitwise.right_shift(numbers, _constant(bits)))


def _constant(number: int) -> tf.Tensor:
    return tf.constant(np.uint64(number))
