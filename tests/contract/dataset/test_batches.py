"""A smoke test trains whatever few windows it has; any other job is told that it has no full batch."""

import pytest
from manifests import manifest_of

from beamfeed.contract.config.load import parse_job
from beamfeed.contract.dataset.batches import check_split, describe_batch, fit_batch
from beamfeed.contract.dataset.manifest import SplitInfo
from beamfeed.contract.errors import UserError

JOB = """
name: small
source: {kind: timeseries, files: in, time: {column: t}, features: [x]}
windows: {length: 8}
output: {path: out/data}
train: {model: {name: recurrent_autoencoder, units: [4], latent: 2}, workdir: out/model, feed: {batch_size: 32}}
"""


def manifest_with(windows):
    return manifest_of([], {"train": SplitInfo(assets=1, windows=windows, records=1, bytes=1, shards=[])}, length=8)


@pytest.mark.parametrize(("windows", "batch"), [(1, 1), (31, 31), (32, 32), (33, 32)])
def test_a_batch_of_a_smoke_test_is_no_larger_than_the_split(windows, batch):
    job = parse_job(JOB, ["source.max_assets=1"])
    found = fit_batch(job, manifest_with(windows))
    assert found.train.feed.batch_size == batch
    check_split(manifest_with(windows), "train", found.train.feed.batch_size, full_batch=True)
    assert (found is job) == (windows >= 32)
    assert found.train.model_copy(update={"feed": job.train.feed}) == job.train  # nothing else changed


def test_what_a_smoke_test_changes_is_told():
    job = parse_job(JOB, ["source.max_assets=1"])
    assert "a batch is of 7 windows, not of 32 (train.feed.batch_size)" in describe_batch(
        fit_batch(job, manifest_with(7)), job
    )


def test_a_job_on_all_assets_keeps_its_batch():
    job = parse_job(JOB)
    assert fit_batch(job, manifest_with(7)) is job
    with pytest.raises(UserError, match="fewer than one batch of 32"):
        check_split(manifest_with(7), "train", job.train.feed.batch_size, full_batch=True)


def test_a_split_without_a_window_is_no_batch():
    job = parse_job(JOB, ["source.max_assets=1"])
    assert fit_batch(job, manifest_with(0)) is job
    with pytest.raises(UserError, match="train holds no window"):
        check_split(manifest_with(0), "train", 1, full_batch=True)
