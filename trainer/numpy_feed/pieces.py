"""Pieces of one long array of bytes, many at a time: joined, and read as numbers of any length."""

from typing import NamedTuple

import numpy as np

MOST_GROUPS = 10  # of 7 bits, of a number of 64 bits


class Pieces(NamedTuple):
    """Where pieces begin and end in a buffer, int64 `[n]` each."""

    first: np.ndarray
    end: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        return self.end - self.first


def join(buffer: np.ndarray, pieces: Pieces) -> np.ndarray:
    """The pieces one after the other, uint8."""
    sizes = pieces.sizes
    if not len(sizes) or not sizes.any():
        return np.empty(0, np.uint8)
    if (size := int(sizes[0])) and (sizes == size).all():
        # Every place of the buffer as an element of this size: NumPy copies whole elements.
        every = np.ndarray((len(buffer) - size + 1,), f"V{size}", buffer, strides=(1,))
        return every[pieces.first].view(np.uint8)
    return np.concatenate([buffer[first:end] for first, end in zip(*(edge.tolist() for edge in pieces), strict=True)])


def little(buffer: np.ndarray, at: np.ndarray, dtype: str) -> np.ndarray:
    """The little-endian numbers of this dtype that begin at these places."""
    size = np.dtype(dtype).itemsize
    return np.take(buffer, at[:, None] + np.arange(size), mode="clip").view(dtype)[:, 0]


def varints_at(buffer: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers in groups of 7 bits that begin at these places, of at most 5 groups, and where each ends.

    A number of more groups is -1: no size in a record is so large.
    """
    value, shift, open_ = np.zeros(len(at), np.int64), 0, np.ones(len(at), bool)
    at = at.copy()
    while shift < 35 and open_.any():
        byte = np.take(buffer, at, mode="clip").astype(np.int64)
        value = np.where(open_, value | (byte & 0x7F) << shift, value)
        at += open_
        open_ &= byte >= 0x80
        shift += 7
    return np.where(open_, -1, value), at


def varints(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All numbers of a run of them, int64, and where each ends.

    Args:
      packed: uint8; its last byte ends a number.

    Raises:
      ValueError: if a number has more than 64 bits.
    """
    ends = np.flatnonzero(packed < 0x80) + 1
    if len(ends) == len(packed):
        return packed.astype(np.int64), ends
    sizes = np.diff(ends, prepend=0)
    most = int(sizes.max())
    if most > MOST_GROUPS:
        raise ValueError(f"a number of {most} bytes")
    starts = ends - sizes
    value = (packed[starts] & 0x7F).astype(np.uint64)
    for group in range(1, most):
        longer = np.flatnonzero(sizes > group)
        value[longer] |= (packed[starts[longer] + group] & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * group)
    return value.view(np.int64), ends
