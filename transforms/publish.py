"""Publishes a dataset: schema, statistics and rejects, then the manifest, then the old data go."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.blocks import write_blocks
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.dataset.manifest import Manifest, Shard, find_replaceable, write_manifest
from beamfeed.contract.dataset.published import leftovers
from beamfeed.contract.dataset.raw_rows import RawRows, write_raw_rows
from beamfeed.contract.dataset.raw_values import RawValues
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.fleet import Fleet, check_limits
from beamfeed.transforms.outcome import CheckedFleet, check_splits, describe_splits, make_manifest
from beamfeed.transforms.records.blocks import index_table
from beamfeed.transforms.records.example_encoder import schema_text
from beamfeed.transforms.records.tfrecord import Written
from beamfeed.transforms.rejects import Reject, to_jsonl
from beamfeed.transforms.sources.base import Source
from beamfeed.transforms.sources.descriptors import Statistics
from beamfeed.transforms.statistics.marks import fill
from beamfeed.transforms.tfds.write import tfds_files
from beamfeed.transforms.tracing import wait_for

Verified = tuple[Written, Shard, np.ndarray]  # a shard, as it was written and as it was read back, and its blocks


def publish(
    layout: DataLayout, manifest: Manifest, rejects: Sequence[Reject], stats: Any,
    shards: Mapping[SplitName, Sequence[Verified]], raw_values: RawValues | None,
    write_graph: Callable[[], RawRows | None],
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
      raw_values: what the values of the files became first.
      write_graph: writes the transform graph, and gives some rows of the files and what became of them.

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
    if raw_values is not None:
        storage.write_text(layout.raw_values, raw_values.model_dump_json(indent=1) + "\n")
    if not again and (raw_rows := write_graph()) is not None:  # what it is made of goes when all is published
        write_raw_rows(layout.raw_rows, raw_rows)
    for file, text in tfds_files(manifest).items():
        storage.write_text(storage.join(layout.root, file), text)
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
        made: str,
    ) -> Iterable[Manifest]:  # fmt: skip
        shards: dict[SplitName, list[Verified]] = {name: [] for name in SPLITS}
        for shard in sorted(verified, key=lambda shard: shard[0].index):
            shards[shard[0].split].append(shard)
        fields = self._source.fields(statistics)
        every = sorted({*rejects, *(reject for reject, _ in empty)}, key=str)
        checked = CheckedFleet(
            fleet, every, sum(rows for _, rows in empty), [*self._source.notes_of(statistics), *sorted(notes)]
        )
        told = {name: [(info, written.tally.targets) for written, info, _ in ready] for name, ready in shards.items()}
        splits = describe_splits(fields, assets, told)
        check_limits(checked.final, checked.rejects, self._source.job.limits, self._layout.rejects)
        check_splits(self._source.job, fields, splits)
        manifest = make_manifest(self._source.job, fields, self._fingerprint, self._layout.folder, checked, splits)
        publish(
            self._layout, manifest, every, self._source.stats(statistics), shards, self._source.raw_values,
            partial(self._write_graph, statistics, made),
        )  # fmt: skip
        yield manifest

    def _write_graph(self, statistics: Statistics, made: str) -> RawRows | None:
        """Writes the transform graph; gives some rows as files have them, and what it makes of them."""
        source, layout = self._source, self._layout
        if source.traces:
            wait_for(layout.traced)
            fill(layout.traced, layout.root, source.learned(statistics, made))
        elif made:
            fill(made, layout.root, {})
        else:
            return None
        return source.raw_rows(statistics, made)
