"""Where windows are: the one formula that counts and places them.

A window is `length` rows that follow each other, and one starts every `stride`
rows, counted from row 0. The functions use operators alone, so that they take
Python's integers, NumPy arrays and TensorFlow's tensors alike; all must be
integers.
"""

from typing import Any

Integers = Any  # an int, or an array or tensor of integers; what is returned is of the same type

MISMATCH = "the windows in the shards differ from the manifest"  # what feeds say where they do


def count_windows(rows: Integers, length: int, stride: int) -> Integers:
    """How many whole windows there are in `rows` rows, the first of them starting at the first row.

    Example:
      >>> [count_windows(rows, length=8, stride=4) for rows in (0, 7, 8, 11, 12)]
      [0, 0, 1, 1, 2]
    """
    count = (rows - length) // stride + 1
    return (count + abs(count)) // 2  # not below 0


def count_rows(windows: Integers, length: int, stride: int) -> Integers:
    """How many rows so many windows that follow each other span; at least one window.

    Example:
      >>> count_rows(3, length=8, stride=4)
      16
    """
    return (windows - 1) * stride + length


def first_row(window: Integers, stride: int) -> Integers:
    """The row at which a window starts."""
    return window * stride


def first_window(row: Integers, stride: int) -> Integers:
    """The first window that starts at this row or after it.

    Example:
      >>> [first_window(row, stride=4) for row in (0, 1, 4)]
      [0, 1, 1]
    """
    return -(-row // stride)


def end_window(end: Integers, length: int, stride: int) -> Integers:
    """The window after the last one that ends before the row `end`; with length 1, that starts before it.

    Example:
      >>> [end_window(end, length=8, stride=4) for end in (8, 11, 12)]
      [1, 1, 2]
    """
    return (end - length) // stride + 1
