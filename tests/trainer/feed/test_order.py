"""The order of windows, against what it promises: each once, the same whoever reads, from any step, and by chance."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from beamfeed.contract.dataset.fingerprint import ORDER
from beamfeed.trainer.feed.graph import GRAPH
from beamfeed.trainer.feed.order import Order, Round, permutations
from beamfeed.trainer.feed.sharding import Distribution, Share
from beamfeed.trainer.feed.shards import Index
from beamfeed.trainer.operations import NUMPY


def make_index(windows: list[int]) -> Index:
    counts = np.array(windows, np.int64)
    return Index(np.zeros_like(counts), np.arange(len(counts)), np.ones_like(counts), counts, np.full_like(counts, 9))


def read(order: Order, epoch: int, begin: int = 0) -> list[list[tuple[int, int]]]:
    """(block, window) of each row of each batch of an epoch from a step on; (-1, -1) is padding."""
    number, skip = divmod(begin, order.round_steps)
    line = order.line(epoch)
    rounds = [order.round(line, nth, skip if nth == number else 0) for nth in range(number, order.rounds)]
    return [batch for found in rounds for batch in batches_of(order, found)]


def batches_of(order: Order, found: Round) -> list[list[tuple[int, int]]]:
    """The same of a round."""
    blocks, first, block, place, there = (np.asarray(column) for column in found)
    assert len(set(blocks.tolist())) == len(blocks)
    rows = np.where(there, [blocks[block], place - first[block]], -1).T
    return [[(one, other) for one, other in batch] for batch in rows.reshape(-1, order.share.size, 2).tolist()]


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
        "seed": draw(st.sampled_from([None, 7, -1, 2**63, 2**70])),
    }
    if not steps:
        return None
    index = make_index(windows)
    return [Order(index, Share(batch, Distribution(i, workers)), **arguments) for i in range(workers)], Order(
        index, Share(batch), **arguments
    )


@given(orders().filter(bool), st.integers(0, 3), st.data())
@settings(max_examples=100)
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
    line = order.line(epoch)
    return {block for nth in range(order.rounds) for block in order.round(line, nth).blocks.tolist()}


@given(orders().filter(bool), st.integers(0, 2**40), st.integers(1, 4), st.data())
@settings(max_examples=60, deadline=None)
def test_the_graph_has_the_same_order(made, epoch, stride, data):
    order = data.draw(st.sampled_from([*made[0], made[1]]))
    graph = replace(order, operations=GRAPH)
    at = tf.constant(epoch, tf.int64)
    line, expected = graph.line(at), order.line(epoch)
    for found, one in zip(line, expected, strict=True):
        np.testing.assert_array_equal(found, one)
    number = data.draw(st.integers(0, order.rounds - 1))
    whole = batches_of(order, order.round(expected, number))
    skip = data.draw(st.integers(0, len(whole) - 1))
    some = order.round(expected, number, skip, stride)
    assert batches_of(order, some) == whole[skip::stride]
    assert set(some.block) == set(range(len(some.blocks)))
    there = graph.round(line, tf.constant(number, tf.int64), tf.constant(skip, tf.int64), stride)
    assert batches_of(order, there) == whole[skip::stride]


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


def test_the_order_stays_or_its_number_is_raised():
    found = read(Order(make_index([30, 7, 0, 25]), Share(6), 10, 4, 3, 7), 1)
    assert (ORDER, found[0], found[-1]) == (
        2,
        [(1, 2), (1, 4), (3, 13), (3, 15), (0, 12), (0, 14)],
        [(3, 10), (3, 12), (0, 7), (0, 4), (0, 26), (0, 24)],
    )


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_a_worker_reads_its_share_of_the_blocks(workers):
    index = make_index([10] * 800)
    for worker in range(workers):
        order = Order(index, Share(64, Distribution(worker, workers)), 125, 125, 16, 7)
        found = order.round(order.line(0), 0)
        assert len(found.blocks) <= 800 / workers + 2 * 16 / workers
        assert len(np.unique(found.blocks)) == len(found.blocks)


def drawn(count: int, size: int, most: int) -> np.ndarray:
    """So many permutations, int64 `[count, size]`."""
    found = permutations(np.array([5], np.uint64), np.arange(count), np.full(count, size), most, NUMPY)
    return found.reshape(count, size).astype(np.int64)


@pytest.mark.parametrize("most", [6, 2000])
@pytest.mark.parametrize("size", range(1, 7))
def test_each_permutation_of_a_few_comes_as_often_as_the_others(size, most):
    kinds, count = math.factorial(size), 40_000 if most < 256 else 4000
    found = drawn(count, size, most)
    assert (np.sort(found, axis=1) == np.arange(size)).all()
    _, often = np.unique(found, axis=0, return_counts=True)
    assert_even(np.append(often, np.zeros(kinds - len(often)))[None], count / kinds)


@pytest.mark.parametrize("size", [200, 256, 2500, 4096])
def test_a_permutation_is_as_even_as_chance(size):
    found = drawn(400, size, size)
    assert (np.sort(found, axis=1) == np.arange(size)).all()
    parts = found * 8 // size
    wide = size // 8
    places = [(parts[:, at : at + wide] == part).sum(1) for at in range(0, 8 * wide, wide) for part in range(8)]
    assert_even(np.stack(places, 1), wide / 8)
    for apart in (1, 2, 8, size // 2):  # what was side by side is not afterwards, and no rule says how far apart
        jumps = (found[:, apart:] - found[:, :-apart]) % size * 16 // size
        assert_even(np.stack([(jumps == part).sum(1) for part in range(16)], 1), (size - apart) / 16)


def assert_even(counts: np.ndarray, expected: float) -> None:
    """Chi-square of each row of counts, `[cases, kinds]`: their mean, and none that stands out."""
    freedom = counts.shape[1] - 1
    found = ((counts - expected) ** 2 / expected).sum(1)
    assert found.mean() <= freedom + 6 * math.sqrt(2 * freedom / len(found))
    assert found.max() <= freedom + 8 * math.sqrt(2 * freedom)
