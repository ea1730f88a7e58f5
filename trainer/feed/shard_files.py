"""The files of a split's shards, as they lie there now. Pure but for the look at them; no TensorFlow."""

from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat


def find_shards(manifest: Manifest, path: str, split: SplitName) -> list[FileStat]:
    """The shards of a split, in the manifest's order.

    Raises:
      UserError: if one is missing, or of one that others wrote the size is another.
    """
    found = manifest.list_shards(path, split)
    paths = manifest.shard_paths(path, split)
    for name, shard in zip(paths, manifest.splits[split].shards, strict=True):
        if name not in found:
            raise UserError(f"{name}: the manifest lists this shard, but it is missing; {manifest.remedy}")
        if manifest.adopted is not None and found[name].size != shard.bytes:  # somebody else may write there
            raise UserError(
                f"{name}: changed since it was adopted: it has {found[name].size:,} bytes, "
                f"the manifest says {shard.bytes:,}; {manifest.remedy}"
            )
    return [found[name] for name in paths]
