"""Operations on whole arrays that NumPy and TensorFlow's graph both have, so that a formula is written once.

What Python's operators do with both, such as `+` and `^`, needs no entry here. No TensorFlow is loaded.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

Array = Any  # a NumPy array, or a tensor
# The mixing function of SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Operations(NamedTuple):
    """Those of one of the two; arguments and results are as NumPy's functions of these names have them."""

    cast: Callable[[Any, Any], Array]  # (numbers, dtype of NumPy); what is too large for it wraps
    constant: Callable[[Any], Array]  # (numbers of NumPy); one that is used again need not be made again
    cumsum: Callable[[Array], Array]
    flat: Callable[[Array], Array]
    gather: Callable[[Array, Array], Array]  # (values, places)
    mask: Callable[[Array, Array], Array]  # (values, which are kept) -> `[kept]`
    minimum: Callable[[Any, Any], Array]
    range: Callable[[Any, Any, Any], Array]  # (start, stop, step) -> int64
    search: Callable[[Array, Array], Array]  # (ascending, numbers) -> integers, how many of the first are no greater
    shift: Callable[[Array, np.unsignedinteger[Any]], Array]  # to the right
    unstack: Callable[[Array], Iterable[Array]]  # -> what it holds along its first axis
    unique: Callable[[Array], tuple[Array, Array]]  # -> values in any order, and the place of each number among them


# Functions with names: a dataset of PyTorch's, which holds them, is pickled for a loader's processes.
def _cast(numbers: Any, dtype: Any) -> np.ndarray:
    return np.asarray(numbers).astype(dtype)


def _mask(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return values[mask]


def _range(start: int, stop: int, step: int) -> np.ndarray:
    return np.arange(start, stop, step, dtype=np.int64)


def _search(ascending: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    return np.searchsorted(ascending, numbers, side="right")


def _unique(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.unique(numbers, return_inverse=True)


NUMPY = Operations(
    cast=_cast,
    constant=np.asarray,
    cumsum=np.cumsum,
    flat=np.ravel,
    gather=np.take,
    mask=_mask,
    minimum=np.minimum,
    range=_range,
    search=_search,
    shift=np.right_shift,
    unstack=iter,
    unique=_unique,
)


def mix(states: Array, shift: Callable[[Array, np.unsignedinteger[Any]], Array]) -> Array:
    """The next random number of SplitMix64 from each of these states, uint64 of the same shape.

    Args:
      states: uint64 of at least one axis, as NumPy warns of scalars that wrap.
      shift: to the right; see `Operations`.
    """
    states = states + GOLDEN
    states = (states ^ shift(states, np.uint64(30))) * FIRST
    states = (states ^ shift(states, np.uint64(27))) * SECOND
    return states ^ shift(states, np.uint64(31))
