"""Slurm on three machines: training there gives the bits of three processes here, whatever happens in between."""

import os
import signal
import subprocess
import time

import psutil
import pytest
from engines.machines import machines
from engines.slurm_cluster import slurm
from engines.trained import Training, train_here

pytestmark = pytest.mark.engines


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
    return train_here(tmp_path_factory.mktemp("job"))


def queue(env) -> list[str]:
    return subprocess.run(["squeue", "-h", "-o", "%i"], capture_output=True, text=True, env=env).stdout.split()


@pytest.fixture
def training(job, cluster, tmp_path):
    yield Training(job, tmp_path / "model", cluster, "launch.train.backend=slurm")
    subprocess.run(["scancel", "--user", "root"], env=cluster)


@pytest.fixture
def brief(cluster, tmp_path):
    """A training in whose middle nothing is to happen."""
    job = train_here(tmp_path / "job", epochs=2)
    yield Training(job, tmp_path / "model", cluster, "launch.train.backend=slurm")
    subprocess.run(["scancel", "--user", "root"], env=cluster)


def test_three_machines(brief, cluster):
    said = brief.finished(brief.start())
    assert "job " in said
    assert " of Slurm; its log is " in said
    assert "worker 0 of 3 (Slurm)" in next((brief.workdir / "logs").glob("slurm-*.log")).read_text()
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
    run = training.run()
    assert (run["state"], run["detail"]) == ("running", f"job {job_id} of Slurm is running; nobody follows it")
    other = training.attach()
    while training.run()["detail"].endswith("nobody follows it"):
        assert other.poll() is None, other.communicate()
    time.sleep(3)
    cancelled = training.start("cancel")
    assert f"run {run['id']} is cancelled" in cancelled.communicate(timeout=120)[1]
    _, error = other.communicate(timeout=120)
    assert "evaluating" in error  # it is told how far the job is, too
    assert f"job {job_id} of Slurm is asked to stop" in error
    assert other.returncode == 130
    assert training.run()["state"] == "cancelled"
    end = time.monotonic() + 60
    while queue(cluster):
        assert time.monotonic() < end
        time.sleep(0.5)
    assert "continuing" in (said := training.finished(training.start())), said


def test_both_stages(job, training, cluster, tmp_path):
    both = ("launch.preprocess.backend=slurm", f"output.path={tmp_path}/data")
    process = training.start("run", *both)
    end = time.monotonic() + 60
    while len(queue(cluster)) < 2:
        if time.monotonic() > end or process.poll() is not None:
            process.kill()
            raise AssertionError(process.communicate())
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)  # nobody need wait: training begins by itself
    _, error = process.communicate(timeout=30)
    assert "which waits for afterok:" in error
    while (run := training.run())["state"] == "running":
        time.sleep(2)
    assert (run["state"], (tmp_path / "data" / "manifest.json").exists()) == ("done", True), run
    said = training.finished(training.start("run", *both), was_followed=False)
    assert said.count("complete, nothing to do") == 2


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
