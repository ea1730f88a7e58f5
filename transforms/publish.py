"""Publishes a dataset: schema, statistics and rejects, then the manifest, then the old data go."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.blocks import write_blocks
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.dataset.manifest import (
    Counts,
    Manifest,
    Shard,
    SplitInfo,
    Target,
    find_replaceable,
    leftovers,
    write_manifest,
)
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.records.blocks import index_table
from beamfeed.transforms.records.example_encoder import schema_text
from beamfeed.transforms.records.targets import TargetTally, check_targets, is_target
from beamfeed.transforms.records.tfrecord import Written
from beamfeed.transforms.rejects import Reject, to_jsonl
from beamfeed.transforms.sources.base import Asset, Source, Statistics

Verified = tuple[Written, Shard, np.ndarray]  # a shard, as it was written and as it was read back, and its blocks


@dataclass(frozen=True)
class Fleet:
    """The outcome of checking: what goes on, and what does not."""

    files: int
    accepted: tuple[Asset, ...]
    rejects: tuple[Reject, ...]

    @property
    def rejected_assets(self) -> int:
        """How many assets were set aside."""
        return len({reject.asset for reject in self.rejects if reject.asset is not None})

    @property
    def rejected_files(self) -> int:
        """How many files were set aside."""
        return len({reject.file for reject in self.rejects})

    @property
    def assets(self) -> int:
        """How many assets were found."""
        return len(self.accepted) + self.rejected_assets

    def rejected_fraction(self) -> float:
        """Of the assets; a file that could not tell its assets counts as one."""
        nameless = len({reject.file for reject in self.rejects if reject.asset is None})
        rejected = self.rejected_assets + nameless
        return rejected / max(1, len(self.accepted) + rejected)


def check_limit(fleet: Fleet, limit: float, layout: DataLayout) -> None:
    """Writes the rejects, and stops the job if they are too many.

    Raises:
      JobFailed
    """
    if fleet.rejects:
        storage.write_text(layout.rejects, to_jsonl(fleet.rejects))
    rejected = fleet.rejected_fraction()
    if rejected > limit or not fleet.accepted:
        first = min(fleet.rejects, key=lambda r: (r.asset or "", r.file)) if fleet.rejects else None
        such_as = f"; such as {first.file}: {first.place}: {first.reason}" if first else ""
        count = len(fleet.accepted)
        raise JobFailed(
            f"{rejected:.1%} of the assets were rejected, limits.max_rejected_fraction is {limit:.1%}; "
            f"{count} are left; nothing was published, see {layout.rejects}{such_as}"
        )


def make_manifest(
    source: Source, fields: Sequence[Field], fingerprint: str, layout: DataLayout, fleet: Fleet,
    shards: Mapping[SplitName, Sequence[Verified]],
) -> tuple[Manifest, list[Reject]]:  # fmt: skip
    """The manifest of verified shards, and the rejects with the assets that gave no window.

    Raises:
      JobFailed: if there is nothing to train on.
    """
    job = source.job
    by_asset: Counter[str] = Counter()
    splits = {}
    for name in SPLITS:
        in_split: Counter[str] = Counter()
        for written, _, _ in shards[name]:
            in_split.update(written.tally.windows_by_asset)
        by_asset.update(in_split)
        infos = [info for _, info, _ in shards[name]]
        splits[name] = SplitInfo(
            assets=sum(windows > 0 for windows in in_split.values()),
            windows=sum(info.windows for info in infos),
            records=sum(info.records for info in infos),
            bytes=sum(info.bytes for info in infos),
            targets={field.name: _target(field, shards[name]) for field in fields if is_target(field)},
            shards=infos,
        )
    empty = [
        Reject(asset.name, asset.files, "file", source.why_empty(asset))
        for asset in fleet.accepted
        if not by_asset[asset.name]
    ]
    rejects = [*fleet.rejects, *empty]
    if not splits["train"].windows:
        such_as = f"; such as {empty[0].file}: {empty[0].reason}" if empty else ""
        raise JobFailed(f"the train split has no window; nothing was published, see {layout.rejects}{such_as}")
    check_targets(fields, {name: info.targets for name, info in splits.items()})
    left_out = {reject.asset for reject in empty}
    counts = Counts(
        files=fleet.files,
        assets=fleet.assets,
        rejected_assets=fleet.rejected_assets + len(empty),
        rejected_files=len({reject.file for reject in rejects}),
        rows_read=sum(asset.rows for asset in fleet.accepted if asset.name not in left_out),
    )
    manifest = Manifest(
        name=job.name,
        kind=job.source.kind,
        fingerprint=fingerprint,
        data=layout.folder,
        fields=list(fields),
        windows=job.windows,
        records=job.output.records,
        compression=job.output.compression,
        counts=counts,
        splits=splits,
    )
    return manifest, rejects


def _target(field: Field, shards: Sequence[Verified]) -> Target:
    tallies = (written.tally.targets[field.name] for written, _, _ in shards if field.name in written.tally.targets)
    return sum(tallies, TargetTally.zero(field)).target()


def publish(
    layout: DataLayout, manifest: Manifest, rejects: Sequence[Reject], stats: Any,
    shards: Mapping[SplitName, Sequence[Verified]],
) -> None:  # fmt: skip
    """Writes what belongs to the dataset, the manifest last, and removes what no manifest names.

    The data folder of the manifest before this one stays, for the trainer that may
    be reading it; those before it go. Done twice, it comes to the same.

    Args:
      layout: where to.
      manifest: to publish.
      rejects: what was set aside.
      stats: the statistics of the training rows, as JSON.
      shards: with their blocks.

    Raises:
      JobFailed: if somebody removed the files of this job.
    """
    before, data = find_replaceable(layout.output)
    again = before is not None and before.data == layout.folder
    if not again and not storage.exists(layout.listing):
        raise JobFailed(f"{layout.root}: another run at this output removed files of this one; nothing was published")
    manifest = manifest.model_copy(update={"previous": before.previous if again and before else data})
    for name in SPLITS:
        write_blocks(layout.blocks(name), index_table([blocks for _, _, blocks in shards[name]]))
    storage.write_text(layout.stats, json.dumps(stats, indent=1) + "\n")
    storage.write_text(layout.schema, schema_text(manifest.fields))
    if rejects:
        storage.write_text(layout.rejects, to_jsonl(rejects))
    write_manifest(layout.output, manifest)
    for path in leftovers(layout.output, manifest):
        storage.remove_tree(path)


class Publish(beam.DoFn):
    """One element, and everything else as side inputs -> the published manifest."""

    def __init__(self, source: Source, fingerprint: str, layout: DataLayout):
        self._source, self._fingerprint, self._layout = source, fingerprint, layout

    def process(
        self, _: Any, fleet: Fleet, verified: list[Verified], statistics: Statistics, transform_fn: Any
    ) -> Iterable[Manifest]:
        shards: dict[SplitName, list[Verified]] = {name: [] for name in SPLITS}
        for one in sorted(verified, key=lambda one: one[0].shard.index):
            shards[one[0].shard.split].append(one)
        fields = self._source.fields(statistics)
        manifest, rejects = make_manifest(self._source, fields, self._fingerprint, self._layout, fleet, shards)
        publish(self._layout, manifest, rejects, self._source.stats(statistics), shards)
        yield manifest
