"""Whether what a manifest names is there, and what is there besides."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset import layout
from beamfeed.contract.dataset.manifest import Manifest, SplitInfo, find_replaceable, write_manifest
from beamfeed.contract.errors import UserError


def leftovers(output: str, manifest: Manifest) -> list[str]:
    """Paths in the output that belong neither to the published dataset nor to the one before it."""
    names = storage.list_folder(output)
    stale = [
        name
        for name in names
        if name.startswith(f"{layout.MANIFEST}.tmp-")
        or (name.startswith(layout.DATA_PREFIX) and name not in (*manifest.folders, manifest.previous, *manifest.older))
    ]
    temporary = manifest.data_layout(output).temporary
    return [storage.join(output, name) for name in stale] + ([temporary] if storage.list_folder(temporary) else [])


def replace_manifest(output: str, manifest: Manifest, before: Manifest | None) -> None:
    """Publishes a manifest in place of the one before, and removes what it does not name."""
    write_manifest(output, manifest)
    for path in leftovers(output, manifest):
        storage.remove_tree(path)
    if before is not None:
        _remove_superseded(output, manifest, before)


def _remove_superseded(output: str, manifest: Manifest, before: Manifest) -> None:
    """Removes what is beside shards in folders that the manifest before needed whole, and this one does not."""
    whole = (manifest.data, *manifest.base[:1], manifest.previous)
    for folder in {*before.base[:1], before.previous}:
        if folder is None or folder in whole or folder not in manifest.folders:
            continue
        names = layout.DataLayout(output, folder)
        for split in SPLITS:
            storage.remove_file(names.blocks(split))
        for name in storage.list_folder(names.root):
            path = storage.join(names.root, name)
            if "." in name:
                storage.remove_file(path)
            elif name not in SPLITS:
                storage.remove_tree(path)


def read_complete(output: str, fingerprint: str) -> Manifest | None:
    """The published manifest if it is of this fingerprint and its shards are all in place, else None."""
    manifest, _ = find_replaceable(output)
    if manifest is None or manifest.fingerprint != fingerprint or not is_complete(output, manifest):
        return None
    return manifest


def is_complete(output: str, manifest: Manifest) -> bool:
    """Whether the shards of a manifest, and their indices, are all in place."""
    return next(out_of_place(output, manifest), None) is None


def out_of_place(output: str, manifest: Manifest) -> Iterator[str]:
    """The shards of a manifest, and their indices, that are not there, or not as it says."""
    names = manifest.data_layout(output)
    filled: dict[SplitName, SplitInfo] = {split: info for split, info in manifest.splits.items() if info.shards}
    sizes_of = {path: stat.size for path, stat in manifest.list_shards(output, *filled).items()}
    for split, info in filled.items():
        for path, shard in zip(manifest.shard_paths(output, split), info.shards, strict=True):
            if sizes_of.get(path) != shard.bytes:
                yield path
        index = names.blocks(split)
        if index not in sizes_of and not (manifest.adopted is not None and storage.exists(index)):
            yield index


def check_owner(job: Job, published: Manifest | None, option: str = "--replace") -> None:
    """Refuses to replace a dataset that another job made: one of another name, or on other files.

    Of a dataset from before manifests told their files, the name alone says whose it is.

    Args:
      job: that is to write to its output.path.
      published: what is there.
      option: that replaces it, for the message.

    Raises:
      UserError
    """
    source = list(job.source.patterns)
    if published is None or (published.name == job.name and published.source in ([], source)):
        return
    output = job.output.path
    written = datetime.fromtimestamp(storage.stat(layout.manifest_path(output)).mtime / 1e9, UTC)
    raise UserError(
        f"output.path: {output} holds the dataset of another job: {_label(published.name, published.source)}, written "
        f"{written:%Y-%m-%d %H:%M} UTC; this job is {_label(job.name, source)}; give another output.path, or replace "
        f"what is there with {option}"
    )


def _label(name: str, source: Sequence[str]) -> str:
    more = f" and {len(source) - 1} more" if len(source) > 1 else ""
    return f"{name}, of {source[0]}{more}" if source else name
