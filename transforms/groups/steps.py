"""The Beam job that trains a model of each group: a group is one unit of work, and only descriptors are shuffled.

shards -> scan -> group -> judge -> train -> publish
"""

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.utils.shared import Shared

from beamfeed.contract import storage
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import job_text
from beamfeed.contract.config.output import Limits
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.fingerprint import model_fingerprint
from beamfeed.contract.dataset.layout import SUCCESS, TOLD, EachLayout, RunLayout
from beamfeed.contract.dataset.limits import groups_over_limits
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.one_by_one import Answer
from beamfeed.contract.dataset.result import TrainResult
from beamfeed.contract.errors import JobFailed
from beamfeed.contract.records.frames import Counted, unpacked
from beamfeed.contract.text import counted
from beamfeed.contract.verbosity import note
from beamfeed.transforms.export.parquet import write_batches
from beamfeed.transforms.groups.folder import copy_preparation, group_fingerprint, preparation_layout, write_dataset
from beamfeed.transforms.groups.places import ByKey, Group, Place, key_field, partitions
from beamfeed.transforms.groups.trainer import Trainer, Trainers

DATA, WORK = "data", "work"  # in a trainer's folder
COPY_BYTES = 1 << 20
LEAST_FAILED = 10  # groups that one worker sees fail before it gives up early


@dataclass(frozen=True)
class TrainEach:
    """What is trained, and where to.

    Attributes:
      job: of the models.
      manifest: of the dataset, with the partitions that the job reads.
      by: the key field or partition that names groups.
      out: the folder that is written.
      models: whether SavedModels are kept.
      content: what decides on what is written.
    """

    job: TrainingJob
    manifest: Manifest
    by: str
    out: str
    models: bool
    content: dict[str, Any]

    @property
    def layout(self) -> EachLayout:
        """The names in the folder."""
        return EachLayout(self.out)

    @property
    def partitions(self) -> list[Group] | None:
        """The groups, where they are partitions."""
        return partitions(self.manifest, self.by)

    @cached_property
    def key(self) -> ByKey:
        """Finds the groups of records, where they are not partitions."""
        return ByKey(self.manifest, key_field(self.manifest, self.by))

    def shards(self) -> list[tuple[SplitName, int]]:
        """All shards that hold something, by split and number."""
        return [
            (split, number)
            for split, info in self.manifest.splits.items()
            for number, shard in enumerate(info.shards)
            if shard.windows
        ]

    def shard_paths(self) -> dict[str, list[str]]:
        """By split, the shards as they are read: those of the dataset, or unpacked copies."""
        if self.manifest.compression == "none":
            return {split: self.manifest.shard_paths(self.job.output.path, split) for split in self.manifest.splits}
        folder = self.layout.unpacked
        return {
            split: [storage.join(folder, f"{split}-{number:05d}.tfrecord") for number in range(len(info.shards))]
            for split, info in self.manifest.splits.items()
        }

    def fingerprint(self, name: str) -> str:
        """The identity of a group's model."""
        return model_fingerprint(self.job.train, group_fingerprint(self.manifest.fingerprint, self.by, name))

    def job_of(self, dataset: str, workdir: str, where: Mapping[str, list[str]]) -> str:
        """The text of the job of a group, whose records lie in `dataset`, or in these partitions of it."""
        values = self.job.model_dump(mode="json", by_alias=True, exclude_unset=True)
        values["output"]["path"] = dataset
        train = values["train"]
        train |= {"workdir": workdir, "writers": [], "floor": False}
        train["feed"] = {**train.get("feed", {}), "where": dict(where)}
        return job_text(values)


@dataclass(frozen=True)
class Outcome:
    """What came of a group.

    Attributes:
      group: its name.
      windows: by split.
      reason: why there is no model; empty where there is one.
      row: else, of the results.
    """

    group: str
    windows: Mapping[SplitName, int]
    reason: str = ""
    row: Mapping[str, Any] | None = None


