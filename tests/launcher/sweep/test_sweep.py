"""`beamfeed sweep` as a user runs it: real trials, killed in the middle, and what it leaves."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from fleets import Fleet, make_table

from beamfeed.contract import storage
from beamfeed.contract.dataset.result import read_result
from beamfeed.launcher.cli import main
from beamfeed.launcher.sweep import study as study_module
from beamfeed.launcher.sweep.command import check_folder, forget, is_half_forgotten

ODD_WORKER = Path(__file__).parents[2] / "trainer" / "odd_worker.py"
SPACE = {"train.feed.batch_size": [64, 100_000], "train.model.units": [[4], [6]]}


def make_fleet(folder: Path, epochs: int, **sweep: object) -> Fleet:
    fleet = Fleet(folder)
    for number in range(6):
        fleet.write(f"m{number}.parquet", make_table(300, number))
    fleet.job["train"] |= {
        "model": {"name": "dense_autoencoder", "units": [8], "latent": 2}, "epochs": epochs,
        "review": {"baselines": "none"},
    }  # fmt: skip
    fleet.job["sweep"] = {"sampler": "grid", "pruner": "none", "space": SPACE, **sweep}
    fleet.write_job()
    return fleet


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "beamfeed", *map(str, words)]


def wait_for(path: Path, process: subprocess.Popen) -> None:
    """Waits until a process has written a file."""
    end = time.monotonic() + 300
    while not path.exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)


def kill_when(process: subprocess.Popen, path: Path) -> None:
    """Kills a group of processes by SIGKILL as soon as a file is there."""
    wait_for(path, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def lines_of(text: str, event: str) -> list[dict]:
    return [line for line in map(json.loads, text.splitlines()) if line["event"] == event]


@pytest.mark.slow
def test_a_sweep_that_is_killed_goes_on(tmp_path, capsys):
    fleet = make_fleet(tmp_path, epochs=10)
    job, folder = tmp_path / "job.yaml", tmp_path / "model-sweep"
    killed = subprocess.Popen(command("sweep", job), start_new_session=True, stderr=subprocess.DEVNULL)
    wait_for(folder / "trial-0000" / "job.yaml", killed)
    late = fleet.write("late.parquet", make_table(300, 99))  # what arrives during a sweep is not of it: trial 1 begins
    kill_when(killed, folder / "trial-0001" / "metrics.jsonl")
    late.unlink()
    first = (folder / "trial-0000" / "complete.json").stat()
    assert not (folder / "trial-0001" / "complete.json").exists()
    begun = len((folder / "trial-0001" / "metrics.jsonl").read_text().splitlines())

    done = subprocess.run(command("sweep", job, "--json"), capture_output=True, text=True, check=True)
    trials = lines_of(done.stdout, "trial")
    assert [(one["trial"], one["state"]) for one in trials] == [
        (1, "begins"), (1, "done"), (2, "begins"), (2, "failed"), (3, "begins"), (3, "failed"),
    ]  # fmt: skip
    assert "holds" in trials[3]["reason"]
    assert "fewer than one batch of 100000" in trials[3]["reason"]
    assert len([one for one in lines_of(done.stdout, "evaluation") if one["trial"] == 1]) in (10, 10 - begun)
    assert (folder / "trial-0000" / "complete.json").stat() == first

    # A trial is a training run like any other, also one that was killed.
    alone = tmp_path / "alone"
    words = ["train.model.units=[6]", "train.feed.batch_size=64", f"train.workdir={alone}"]
    sets = [part for word in words for part in ("--set", word)]
    subprocess.run([sys.executable, ODD_WORKER, "--bare", "--job", job, *sets], capture_output=True, check=True)
    expected, found = read_result(str(alone)), read_result(str(folder / "trial-0001"))
    assert found.model_dump(exclude={"seconds"}) == expected.model_dump(exclude={"seconds"})

    board = pq.read_table(folder / "leaderboard.parquet").to_pylist()
    assert [(one["trial"], one["state"]) for one in board[2:]] == [(2, "failed"), (3, "failed")]
    assert {one["trial"]: one["eval_loss"] for one in board[:2]} == {
        number: read_result(str(folder / f"trial-{number:04d}")).best for number in (0, 1)
    }
    assert [one["rank"] for one in board] == [1, 2, None, None]
    assert board[0]["eval_loss"] <= board[1]["eval_loss"]
    assert {one["train.feed.batch_size"] for one in board} == {64, 100_000}
    assert (folder / "sweep.png").read_bytes().startswith(b"\x89PNG")

    (summary,) = lines_of(done.stdout, "summary")
    assert summary["trials"] == {"done": 2, "pruned": 0, "failed": 2}
    assert summary["best"]["trial"] == board[0]["trial"]
    best = yaml.safe_load((folder / "best.yaml").read_text())
    assert best["train"]["model"]["units"] == summary["best"]["params"]["train.model.units"]
    assert best["train"]["workdir"] == board[0]["workdir"]
    assert best["output"]["path"] == str(fleet.output)
    assert "sweep" not in best
    assert main(["train", str(folder / "best.yaml")]) == 0
    assert "train: complete, nothing to do: 10 epochs" in capsys.readouterr().err
    assert main(["sweep", str(job)]) == 0
    over = capsys.readouterr()
    assert "trial 1" not in over.err
    assert over.out.splitlines()[0].split() == ["trial", "eval", "loss", "batch_size", "units", "epochs", "took"]


@pytest.mark.long
def test_twenty_trials(tmp_path):
    """With learned choices and trials that are ended early, killed once and gone on with."""
    space = {
        "train.optimizer.learning_rate": {"low": 1e-5, "high": 1e-1, "log": True},
        "train.model.units": [[4], [8]],
    }
    make_fleet(tmp_path, epochs=9, sampler="tpe", pruner="hyperband", trials=20, space=space)
    job, folder = tmp_path / "job.yaml", tmp_path / "model-sweep"
    killed = subprocess.Popen(command("sweep", job), start_new_session=True, stderr=subprocess.DEVNULL)
    kill_when(killed, folder / "trial-0004" / "metrics.jsonl")
    done = subprocess.run(command("sweep", job, "--json"), capture_output=True, text=True, check=True)
    (summary,) = lines_of(done.stdout, "summary")
    assert sum(summary["trials"].values()) == 20
    assert summary["trials"]["failed"] == 0
    assert summary["trials"]["done"] >= 1
    assert lines_of(done.stdout, "trial")[0]["trial"] == 4
    board = pq.read_table(folder / "leaderboard.parquet").to_pylist()
    assert board[0]["eval_loss"] == min(one["eval_loss"] for one in board if one["state"] == "done")


@pytest.fixture
def job(tmp_path):
    make_fleet(tmp_path, epochs=2)
    return str(tmp_path / "job.yaml")


def told(capsys, *words: object) -> str:
    """The line of a mistake."""
    assert main(["sweep", *map(str, words)]) == 2
    output = capsys.readouterr()
    assert output.err.count("\n") == 1
    return output.err


def test_mistakes_are_told_in_a_line_before_anything_is_done(job, tmp_path, capsys):
    assert f"beamfeed: {job}: sweep: is missing, it must be a mapping" in told(capsys, job, "--set", "sweep=null")
    assert f"{job}: train: is missing" in told(capsys, job, "--set", "train=null")
    line = told(capsys, job, "--set", "sweep.space={windows.stride: [1, 2]}")
    assert "sweep.space: windows.stride: is no key of train; trials share one dataset" in line
    remote = told(capsys, job, "--out", "gs://bucket/sweep")
    assert "--out: gs://bucket/sweep: a sweep needs a folder on a disk" in remote
    backend = ["launch.train={backend: slurm, slurm: {shared: /s}}"]
    assert "launch.train" in told(capsys, job, "--set", *backend)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fleet", "job.yaml"]


def test_a_folder_of_something_else_is_left_alone(job, tmp_path, capsys):
    other = tmp_path / "other"
    other.mkdir()
    (other / "best.yaml").write_text("mine")
    for words in ((), ("--restart",), ("--dry-run",)):
        assert f"--out: {other} holds best.yaml, and no sweep; choose" in told(capsys, job, "--out", other, *words)
    assert (other / "best.yaml").read_text() == "mine"


def test_a_restart_removes_what_a_sweep_writes_and_no_more(tmp_path, monkeypatch):
    for name in ("trial-0003", "trial-12345", "trial-run"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").touch()
    for name in ("journal.log", "best.yaml", "sweep.png", "leaderboard.parquet", "best.yaml.old", "journal.logbook"):
        (tmp_path / name).write_text("of a sweep")
    assert not is_half_forgotten(str(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(storage, "remove_tree", lambda path: 1 / 0)
        with pytest.raises(ZeroDivisionError):  # as if it was killed there
            forget(str(tmp_path))
    assert is_half_forgotten(str(tmp_path))  # so no trial counts as done, and the next command goes on with this
    check_folder(str(tmp_path))
    forget(str(tmp_path))
    assert not is_half_forgotten(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["best.yaml.old", "journal.logbook", "trial-run"]


def test_without_optuna(job, capsys, monkeypatch):
    monkeypatch.setattr(study_module.importlib.util, "find_spec", lambda name: None)
    line = "beamfeed: beamfeed sweep needs the package optuna: pip install 'beamfeed[sweep]'\n"
    assert told(capsys, job) == line


def test_what_would_be_done(job, tmp_path, capsys):
    pytest.importorskip("optuna", reason="Optuna is not installed (pip install 'beamfeed[sweep]')")
    assert main(["sweep", job, "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"dataset: to do: no dataset in {tmp_path}/data; all trials share it"
    assert lines[2] == f"sweep: 4 trials in {tmp_path}/model-sweep, sampler grid, pruner none, by loss"
    assert [line.split() for line in lines[4:]] == [
        ["trial", "batch_size", "units"],
        ["0", "64", "[4]"], ["1", "64", "[6]"], ["2", "100000", "[4]"], ["3", "100000", "[6]"],
    ]  # fmt: skip
    sampled = ["--set", "sweep={trials: 30, space: {train.seed: {low: 1, high: 9}}}"]
    assert main(["sweep", job, "--dry-run", "--json", *sampled]) == 0
    (plan,) = lines_of(capsys.readouterr().out, "plan")
    assert (plan["trials"], len(plan["params"]), plan["dataset"]["complete"]) == (30, 10, False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fleet", "job.yaml"]
