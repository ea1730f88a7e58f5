"""Pieces of one long array of bytes, many at a time: joined, and read as lists of numbers and strings."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from beamfeed.contract.records.wire import LONGEST

TAG = 0x0A  # before each string of a list
TOGETHER = 32  # lists from which on their strings are found together, one of each at a time


class Pieces(NamedTuple):
    """Where pieces begin and end in a buffer, int64 `[n]` each."""

    first: np.ndarray
    end: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        sizes: np.ndarray = self.end - self.first
        return sizes


def ranges(first: np.ndarray | int, sizes: np.ndarray) -> np.ndarray:
    """The numbers of ranges, one range after the other: from each `first` on as many as its size, int64."""
    return np.repeat(first - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())


def join(buffer: np.ndarray, pieces: Pieces) -> np.ndarray:
    """The pieces one after the other, uint8."""
    sizes = pieces.sizes
    if not len(sizes) or not sizes.any():
        return np.empty(0, np.uint8)
    if (size := int(sizes[0])) and (sizes == size).all():
        # Every place of the buffer as an element of this size: NumPy copies whole elements.
        every: np.ndarray = np.ndarray((len(buffer) - size + 1,), f"V{size}", buffer, strides=(1,))
        joined: np.ndarray = every[pieces.first].view(np.uint8)
        return joined
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
    if most > LONGEST:
        raise ValueError(f"a number of {most} bytes")
    starts = ends - sizes
    value = (packed[starts] & 0x7F).astype(np.uint64)
    for group in range(1, most):
        longer = np.flatnonzero(sizes > group)
        value[longer] |= (packed[starts[longer] + group] & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * group)
    return value.view(np.int64), ends


def count_numbers(packed: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """How many numbers lists hold that stand one after the other.

    Args:
      packed: uint8, the numbers of all lists, in groups of 7 bits.
      sizes: int64 `[lists]`, bytes of each.

    Returns:
      int64 `[lists]`.

    Raises:
      ValueError: if a list ends inside of a number.
    """
    ends = np.cumsum(sizes)
    if len(packed) and (packed[ends[sizes > 0] - 1] >= 0x80).any():
        raise ValueError("a list ends inside of a number")
    at = np.flatnonzero(packed < 0x80) + 1
    return np.diff(np.searchsorted(at, ends, side="right"), prepend=0)


def find_numbers(buffer: np.ndarray, contents: Pieces) -> tuple[np.ndarray, np.ndarray]:
    """The int64 of lists, list after list, and how many each has.

    Raises:
      ValueError: if something else is there.
    """
    packed = join(buffer, contents)
    counts = count_numbers(packed, contents.sizes)
    return varints(packed)[0], counts


def add_up(numbers: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """What the numbers of lists add up to, int64 `[lists]`; of numbers list after list, and how many each has."""
    edges, ends = np.concatenate([[0], np.cumsum(numbers)]), np.cumsum(counts)
    sums: np.ndarray = edges[ends] - edges[ends - counts]
    return sums


def find_strings(buffer: np.ndarray, contents: Pieces) -> tuple[Pieces, np.ndarray]:
    """Where the strings of lists are, list after list, and how many each has.

    Args:
      buffer: uint8.
      contents: of each list: strings with a tag and their length before each.

    Raises:
      ValueError: if something else is there.
    """
    of, first, end = [], [], []  # the list of each string, and where it is
    at, active = contents.first.copy(), np.flatnonzero(contents.first < contents.end)
    while len(active) >= TOGETHER:
        here = at[active]
        size, begin = varints_at(buffer, here + 1)
        last = begin + size
        if (buffer[here] != TAG).any() or (size < 0).any() or (last > contents.end[active]).any():
            raise ValueError
        of.append(active)
        first.append(begin)
        end.append(last)
        at[active] = last
        active = active[last < contents.end[active]]
    for record in active.tolist():
        edges = np.array(list(_strings(buffer.data, int(at[record]), int(contents.end[record]))), np.int64)
        of.append(np.full(len(edges), record))
        first.append(edges[:, 0])
        end.append(edges[:, 1])
    if not of:
        return Pieces(np.empty(0, np.int64), np.empty(0, np.int64)), np.zeros(len(contents.first), np.int64)
    which = np.concatenate(of)
    order = np.argsort(which, kind="stable")
    strings = Pieces(np.concatenate(first)[order], np.concatenate(end)[order])
    return strings, np.bincount(which, minlength=len(contents.first))


def _strings(memory: memoryview, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Where the strings of one list are."""
    while at < end:
        if memory[at] != TAG:
            raise ValueError
        size, shift = 0, 0
        while True:
            at += 1
            if at >= end:
                raise ValueError
            size |= (memory[at] & 0x7F) << shift
            shift += 7
            if memory[at] < 0x80:
                break
        at += 1
        if at + size > end:
            raise ValueError
        yield at, at + size
        at += size
