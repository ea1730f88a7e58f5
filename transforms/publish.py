"""Publishes a dataset: schema, statistics and rejects, then the manifest, then the old data go."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import Any

import apache_beam as beam
import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.blocks import write_blocks
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.dataset.limits import over_drift
from beamfeed.contract.dataset.manifest import Manifest, Shard, find_manifest, find_replaceable
from beamfeed.contract.dataset.published import replace_manifest
from beamfeed.contract.dataset.raw_rows import RawRows, read_raw_rows, write_raw_rows
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.fleet import Fleet, check_limits
from beamfeed.transforms.growth import Growth, Learned, Targets
from beamfeed.transforms.known_assets import all_known, lacking_lines
from beamfeed.transforms.notes import add_lines, most_notes
from beamfeed.transforms.outcome import (
    add_up_targets,
    check_splits,
    count_targets,
    describe_splits,
    drift_of,
    empty_splits,
    grown_manifest,
    make_manifest,
)
from beamfeed.transforms.packing import Packed
from beamfeed.transforms.records.blocks import index_table
from beamfeed.transforms.records.example_encoder import schema_text
from beamfeed.transforms.records.rewrite import Left
from beamfeed.transforms.records.targets import TargetTally
from beamfeed.transforms.records.tfrecord import Written
from beamfeed.transforms.rejects import Reject, to_jsonl
from beamfeed.transforms.sources.base import Source
from beamfeed.transforms.sources.descriptors import KnownAsset, Statistics
from beamfeed.transforms.statistics.marks import fill
from beamfeed.transforms.taken_over import Parts, below_output, each_alone, folder_of, superseding, what_is_left
from beamfeed.transforms.tfds.write import tfds_files
from beamfeed.transforms.tracing import wait_for

Verified = tuple[Written, Shard, np.ndarray]  # a shard, as it was written and as it was read back, and its blocks


class Publish(beam.DoFn):
    """One element, and everything else as side inputs -> the published manifest."""

    def __init__(self, source: Source, fingerprint: str, layout: DataLayout, growth: Growth):
        self._source, self._fingerprint, self._layout, self._growth = source, fingerprint, layout, growth

    def process(
        self, _: Any, fleet: Fleet, rejects: list[Reject], empty: list[tuple[Reject, int]],
        assets: Mapping[SplitName, int], notes: list[str], verified: list[Verified],
        known: list[tuple[int, Packed]], was_short: list[str], statistics: Statistics, made: str,
        new_statistics: Statistics = None, left: list[Left] | None = None,
    ) -> Iterable[Manifest]:  # fmt: skip
        source, layout, growth = self._source, self._layout, self._growth
        job = source.job
        if growth.adds and (published := find_manifest(layout.output)) and published.data == layout.folder:
            yield published  # by an attempt before this one
            return
        base = Manifest.model_validate_json(storage.read_text(layout.base)) if growth.adds else None
        windows = sum(info.windows for _, info, _ in verified)
        shards: Parts = {name: [] for name in SPLITS}
        tallies: dict[SplitName, list[Mapping[str, TargetTally]]] = {name: [] for name in SPLITS}
        for written, info, cut in sorted(verified, key=lambda one: one[0].index):
            if growth.adds:
                info = info.model_copy(update={"file": below_output(layout.output, written.path)})
            shards[written.split].append((info, cut))
            tallies[written.split].append(written.tally.targets)
        fields = source.fields(statistics)
        fleet, every = fleet.without(rejects, empty)
        notes = [*source.notes_of(statistics), *sorted(notes)]
        targets = count_targets(fields, tallies)
        notes_by_run: dict[str, Sequence[str]] = {}
        assets = in_splits = {name: assets.get(name, 0) for name in SPLITS}
        if base is not None:
            runs = [run for run in base.increments if run.data not in growth.redone]
            counts = growth.counts(layout.output, was_short)
            base = base.model_copy(update={"counts": counts, "increments": runs})
            learned = Learned.read(growth.before(layout.output).learned)
            before: Targets = learned.targets
            notes_by_run = {run: lines for run, lines in learned.notes.items() if run not in growth.redone}
            if growth.redone:
                base = base.model_copy(update={"notes": most_notes(reduce(add_lines, notes_by_run.values(), []))})
            if left is not None:
                left = sorted(left, key=lambda rest: rest.index)
                before = count_targets(
                    fields, {name: [rest.targets for rest in left if rest.split == name] for name in SPLITS}
                )
            targets = add_up_targets(before, targets)
            in_base = growth.assets(layout.output)
            assets = {name: in_splits[name] + in_base[name] for name in SPLITS}
            for name, ready in what_is_left(layout.output, base, each_alone(base), left or ()).items():
                shards[name][:0] = [shard for shard in ready if folder_of(shard[0]) not in growth.redone]
        infos = {name: [info for info, _ in ready] for name, ready in shards.items()}
        splits = describe_splits(assets, infos, targets)
        check_limits(growth.whole_fleet(fleet, layout.output, was_short), every, job.limits, layout.rejects)
        check_splits(job, fields, splits)
        manifest = make_manifest(job, fields, self._fingerprint, layout.folder, fleet.counts, notes, splits)
        stats = source.stats(statistics)
        drift = {} if new_statistics is None else drift_of(stats, source.stats(new_statistics))
        if drifted := over_drift(job.limits, drift):
            raise JobFailed(f"{drifted}; nothing was published; --refit learns of all files")
        outdated = () if base is None else empty_splits(job, base.splits)
        lacking = None
        if growth.job and source.knows_assets(job):
            named = {
                reject.asset: KnownAsset(reject.asset, set_aside=True)
                for reject in every
                if reject.asset and not reject.of_row
            }
            named |= dict(chain.from_iterable(bucket for _, bucket in known))
            path = growth.before(layout.output).assets if growth.adds else ""
            table = all_known(path, named.values(), growth.replaced)
            storage.write_table(layout.assets, table)
            lacking = lacking_lines(table, job)
        elif growth.job:
            notes_by_run[layout.folder] = most_notes(notes)  # splits that are empty may not be, with others
        manifest = grown_manifest(growth, manifest, base, windows, drift, in_splits, outdated, lacking)
        if growth.job:
            storage.write_text(layout.learned, Learned(statistics, targets, notes_by_run, source.numbered_rows).text())
        lines = growth.rejects(layout.output, was_short) + to_jsonl(every)
        self._publish(manifest, lines, stats, shards, statistics, made)
        yield manifest

    def _publish(
        self, manifest: Manifest, rejects: str, stats: Any, shards: Parts, statistics: Statistics, made: str
    ) -> None:
        """Writes what belongs to the dataset, the manifest last, and removes what no manifest names.

        The data folder of the manifest before this one stays, for the trainer that may
        be reading it; those before it go. Done twice, it comes to the same.

        Args:
          manifest: to publish.
          rejects: what was set aside, a line each.
          stats: the statistics as JSON.
          shards: of the manifest, with their blocks.
          statistics: of the training rows.
          made: the path of what was made beside them.

        Raises:
          JobFailed: if somebody removed the files of this job.
        """
        source, layout = self._source, self._layout
        before, data = find_replaceable(layout.output)
        again = before is not None and before.data == layout.folder
        if not again and not storage.exists(layout.listing):
            raise JobFailed(
                f"{layout.root}: another run at this output removed files of this one; nothing was published"
            )
        manifest = manifest.model_copy(update={"previous": data}) if before is None else superseding(manifest, before)
        for name in SPLITS:
            write_blocks(layout.blocks(name), index_table([blocks for _, blocks in shards[name]]))
        storage.write_text(layout.stats, json.dumps(stats, indent=1) + "\n")
        storage.write_text(layout.schema, schema_text(manifest.fields))
        if source.raw_values is not None:
            storage.write_text(layout.raw_values, source.raw_values.model_dump_json(indent=1) + "\n")
        if not again and (raw_rows := self._write_graph(statistics, made)) is not None:
            write_raw_rows(layout.raw_rows, raw_rows)
        for file, text in tfds_files(manifest).items():
            storage.write_text(storage.join(layout.root, file), text)
        if rejects:
            storage.write_text(layout.rejects, rejects)
        replace_manifest(layout.output, manifest, before)

    def _write_graph(self, statistics: Statistics, made: str) -> RawRows | None:
        """Writes the transform graph; gives some rows as files have them, and what it makes of them.

        What it is made of goes when all is published.
        """
        source, layout = self._source, self._layout
        if self._growth.published is not None:
            before = self._growth.before(layout.output)
            for old, new in zip(before.graph, layout.graph, strict=True):
                if storage.list_folder(old):
                    storage.copy_tree(old, new)
            return read_raw_rows(before.raw_rows)
        if source.graph:
            wait_for(layout.traced)
            fill(layout.traced, layout.root, source.learned(statistics, made))
        elif made:
            fill(made, layout.root, {})
        else:
            return None
        return source.raw_rows(statistics, made)
