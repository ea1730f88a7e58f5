"""How much may be rejected: one rule for a run, and for a dataset that is complete when limits are tightened."""

import json

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.output import Limits
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.errors import JobFailed


def over_limits(
    limits: Limits, *, assets: int, rejected_assets: int, files: int, nameless_files: int, rows: int = 0,
    rejected_rows: int = 0,
) -> str | None:  # fmt: skip
    """Which limit the rejects are over, if one.

    Args:
      limits: of the job.
      assets: found, rejected ones included.
      rejected_assets: of these.
      files: listed.
      nameless_files: set aside before they could tell their assets.
      rows: of accepted assets and of those of which no row is left, and
      rejected_rows: of these, that were set aside by themselves.
    """
    most = limits.max_rejected_assets
    if most is not None and rejected_assets + nameless_files > most:
        return f"{rejected_assets + nameless_files} assets or files were rejected, limits.max_rejected_assets is {most}"
    if most is not None and "max_rejected_fraction" not in limits.model_fields_set:
        return None
    of_assets, of_files = rejected_assets / max(1, assets), nameless_files / max(1, files)
    of_rows = rejected_rows / max(1, rows)
    fraction, what = max([(of_assets, "assets"), (of_files, "files"), (of_rows, "rows")], key=lambda one: one[0])
    if fraction > limits.max_rejected_fraction:
        return (
            f"{fraction:.1%} of the {what} were rejected, "
            f"limits.max_rejected_fraction is {limits.max_rejected_fraction:.1%}"
        )
    return None


def check_complete(job: Job, manifest: Manifest) -> None:
    """Ends a job on a dataset that is complete as a run would that wrote it now.

    Raises:
      JobFailed: if more was rejected than the job allows.
    """
    counts, output = manifest.counts, job.output.path
    over = over_limits(
        job.limits,
        assets=counts.assets,
        rejected_assets=counts.rejected_assets,
        files=counts.files,
        rows=counts.rows_read,
        rejected_rows=counts.rejected_rows,
        nameless_files=_nameless_files(manifest, output) if counts.rejected_files else 0,
    )
    if over is not None:
        raise JobFailed(
            f"{output}: the dataset is complete with {counts.assets - counts.rejected_assets:,} of {counts.assets:,} "
            f"assets, but {over}; nothing was changed, see {manifest.data_layout(output).rejects}"
        )


def _nameless_files(manifest: Manifest, output: str) -> int:
    try:
        lines = storage.read_text(manifest.data_layout(output).rejects).splitlines()
    except FileNotFoundError:
        return 0
    return len({reject["file"] for line in lines if (reject := json.loads(line))["asset"] is None})
