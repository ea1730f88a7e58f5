"""The Beam job that trains a model of each group: a group is one unit of work, and only descriptors are shuffled.

shards -> scan -> group -> judge -> train -> publish
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.utils.shared import Shared

from beamfeed.contract import storage
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.records.frames import Counted, unpacked
from beamfeed.contract.verbosity import note
from beamfeed.transforms.export.base import complete
from beamfeed.transforms.export.parquet import write_batches
from beamfeed.transforms.groups.each import (
    Outcome,
    TrainEach,
    check_limits,
    read_row,
    results_table,
    row_of,
    small,
    write_rejects,
)
from beamfeed.transforms.groups.folder import copy_preparation, preparation_layout, write_dataset
from beamfeed.transforms.groups.places import Group, Place, key_field, scan_groups
from beamfeed.transforms.groups.trainer import Trainer, Trainers

DATA, WORK = "data", "work"  # in a trainer's folder
COPY_BYTES = 1 << 20
LEAST_FAILED = 10  # groups that one worker sees fail before it gives up early


def train_groups(pipeline: beam.Pipeline, each: TrainEach) -> beam.PCollection:
    """PCollection of one: what DESCRIPTION says of the models, when all are there."""
    once = pipeline | "Once" >> beam.Create([None])
    if each.partitions is None:
        groups = (
            once
            | "ListShards" >> beam.FlatMap(lambda _: each.shards())
            | "SpreadShards" >> beam.Reshuffle()
            | "ScanShard" >> beam.FlatMap(scan_shard, each)
            | "GroupPlaces" >> beam.GroupByKey()
            | "Group" >> beam.Map(lambda named: Group.of(named[0], named[1], each.manifest.windows))
        )
    else:
        groups = once | "ListGroups" >> beam.FlatMap(lambda _: each.partitions)
    described = groups | "Describe" >> beam.Map(lambda group: Outcome(group.name, group.windows, small(each, group)))
    judged = once | "Judge" >> beam.Map(judge, each, beam.pvalue.AsList(described))
    trained = (
        groups
        | "LargeEnough" >> beam.Filter(lambda group: not small(each, group))
        | "SpreadGroups" >> beam.Reshuffle()
        | "TrainGroup" >> beam.ParDo(TrainGroup(each), beam.pvalue.AsSingleton(judged))
    )
    rejected = described | "TooSmall" >> beam.Filter(lambda outcome: outcome.reason)
    outcomes = (rejected, trained) | "Outcomes" >> beam.Flatten()
    return once | "PublishModels" >> beam.Map(publish, each, beam.pvalue.AsList(outcomes))


def scan_shard(shard: tuple[SplitName, int], each: TrainEach) -> Iterator[tuple[str, Place]]:
    """(split, number of a shard) -> (name of a group, Place of its records there)."""
    split, number = shard
    path = each.shard_paths()[split][number]
    if each.manifest.compression != "none":
        packed = each.manifest.shard_paths(each.job.output.path, split)[number]
        with storage.open_stream(packed) as file:
            content = unpacked(Counted(file), each.manifest.compression)
            storage.write_chunks(path, iter(lambda: content.read(COPY_BYTES), b""))
    for name, records in scan_groups(path, each.manifest, key_field(each.manifest, each.by)).items():
        yield name, Place(split, number, records)


def judge(_: None, each: TrainEach, outcomes: Sequence[Outcome]) -> tuple[list[Outcome], int]:
    """Ends the job before any model is trained, if too many groups have too little to train on.

    Returns:
      the groups that have too little, and how many groups there are.

    Raises:
      JobFailed
    """
    rejected = [outcome for outcome in outcomes if outcome.reason]
    write_rejects(each.layout.rejects, rejected)
    check_limits(rejected, len(outcomes), each)
    return rejected, len(outcomes)


class TrainGroup(beam.DoFn):
    """Group, with what `judge` returns as a side input -> Outcome."""

    def __init__(self, each: TrainEach):
        self._each, self._shared = each, Shared()
        self._trained = beam.metrics.Metrics.counter("beamfeed", "groups_trained")
        self._failed = beam.metrics.Metrics.counter("beamfeed", "groups_failed")

    def setup(self) -> None:
        self._trainers: Trainers = self._shared.acquire(Trainers)
        self._trainers.join()
        self._failures: list[Outcome] = []

    def teardown(self) -> None:
        self._trainers.leave()

    def process(self, group: Group, judged: tuple[list[Outcome], int]) -> Iterator[Outcome]:
        each, (too_small, groups) = self._each, judged
        row = read_row(each, group.name)
        if row is not None:
            yield Outcome(group.name, group.windows, row=row)
            return
        with self._trainers.borrowed() as trainer:
            outcome = train_group(each, group, trainer)
        if outcome.reason:
            self._failed.inc()
            self._failures.append(outcome)
            note(f"{group.name}: {outcome.reason}", sys.__stderr__)
            if len(self._failures) >= LEAST_FAILED:  # those of one worker are a part of all
                rejected = [*too_small, *self._failures]
                write_rejects(each.layout.rejects, rejected)
                check_limits(rejected, groups, each)
        else:
            self._trained.inc()
        yield outcome


def train_group(each: TrainEach, group: Group, trainer: Trainer) -> Outcome:
    """Trains the model of a group, and writes what is kept of it; its result last.

    Raises:
      JobFailed: if the records cannot be read, or the machine cannot train.
    """
    began, layout = time.monotonic(), each.layout
    trainer.get_ready()
    work = os.path.join(trainer.folder, WORK)
    shutil.rmtree(work, ignore_errors=True)
    dataset, where = each.job.output.path, {**each.job.train.feed.where, each.by: [group.name]}
    manifest = each.manifest
    if group.places:
        dataset, where = os.path.join(trainer.folder, DATA), {}
        if not os.path.exists(preparation_layout(dataset).root):
            copy_preparation(each.job.output.path, each.manifest, dataset)
        manifest = write_dataset(dataset, each.manifest, each.shard_paths(), each.by, group)
    answer = trainer.train(each.job_of(dataset, work, where), manifest.fingerprint, model=each.models)
    if answer.result is None:
        return Outcome(group.name, group.windows, answer.reason)
    storage.remove_tree(layout.group(group.name))
    model = layout.saved_model(group.name) if each.models else None
    if model is not None:
        storage.copy_tree(RunLayout(work).saved_model, model)
    row = row_of(each, group, answer.result, model, time.monotonic() - began)
    storage.write_text(layout.result(group.name), json.dumps(row, indent=1) + "\n")
    result = answer.result
    # Past what is kept of a runner's chatter: on this machine, to the terminal.
    note(f"{group.name}: best {result.best_split} loss {result.best_loss:.6f}, {row['seconds']:.1f} s", sys.__stderr__)
    return Outcome(group.name, group.windows, row=row)


def publish(_: None, each: TrainEach, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Writes the results, and says that all is there.

    Raises:
      JobFailed: if too many groups are set aside; results and models of the others stay.
    """
    layout, rejected = each.layout, [outcome for outcome in outcomes if outcome.reason]
    rows = [outcome.row for outcome in outcomes if outcome.row is not None]
    write_rejects(layout.rejects, rejected)
    if rows:
        table = results_table(rows)
        write_batches(layout.results, table.schema, table.to_batches())
    check_limits(rejected, len(outcomes), each)
    items, counts = {"groups": len(rows)}, {"rejected_groups": len(rejected)}
    return complete(each.out, each.content, items=items, counts=counts, files=["results.parquet"])