class TrainGroups(beam.PTransform):
    """A pipeline -> PCollection of one, what TOLD says of the models, when all are there."""

    def __init__(self, each: TrainEach):
        super().__init__()
        self._each = each

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        each = self._each
        once = pipeline | "Once" >> beam.Create([None])
        if each.partitions is None:
            groups = (
                once
                | "ListShards" >> beam.FlatMap(lambda _: each.shards())
                | "SpreadShards" >> beam.Reshuffle()
                | "ScanShard" >> beam.ParDo(ScanShard(each))
                | "GroupPlaces" >> beam.GroupByKey()
                | "Group" >> beam.Map(lambda named: Group.of(*named, each.manifest.windows))
            )
        else:
            groups = once | "ListGroups" >> beam.FlatMap(lambda _: each.partitions)
        found = groups | "Describe" >> beam.Map(lambda group: Outcome(group.name, group.windows, small(each, group)))
        judged = once | "Judge" >> beam.Map(judge, each, beam.pvalue.AsList(found))
        trained = (
            groups
            | "LargeEnough" >> beam.Filter(lambda group: not small(each, group))
            | "SpreadGroups" >> beam.Reshuffle()
            | "TrainGroup" >> beam.ParDo(TrainGroup(each), beam.pvalue.AsSingleton(judged))
        )
        rejected = found | "TooSmall" >> beam.Filter(lambda outcome: outcome.reason)
        outcomes = (rejected, trained) | "Outcomes" >> beam.Flatten()
        return once | "PublishModels" >> beam.Map(publish, each, beam.pvalue.AsList(outcomes))


def small(each: TrainEach, group: Group) -> str:
    """Why a group has too little to train on; empty where it has enough."""
    windows, batch, noun = group.windows.get("train", 0), each.job.train.feed.batch_size, each.manifest.noun
    if not windows:
        return f"no {noun} in the split train"
    if windows < batch:
        return f"{counted(windows, noun)} in the split train, fewer than one batch of {batch} (train.feed.batch_size)"
    return ""


class ScanShard(beam.DoFn):
    """(split, number of a shard) -> (name of a group, Place of its records there)."""

    def __init__(self, each: TrainEach):
        self._each = each

    def process(self, shard: tuple[SplitName, int]) -> Iterator[tuple[str, Place]]:
        each, (split, number) = self._each, shard
        path = each.shard_paths()[split][number]
        if each.manifest.compression != "none":
            packed = each.manifest.shard_paths(each.job.output.path, split)[number]
            with storage.open_input(packed) as file:
                content = unpacked(Counted(file), each.manifest.compression)
                storage.write_chunks(path, iter(lambda: content.read(COPY_BYTES), b""))
        for name, records in each.key.scan(path).items():
            yield name, Place(split, number, records)


def judge(_: None, each: TrainEach, found: Sequence[Outcome]) -> int:
    """Ends the job before any model is trained, if too many groups have too little to train on.

    Returns:
      how many groups there are.

    Raises:
      JobFailed
    """
    rejected = [outcome for outcome in found if outcome.reason]
    write_rejects(each.layout.rejects, rejected)
    check_limits(each.job.limits, rejected, len(found), each)
    return len(found)


def write_rejects(path: str, rejected: Sequence[Outcome]) -> None:
    """Writes why groups have no model, one JSON line each; no file where all have one."""
    lines = [
        json.dumps({"group": outcome.group, **told_windows(outcome), "reason": outcome.reason}, ensure_ascii=False)
        for outcome in sorted(rejected, key=lambda outcome: outcome.group)
    ]
    if lines:
        storage.write_text(path, "\n".join(lines) + "\n")
    else:
        storage.remove_file(path)


def told_windows(outcome: Outcome) -> dict[str, int]:
    """`train_windows` and the like."""
    return {f"{split}_windows": outcome.windows.get(split, 0) for split in SPLITS}


def check_limits(limits: Limits, rejected: Sequence[Outcome], groups: int, each: TrainEach) -> None:
    """Raises JobFailed where too many groups are set aside, or all."""
    over = groups_over_limits(limits, len(rejected), groups)
    if over is None and len(rejected) < groups:
        return
    first = min(rejected, key=lambda outcome: outcome.group, default=None)
    such = f"; such as {first.group}: {first.reason}" if first else ""
    untrained = all(not outcome.windows.get("train") for outcome in rejected) and bool(rejected)
    hint = "; a split by time gives each group windows to train on (split.by)" if untrained else ""
    raise JobFailed(f"{over or 'no group can be trained'}{such}{hint}; see {each.layout.rejects}")


