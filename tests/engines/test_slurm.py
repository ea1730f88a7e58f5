"""Slurm on three machines: training there gives the bits of three processes here, whatever happens in between."""

import json
import os
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import psutil
import pytest
import yaml
from engines.machines import machines
from engines.slurm_cluster import slurm

from beamfeed.contract.dataset.checkpoints import find_checkpoints
from beamfeed.contract.dataset.layout import RunLayout
from tests.fleets import Fleet, make_table

pytestmark = pytest.mark.engines
BEAMFEED = [sys.executable, "-m", "beamfeed.launcher.cli"]


@pytest.fixture(scope="module")
def nodes():
    with machines(3) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(nodes, tmp_path_factory):
    """The environment of who submits."""
    with slurm(tmp_path_factory.mktemp("slurm"), nodes) as env:
        yield os.environ | env


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A job file whose dataset is there; its model was trained by three processes of this machine."""
    fleet = Fleet(tmp_path_factory.mktemp("job"))
    for i in range(8):
        fleet.write(f"m{i}.parquet", make_table(2000, seed=i))
    fleet.job["train"] |= {"epochs": 25, "feed": {"batch_size": 48}, "checkpoint": {"every_steps": 20},
                           "worker_timeout": "10s"}  # fmt: skip
    fleet.job["launch"]["train"]["workers"] = 3
    assert fleet.preprocess() == 0
    path = fleet.write_job()
    subprocess.run([*BEAMFEED, "train", str(path), "-q"], check=True, capture_output=True)
    return path


class Training:
    """The job on Slurm, in a working folder of its own."""

    def __init__(self, job, workdir, env):
        self.workdir, self._job, self._env = workdir, job, env

    def start(self, command: str = "train", *overrides: str) -> subprocess.Popen:
        values = (f"train.workdir={self.workdir}", "launch.train.backend=slurm", *overrides)
        sets = [part for value in values for part in ("--set", value)]
        return subprocess.Popen(
            [*BEAMFEED, command, str(self._job), *sets],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self._env,
        )  # fmt: skip

    def reached(self, step: int, process: subprocess.Popen) -> None:
        """Waits for a checkpoint."""
        while max(find_checkpoints(RunLayout(str(self.workdir)).checkpoints), default=0) < step:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)

    def finished(self, process: subprocess.Popen) -> str:
        """What was said until the model was there, which is that of the run on this machine."""
        _, error = process.communicate(timeout=400)
        assert process.returncode == 0, error
        here = yaml.safe_load(self._job.read_text())["train"]["workdir"]
        for a, b in zip(weights(here), weights(self.workdir), strict=True):
            np.testing.assert_array_equal(a, b)
        assert losses(here) == losses(self.workdir)
        assert not list((self.workdir / "logs").glob("progress-*"))
        return error


def weights(workdir) -> list[np.ndarray]:
    return keras.saving.load_model(RunLayout(str(workdir)).model).get_weights()


def losses(workdir) -> list[tuple[float, float]]:
    with open(RunLayout(str(workdir)).metrics) as file:
        return [(line["loss"], line["eval_loss"]) for line in map(json.loads, file)]


def queue(env) -> list[str]:
    return subprocess.run(["squeue", "-h", "-o", "%i"], capture_output=True, text=True, env=env).stdout.split()


@pytest.fixture
def training(job, cluster, tmp_path):
    yield Training(job, tmp_path / "model", cluster)
    subprocess.run(["scancel", "--user", "root"], env=cluster)


def test_three_machines(training, cluster):
    said = training.finished(training.start())
    assert "job " in said
    assert " of Slurm; its log is " in said
    assert "worker 0 of 3 (Slurm)" in next((training.workdir / "logs").glob("slurm-*.log")).read_text()
    assert queue(cluster) == []


def test_a_job_with_a_higher_priority_takes_the_nodes_and_gives_them_back(training, cluster):
    process = training.start()
    training.reached(100, process)
    urgent = ["sbatch", "--partition=urgent", "--nodes=3", "--output=/dev/null", "--wrap=sleep 3"]
    subprocess.run(urgent, check=True, capture_output=True, env=cluster)
    assert "starts again from its last checkpoint" in training.finished(process)


def test_a_worker_that_is_killed(training, nodes):
    process = training.start()
    training.reached(100, process)
    for pid in nodes[1].processes("beamfeed.trainer.main"):
        os.kill(pid, signal.SIGKILL)
    assert "starts again from its last checkpoint" in training.finished(process)


def test_a_worker_that_freezes(training, nodes):
    process = training.start()
    training.reached(100, process)
    (worker,) = [
        pid for pid in nodes[1].processes(" -m beamfeed.trainer.main") if psutil.Process(pid).parent().name() == "bash"
    ]
    os.kill(worker, signal.SIGSTOP)  # its watchdog goes on
    assert "starts again from its last checkpoint" in training.finished(process)


def test_a_cable_that_is_taken_out(training, nodes):
    process = training.start()
    training.reached(100, process)
    nodes[2].cut()
    try:
        time.sleep(25)  # the others miss it, and so does Slurm
    finally:
        nodes[2].mend()
    assert "starts again from its last checkpoint" in training.finished(process)


def test_the_launcher_leaves_and_another_follows_and_cancels(training, cluster):
    process = training.start()
    training.reached(20, process)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "goes on; run the same command again to follow it, or stop it with" in error
    (job_id,) = queue(cluster)
    other = training.start()
    time.sleep(5)
    cancelled = training.start("cancel")
    assert f"job {job_id} of Slurm is asked to stop" in cancelled.communicate(timeout=60)[1]
    _, error = other.communicate(timeout=120)
    assert f"job {job_id} is in the queue already; following it" in error
    assert "evaluating" in error  # it is told how far the job is, too
    assert "the job ended as cancelled; run the same command to go on" in error
    assert other.returncode == 1
    assert queue(cluster) == []
    assert "continuing" in (said := training.finished(training.start())), said


def test_both_stages(job, training, tmp_path):
    both = ("launch.preprocess.backend=slurm", f"output.path={tmp_path}/data")
    said = training.finished(training.start("run", *both))
    assert "preprocess: job" in said
    assert (tmp_path / "data" / "manifest.json").exists()


def test_what_is_wrong_is_told_in_one_line(training):
    for override, told, code in [
        ("launch.train.slurm.partition=none", "Slurm does not take the job: Batch job submission failed", 2),
        ("launch.train.slurm.python=/usr/bin/python3", "ModuleNotFoundError: No module named '", 1),
        ("launch.train.slurm.setup=[export RANK=1]", "train: WORLD_SIZE: is not set, but the other variables", 2),
    ]:
        process = training.start("train", override)
        _, error = process.communicate(timeout=120)
        assert process.returncode == code, error
        assert told in error.splitlines()[-1]
