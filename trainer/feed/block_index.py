"""Where the blocks of a split are. Pure; no TensorFlow."""

from typing import NamedTuple

import numpy as np

from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.blocks import read_blocks
from beamfeed.contract.dataset.manifest import Manifest


class Index(NamedTuple):
    """Where the blocks of a split are, int64 `[blocks]` each."""

    shard: np.ndarray  # number of the shard, in the manifest's order
    offset: np.ndarray  # bytes before it in the shard
    records: np.ndarray
    windows: np.ndarray
    bytes: np.ndarray

    @classmethod
    def read(cls, path: str, manifest: Manifest, split: SplitName) -> "Index":
        """The blocks of a split of the dataset at `path`.

        Raises:
          UserError: if the index is missing, damaged, or not that of the manifest's shards.
        """
        table = read_blocks(path, manifest, split)
        shard, records, windows, size = (table[name].to_numpy() for name in ("shard", "records", "windows", "bytes"))
        before = np.cumsum(size) - size
        first = np.searchsorted(shard, shard)  # the first block of each block's shard
        return cls(shard, before - before[first], records, windows, size)
