"""TensorFlow's stateless random numbers on a CPU, bit for bit, in NumPy.

Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): a block cipher of a counter,
four numbers of 32 bits at a time. How a seed becomes key and counter, and how a shuffle draws, is as the operations
behind `tf.random.fold_in` and `tf.random.experimental.stateless_shuffle` have it. Tests compare each with TensorFlow's.

A seed is a pair of int64, as there. All functions take many at once: `[..., 2]`.
"""

from typing import NamedTuple

import numpy as np

ROUNDS = 10
FACTORS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
RAISES = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
SCRAMBLE = np.uint64(0x3EC8F720), np.uint64(0x02461E29)  # the key under which seeds are made keys
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


class Stream(NamedTuple):
    """Where a stream of random numbers begins, uint64 below 2^32, `[...]` each."""

    key: tuple[np.ndarray, np.ndarray]
    upper: tuple[np.ndarray, np.ndarray]  # of the counter, its third and fourth part; the others count up from 0


def cipher(count: np.ndarray, stream: Stream) -> np.ndarray:
    """The numbers at these places of a stream, four for each.

    Args:
      count: uint64, the lower half of the counter.
      stream: whose shapes fit that of `count`.

    Returns:
      uint64 `[..., 4]`, each below 2^32.
    """
    (low, high), (third, fourth) = (count & LOW, count >> HALF), stream.upper
    one, other = stream.key
    for _ in range(ROUNDS):
        product, second = low * FACTORS[0], third * FACTORS[1]
        low, high, third, fourth = (
            (second >> HALF) ^ high ^ one,
            second & LOW,
            (product >> HALF) ^ fourth ^ other,
            product & LOW,
        )
        one, other = (one + RAISES[0]) & LOW, (other + RAISES[1]) & LOW
    return np.stack(np.broadcast_arrays(low, high, third, fourth), axis=-1)


def open_stream(seed: np.ndarray) -> Stream:
    """The stream of a seed, int64 `[..., 2]`."""
    first, second = np.moveaxis(np.asarray(seed, np.int64).view(np.uint64), -1, 0)
    mixed = cipher(first, Stream(SCRAMBLE, (second & LOW, second >> HALF)))  # type: ignore[arg-type]
    return Stream((mixed[..., 0], mixed[..., 1]), (mixed[..., 2], mixed[..., 3]))


def draw(seed: np.ndarray, count: int) -> np.ndarray:
    """The first numbers of a seed's stream, uint32 `[..., count]`; the seed is int64 `[..., 2]`."""
    stream = open_stream(seed)
    groups = np.arange(-(-count // 4), dtype=np.uint64)
    wide = Stream(*(tuple(part[..., None] for part in pair) for pair in stream))  # type: ignore[arg-type]
    numbers = cipher(groups, wide).astype(np.uint32)
    return numbers.reshape(*numbers.shape[:-2], -1)[..., :count]


def fold_in(seed: np.ndarray, data: np.ndarray | int, bits: int = 64) -> np.ndarray:
    """Another seed, as `tf.random.fold_in` makes it.

    Args:
      seed: int64 `[..., 2]`.
      data: int64 `[...]`, what is folded in.
      bits: 64, or 32 where TensorFlow is given an int32.

    Returns:
      int64 `[..., 2]`.
    """
    numbers = draw(seed, 2)
    if bits == 32:
        drawn = numbers[..., 0].astype(np.int32).astype(np.int64)
    else:
        wide = numbers.astype(np.uint64)
        drawn = (wide[..., 0] | wide[..., 1] << HALF).astype(np.int64)
    return np.stack(np.broadcast_arrays(drawn, np.asarray(data, np.int64)), axis=-1)


def shuffled(seeds: np.ndarray, size: int) -> np.ndarray:
    """0 to size - 1 in the order of `tf.random.experimental.stateless_shuffle`, by Fisher and Yates.

    Args:
      seeds: int64 `[n, 2]`.
      size: of each permutation.

    Returns:
      int64 `[n, size]`.
    """
    if size < 2:
        return np.zeros([len(seeds), size], np.int64)
    places = np.arange(size - 1)
    jumps = draw(seeds, size - 1) % np.arange(size, 1, -1, dtype=np.uint32)
    return np.stack([_swapped(targets) for targets in (places + jumps).tolist()])


def _swapped(targets: list[int]) -> np.ndarray:
    """Swaps each place with its target, in order; each swap needs those before it, so this is a loop of Python's."""
    found = list(range(len(targets) + 1))
    for place, target in enumerate(targets):
        found[place], found[target] = found[target], found[place]
    return np.array(found, np.int64)
