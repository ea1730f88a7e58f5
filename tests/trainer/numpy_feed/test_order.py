"""The order in NumPy, against the one that TensorFlow's graph computes."""

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from beamfeed.trainer.feed.sampler import Order as GraphOrder
from beamfeed.trainer.feed.sharding import Distribution, Share
from beamfeed.trainer.feed.shards import Index
from beamfeed.trainer.numpy_feed.order import Order


@st.composite
def arguments(draw):
    windows = np.array(draw(st.lists(st.integers(0, 40), min_size=1, max_size=12).filter(any)), np.int64)
    batch = draw(st.integers(1, 20))
    workers = draw(st.integers(1, min(5, batch)))
    total = int(windows.sum())
    index = Index(np.zeros_like(windows), np.arange(len(windows)), np.ones_like(windows), windows, windows)
    return {
        "index": index,
        "share": Share(batch, Distribution(draw(st.integers(0, workers - 1)), workers)),
        "steps": -(-total // batch) if draw(st.booleans()) else max(1, total // batch),
        "round_steps": draw(st.integers(1, 6)),
        "lanes": draw(st.integers(1, min(7, batch))),
        "seed": draw(st.sampled_from([None, 0, 7, -1, 2**70, 2**63])),
    }


@given(arguments(), st.integers(0, 2**40), st.data())
@settings(max_examples=150)
def test_each_round_is_that_of_the_graph(options, epoch, data):
    order, graph = Order(**options), GraphOrder(**options)
    number = data.draw(st.integers(0, graph.rounds - 1))
    at = tf.constant(epoch, tf.int64)
    expected_line = graph.line(at)
    line = order.line(epoch)
    np.testing.assert_array_equal(line.order, expected_line.order)
    np.testing.assert_array_equal(line.first, expected_line.first)
    expected = graph.round(expected_line, at, tf.constant(number, tf.int64))
    found = order.round(line, epoch, number)
    assert windows_of(found.blocks, found.block, found.window) == windows_of(*(column.numpy() for column in expected))


def windows_of(blocks, block, window) -> list[tuple[int, int]]:
    """(block, window) of each row, in order; (-1, 0) is padding."""
    numbers = np.append(blocks, -1)[np.ravel(block)]
    return list(zip(numbers.tolist(), np.ravel(window).tolist(), strict=True))


@given(arguments(), st.integers(1, 4), st.data())
@settings(max_examples=40)
def test_some_batches_of_a_round_are_these(options, stride, data):
    order = Order(**options)
    line = order.line(3)
    whole = order.round(line, 3, 0)
    count = len(whole.block)
    chosen = np.arange(data.draw(st.integers(0, count - 1)), count, stride)
    found = order.round(line, 3, 0, chosen)
    assert windows_of(found.blocks, found.block, found.window) == windows_of(
        whole.blocks, whole.block[chosen], whole.window[chosen]
    )
    assert set(found.blocks) == {number for number, _ in windows_of(*found) if number >= 0}
