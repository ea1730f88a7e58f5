"""Cuts a shard into blocks: runs of records that a reader takes with one read, wherever it begins."""

import numpy as np

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.manifest import Blocks
from beamfeed.contract.dataset.windows import count_windows

BLOCK_BYTES = 64 << 10  # small enough that many assets meet in one shuffle, large enough for one read
BLOCKS_PER_SHARD = 256  # at most, so that the manifest stays small: of 128 MB, blocks of 512 KB
FRAMING_BYTES = 16  # that a TFRecord file adds to each record: its length and two checksums


def cut_blocks(sizes: np.ndarray, rows: np.ndarray, windows: Windows, least: int = BLOCK_BYTES) -> Blocks:
    """The blocks of a shard.

    Args:
      sizes: int64 `[records]`, bytes of each serialized record.
      rows: int64 `[records]`, rows in each.
      windows: of the dataset.
      least: bytes that a block has at least, but for the last one.
    """
    if not len(sizes):
        return Blocks(records=[], windows=[], bytes=[])
    sizes = sizes + FRAMING_BYTES
    ends = np.cumsum(sizes)
    # A block begins with each record that begins in another multiple of this.
    wanted = max(least, -(-int(ends[-1]) // BLOCKS_PER_SHARD))
    first = np.flatnonzero(np.diff((ends - sizes) // wanted, prepend=-1))
    counts = count_windows(rows, windows.length, windows.stride)
    return Blocks(
        records=np.diff(first, append=len(sizes)).tolist(),
        windows=np.add.reduceat(counts, first).tolist(),
        bytes=np.add.reduceat(sizes, first).tolist(),
    )
