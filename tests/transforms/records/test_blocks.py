"""Blocks of a shard."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from beamfeed.contract.config.prepare import Windows
from beamfeed.transforms.records.blocks import BLOCKS_PER_SHARD, FRAMING_BYTES, cut_blocks


@given(
    st.lists(st.tuples(st.integers(1, 500), st.integers(4, 40)), max_size=600),
    st.integers(1, 5000),
    st.integers(1, 6),
)
def test_blocks_are_the_records_in_order(records, least, stride):
    sizes, rows = (np.array([record[i] for record in records], np.int64) for i in range(2))
    windows = Windows(length=4, stride=stride)
    found = cut_blocks(sizes, rows, windows, least)
    assert sum(found.records) == len(records)
    edges = np.cumsum([0, *found.records])
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        assert high > low
        assert found.bytes[i] == sum(sizes[low:high] + FRAMING_BYTES)
        assert found.windows[i] == sum((row - 4) // stride + 1 for row in rows[low:high])
        # No block that could be cut is much larger than asked for.
        wanted = max(least, -(-int((sizes + FRAMING_BYTES).sum()) // BLOCKS_PER_SHARD))
        assert found.bytes[i] - (sizes[high - 1] + FRAMING_BYTES) < wanted
    assert len(found.records) <= BLOCKS_PER_SHARD
