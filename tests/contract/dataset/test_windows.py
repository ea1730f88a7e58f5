"""The one formula of windows against plain loops, on integers, arrays and tensors."""

import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from beamfeed.contract.dataset.windows import count_rows, count_windows, end_window, first_row, first_window

lengths, strides = st.integers(1, 40), st.integers(1, 40)


def windows_in(begin: int, end: int, length: int, stride: int) -> list[int]:
    """The windows that lie in rows [begin, end), by looking at each."""
    return [n for n in range(end + 1) if begin <= n * stride and n * stride + length <= end]


@given(st.integers(0, 200), lengths, strides)
def test_count_is_that_of_a_plain_loop(rows, length, stride):
    expected = windows_in(0, rows, length, stride)
    assert count_windows(rows, length, stride) == len(expected)
    if expected:
        assert count_rows(len(expected), length, stride) == first_row(expected[-1], stride) + length <= rows


@given(st.integers(0, 100), st.integers(0, 200), lengths, strides)
def test_a_run_that_starts_anywhere_holds_the_windows_of_a_plain_loop(begin, rows, length, stride):
    low, high = first_window(begin, stride), end_window(begin + rows, length, stride)
    assert list(range(low, high)) == windows_in(begin, begin + rows, length, stride)


@given(st.lists(st.integers(0, 200), max_size=8), lengths, strides)
def test_arrays_and_tensors_give_what_integers_give(rows, length, stride):
    array = np.array(rows, np.int64)
    for function in (
        lambda n: count_windows(n, length, stride),
        lambda n: count_rows(n, length, stride),
        lambda n: first_row(n, stride),
        lambda n: first_window(n, stride),
        lambda n: end_window(n, length, stride),
    ):
        expected = [function(n) for n in rows]
        assert function(array).tolist() == expected
        found = function(tf.constant(array))
        assert found.dtype == tf.int64
        assert found.numpy().tolist() == expected


def test_no_rows_hold_no_window():
    assert [count_windows(rows, 8, 4) for rows in range(-3, 9)] == [0] * 11 + [1]
