"""How much may be rejected: one rule for a run, and for a dataset that is complete when limits are tightened."""

import json
from collections.abc import Mapping

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.output import Limits
from beamfeed.contract.dataset.manifest import Counts, Manifest
from beamfeed.contract.errors import JobFailed


def largest_share(counts: Counts, nameless_files: int) -> tuple[float, str]:
    """The largest fraction that was rejected, and of what; arguments as of `over_limits`."""
    of_rows = counts.rejected_rows / max(1, counts.rows_read), "rows"
    of_files = nameless_files / max(1, counts.files), "files"
    return max((counts.rejected_assets / max(1, counts.assets), "assets"), of_files, of_rows, key=lambda pair: pair[0])


def over_limits(limits: Limits, counts: Counts, nameless_files: int) -> str | None:
    """Which limit the rejects are over, if one.

    Args:
      limits: of the job.
      counts: of the input.
      nameless_files: set aside before they could tell their assets.
    """
    rejected, (fraction, noun) = counts.rejected_assets + nameless_files, largest_share(counts, nameless_files)
    words = f"{rejected} assets or files were rejected", f"{fraction:.1%} of the {noun} were rejected"
    return _over(limits, rejected, fraction, *words)


def groups_over_limits(limits: Limits, rejected: int, groups: int) -> str | None:
    """As `over_limits`, where each group of a dataset is trained by itself, and counts as an asset does."""
    words = f"{rejected} of {groups} groups were set aside"
    return _over(limits, rejected, rejected / max(1, groups), words, words)


def _over(limits: Limits, rejected: int, fraction: float, by_number: str, by_fraction: str) -> str | None:
    most = limits.max_rejected_assets
    if most is not None and rejected > most:
        return f"{by_number}, limits.max_rejected_assets is {most}"
    if most is not None and "max_rejected_fraction" not in limits.model_fields_set:
        return None
    if fraction > limits.max_rejected_fraction:
        return f"{by_fraction}, limits.max_rejected_fraction is {limits.max_rejected_fraction:.1%}"
    return None


def over_drift(limits: Limits, drift: Mapping[str, float]) -> str | None:
    """Which feature of new files is farther from those of the first run than the limit, if one.

    Args:
      limits: of the job.
      drift: of a run that added to a dataset, see `contract.dataset.manifest.Increment`.
    """
    name, away = max(drift.items(), key=lambda item: abs(item[1]), default=("", 0.0))
    if limits.max_drift is None or abs(away) <= limits.max_drift:
        return None
    return (
        f"in new files the mean of {name} is {away:+.1f} deviations away from that of the first run, "
        f"limits.max_drift is {limits.max_drift:g}"
    )


def check_complete(job: Job, manifest: Manifest) -> None:
    """Ends a job on a dataset that is complete as a run would that wrote it now.

    Raises:
      JobFailed: if more was rejected than the job allows.
    """
    counts, output = manifest.counts, job.output.path
    for increment in manifest.increments[-1:]:
        if drifted := over_drift(job.limits, increment.drift):
            raise JobFailed(f"{output}: the dataset is complete, but {drifted}; nothing was changed")
    over = over_limits(job.limits, counts, nameless_files(manifest, output))
    if over is not None:
        raise JobFailed(
            f"{output}: the dataset is complete with {counts.assets - counts.rejected_assets:,} of {counts.assets:,} "
            f"assets, but {over}; nothing was changed, see {manifest.data_layout(output).rejects}"
        )


def nameless_files(manifest: Manifest, output: str) -> int:
    """How many files of a dataset were set aside before they could tell their assets."""
    if not manifest.counts.rejected_files:
        return 0
    try:
        lines = storage.read_text(manifest.data_layout(output).rejects).splitlines()
    except FileNotFoundError:
        return 0
    return len({reject["file"] for line in lines if (reject := json.loads(line))["asset"] is None})
