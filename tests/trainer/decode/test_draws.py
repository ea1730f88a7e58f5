"""Numbers by chance: against SplitMix64 in plain Python, and whether they are as even as chance is."""

import numpy as np
import tensorflow as tf

from beamfeed.trainer.decode.draws import BITS, Draws

GOLDEN, FIRST, SECOND, MASK = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 2**64 - 1


def splitmix(state: int) -> int:
    """The published generator, one step from a state."""
    z = (state + GOLDEN) & MASK
    z = ((z ^ (z >> 30)) * FIRST) & MASK
    z = ((z ^ (z >> 27)) * SECOND) & MASK
    return z ^ (z >> 31)


def test_numbers_are_the_hash_of_seed_place_and_purpose():
    numbers = np.array([0, 1, 77, 2**40 + 3])
    found = Draws(5, tf.constant(numbers)).uniform("crop").numpy()
    key = splitmix(splitmix(5) ^ int.from_bytes(b"crop    ", "big"))
    for number, one in zip(numbers.tolist(), found, strict=True):
        bits = splitmix((key + (number - 1) * GOLDEN) & MASK)
        assert one == np.float32((bits >> (64 - BITS)) / 2**BITS)


def test_they_are_even_and_do_not_hang_on_the_batch():
    numbers = tf.range(40_000, dtype=tf.int64)
    whole = Draws(1, numbers).uniform("crop x")
    parts = [Draws(1, numbers[at : at + 1000]).uniform("crop x") for at in range(0, 40_000, 1000)]
    np.testing.assert_array_equal(whole, tf.concat(parts, 0))
    counts = np.bincount((whole.numpy() * 20).astype(int), minlength=20)
    assert np.abs(counts - 2000).max() < 6 * np.sqrt(2000)
    others = [
        Draws(1, numbers).uniform("crop y"),
        Draws(2, numbers).uniform("crop x"),
        Draws(1, numbers + 1).uniform("crop x"),
    ]
    for other in others:
        assert abs(np.corrcoef(whole, other)[0, 1]) < 0.03
    between = Draws(1, numbers).uniform("crop x", -3.0, 5.0).numpy()
    assert between.min() >= -3
    assert between.max() < 5
    np.testing.assert_allclose(between, whole.numpy() * 8 - 3, atol=1e-6)


def test_a_table_of_quantiles_gives_its_distribution():
    table = np.linspace(0, 1, 101) ** 2
    found = Draws(3, tf.range(50_000, dtype=tf.int64)).looked_up("mixup", table).numpy()
    np.testing.assert_allclose(np.quantile(found, [0.1, 0.5, 0.9]), [0.01, 0.25, 0.81], atol=0.02)
