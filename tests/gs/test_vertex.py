"""What is asked of Vertex AI does train: its replicas are started here, as the service starts them."""

import json
import subprocess
import sys
import time

import pytest
from fleets import Fleet, make_table

from beamfeed.launcher.backends.local.backend import free_ports
from beamfeed.trainer.main import main as train

pytestmark = pytest.mark.slow


def test_the_replicas_of_a_request_train_together(gs, tmp_path, monkeypatch):
    fleet = Fleet(tmp_path)
    for index in range(4):
        fleet.write(f"m{index}.parquet", make_table(800, seed=index))
    model = {"name": "dense_autoencoder", "units": [4], "latent": 2}
    fleet.job["train"] |= {"model": model, "workdir": str(tmp_path / "here"), "epochs": 2, "feed": {"batch_size": 16}}
    assert fleet.preprocess() == 0
    monkeypatch.setattr("beamfeed.trainer.export.run.export_run", lambda *_: None)
    assert train(["--job", str(fleet.write_job())]) == 0  # by one worker

    fleet.job["output"]["path"] = gs.upload(fleet.output, "data")
    fleet.job["train"]["workdir"] = gs.url("model")
    vertex = {"project": "a-project", "region": "europe-west1", "image": "i", "machine_type": "n1-standard-4"}
    fleet.job["launch"]["train"] = {"backend": "vertex", "workers": 2, "vertex": vertex}
    job = str(fleet.write_job())
    gs.vertex.states = ["JOB_STATE_RUNNING"]
    launcher = subprocess.Popen(
        [sys.executable, "-m", "beamfeed.launcher.cli", "train", job],
        env=gs.env, cwd=gs.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    replicas = []
    try:
        end = time.monotonic() + 60
        while not gs.vertex.jobs:
            assert time.monotonic() < end
            assert launcher.poll() is None, launcher.communicate()[1]
            time.sleep(0.1)
        (asked,) = gs.vertex.jobs
        pools = asked["jobSpec"]["workerPoolSpecs"]
        assert [int(pool["replicaCount"]) for pool in pools] == [1, 1]
        cluster = {kind: [f"127.0.0.1:{port}"] for kind, port in zip(("chief", "worker"), free_ports(2), strict=True)}
        for kind, pool in zip(cluster, pools, strict=True):
            task = {"cluster": cluster, "task": {"type": kind, "index": 0}, "environment": "cloud", "job": "{}"}
            command = [sys.executable, *pool["containerSpec"]["command"][1:]]
            env = {**gs.env, "TF_CONFIG": json.dumps(task)}
            replicas.append(subprocess.Popen(command, env=env, cwd=tmp_path, stderr=subprocess.PIPE, text=True))
        for replica in replicas:
            _, errors = replica.communicate(timeout=180)
            assert replica.returncode == 0, errors
        gs.vertex.states = ["JOB_STATE_SUCCEEDED"]
        _, errors = launcher.communicate(timeout=60)
        assert launcher.returncode == 0, errors
    finally:
        for process in (launcher, *replicas):
            process.kill()
            process.communicate()
    texts = (tmp_path / "here" / "metrics.jsonl").read_text(), gs.read("model/metrics.jsonl")
    one, two = ([json.loads(line)["loss"] for line in text.splitlines()] for text in texts)
    assert one == pytest.approx(two, abs=1e-5)
    assert json.loads(gs.read("model/complete.json"))["workers"] == 2
    assert "saved_model/saved_model.pb" in gs.list("model")
