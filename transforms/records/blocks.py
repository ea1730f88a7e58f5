"""Cuts a shard into blocks: runs of records that a reader takes with one read, wherever it begins."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.blocks import SCHEMA
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.contract.records.frames import FRAMING_BYTES

BLOCK_BYTES = 64 << 10  # small enough that many assets meet in one shuffle, large enough for one read
BLOCKS_PER_SHARD = 256  # at most, so that the index stays small: of 128 MB, blocks of 512 KB


def cut_blocks(sizes: np.ndarray, rows: np.ndarray, windows: Windows, least: int = BLOCK_BYTES) -> np.ndarray:
    """The blocks of a shard.

    Args:
      sizes: int64 `[records]`, bytes of each serialized record.
      rows: int64 `[records]`, rows in each.
      windows: of the dataset.
      least: bytes that a block has at least, but for the last one.

    Returns:
      int64 `[blocks, 3]`: records, windows and bytes of each.
    """
    if not len(sizes):
        return np.empty([0, 3], np.int64)
    sizes = sizes + FRAMING_BYTES
    ends = np.cumsum(sizes)
    # A block begins with each record that begins in another multiple of this.
    step = max(least, -(-int(ends[-1]) // BLOCKS_PER_SHARD))
    first = np.flatnonzero(np.diff((ends - sizes) // step, prepend=-1))
    counts = count_windows(rows, windows.length, windows.stride)
    records = np.diff(first, append=len(sizes))
    return np.stack([records, np.add.reduceat(counts, first), np.add.reduceat(sizes, first)], axis=1)


def index_table(shards: Sequence[np.ndarray]) -> pa.Table:
    """The index of a split, with the columns of `contract.dataset.blocks.SCHEMA`, from the blocks of its shards."""
    shard = np.repeat(np.arange(len(shards)), [len(blocks) for blocks in shards])
    blocks = np.concatenate([np.empty([0, 3], np.int64), *shards])
    return pa.table([shard, *blocks.T], names=SCHEMA.names)


def split_index(index: pa.Table, shards: int) -> list[np.ndarray]:
    """The blocks of each of so many shards: what `index_table` makes the index of."""
    blocks = np.stack([index[name].to_numpy() for name in SCHEMA.names[1:]], axis=1)
    return np.split(blocks, np.searchsorted(index["shard"].to_numpy(), np.arange(1, shards))) if shards else []
