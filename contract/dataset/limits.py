"""Whether a published dataset is within the limits of a job, which may be tighter than when it was written."""

import json

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.errors import JobFailed


def check_limits(job: Job, manifest: Manifest) -> None:
    """Does for a dataset that is complete what preprocessing it again would end with.

    Raises:
      JobFailed: if more was rejected than the job allows now.
    """
    counts, limit, output = manifest.counts, job.limits.max_rejected_fraction, job.output.path
    nameless = _nameless_files(manifest, output) if counts.rejected_files else 0
    rejected, assets = counts.rejected_assets + nameless, counts.assets + nameless
    if rejected > limit * assets:
        raise JobFailed(
            f"{output}: the dataset is complete, but {rejected:,} of its {assets:,} assets ({rejected / assets:.1%}) "
            f"were rejected, limits.max_rejected_fraction is now {limit:.1%}; nothing was changed, "
            f"see {manifest.data_layout(output).rejects}"
        )


def _nameless_files(manifest: Manifest, output: str) -> int:
    """Rejected files that could not tell their assets: each counts as one."""
    try:
        lines = storage.read_text(manifest.data_layout(output).rejects).splitlines()
    except FileNotFoundError:
        return 0
    return len({reject["file"] for line in lines if (reject := json.loads(line))["asset"] is None})