class TrainGroup(beam.DoFn):
    """Group, with how many there are as a side input -> Outcome."""

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

    def process(self, group: Group, groups: int) -> Iterator[Outcome]:
        each = self._each
        row = read_row(each, group.name)
        if row is not None:
            yield Outcome(group.name, group.windows, row=row)
            return
        with self._trainers.one() as trainer:
            outcome = train_group(each, group, trainer)
        if outcome.reason:
            self._failed.inc()
            self._failures.append(outcome)
            note(f"{group.name}: {outcome.reason}")
            if len(self._failures) >= LEAST_FAILED:  # those of one worker are a part of all
                write_rejects(each.layout.rejects, self._failures)
                check_limits(each.job.limits, self._failures, groups, each)
        else:
            self._trained.inc()
        yield outcome


def read_row(each: TrainEach, name: str) -> dict[str, Any] | None:
    """The result of a group that was trained before, in an attempt that was ended; None where there is none."""
    try:
        row = json.loads(storage.read_text(each.layout.result(name)))
    except (OSError, ValueError):
        return None
    return row if isinstance(row, dict) and row.get("fingerprint") == each.fingerprint(name) else None


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
    if group.places:
        dataset, where = os.path.join(trainer.folder, DATA), {}
        if not os.path.exists(preparation_layout(dataset).root):
            copy_preparation(each.job.output.path, each.manifest, dataset)
        write_dataset(dataset, each.manifest, each.shard_paths(), each.by, group)
    answer = trainer.train(each.job_of(dataset, work, where), model=each.models)
    if answer.result is None:
        return Outcome(group.name, group.windows, answer.reason)
    storage.remove_tree(layout.group(group.name))
    model = layout.saved_model(group.name) if each.models else None
    if model is not None:
        storage.copy_tree(RunLayout(work).saved_model, model)
    row = row_of(each, group, answer.result, model, time.monotonic() - began)
    storage.write_text(layout.result(group.name), json.dumps(row, indent=1) + "\n")
    result = answer.result
    note(f"{group.name}: best {result.best_split} loss {result.best_loss:.6f}, {row['seconds']:.1f} s")
    return Outcome(group.name, group.windows, row=row)


def row_of(each: TrainEach, group: Group, result: TrainResult, model: str | None, seconds: float) -> dict[str, Any]:
    """A row of the results."""
    return {
        "group": group.name,
        **told_windows(Outcome(group.name, group.windows)),
        "epochs": result.epochs,
        "steps": result.steps,
        "best_split": result.best_split,
        "best_epoch": result.best_epoch,
        "best_loss": result.best_loss,
        **{f"best_{name}": value for name, value in result.metrics.items()},
        "test_loss": result.test_loss,
        **{f"test_{name}": value for name, value in result.test_metrics.items()},
        "seconds": seconds,
        "model": model and model.removeprefix(each.out).lstrip("/"),
        "fingerprint": each.fingerprint(group.name),
    }


TYPES = {
    str: ("group", "best_split", "model", "fingerprint"),
    int: (*(f"{split}_windows" for split in SPLITS), "epochs", "steps", "best_epoch"),
}  # all others are numbers


def results_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The results, in order of the groups. A metric that not all groups have is null for the others."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    kinds = {name: kind for kind, of_kind in ((pa.string(), TYPES[str]), (pa.int64(), TYPES[int])) for name in of_kind}
    ordered = sorted(rows, key=lambda row: row["group"])
    columns = {name: pa.array([row.get(name) for row in ordered], kinds.get(name, pa.float64())) for name in names}
    return pa.table(columns)


def publish(_: None, each: TrainEach, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Writes the results, and says that all is there.

    Raises:
      JobFailed: if too many groups are set aside; results and models of the others stay.
    """
    layout, rejected = each.layout, [outcome for outcome in outcomes if outcome.reason]
    rows = [outcome.row for outcome in outcomes if outcome.row is not None]
    storage.remove_tree(layout.unpacked)
    write_rejects(layout.rejects, rejected)
    if rows:
        table = results_table(rows)
        write_batches(layout.results, table.schema, table.to_batches())
    check_limits(each.job.limits, rejected, len(outcomes), each)
    told = {
        **each.content,
        "complete": True,
        "items": {"groups": len(rows)},
        "counts": {"rejected_groups": len(rejected)},
        "files": ["results.parquet"],
    }
    storage.write_text(storage.join(each.out, TOLD), json.dumps(told, indent=1) + "\n")
    storage.write_text(storage.join(each.out, SUCCESS), "")
    return told
