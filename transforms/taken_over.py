"""The shards of a dataset that another one takes over: by their paths, with their blocks, or copied."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

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


Merges = Mapping[SplitName, Sequence[Sequence[int]]]  # by split, numbers of shards that become one, or of a single one
Parts = dict[SplitName, list[tuple[Shard, np.ndarray]]]  # by split, shards and their blocks


def each_alone(manifest: Manifest) -> Merges:
    """By split, each shard by itself."""
    return {name: [[number] for number in range(len(info.shards))] for name, info in manifest.splits.items()}


def to_copy(output: str, manifest: Manifest, merges: Merges) -> Iterator[ToCopy]:
    """Copies of all shards of a dataset."""
    for name, of_split in merges.items():
        paths, shards = manifest.shard_paths(output, name), manifest.splits[name].shards
        for index, merge in enumerate(of_split):
            records = sum(shards[number].records for number in merge)
            its_paths = tuple(paths[number] for number in merge)
            yield ToCopy(name, index, len(of_split), its_paths, records, shards[merge[0]].folder)


def each_shard(path: str, output: str, but: Collection[str]) -> Iterator[ToCopy]:
    """The shards of the dataset with this manifest, each by itself, but for those in some data folders."""
    base = Manifest.model_validate_json(storage.read_text(path))
    for copied in to_copy(output, base, each_alone(base)):
        if folder_of(base.splits[copied.split].shards[copied.index]) not in but:
            yield copied


def folder_of(shard: Shard) -> str:
    """The data folder that a shard lies in; empty where it does not say."""
    return shard.file.partition("/")[0]


def what_is_left(output: str, manifest: Manifest, merges: Merges, left: Iterable[Left]) -> Parts:
    """The shards that there are when some were copied, each with its path below the output, and their blocks.

    Args:
      output: of the job.
      manifest: of the dataset.
      merges: of all its shards.
      left: of those that were written anew.
    """
    anew = {(rest.split, rest.index): rest for rest in left if rest.shard is not None}
    parts: Parts = {name: [] for name in SPLITS}
    for name, of_split in merges.items():
        paths = manifest.shard_paths(output, name)
        shards = [
            shard.model_copy(update={"file": below_output(output, path)})
            for path, shard in zip(paths, manifest.splits[name].shards, strict=True)
        ]
        blocks = split_index(read_blocks(output, manifest, name), len(shards))
        for index, merge in enumerate(of_split):
            rest = anew.get((name, index))
            if rest is None or rest.shard is None:
                parts[name] += [(shards[number], blocks[number]) for number in merge]
            elif rest.shard.records:
                shard = rest.shard.model_copy(update={"file": below_output(output, rest.path)})
                is_whole = shard.records == sum(shards[number].records for number in merge)
                # Of blocks that are as they were, a training run reads the windows in the same order.
                same = np.concatenate([blocks[number] for number in merge])
                parts[name].append((shard, same if is_whole else rest.blocks))
    return parts


def superseding(manifest: Manifest, before: Manifest) -> Manifest:
    """The manifest with the folders that stay for who reads the one before; done again, as it was done first."""
    if before.data == manifest.data:
        return manifest.model_copy(update={"previous": before.previous, "older": before.older})
    older = [folder for folder in before.folders if folder not in (before.data, *manifest.folders)]
    return manifest.model_copy(update={"previous": before.data, "older": older})
