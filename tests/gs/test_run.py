"""The whole job on gs://: preprocess, two workers train, one is killed, the launcher starts them again, inspect."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from fleets import Fleet, make_table

pytestmark = pytest.mark.slow


@pytest.fixture
def job(gs, tmp_path) -> str:
    """A job file in the bucket, beside its fleet."""
    fleet = Fleet(tmp_path)
    for index in range(6):
        fleet.write(f"m{index}.parquet", make_table(700, seed=index), row_group_size=200)
    fleet.job["source"]["files"] = gs.upload(fleet.files, "fleet")
    fleet.job["output"]["path"] = gs.url("data")
    train = fleet.job["train"]
    train["workdir"] = gs.url("model")
    train["epochs"] = 4
    train["feed"] = {"batch_size": 16, "shuffle": 200}
    train["checkpoint"] = {"every_steps": 20}
    fleet.job["launch"]["train"]["workers"] = 2
    return gs.upload(fleet.write_job(), "job.yaml")


@pytest.mark.long
def test_training_survives_faults(gs, job):
    preprocessed = gs.python("-m", "beamfeed.launcher.cli", "preprocess", job)
    assert preprocessed.returncode == 0, preprocessed.stderr
    gs.ledger.reset()
    overrides = ("launch.train.workers=1", "train.epochs=2", "train.checkpoint.every_steps=10000")
    one = [part for override in overrides for part in ("--set", override)]
    undisturbed = gs.python("-m", "beamfeed.launcher.cli", "train", job, *one)
    assert undisturbed.returncode == 0, undisturbed.stderr
    requests = gs.counts().requests
    # From start to export: of a shard one for each epoch, for the first weights, for the review and for its rows.
    assert requests["read"] < 70, requests
    assert requests["write"] < 110, requests
    assert sum(requests.values()) < 450, requests
    expected = gs.read("model/metrics.jsonl")

    gs.ledger.reset()
    gs.inject("read", "503", times=2, match="train")
    gs.inject("read", "cut", times=2, match="train")
    gs.inject("read", "503", times=2, match="manifest")
    gs.inject("write", "503", times=2, match="checkpoints")
    gs.inject("write", "503", times=2, match="saved_model")
    gs.inject("metadata", "503", times=3)
    gs.inject("list", "503", times=2)
    disturbed = gs.python("-m", "beamfeed.launcher.cli", "train", job, *one, "--restart")
    assert disturbed.returncode == 0, disturbed.stderr
    assert gs.counts().faults == 15
    losses = [
        [json.loads(line)["loss"] for line in text.splitlines()] for text in (expected, gs.read("model/metrics.jsonl"))
    ]
    assert losses[0] == losses[1]


def test_the_whole_job_with_a_worker_killed(gs, job, tmp_path):
    preprocessed = gs.python("-m", "beamfeed.launcher.cli", "preprocess", job)
    assert preprocessed.returncode == 0, preprocessed.stderr
    gs.ledger.reset()
    launcher = subprocess.Popen(
        [sys.executable, "-m", "beamfeed.launcher.cli", "train", job],
        env=gs.env, cwd=gs.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while not any(name.endswith(".json") for name in gs.list("model/checkpoints")):
            assert time.monotonic() < deadline
            assert launcher.poll() is None
            time.sleep(0.05)
        with open(f"/proc/{launcher.pid}/task/{launcher.pid}/children") as file:
            workers = [int(pid) for pid in file.read().split()]
        os.kill(workers[-1], signal.SIGKILL)
        _out, errors = launcher.communicate(timeout=600)
    finally:
        launcher.kill()
    assert launcher.returncode == 0, errors
    assert "starts again from its last checkpoint (1 of 3)" in errors
    requests = gs.counts().requests
    assert requests["read"] < 2000

    names = gs.list("model")
    assert {"complete.json", "metrics.jsonl", "model.keras", "report.png", "run.json"} <= set(names)
    assert "saved_model/saved_model.pb" in names
    metrics = [json.loads(line) for line in gs.read("model/metrics.jsonl").splitlines()]
    assert [line["epoch"] for line in metrics] == list(range(1, 5))
    kept = [name for name in names if name.startswith("checkpoints/")]
    assert len(kept) == 3 * 3, kept
    assert not [name for name in gs.store.names(gs.bucket) if "temp" in name or "tmp" in name]

    again = gs.python("-m", "beamfeed.launcher.cli", "run", job)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("complete, nothing to do") == 2
    inspected = gs.python("-m", "beamfeed.launcher.cli", "inspect", gs.url("data"), "--verify")
    assert inspected.returncode == 0, inspected.stderr

    gs.download("model/saved_model", tmp_path / "saved_model")
    import tensorflow as tf

    model = tf.saved_model.load(str(tmp_path / "saved_model"))
    columns = len(model.signatures["features"]()["features"])
    length = model.signatures["serving_default"].structured_input_signature[1]["windows"].shape[1]
    scored = model.signatures["serving_default"](windows=tf.zeros([2, length, columns]))
    assert np.isfinite(scored["score"]).all()
