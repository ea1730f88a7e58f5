"""Writes what belongs to an adopted folder beside its shards, or elsewhere; the manifest last."""

import json

from beamfeed.contract import storage
from beamfeed.contract.config.split import SPLITS
from beamfeed.contract.dataset.blocks import write_blocks
from beamfeed.contract.dataset.manifest import Manifest, find_manifest, write_manifest
from beamfeed.contract.errors import UserError
from beamfeed.transforms.adopt.conclude import DATA_PREFIX, KIND, Adoption
from beamfeed.transforms.records.blocks import index_table
from beamfeed.transforms.rejects import to_jsonl
from beamfeed.transforms.taken_over import superseding


def find_adopted(out: str) -> Manifest | None:
    """The manifest of an earlier adoption; None where there is none.

    Raises:
      UserError: if there is a dataset that was preprocessed, or what is no manifest.
    """
    try:
        manifest = find_manifest(out)
    except UserError as error:
        raise UserError(f"{error}; or --out DIR puts what is written elsewhere") from None
    if manifest is not None and manifest.kind != KIND:
        raise UserError(
            f"{out}: already holds a dataset of Beamfeed ({manifest.name}); train on it as it is: output.path"
        )
    return manifest


def publish(adoption: Adoption, out: str) -> Manifest:
    """Publishes an adopted folder; what an earlier adoption wrote goes, but for that just before. Changes no shard.

    Done twice, it comes to the same.
    """
    before, manifest = find_adopted(out), adoption.manifest
    if before is not None:
        manifest = superseding(manifest, before)
    layout = manifest.data_layout(out)
    for name in SPLITS:
        write_blocks(layout.blocks(name), index_table(adoption.blocks[name]))
    storage.write_text(layout.stats, json.dumps(adoption.stats, indent=1) + "\n")
    if adoption.rejects:
        storage.write_text(layout.rejects, to_jsonl(adoption.rejects))
    write_manifest(out, manifest)
    for folder in storage.list_folder(out):
        if folder.startswith(DATA_PREFIX) and folder not in (manifest.data, manifest.previous, *manifest.older):
            storage.remove_tree(storage.join(out, folder))
    return manifest
