"""Preparing in processes of their own that meet at one output, or are killed and started again."""

import random
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pytest
from fleets import files_of, make_table

from beamfeed.launcher import cli
from beamfeed.pipelines import check, preprocess
from beamfeed.pipelines.preprocess import main

KILLS = 20


@pytest.fixture
def start(root, fleet):
    """Starts `python -m beamfeed.pipelines.preprocess` on the job of the fleet."""
    started = []

    def run(*overrides: str) -> subprocess.Popen:
        sets = [part for override in overrides for part in ("--set", override)]
        command = [sys.executable, "-m", "beamfeed.pipelines.preprocess", "--job", str(fleet.write_job()), *sets]
        started.append(subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def wait_for_lock(process: subprocess.Popen, output) -> None:
    path, deadline = output / "lock.json", time.monotonic() + 60
    while not path.exists() or f'"pid": {process.pid},' not in path.read_text():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.slow
def test_two_runs_at_one_output_exclude_each_other(fleet, start):
    for i in range(3):
        fleet.write(f"m{i}.parquet", make_table(2000, seed=i))
    first = start()
    wait_for_lock(first, fleet.output)
    first.send_signal(signal.SIGSTOP)  # else it may be done before the second one has loaded
    second = start("windows.stride=4")
    _out, err = second.communicate(timeout=60)
    first.send_signal(signal.SIGCONT)
    assert second.returncode == 2
    assert err.startswith(f"output.path: process {first.pid} on ")
    assert err.endswith(f" is preprocessing into {fleet.output} right now; wait for it, or choose another folder\n")
    assert len(err.splitlines()) == 1
    assert first.wait(60) == 0
    assert fleet.manifest.windows.stride == 2
    assert not (fleet.output / "lock.json").exists()


def test_what_a_run_left_that_was_killed_after_publishing_goes(fleet, capfd):
    for i in range(3):
        fleet.write(f"m{i}.parquet", make_table(100, seed=i))
    assert fleet.preprocess() == 0
    clean = files_of(fleet.output)
    data = fleet.manifest.data
    for name in (f"{data}/tmp/train-00000-0", "data-0123/train/part-00000-of-00001.tfrecord", "manifest.json.tmp-1"):
        path = fleet.output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left")
    (fleet.output / "lock.json").write_text("{}")
    assert fleet.preprocess() == 0
    assert "Nothing to do" in capfd.readouterr().out
    assert files_of(fleet.output) == clean
    assert {path.name for path in fleet.output.iterdir()} == {data, "manifest.json"}


@pytest.mark.slow
def test_a_tightened_limit_is_not_nothing_to_do(fleet, capfd):
    for i in range(4):
        fleet.write(f"m{i}.parquet", make_table(100, seed=i).append_column("machine", pa.array([f"a{i}"] * 100)))
    for name in ("b0.parquet", "b1.parquet"):  # cannot tell whose rows they hold
        (fleet.files / name).write_bytes(b"PAR1 this is none PAR1")
    fleet.job["source"]["asset"] = {"column": "machine"}
    fleet.job["split"] = {"train": 1, "eval": 0, "test": 0}
    assert fleet.preprocess("limits.max_rejected_fraction=0.34") == 0
    before = files_of(fleet.output)
    assert fleet.preprocess("limits.max_rejected_fraction=0.34") == 0
    assert "Nothing to do" in capfd.readouterr().out
    for tighter, told in (
        (
            "limits.max_rejected_fraction=0.33",
            "33.3% of the files were rejected, limits.max_rejected_fraction is 33.0%",
        ),
        ("limits.max_rejected_assets=1", "2 assets or files were rejected, limits.max_rejected_assets is 1"),
    ):
        assert fleet.preprocess(tighter) == 1
        out, error = capfd.readouterr()
        assert out == ""
        assert error.startswith(f"job failed: {fleet.output}: the dataset is complete with 4 of 4 assets, but {told}; ")
        assert error.endswith("jsonl\n")
        assert "nothing was changed, see " in error
        assert cli.main(["preprocess", str(fleet.write_job()), "--set", tighter]) == 1
        assert capfd.readouterr().err == f"beamfeed: {error}"
        assert fleet.preprocess(tighter, f"output.path={fleet.folder}/anew") == 1  # as a run that writes it now
        assert told in capfd.readouterr().err
    assert files_of(fleet.output) == before


@pytest.mark.long
def test_killed_again_and_again(fleet, start):
    for i in range(6):
        fleet.write(f"m{i}.parquet", make_table(60_000, seed=i), row_group_size=5000)
    fleet.write("broken.parquet", make_table(10)).write_bytes(b"PAR1 this is none PAR1")
    assert fleet.preprocess(f"output.path={fleet.folder}/undisturbed") == 0
    process = start(f"output.path={fleet.folder}/timed")
    wait_for_lock(process, fleet.folder / "timed")
    began = time.monotonic()
    assert process.wait(60) == 0
    lasts = time.monotonic() - began

    chance = random.Random(7)
    for _ in range(KILLS):
        process = start()
        wait_for_lock(process, fleet.output)
        time.sleep(chance.uniform(0, lasts))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if (fleet.output / "manifest.json").exists():  # it was published whole: from the start again
            assert files_of(fleet.output).items() >= files_of(fleet.folder / "undisturbed").items()
            (fleet.output / "manifest.json").unlink()
    process = start()
    assert process.wait(60) == 0, process.communicate()
    assert files_of(fleet.output) == files_of(fleet.folder / "undisturbed")
    assert {path.name for path in fleet.output.iterdir()} == {fleet.manifest.data, "manifest.json"}


def test_another_jobs_dataset_stays_until_it_is_said_to_go(fleet, capfd):
    for i in range(3):
        fleet.write(f"m{i}.parquet", make_table(40, seed=i))
    fleet.job["train"]["feed"] = {"batch_size": 4}
    assert fleet.preprocess() == 0
    before = fleet.manifest
    assert before.source == [str(fleet.files)]
    assert fleet.preprocess("windows.stride=4") == 0  # its own job changes it freely
    assert fleet.manifest.previous == before.data
    capfd.readouterr()
    before = files_of(fleet.output)
    argv = ["--job", str(fleet.write_job()), "--set", "name=other", "--set", "windows.stride=1"]
    assert check.main(argv) == 2
    told = capfd.readouterr().err
    assert main(argv) == 2
    assert f"beamfeed: {capfd.readouterr().err}" == told
    assert f"output.path: {fleet.output} holds the dataset of another job: test, of {fleet.files}, written 20" in told
    assert told.count("\n") == 1
    assert files_of(fleet.output) == before
    assert main([*argv, "--replace"]) == 0
    assert fleet.manifest.name == "other"


def test_a_dataset_that_another_job_published_a_moment_ago_stays_too(fleet, new_fleet, capfd, monkeypatch):
    """The other one ends between the look at the folder and the lock."""
    other = new_fleet("other")
    for one in (fleet, other):
        one.write("m0.parquet", make_table(40))
        one.job["output"]["path"] = str(fleet.output)
    hold, first = preprocess.lock.hold, [lambda: other.preprocess()]

    def held(*args, **options):
        if first:
            assert first.pop()() == 0
        return hold(*args, **options)

    monkeypatch.setattr(preprocess.lock, "hold", held)
    assert fleet.preprocess() == 2
    assert f"holds the dataset of another job: test, of {other.files}" in capfd.readouterr().err
    assert fleet.manifest.source == [str(other.files)]
    assert fleet.preprocess() == 2
    assert main(["--job", str(fleet.write_job()), "--replace"]) == 0
