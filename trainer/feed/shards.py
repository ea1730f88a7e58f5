"""Where the shards of a split are, and the blocks in them. No TensorFlow."""

from typing import NamedTuple

import numpy as np

from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.blocks import read_blocks
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat
from beamfeed.trainer.feed.cache import local_copies


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


def find_shards(manifest: Manifest, path: str, split: SplitName) -> list[FileStat]:
    """The shards of a split, in the manifest's order.

    Raises:
      UserError: if one is missing, or of one that others wrote the size is another.
    """
    by_path = manifest.list_shards(path, split)
    paths = manifest.shard_paths(path, split)
    for name, shard in zip(paths, manifest.splits[split].shards, strict=True):
        if name not in by_path:
            raise UserError(f"{name}: the manifest lists this shard, but it is missing; {manifest.remedy}")
        if manifest.adopted is not None and by_path[name].size != shard.bytes:  # somebody else may write there
            raise UserError(
                f"{name}: changed since it was adopted: it has {by_path[name].size:,} bytes, "
                f"the manifest says {shard.bytes:,}; {manifest.remedy}"
            )
    return [by_path[name] for name in paths]


def copy_shards(manifest: Manifest, path: str, split: SplitName, needed: np.ndarray) -> list[str]:
    """The paths of a split's shards, in the manifest's order; of those that are needed, int64 numbers, copies here.

    Raises:
      UserError, JobFailed: see `find_shards` and `local_copies`.
    """
    listed = find_shards(manifest, path, split)
    paths, chosen = [stat.path for stat in listed], np.unique(needed).tolist()
    copies = local_copies(
        manifest.data_layout(path).root, [listed[shard] for shard in chosen], manifest.compression, manifest.remedy
    )
    for shard, copy in zip(chosen, copies, strict=True):
        paths[shard] = copy
    return paths
