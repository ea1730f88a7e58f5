"""A dataset of one group's records, in a folder of this machine, for a trainer."""

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence

import google_crc32c
import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.config.split import SPLITS
from beamfeed.contract.dataset.blocks import write_blocks
from beamfeed.contract.dataset.layout import DATA_PREFIX, FILES, LEARNED, DataLayout
from beamfeed.contract.dataset.manifest import Manifest, Shard, SplitInfo, write_manifest
from beamfeed.contract.errors import JobFailed
from beamfeed.contract.records.frames import FRAMING_BYTES
from beamfeed.contract.records.pieces import Pieces, join
from beamfeed.transforms.groups.places import OFFSET, ROWS, SIZE, Group, Place
from beamfeed.transforms.records.blocks import cut_blocks, index_table

READ_BYTES = 8 << 20  # at a time, and the end of a record
GAP_BYTES = 1 << 20  # between two records, from which on they are read one by one: a request costs more
NOT_COPIED = (*SPLITS, "rejects", "tmp", FILES, LEARNED)  # of a data folder


def group_fingerprint(data: str, by: str, name: str) -> str:
    """The identity of the records of a group, 64 hex digits.

    Args:
      data: fingerprint of the dataset.
      by: the field or partition.
      name: of the group.
    """
    return hashlib.sha256("\n".join((data, by, name)).encode()).hexdigest()


def write_dataset(
    folder: str, manifest: Manifest, paths: Mapping[str, Sequence[str]], by: str, group: Group
) -> Manifest:
    """Writes a dataset of a group's records, a shard for each split. What it says of targets stays that of all.

    Args:
      folder: to write to; what says how values were prepared is there already, see `copy_preparation`.
      manifest: of the whole dataset.
      paths: by split, of its shards, which are not compressed.
      by: the field that names groups.
      group: whose records are written.

    Raises:
      JobFailed: if a shard is not as it was scanned.
    """
    layout = preparation_layout(folder)
    splits = {}
    for split in manifest.splits:
        places = [place for place in group.places if place.split == split]
        if not places:
            continue
        path = layout.shard(split, 0, 1)
        crc = google_crc32c.Checksum()
        with storage.open_output(path) as file:
            for place in places:
                for chunk in read_place(paths[split][place.shard], place, manifest.remedy):
                    crc.update(chunk)
                    file.write(chunk)
        records = np.concatenate([place.records for place in places], axis=1)
        blocks = cut_blocks(records[SIZE] - FRAMING_BYTES, records[ROWS], manifest.windows)
        write_blocks(layout.blocks(split), index_table([blocks]))
        windows, size, rows = group.windows[split], int(records[SIZE].sum()), int(records[ROWS].sum())
        shard = Shard(records=records.shape[1], windows=windows, rows=rows, bytes=size, crc32c=crc.digest().hex())
        splits[split] = SplitInfo.of(1, [shard], manifest.splits[split].targets)
    own = manifest.model_copy(
        update={
            "fingerprint": group_fingerprint(manifest.fingerprint, by, group.name),
            "data": layout.folder,
            "previous": None,
            "older": [],
            "grows": None,
            "increments": [],
            "adopted": None,
            "compression": "none",
            "splits": splits,
        }
    )
    write_manifest(folder, own)
    return own


def preparation_layout(folder: str) -> DataLayout:
    """The names in the data folder of a group's dataset."""
    return DataLayout(folder, f"{DATA_PREFIX}group")


def copy_preparation(output: str, manifest: Manifest, folder: str) -> None:
    """Copies what says how values were prepared: the transform graph, statistics, and the like; all or nothing."""
    source, root = manifest.data_layout(output).root, preparation_layout(folder).root
    target = root + ".part"
    shutil.rmtree(target, ignore_errors=True)  # of an attempt that failed
    os.makedirs(target)
    for name in sorted({*storage.list_folder(source)} - {*NOT_COPIED}):
        path = storage.join(source, name)
        if storage.list_folder(path):
            storage.copy_tree(path, storage.join(target, name))
        else:
            storage.write_bytes(storage.join(target, name), storage.read_bytes(path))
    os.rename(target, root)


def read_place(path: str, place: Place, remedy: str) -> Iterator[bytes]:
    """The framed records of a place, some megabytes at a time; those near each other are read together."""
    offsets, ends = place.records[OFFSET], place.records[OFFSET] + place.records[SIZE]
    is_far = (offsets[1:] - ends[:-1] >= GAP_BYTES) | (np.diff(offsets // READ_BYTES) > 0)
    with storage.open_input(path) as file:
        for part in np.split(np.arange(len(offsets)), np.flatnonzero(is_far) + 1):
            begin, end = int(offsets[part[0]]), int(ends[part[-1]])
            file.seek(begin)
            content = file.read(end - begin)
            if len(content) < end - begin:
                raise JobFailed(f"{path}: ends before byte {end}: it changed; {remedy}")
            pieces = Pieces(offsets[part] - begin, ends[part] - begin)
            yield join(np.frombuffer(content, np.uint8), pieces).tobytes()
