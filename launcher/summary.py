"""What a run has made, as a table for the terminal."""

from collections.abc import Mapping, Sequence

from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.result import TrainResult
from beamfeed.contract.sizes import size_text

Row = tuple[str, ...]


def summary(
    job: Job,
    manifest: Manifest | None,
    result: TrainResult | None,
    seconds: Mapping[str, float],
    floor: TrainResult | None = None,
) -> str:
    """The table: the dataset by split, then the training run.

    Args:
      job: the job that ran
      manifest: of its dataset; None leaves that part out
      result: of the training run; None leaves that part out
      seconds: that each stage took in this run; without those that were complete before
      floor: of the training run of its linear floor, where there is one
    """
    parts = []
    if manifest is not None:
        parts += [_dataset(job, manifest, seconds.get("preprocess")), "", _splits(manifest)]
    if result is not None and job.train is not None:
        parts += [""] if parts else []
        parts += [_training(RunLayout(job.train.workdir), result, seconds.get("train"), floor)]
    return "\n".join(parts)


def _dataset(job: Job, manifest: Manifest, seconds: float | None) -> str:
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
            ("preprocess", _duration(seconds)),
        ]
    )


def _splits(manifest: Manifest) -> str:
    rows: list[Row] = [("split", "assets", "windows", "records", "shards", "size")]
    for name, split in manifest.splits.items():
        numbers = [f"{n:,}" for n in (split.assets, split.windows, split.records, len(split.shards))]
        rows.append((name, *numbers, size_text(split.bytes)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_aligned(row, widths) for row in rows)


def _aligned(row: Row, widths: Sequence[int]) -> str:
    cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
    return "  ".join([row[0].ljust(widths[0]), *cells[1:]])


def _training(layout: RunLayout, result: TrainResult, seconds: float | None, floor: TrainResult | None) -> str:
    stopped = ", stopped early" if result.stopped_early else ""
    took = f"{result.seconds:.1f} s, in an earlier run" if seconds is None else _duration(seconds)
    rows = [
        ("training run", layout.workdir),
        ("epochs", f"{result.epochs}{stopped}"),
        *([("steps", f"{result.steps:,}")] if result.steps else []),
        ("workers", str(result.workers)),
        ("train loss", f"{_loss(result.first_loss)} -> {_loss(result.last_loss)}"),
        (_best_label(result), _numbers(result.best_loss, result.metrics)),
        ("test loss", _numbers(result.test_loss, result.test_metrics)),
        *([] if floor is None else _floor(floor)),
        *([] if result.watched == "loss" else [("watched", f"{_name(result.watched)} {_loss(result.best)}")]),
        ("train", took),
        ("model", layout.model),
        ("saved model", layout.saved_model),
        ("report", layout.report),
    ]
    return _pairs(rows)


def _best_label(result: TrainResult) -> str:
    """`best eval loss (epoch 20)`."""
    epoch = "" if result.best_epoch is None else f" (epoch {result.best_epoch:,})"
    return f"best {result.best_split} loss{epoch}"


def _floor(floor: TrainResult) -> list[tuple[str, str]]:
    """What a linear model reaches on the same."""
    return [
        ("floor: best", _numbers(floor.best_loss, floor.metrics)),
        ("floor: test", _numbers(floor.test_loss, floor.test_metrics)),
    ]


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
