"""What a run has made, as values for programs: the event `summary` of `--json`."""

from collections.abc import Mapping
from typing import Any

from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.result import TrainResult


def outcome(
    job: Job, manifest: Manifest | None, result: TrainResult | None, seconds: Mapping[str, float]
) -> dict[str, Any]:
    """The dataset and the training run; either is None where it was not asked for.

    Args:
      job: the job that ran.
      manifest: of its dataset.
      result: of the training run.
      seconds: that each stage took in this run; without those that were complete before.
    """
    return {
        "job": job.name,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "dataset": None if manifest is None else _dataset(job, manifest),
        "training": None if result is None or job.train is None else _training(job.train.workdir, result),
    }


def _dataset(job: Job, manifest: Manifest) -> dict[str, Any]:
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


def _training(workdir: str, result: TrainResult) -> dict[str, Any]:
    layout = RunLayout(workdir)
    told = result.model_dump(include={"epochs", "steps", "stopped_early", "best_loss", "metrics", "test_loss"})
    files = {"model": layout.model, "saved_model": layout.saved_model, "report": layout.report}
    return {"path": layout.workdir, **told, "test_metrics": result.test_metrics, **files}
