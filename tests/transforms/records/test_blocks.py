"""Blocks of a shard."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.records.frames import FRAMING_BYTES
from beamfeed.transforms.records.blocks import BLOCKS_PER_SHARD, cut_blocks, index_table


@given(
    st.lists(st.tuples(st.integers(1, 500), st.integers(4, 40)), max_size=600),
    st.integers(1, 5000),
    st.integers(1, 6),
)
def test_blocks_are_the_records_in_order(records, least, stride):
    sizes, rows = (np.array([record[i] for record in records], np.int64) for i in range(2))
    windows = Windows(length=4, stride=stride)
    found = cut_blocks(sizes, rows, windows, least)
    told = found[:, 0]
    assert sum(told) == len(records)
    edges = np.cumsum([0, *told])
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        assert high > low
        assert found[i, 2] == sum(sizes[low:high] + FRAMING_BYTES)
        assert found[i, 1] == sum((row - 4) // stride + 1 for row in rows[low:high])
        # No block that could be cut is much larger than asked for.
        wanted = max(least, -(-int((sizes + FRAMING_BYTES).sum()) // BLOCKS_PER_SHARD))
        assert found[i, 2] - (sizes[high - 1] + FRAMING_BYTES) < wanted
    assert len(found) <= BLOCKS_PER_SHARD


def test_the_index_of_a_split_names_the_shard_of_each_block():
    shards = [np.array([[1, 2, 3], [4, 5, 6]]), np.empty([0, 3], np.int64), np.array([[7, 8, 9]])]
    assert index_table(shards).to_pylist() == [
        {"shard": 0, "records": 1, "windows": 2, "bytes": 3},
        {"shard": 0, "records": 4, "windows": 5, "bytes": 6},
        {"shard": 2, "records": 7, "windows": 8, "bytes": 9},
    ]
    assert index_table([]).num_rows == 0
