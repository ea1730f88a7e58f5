"""The shards of a dataset that another one takes over: by their paths, with their blocks, or copied."""

from collections.abc import Collection, Iterable, Iterator

import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.blocks import read_blocks
from beamfeed.contract.dataset.manifest import Manifest, Shard
from beamfeed.transforms.records.blocks import split_index
from beamfeed.transforms.records.rewrite import Left, ToCopy


def below_output(output: str, path: str) -> str:
    """A path in the folder of the manifest, as the manifest has it."""
    return path.removeprefix(storage.join(output, ""))


def named_shards(output: str, manifest: Manifest, split: SplitName) -> list[Shard]:
    """The shards of a dataset, each with its path below the output."""
    paths = manifest.shard_paths(output, split)
    return [
        shard.model_copy(update={"file": below_output(output, path)})
        for path, shard in zip(paths, manifest.splits[split].shards, strict=True)
    ]


def each_shard(path: str, output: str, but: Collection[str]) -> Iterator[ToCopy]:
    """The shards of the dataset with this manifest, each by itself, but for those in some data folders."""
    base = Manifest.model_validate_json(storage.read_text(path))
    for name, info in base.splits.items():
        for number, (file, shard) in enumerate(zip(base.shard_paths(output, name), info.shards, strict=True)):
            if folder_of(shard) in but:
                continue
            yield ToCopy(name, number, len(info.shards), (file,), shard.records, shard.folder)


def folder_of(shard: Shard) -> str:
    """The data folder that a shard lies in; empty where it does not say."""
    return shard.file.partition("/")[0]


def base_shards(
    output: str, base: Manifest, left: Iterable[Left], but: Collection[str]
) -> dict[SplitName, list[tuple[Shard, np.ndarray]]]:
    """The shards of the dataset that is added to, each with its path below the output, and their blocks.

    Args:
      output: of the job.
      base: that dataset.
      left: of those that were written anew.
      but: data folders whose shards are not taken.
    """
    anew = {(rest.split, rest.index): rest for rest in left if rest.shard is not None}
    shards: dict[SplitName, list[tuple[Shard, np.ndarray]]] = {name: [] for name in SPLITS}
    for name in SPLITS:
        blocks = split_index(read_blocks(output, base, name), len(base.splits[name].shards))
        for number, shard in enumerate(named_shards(output, base, name)):
            if folder_of(shard) in but:
                continue
            rest = anew.get((name, number))
            if rest is None:
                shards[name].append((shard, blocks[number]))
            elif rest.shard is not None and rest.shard.records:
                file = below_output(output, rest.path)
                shards[name].append((rest.shard.model_copy(update={"file": file}), rest.blocks))
    return shards


def superseding(manifest: Manifest, before: Manifest) -> Manifest:
    """The manifest with the folders that stay for who reads the one before."""
    older = [folder for folder in before.folders if folder not in (before.data, *manifest.folders)]
    return manifest.model_copy(update={"previous": before.data, "older": older})
