"""What a run has made: as a table for the terminal, and as values for programs."""

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.facts import REASONS, Facts
from beamfeed.contract.dataset.findings import drifts, findings
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.result import TrainResult
from beamfeed.contract.dataset.review import Measured, Review
from beamfeed.contract.text import counted, size_text, table

Row = tuple[str, ...]
SHOWN = 5  # assets, or notes


def summary(
    job: Job,
    manifest: Manifest | None,
    result: TrainResult | None,
    seconds: Mapping[str, float],
    floor: TrainResult | None = None,
    review: Review | None = None,
    facts: Facts | None = None,
    named: str = "JOB",
) -> str:
    """The table: the dataset by split, then the training run, what is to be thought of it, and what can be done next.

    Args:
      job: the job that ran
      manifest: of its dataset; None leaves that part out
      result: of the training run; None leaves that part out
      seconds: that each stage took in this run; without those that were complete before
      floor: of the training run of its linear floor, where there is one
      review: of the training run; None leaves that part out
      facts: of the dataset; None leaves them out
      named: how commands name the job, with its overrides
    """
    parts = []
    if manifest is not None:
        parts += [_dataset(job, manifest, seconds.get("preprocess"), facts), "", _splits(manifest)]
    if result is not None and job.train is not None:
        parts += [""] if parts else []
        layout = RunLayout(job.train.workdir)
        parts += [_training(layout, result, seconds.get("train"), floor)]
        parts += (
            [] if review is None else _reviewed(layout, review, job.source.noun if manifest is None else manifest.noun)
        )
    remarks = [] if manifest is None else [*_notes(manifest), *drifts(manifest)]
    remarks += [] if result is None else findings(result, review, named)
    parts += [""] * bool(remarks) + [f"note: {line}" for line in remarks]
    commands = _next(job, manifest, result, named)
    return "\n".join([*parts, *(["", _pairs(commands)] if commands else [])])


def _dataset(job: Job, manifest: Manifest, seconds: float | None, facts: Facts | None) -> str:
    counts = manifest.counts
    rejected = f" ({counts.rejected_assets:,} rejected)" if counts.rejected_assets else ""
    shards = sum(len(split.shards) for split in manifest.splits.values())
    size = sum(split.bytes for split in manifest.splits.values())
    return _pairs(
        [
            ("dataset", job.output.path),
            ("assets", f"{counts.assets:,}{rejected}"),
            ("rows", f"{counts.rows_read:,}"),
            ("shards", f"{shards:,}, {size_text(size)}"),
            *([] if facts is None else _facts(job, manifest, facts)),
            ("preprocess", _duration(seconds)),
        ]
    )


def _facts(job: Job, manifest: Manifest, facts: Facts) -> list[tuple[str, str]]:
    """What was set aside and why, and what was filled."""
    rows = []
    if facts.rejects is not None:
        counts = manifest.counts
        by_noun = {"asset": counts.rejected_assets, "file": counts.rejected_files, "row": counts.rejected_rows}
        counts_text = ", ".join(counted(count, noun) for noun, count in by_noun.items() if count)
        rows.append(("set aside", f"{counts_text}; why: {facts.rejects}"))
        rows += [("", f"{count:,} x {reason}") for reason, count in facts.reasons[:REASONS]]
        if more := sum(count for _, count in facts.reasons[REASONS:]):
            rows.append(("", f"{more:,} x other reasons"))
        if facts.counted is not None:
            rows.append(("", f"counted in its first {size_text(facts.counted)}"))
    if facts.missing:
        missing = sum(facts.missing.values())
        most, count = next(iter(facts.missing.items()))
        share = f"{missing:,} of {facts.cells:,} cells of training rows ({100 * missing / facts.cells:.2g} %)"
        in_rows = manifest.windows.length > 1  # what is filled row after row; others say it for each feature
        filled = f"; prepare.missing.fill: {job.prepare.missing.fill}" if in_rows else ""
        rows.append(("missing", f"{share}, {most} {count:,}{filled}"))
    return rows


def _notes(manifest: Manifest) -> list[str]:
    """What was left out or changed, as far as there is room."""
    more = len(manifest.notes) - SHOWN
    return [*manifest.notes[:SHOWN], *([f"and {more:,} more in the manifest's notes"] if more > 0 else [])]


def _splits(manifest: Manifest) -> str:
    rows: list[Row] = [("split", "assets", f"{manifest.noun}s", "records", "shards", "size")]
    for name, split in manifest.splits.items():
        numbers = [f"{n:,}" for n in (split.assets, split.windows, split.records, len(split.shards))]
        rows.append((name, *numbers, size_text(split.bytes)))
    return "\n".join(table(rows))


