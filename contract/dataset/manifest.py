"""A dataset's manifest: all that a reader needs to know, in one small file written last."""

import os
import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from beamfeed.contract import storage
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset import layout
from beamfeed.contract.errors import UserError

FORMAT: Literal[2] = 2


_NUMBERS = re.compile(r"\[[\d,\s]*\]")  # a list of them, which JSON with indents gives a line each


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Blocks(_Strict):
    """Where a reader can begin in a shard: runs of records one after the other, each small enough for one read.

    All lists have one number for each block.
    """

    records: list[int]
    windows: list[int]
    bytes: list[int] = Field(description="In the file; of a compressed one, in what it holds.")


class Shard(_Strict):
    """One TFRecord file, as it was read back after writing."""

    file: str = Field(description="Path relative to the data folder, such as train/part-00000-of-00016.tfrecord")
    records: int
    windows: int
    rows: int = Field(description="Rows in the records; rows that two records share count twice.")
    bytes: int
    crc32c: str = Field(description="CRC-32C of the whole file, 8 hex digits.")
    blocks: Blocks

    @model_validator(mode="after")
    def _adds_up(self) -> "Shard":
        blocks = self.blocks
        if not len(blocks.records) == len(blocks.windows) == len(blocks.bytes):
            raise ValueError("the lists of its blocks differ in length")
        if (sum(blocks.records), sum(blocks.windows)) != (self.records, self.windows):
            raise ValueError("its blocks hold other records or windows than itself")
        return self


class SplitInfo(_Strict):
    """One split of the dataset."""

    assets: int = Field(description="Assets with at least one window in this split.")
    windows: int
    records: int
    bytes: int
    shards: list[Shard]


class Counts(_Strict):
    """What was found in the input."""

    files: int
    assets: int = Field(description="Assets found, rejected ones included.")
    rejected_assets: int
    rejected_files: int
    rows_read: int = Field(description="Rows of the accepted assets.")


class Manifest(_Strict):
    """The published dataset. Paths in it are relative to the folder that holds it."""

    format: Literal[2] = FORMAT
    name: str
    kind: Literal["timeseries"]
    fingerprint: str
    data: str = Field(description="The data folder, such as data-0f3a…")
    previous: str | None = Field(None, description="The data folder before it, which a trainer may still read.")
    features: list[str] = Field(description="The columns of a window, in order.")
    windows: Windows
    records: Literal["segments", "windows"]
    compression: Literal["none", "gzip"]
    counts: Counts
    splits: dict[SplitName, SplitInfo]

    def data_layout(self, output: str) -> layout.DataLayout:
        """The names inside the data folder."""
        return layout.DataLayout(output, self.data)

    def shard_paths(self, output: str, split: SplitName) -> list[str]:
        """The split's shards in order. Readers open these and nothing else."""
        root = self.data_layout(output).root
        return [storage.join(root, shard.file) for shard in self.splits[split].shards]


def find_manifest(output: str) -> Manifest | None:
    """Reads the manifest of the dataset at `output`; None where none is published.

    Raises:
      UserError: if there is one that cannot be understood.
    """
    path = layout.manifest_path(output)
    try:
        text = storage.read_text(path)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise UserError(f"{output}: is a file, not the folder of a dataset") from None
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: is not a manifest of this version: {place}: {first['msg']}") from None


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Reads the manifest of the dataset in the folder `path`, local or gs://.

    Raises:
      UserError: if there is none, or one that cannot be understood.

    Example:
      >>> manifest = beamfeed.read_manifest("out/data")
      >>> manifest.features
      ['inlet_bar', 'outlet_bar', 'flow_m3h']
    """
    path = os.fspath(path)
    manifest = find_manifest(path)
    if manifest is None:
        raise UserError(f"{path}: there is no dataset (no {layout.MANIFEST})")
    return manifest


def write_manifest(output: str, manifest: Manifest) -> None:
    """Publishes the dataset: from here on readers see it."""
    text = manifest.model_dump_json(indent=1)
    one_line = _NUMBERS.sub(lambda numbers: re.sub(r"\s+", "", numbers[0]), text)
    storage.write_text(layout.manifest_path(output), one_line + "\n")


def leftovers(output: str, manifest: Manifest) -> list[str]:
    """Paths in the output that belong neither to the published dataset nor to the one before it."""
    names = storage.list_folder(output)
    found = [
        name
        for name in names
        if name.startswith(f"{layout.MANIFEST}.tmp-")
        or (name.startswith(layout.DATA_PREFIX) and name not in (manifest.data, manifest.previous))
    ]
    temporary = manifest.data_layout(output).temporary
    return [storage.join(output, name) for name in found] + ([temporary] if storage.list_folder(temporary) else [])


def read_complete(output: str, fingerprint: str) -> Manifest | None:
    """The published manifest if it is of this fingerprint and its shards are all in place, else None."""
    manifest = find_manifest(output)
    if manifest is None or manifest.fingerprint != fingerprint:
        return None
    root = manifest.data_layout(output).root
    for split, info in manifest.splits.items():
        if not info.shards:
            continue
        found = {stat.path: stat.size for stat in storage.match(storage.join(root, split), (layout.SHARD_SUFFIX,))}
        if any(found.get(storage.join(root, shard.file)) != shard.bytes for shard in info.shards):
            return None
    return manifest
