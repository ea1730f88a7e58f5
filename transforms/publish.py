"""Publishes a dataset: schema, statistics and rejects, then the manifest, then the old data go."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from beamfeed.transforms.fleet import Fleet, check_limits
from beamfeed.transforms.notes import most_notes
from beamfeed.transforms.records.blocks import index_table
from beamfeed.transforms.records.example_encoder import schema_text
from beamfeed.transforms.records.targets import TargetTally, check_targets, is_target
from beamfeed.transforms.records.tfrecord import Written
from beamfeed.transforms.rejects import Reject, to_jsonl
from beamfeed.transforms.sources.base import Source, Statistics

Verified = tuple[Written, Shard, np.ndarray]  # a shard, as it was written and as it was read back, and its blocks


@dataclass(frozen=True)
class Outcome:
    """What was checked and written, but for the shards.

    Attributes:
      fleet: in numbers, as it was decided before anything was written.
      rejects: all, with the assets that gave no window.
      empty_rows: rows of these.
      assets: by split, those with a window.
      notes: lines for the user.
    """

    fleet: Fleet
    rejects: Sequence[Reject]
    empty_rows: int
    assets: Mapping[SplitName, int]
    notes: Sequence[str]


def make_manifest(
    source: Source, fields: Sequence[Field], fingerprint: str, layout: DataLayout, outcome: Outcome,
    shards: Mapping[SplitName, Sequence[Verified]],
) -> Manifest:  # fmt: skip
    """The manifest of verified shards.

    Raises:
      JobFailed: if too many assets gave no window, or there is nothing to train on.
    """
    job, fleet = source.job, outcome.fleet
    splits = {}
    for name in SPLITS:
        infos = [info for _, info, _ in shards[name]]
        splits[name] = SplitInfo(
            assets=outcome.assets.get(name, 0),
            windows=sum(info.windows for info in infos),
            records=sum(info.records for info in infos),
            bytes=sum(info.bytes for info in infos),
            targets={field.name: _target(field, shards[name]) for field in fields if is_target(field)},
            shards=infos,
        )
    final = Fleet.of(fleet.files, 0, fleet.rows - outcome.empty_rows, outcome.rejects, fleet.rejected_rows)
    final = replace(final, accepted=fleet.assets - final.rejected_assets)
    check_limits(final, outcome.rejects, job.limits, layout)
    if not splits["train"].windows:
        raise JobFailed(
            "the train split has no window; nothing was published; try a smaller windows.length, or more split.train"
        )
    check_targets(fields, {name: info.targets for name, info in splits.items()})
    return Manifest(
        name=job.name,
        kind=job.source.kind,
        fingerprint=fingerprint,
        data=layout.folder,
        fields=list(fields),
        windows=job.windows,
        records=job.output.records,
        compression=job.output.compression,
        counts=Counts(
            files=final.files,
            assets=final.assets,
            rejected_assets=final.rejected_assets,
            rejected_files=final.rejected_files,
            rows_read=final.rows,
            rejected_rows=final.rejected_rows,
        ),
        notes=most_notes(outcome.notes),
        splits=splits,
    )


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
        self, _: Any, fleet: Fleet, rejects: list[Reject], empty: list[tuple[Reject, int]],
        assets: Mapping[SplitName, int], notes: list[str], verified: list[Verified], statistics: Statistics,
        transform_fn: Any,
    ) -> Iterable[Manifest]:  # fmt: skip
        shards: dict[SplitName, list[Verified]] = {name: [] for name in SPLITS}
        for one in sorted(verified, key=lambda one: one[0].index):
            shards[one[0].split].append(one)
        fields = self._source.fields(statistics)
        every = sorted({*rejects, *(reject for reject, _ in empty)}, key=str)
        outcome = Outcome(fleet, every, sum(rows for _, rows in empty), assets, sorted(notes))
        manifest = make_manifest(self._source, fields, self._fingerprint, self._layout, outcome, shards)
        publish(self._layout, manifest, every, self._source.stats(statistics), shards)
        yield manifest