def _training(layout: RunLayout, result: TrainResult, seconds: float | None, floor: TrainResult | None) -> str:
    epoch = "" if result.best_epoch is None else f" (epoch {result.best_epoch:,})"
    stopped = ", stopped early" if result.stopped_early else ""
    took = f"{result.seconds:.1f} s, in an earlier run" if seconds is None else _duration(seconds)
    of_floor = []
    if floor is not None:  # what a linear model reaches on the same
        of_floor = [
            ("floor: best", _numbers(floor.best_loss, floor.metrics)),
            ("floor: test", _numbers(floor.test_loss, floor.test_metrics)),
        ]
    by_loss = result.watched == "loss"
    rows = [
        ("training run", layout.workdir),
        ("epochs", f"{result.epochs}{stopped}"),
        *([("steps", f"{result.steps:,}")] if result.steps else []),
        ("workers", str(result.workers)),
        ("train loss", f"{_loss(result.first_loss)} -> {_loss(result.last_loss)}"),
        *([] if by_loss else [(f"best {result.best_split} {_name(result.watched)}{epoch}", _loss(result.best))]),
        (f"{'best ' * by_loss}{result.best_split} loss{epoch * by_loss}", _numbers(result.best_loss, result.metrics)),
        ("test loss", _numbers(result.test_loss, result.test_metrics)),
        *of_floor,
        ("train", took),
        ("model", layout.model),
        ("saved model", layout.saved_model),
        ("report", layout.report),
    ]
    return _pairs(rows)


def _reviewed(layout: RunLayout, review: Review, noun: str) -> list[str]:
    """The model's losses and metrics beside those of what costs nothing, and the worst assets, for each split."""
    parts = []
    for split, split_review in review.splits.items():
        of = "" if split_review.windows == split_review.of else f" of {split_review.of:,}"
        of_model = [("the model", split_review.model)]
        of_model += [(f"  {words}", measured) for words, measured in split_review.by_age.items()]
        lines = [*of_model, *sorted(split_review.guesses.items(), key=_by_loss)]
        names = list(split_review.model)
        rows: list[Row] = [
            (f"on {split}, {split_review.windows:,}{of} {noun}s", *map(_name, names)),
            *(("  " + name, *(_loss(measured.get(key)) for key in names)) for name, measured in lines),
        ]
        parts += ["", *table(rows), *("  " + line for line in split_review.skipped)]
        if split_review.assets > 1:
            worst = ", ".join(f"{error.asset} {_loss(error.loss)}" for error in split_review.worst[:SHOWN])
            parts.append(f"  worst of {split_review.assets:,} assets: {worst}; all: {layout.assets}")
    return parts


def _by_loss(item: tuple[str, Measured]) -> float:
    loss = item[1].get("loss")
    return math.inf if loss is None else loss


def _next(job: Job, manifest: Manifest | None, result: TrainResult | None, named: str) -> list[tuple[str, str]]:
    """Commands that come to mind now."""
    rows = []
    if manifest is not None:
        rows.append(("look at it", f"beamfeed inspect {shlex.quote(job.output.path)}"))
    if result is None and job.train is not None:
        rows.append(("train", f"beamfeed train {named}"))
    if result is not None and job.train is not None:
        if "tensorboard" in job.train.writers:
            rows.append(("curves", f"tensorboard --logdir {shlex.quote(RunLayout(job.train.workdir).tensorboard)}"))
        if result.stale == 0 and not result.stopped_early and result.epochs:
            without = re.sub(r" --set train\.epochs=\S+", "", named)
            rows.append(("go on", f"beamfeed train {without} --set train.epochs={2 * result.epochs}"))
    return rows


def _pairs(rows: Sequence[tuple[str, str]]) -> str:
    width = max(12, *(len(name) for name, _ in rows))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _duration(seconds: float | None) -> str:
    return "complete before this run" if seconds is None else f"{seconds:.1f} s"


def _numbers(loss: float | None, metrics: Mapping[str, float | None]) -> str:
    """A loss, and after it what else was measured: `0.125, accuracy 0.91`."""
    return ", ".join([_loss(loss), *(f"{_name(name)} {_loss(value)}" for name, value in metrics.items())])


def _name(metric: str) -> str:
    return metric.replace("_", " ")


def _loss(loss: float | None) -> str:
    return "-" if loss is None else f"{loss:.5g}"


def to_json(
    job: Job, manifest: Manifest | None, result: TrainResult | None, seconds: Mapping[str, float]
) -> dict[str, Any]:
    """The event `summary`: the dataset and the training run; either is None where it was not asked for.

    Args:
      job: the job that ran.
      manifest: of its dataset.
      result: of the training run.
      seconds: that each stage took in this run; without those that were complete before.
    """
    return {
        "job": job.name,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "dataset": None if manifest is None else _dataset_values(job, manifest),
        "training": None if result is None or job.train is None else _training_values(job.train.workdir, result),
    }


def _dataset_values(job: Job, manifest: Manifest) -> dict[str, Any]:
    splits = {
        name: {"assets": split.assets, "windows": split.windows, "shards": len(split.shards), "bytes": split.bytes}
        for name, split in manifest.splits.items()
    }
    counts = manifest.counts
    return {
        "path": job.output.path,
        "assets": counts.assets,
        "rejected_assets": counts.rejected_assets,
        "rows": counts.rows_read,
        "splits": splits,
    }


def _training_values(workdir: str, result: TrainResult) -> dict[str, Any]:
    layout = RunLayout(workdir)
    values = result.model_dump(include={"epochs", "steps", "stopped_early", "best_loss", "metrics", "test_loss"})
    files = {"model": layout.model, "saved_model": layout.saved_model, "report": layout.report}
    return {"path": layout.workdir, **values, "test_metrics": result.test_metrics, **files}
