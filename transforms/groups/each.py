"""What is trained of each group of a dataset, where to, and what came of it: a row of results, or why there is none."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import job_text
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.fingerprint import model_fingerprint
from beamfeed.contract.dataset.layout import EachLayout
from beamfeed.contract.dataset.limits import groups_over_limits
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.result import TrainResult
from beamfeed.contract.errors import JobFailed
from beamfeed.contract.text import counted
from beamfeed.transforms.groups.folder import group_fingerprint
from beamfeed.transforms.groups.places import Group, partitions


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


def small(each: TrainEach, group: Group) -> str:
    """Why a group has too little to train on; empty where it has enough."""
    windows, batch, noun = group.windows.get("train", 0), each.job.train.feed.batch_size, each.manifest.noun
    if not windows:
        return f"no {noun} in the split train"
    if windows < batch:
        return f"{counted(windows, noun)} in the split train, fewer than one batch of {batch} (train.feed.batch_size)"
    return ""


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


def read_row(each: TrainEach, name: str) -> dict[str, Any] | None:
    """The result of a group that was trained before, in an attempt that was ended; None where there is none."""
    try:
        row = json.loads(storage.read_text(each.layout.result(name)))
    except (OSError, ValueError):
        return None
    return row if isinstance(row, dict) and row.get("fingerprint") == each.fingerprint(name) else None


def row_of(each: TrainEach, group: Group, result: TrainResult, model: str | None, seconds: float) -> dict[str, Any]:
    """A row of the results."""
    return {
        "group": group.name,
        **window_counts(group.windows),
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
    **dict.fromkeys(("group", "best_split", "model", "fingerprint"), pa.string()),
    **dict.fromkeys((*(f"{split}_windows" for split in SPLITS), "epochs", "steps", "best_epoch"), pa.int64()),
}  # all others are numbers


def results_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The results, in order of the groups. A metric that not all groups have is null for the others."""
    names = dict.fromkeys(name for row in rows for name in row)
    schema = pa.schema([(name, TYPES.get(name, pa.float64())) for name in names])
    return pa.Table.from_pylist(sorted(rows, key=lambda row: row["group"]), schema)


def write_rejects(path: str, rejected: Sequence[Outcome]) -> None:
    """Writes why groups have no model, one JSON line each; no file where all have one."""
    lines = [
        json.dumps(
            {"group": outcome.group, **window_counts(outcome.windows), "reason": outcome.reason}, ensure_ascii=False
        )
        for outcome in sorted(rejected, key=lambda outcome: outcome.group)
    ]
    if lines:
        storage.write_text(path, "\n".join(lines) + "\n")
    else:
        storage.remove_file(path)


def window_counts(windows: Mapping[SplitName, int]) -> dict[str, int]:
    """`train_windows` and the like."""
    return {f"{split}_windows": windows.get(split, 0) for split in SPLITS}


def check_limits(rejected: Sequence[Outcome], groups: int, each: TrainEach) -> None:
    """Raises JobFailed where too many groups are set aside, or all."""
    over = groups_over_limits(each.job.limits, len(rejected), groups)
    if over is None and len(rejected) < groups:
        return
    first = min(rejected, key=lambda outcome: outcome.group, default=None)
    such = f"; such as {first.group}: {first.reason}" if first else ""
    untrained = any(not outcome.windows.get("train") for outcome in rejected)
    hint = "; a split by time gives each group something to train on (split.by)" if untrained else ""
    raise JobFailed(f"{over or 'no group can be trained'}{such}{hint}; see {each.layout.rejects}")
