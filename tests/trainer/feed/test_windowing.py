"""Framing: the pieces that windows are copied in."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.trainer.feed.fields import PLACE, FieldSelection
from beamfeed.trainer.feed.parsing import Parsed
from beamfeed.trainer.feed.windowing import find_windows, gather


@pytest.mark.parametrize(
    ("counts", "length", "stride", "piece"),
    [([12, 20], 8, 4, 4), ([12, 21], 8, 4, 1), ([9, 7], 7, 2, 1), ([6], 6, 9, 3)],
)
def test_windows_are_copied_in_the_largest_pieces_that_all_records_keep_to(counts, length, stride, piece):
    field = Field(name="values", dtype="float32", shape=(2,), role="input")
    selection = FieldSelection((field,), field, Windows(length=length, stride=stride))
    rows = np.arange(2 * sum(counts), dtype="f4").reshape(-1, 2)
    lengths = tf.constant(counts, tf.int64)
    ones = tf.ones_like(lengths)
    found = find_windows(Parsed({"values": tf.constant(rows)}, lengths, ones), ones, selection)
    windows = gather(found.columns, {"row": found.starts}, found.piece, selection)["values"]
    assert found.piece == piece
    edges = np.cumsum([0, *counts])
    expected = [
        rows[first : first + length]
        for low, high in itertools.pairwise(edges)
        for first in range(low, high - length + 1, stride)
    ]
    np.testing.assert_array_equal(windows, np.array(expected, "f4").reshape(-1, length, 2))


def test_one_long_record_beside_many_short_ones_takes_no_memory_for_each_of_them():
    counts = tf.concat([tf.ones([1 << 18], tf.int64), [1 << 18]], 0)
    field = Field(name="values", dtype="float32", shape=(1,), role="input")
    selection = FieldSelection((field, PLACE), field, Windows(length=2, stride=1))
    rows = tf.range(1 << 19, dtype=tf.float32)[:, None]
    # A mask of the records by the most windows that one has would take 64 GB.
    found = find_windows(Parsed({"values": rows}, counts, tf.ones_like(counts)), tf.constant([len(counts)]), selection)
    assert found.columns[PLACE.name].numpy().tolist() == [[row, 1 << 18] for row in range((1 << 18) - 1)]
    np.testing.assert_array_equal(found.starts, np.arange((1 << 18) - 1) + (1 << 18))
