"""The order of windows, against what it promises: each once, the same for any number of workers, from any step."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from beamfeed.trainer.feed.sampler import Order, Round
from beamfeed.trainer.feed.sharding import Distribution, Share
from beamfeed.trainer.feed.shards import Index


def make_index(windows: list[int]) -> Index:
    counts = np.array(windows, np.int64)
    return Index(np.zeros_like(counts), np.arange(len(counts)), np.ones_like(counts), counts, np.full_like(counts, 9))


def read(order: Order, epoch: int, begin: int = 0) -> list[list[tuple[int, int]]]:
    """(block, window) of each row of each batch of an epoch from a step on."""
    batches = []
    number, skip = divmod(begin, order.round_steps)
    epoch = tf.constant(epoch, tf.int64)
    line = order.line(epoch)
    for nth in range(number, order.rounds):
        found = order.round(line, epoch, tf.constant(nth, tf.int64), skip if nth == number else 0)
        found = Round(*(column.numpy() for column in found))
        blocks = np.append(found.blocks, -1)[found.block]  # -1 stays -1
        rows = list(zip(blocks.tolist(), found.window.tolist(), strict=True))
        size = order.share.size
        batches += [rows[i : i + size] for i in range(0, len(rows), size)]
    return batches


@st.composite
def orders(draw):
    windows = draw(st.lists(st.integers(0, 40), min_size=1, max_size=12).filter(any))
    batch = draw(st.integers(1, 20))
    workers = draw(st.integers(1, min(5, batch)))
    padded = draw(st.booleans())
    steps = -(-sum(windows) // batch) if padded else sum(windows) // batch
    arguments = {
        "steps": steps,
        "round_steps": draw(st.integers(1, 6)),
        "lanes": draw(st.integers(1, min(7, batch))),
        "seed": draw(st.sampled_from([None, 7, -1, 2**70])),
    }
    if not steps:
        return None
    index = make_index(windows)
    return [Order(index, Share(batch, Distribution(i, workers)), **arguments) for i in range(workers)], Order(
        index, Share(batch), **arguments
    )


@given(orders().filter(bool), st.integers(0, 3), st.data())
@settings(max_examples=10, deadline=None)
def test_every_window_once_whoever_reads_it(made, epoch, data):
    parts, alone = made
    whole = read(alone, epoch)
    assert len(whole) == alone.steps
    # Together the workers read the batches of one, row by row.
    shared = [list(itertools.chain(*rows)) for rows in zip(*(read(part, epoch) for part in parts), strict=True)]
    assert shared == whole
    # Each window once; as many as there is room for.
    flat = [row for batch in whole for row in batch if row[0] >= 0]
    total = int(alone.index.windows.sum())
    assert len(flat) == len(set(flat)) == min(total, alone.steps * alone.share.batch_size)
    assert all(window < alone.index.windows[block] for block, window in flat)
    # From any step on.
    begin = data.draw(st.integers(0, alone.steps - 1))
    assert read(alone, epoch, begin) == whole[begin:]
    part = data.draw(st.sampled_from(parts))
    assert read(part, epoch, begin) == read(part, epoch)[begin:]
    # And no block that it does not say that it may need.
    assert opened(part, epoch) <= set(part.blocks().tolist())


def opened(order: Order, epoch: int) -> set[int]:
    """The blocks that are read in an epoch."""
    number = tf.constant(epoch, tf.int64)
    line = order.line(number)
    rounds = [order.round(line, number, tf.constant(nth, tf.int64)) for nth in range(order.rounds)]
    return {block for found in rounds for block in found.blocks.numpy().tolist()}


@pytest.mark.parametrize(("workers", "batch", "counts"), [(1, 8, [5, 9]), (4, 64, [10] * 99), (7, 30, [3, 0, 40] * 9)])
def test_without_shuffling_a_worker_may_need_what_it_reads_and_no_more(workers, batch, counts):
    index, steps = make_index(counts), -(-sum(counts) // batch)
    parts = [Order(index, Share(batch, Distribution(i, workers)), steps, 3, workers, None) for i in range(workers)]
    for part in parts:
        assert opened(part, 0) == set(part.blocks().tolist())
    assert sum(len(part.blocks()) for part in parts) <= len(counts) + workers


def test_workers_with_padding_alone_open_one_block():
    index = make_index([4, 4])
    parts = [Order(index, Share(10, Distribution(i, 5)), 1, 1, 5, None) for i in range(5)]
    assert [part.blocks().tolist() for part in parts] == [[0], [0], [1], [1], [1]]
    assert [sorted(opened(part, 0)) for part in parts] == [[0], [0], [1], [1], [1]]


def test_without_a_seed_and_with_one_lane_the_order_is_kept():
    order = Order(make_index([3, 4, 5]), Share(2), 6, 4, 1, None)
    flat = [row for batch in read(order, 1) for row in batch]
    assert flat == [(0, i) for i in range(3)] + [(1, i) for i in range(4)] + [(2, i) for i in range(5)]


def test_epochs_and_seeds_differ():
    def first(seed, epoch):
        return read(Order(make_index([50] * 4), Share(20), 10, 5, 4, seed), epoch)[0]

    assert first(1, 0) == first(1, 0)
    assert len({str(first(seed, epoch)) for seed in (1, 2, -1) for epoch in (0, 1)}) == 6


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_a_worker_reads_its_share_of_the_blocks(workers):
    index = make_index([10] * 800)
    for worker in range(workers):
        order = Order(index, Share(64, Distribution(worker, workers)), 125, 125, 16, 7)
        epoch = tf.constant(0, tf.int64)
        found = order.round(order.line(epoch), epoch, epoch)
        assert len(found.blocks) <= 800 / workers + 2 * 16 / workers
        assert len(np.unique(found.blocks.numpy())) == len(found.blocks)
