"""Framing of pools: the blocks that windows are copied in."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from trainer.framing import Frame, block_rows, find_starts, gather


@pytest.mark.parametrize(
    ("counts", "length", "stride", "block"),
    [([12, 20], 8, 4, 4), ([12, 21], 8, 4, 1), ([9, 7], 7, 2, 1), ([6], 6, 9, 3), ([], 8, 4, 4)],
)
def test_windows_are_copied_in_the_largest_blocks_that_all_records_keep_to(counts, length, stride, block):
    frame = Frame(length, stride, 2)
    rows = np.arange(2 * sum(counts), dtype="f4").reshape(-1, 2)
    lengths = tf.constant(counts, tf.int64)
    found = block_rows(lengths, frame)
    starts = find_starts(lengths, frame, None)
    windows = gather(tf.constant(rows), starts, found, frame)
    assert found == block
    edges = np.cumsum([0, *counts])
    expected = [
        rows[first : first + length]
        for low, high in itertools.pairwise(edges)
        for first in range(low, high - length + 1, stride)
    ]
    np.testing.assert_array_equal(windows, np.array(expected, "f4").reshape(-1, length, 2))
