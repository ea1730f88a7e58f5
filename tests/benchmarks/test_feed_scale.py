"""The arithmetic of docs/scale.md against the order that training has."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from beamfeed.trainer.feed import batching
from beamfeed.trainer.feed.order import Order
from beamfeed.trainer.feed.sharding import Distribution, Share
from beamfeed.trainer.feed.shards import Index

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))  # the scripts import each other as siblings
feed_scale = importlib.import_module("feed_scale")


def test_a_round_is_that_of_training():
    assert feed_scale.ROUND_BYTES == batching.LEAST_BYTES


@pytest.mark.parametrize(
    ("workers", "lanes", "batch", "round_steps"), [(1, 4, 20, 3), (3, 7, 22, 2), (5, 3, 10, 4), (4, 4, 20, 3)]
)
def test_bytes_and_requests_are_those_of_the_blocks_that_are_read(workers, lanes, batch, round_steps):
    random = np.random.default_rng(3)
    windows, size, requests = random.integers(1, 30, 60), random.integers(100, 999, 60), random.integers(1, 4, 60)
    index = Index(np.zeros(60, np.int64), np.cumsum(size) - size, np.ones(60, np.int64), windows, size)
    steps = int(windows.sum()) // batch
    expected = []
    for worker in range(workers):
        order = Order(index, Share(batch, Distribution(worker, workers)), steps, round_steps, lanes, seed=7)
        line = order.line(2)
        rounds = [order.round(line, n).blocks for n in range(order.rounds)]
        expected.append([sum(int(column[blocks].sum()) for blocks in rounds) for column in (size, requests)])
        dealt = line.order
    blocks = feed_scale.Blocks(windows[dealt], size[dealt], requests[dealt])
    found = feed_scale.reads(blocks, batch, workers, lanes, round_steps)
    # A block where two lanes of a worker meet is read once in a round, and counted twice here.
    meets = lanes * order.rounds * size.max()
    for worker, (total, asked) in enumerate(expected):
        assert total <= found.bytes[worker]
        assert asked <= found.requests[worker]
        if lanes >= workers:
            assert found.bytes[worker] <= total + meets
        if lanes == workers:  # else a worker reads of several, or a part of one
            assert (total, asked) == (found.bytes[worker], found.requests[worker])
