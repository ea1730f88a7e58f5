"""What is exported and where to, and what a format must say."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from beamfeed.contract import storage
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.layout import DESCRIPTION, SUCCESS, shard_name
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.transforms.export.items import ItemField, Items, What, item_fields


@dataclass(frozen=True)
class Export:
    """What is exported and where to.

    Attributes:
      dataset: the folder of the dataset.
      manifest: of it.
      splits: that are exported.
      what: windows or rows.
      names: of the fields.
      to: name of the format.
      out: the folder that is written.
    """

    dataset: str
    manifest: Manifest
    splits: tuple[SplitName, ...]
    what: What
    names: tuple[str, ...]
    to: str
    out: str

    @property
    def fields(self) -> list[ItemField]:
        """Those of an item, in the manifest's order."""
        fields = item_fields(self.manifest.fields, self.manifest.windows, self.what)
        return [item for item in fields if item.field.name in self.names]

    @property
    def content(self) -> dict[str, Any]:
        """What is exported of which dataset, for those who read the files."""
        return {
            "fingerprint": self.manifest.fingerprint,
            "what": self.what,
            "windows": self.manifest.windows.model_dump(mode="json"),
            "fields": [item.field.model_dump(mode="json", exclude_defaults=True) for item in self.fields],
        }

    def shards(self) -> "list[ShardExport]":
        """The work of all splits."""
        return [shard for split in self.splits for shard in shards_of(self.manifest, self.dataset, split, self.what)]


@dataclass(frozen=True)
class ShardExport:
    """A shard to export.

    Attributes:
      split: it is of.
      number: among the shards of the split.
      count: of the shards of the split.
      path: of the shard.
      folder: of its partition, below the split's.
      records: in it.
      bytes: of it.
      items: that it gives, as the manifest says.
      before: where a format has one file for a split: what the shards before this one put into each, by its name.
    """

    split: SplitName
    number: int
    count: int
    path: str
    folder: str
    records: int
    bytes: int
    items: int
    before: Mapping[str, int] = field(default_factory=dict)

    def file(self, suffix: str) -> str:
        """The file that is made of it, below the export's folder: as shards are named."""
        parts = self.split, self.folder, shard_name(self.number, self.count, suffix)
        return "/".join(part for part in parts if part)


def shards_of(manifest: Manifest, dataset: str, split: SplitName, what: What = "windows") -> Iterator[ShardExport]:
    """The shards of a split of the dataset in a folder."""
    shards, paths = manifest.splits[split].shards, manifest.shard_paths(dataset, split)
    for number, (path, shard) in enumerate(zip(paths, shards, strict=True)):
        items = shard.windows if what == "windows" else shard.rows
        yield ShardExport(split, number, len(shards), path, shard.folder, shard.records, shard.bytes, items)


class Format:
    """A format to export to. `write` is called on workers, once for each shard or, where one is tried again, twice."""

    name: ClassVar[str]
    suffix: ClassVar[str] = ""  # of a shard's file

    @property
    def content(self) -> dict[str, Any]:
        """What decides on the files beside the export."""
        return {}

    def check(self, export: Export) -> None:
        """Raises UserError where this cannot be exported so."""

    def measure(self, export: Export, items: Iterator[Items]) -> dict[str, int]:
        """What a shard puts into each file of its split, by the file's name, where `prepare` must know that."""
        return {}

    def prepare(
        self, export: Export, shards: Sequence[ShardExport], measured: Mapping[str, Mapping[str, int]]
    ) -> list[ShardExport]:
        """What is done before shards are written; gives them as they are to be written.

        Args:
          export: the whole.
          shards: all.
          measured: by path of a shard, what `measure` gave.
        """
        return list(shards)

    def write(self, export: Export, shard: ShardExport, items: Iterator[Items]) -> None:
        """Writes a shard's items, so that a second time does no harm and a reader sees no part."""
        raise NotImplementedError

    def finish(self, export: Export, shards: Sequence[ShardExport]) -> list[str]:
        """What is done when all are written; the files that there are, below the export's folder."""
        return [shard.file(self.suffix) for shard in shards]


def complete(out: str, content: Mapping[str, Any], **told: Any) -> dict[str, Any]:
    """Says in a folder that all of some content is there, and what is told of it; the mark comes last."""
    description = {**content, "complete": True, **told}
    storage.write_text(storage.join(out, DESCRIPTION), json.dumps(description, indent=1) + "\n")
    storage.write_text(storage.join(out, SUCCESS), "")
    return description


def target(export: Export, shard: ShardExport, suffix: str) -> str:
    """The path of a shard's file."""
    return storage.join(export.out, shard.file(suffix))
