"""What is kept of a run, and what the commands say of it and do with it, from other processes and other folders."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from beamfeed.contract import errors
from beamfeed.contract.dataset.layout import RecordLayout
from beamfeed.contract.errors import UserError
from beamfeed.launcher import verbs
from beamfeed.launcher.display import Display
from beamfeed.launcher.runs import recorder
from beamfeed.launcher.runs.log import RunLog
from beamfeed.launcher.runs.record import Attempt, RunRecord, StageRecord, read_record
from beamfeed.launcher.stage import Stage

FAR = Path(__file__).parent / "far.py"
JOB = """
name: small
source: {kind: timeseries, files: in/*.csv, time: {column: t}, features: ["a"]}
windows: {length: 8}
output: {path: data}
train: {model: {name: recurrent_autoencoder}, workdir: model}
"""
GOES_ON = "import time\nprint('it goes on', flush=True)\nwhile True: time.sleep(1)\n"


def wait_for(found: Callable[[], Any]) -> Any:
    """What is found as soon as it is there."""
    end = time.monotonic() + 60
    while not (there := found()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return there


def end(launcher: subprocess.Popen, sent: signal.Signals = signal.SIGINT) -> None:
    launcher.send_signal(sent)
    launcher.communicate(timeout=60)


class Bench:
    """A job in a folder, whose stages are small programs; and `beamfeed`, called from anywhere."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.env = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        (folder / "in").mkdir()
        (folder / "in" / "one.csv").write_text("t,a\n1,2\n")
        (folder / "job.yaml").write_text(JOB)
        self.stage("preprocess", "print('prepared')\n")
        self.started: list[subprocess.Popen] = []

    def stage(self, name: str, code: str) -> None:
        (self.folder / f"{name}.py").write_text(code)

    def start(self, *arguments: str, where: Path | None = None) -> subprocess.Popen:
        command = [sys.executable, str(FAR), str(self.folder), *arguments]
        process = subprocess.Popen(
            command, cwd=where or self.folder, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.started.append(process)
        return process

    def call(self, *arguments: str, where: Path | None = None) -> tuple[int, str, str]:
        process = self.start(*arguments, where=where)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def start_far(self, *stages: str) -> tuple[subprocess.Popen, str]:
        """A launcher that follows stages on `far`, training if none is named, and the id of its run."""
        sets = [part for stage in stages or ("train",) for part in ("--set", f"launch.{stage}.backend=far")]
        return self.start("run", "job.yaml", *sets), self.until("far away it begins")

    def listed(self, *arguments: str) -> list[dict]:
        """As `beamfeed runs --json` tells them, in this process."""
        with contextlib.chdir(self.folder), mock.patch.dict(os.environ, self.env):
            runs = verbs.list_runs(*(arguments or [None]))
            return [{"state": run.record.state(), **run.record.model_dump(mode="json")} for run in runs]

    def until(self, text: str) -> str:
        """Waits until the log of the newest run has a text, and its record what that is of; returns the run's id."""
        recorded = '"handle": "job 7 of Far"' if text.startswith("far away") else "{"

        def find() -> str:
            for log in sorted(self.folder.glob("model/runs/*.log"), reverse=True):
                record = log.with_suffix(".json")
                if text in log.read_text() and record.exists() and recorded in record.read_text():
                    return log.stem
            return ""

        return wait_for(find)


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_run_that_is_done(bench, tmp_path_factory):
    bench.stage("train", "import sys\nprint('out 1', flush=True)\nprint('err 2', file=sys.stderr)\nprint('out 3')\n")
    assert bench.call("run", "job.yaml", "--set", "windows.stride=2")[0] == 0
    (run,) = [json.loads(line) for line in bench.call("runs", "--json")[1].splitlines()]
    assert (run["state"], run["code"], run["overrides"]) == ("done", 0, ["windows.stride=2"])
    assert [(stage["name"], stage["state"]) for stage in run["stages"]] == [("preprocess", "done"), ("train", "done")]
    assert run["versions"]["beamfeed"]
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for named in (run["id"], str(bench.folder / "model"), str(bench.folder / "model" / run["id"])):
        code, out, _ = bench.call("status", named, where=elsewhere)
        assert (code, out.splitlines()[0]) == (0, f"run {run['id']} of job small: done")
    code, out, _ = bench.call("logs", run["id"], where=elsewhere)
    assert code == 0
    printed = [line for line in out.splitlines() if not line.startswith("20")]
    assert sorted(printed) == ["err 2", "out 1", "out 3", "prepared"]
    code, _, err = bench.call("attach", run["id"])
    assert (code, err) == (2, f"beamfeed: run {run['id']}: is done\n")
    code, out, err = bench.call("runs", where=elsewhere)
    assert (code, [line.split()[0] for line in out.splitlines()]) == (0, ["RUN", run["id"]])


def test_a_run_that_fails_says_why_and_is_gone_on_with(bench):
    bench.stage("train", "import sys\nprint('no more memory', file=sys.stderr)\nsys.exit(1)\n")
    assert bench.call("run", "job.yaml")[0] == 1
    (run,) = bench.listed("model")
    assert (run["state"], run["code"], run["why"]) == ("failed", 1, "no more memory")
    bench.stage("train", "print('trained')\n")
    code, _, _ = bench.call("resume", run["id"], where=Path("/"))
    assert code == 0
    (after,) = bench.listed("job.yaml")
    assert (after["id"], after["state"], len(after["attempts"])) == (run["id"], "done", 2)
    assert after["stages"][1]["seconds"] > run["stages"][1]["seconds"]
    log = bench.call("logs", run["id"])[1]
    assert log.index("no more memory") < log.index("trained")


def test_a_job_file_that_goes_while_it_is_run_is_no_failure(bench):
    bench.stage("train", "import os\nos.remove('job.yaml')\n")
    assert bench.call("run", "job.yaml")[0] == 0


def test_where_the_job_file_is_gone_what_was_kept_of_it_is_run(bench, monkeypatch):
    monkeypatch.setitem(bench.env, "MY_TOKEN", "abc$def123")
    (bench.folder / "in").rename(bench.folder / "in-abc$def123")
    (bench.folder / "job.yaml").write_text(JOB.replace("in/", "in-${MY_TOKEN}/"))
    bench.stage("train", "import sys\nsys.exit(1)\n")
    bench.call("run", "job.yaml", "--set", "windows.stride=3")
    kept = "".join(path.read_text() for path in (bench.folder / "model" / "runs").iterdir())
    assert "def123" not in kept
    assert "in-${MY_TOKEN}/*.csv" in kept
    (bench.folder / "job.yaml").unlink()
    bench.stage("train", "print('trained')\n")
    del bench.env["MY_TOKEN"]
    assert bench.call("status", "model")[0] == 0
    assert "${MY_TOKEN} is not set" in bench.call("resume", "model")[2]
    bench.env["MY_TOKEN"] = "abc$def123"
    assert bench.call("resume", "model")[0] == 0
    assert [run["state"] for run in bench.listed()] == ["done"]


def test_a_run_that_goes_on_is_seen_and_ended_from_another_process(bench):
    bench.stage("train", GOES_ON)
    launcher = bench.start("run", "job.yaml")
    id_ = bench.until("it goes on")
    assert bench.call("status", id_)[1].splitlines()[0].startswith(f"run {id_} of job small: running")
    assert "goes on" in bench.call("resume", id_)[2]
    watcher = bench.start("attach", "job.yaml")
    assert watcher.stdout is not None
    while "it goes on" not in watcher.stdout.readline():
        pass
    code, _, err = bench.call("cancel", id_)
    assert (code, err) == (0, f"beamfeed: run {id_} is cancelled\n")
    launcher.communicate(timeout=60)
    assert launcher.returncode == 130
    watcher.communicate(timeout=60)
    assert bench.listed()[0]["state"] == "cancelled"
    assert bench.call("cancel", id_) == (0, "", f"beamfeed: {id_}: nothing of it is running\n")
    assert not list((bench.folder / "model" / "runs").glob("*.cancel"))


def test_who_only_watches_leaves_it_alone(bench):
    bench.stage("train", GOES_ON)
    launcher = bench.start("run", "job.yaml")
    id_ = bench.until("it goes on")
    watcher = bench.start("attach", id_)
    assert watcher.stdout is not None
    watcher.stdout.readline()
    watcher.send_signal(signal.SIGINT)
    _, err = watcher.communicate(timeout=60)
    assert (watcher.returncode, err) == (130, f"beamfeed: interrupted: run {id_} goes on\n")
    assert launcher.poll() is None
    second = bench.start("attach", id_)
    assert second.stdout is not None
    second.stdout.readline()
    end(launcher)
    assert bench.listed()[0]["state"] == "interrupted"
    second.communicate(timeout=60)
    assert second.returncode == 130  # as the launcher's


def test_a_launcher_that_does_not_answer_and_then_was_killed(bench, monkeypatch):
    bench.stage("train", GOES_ON)
    launcher = bench.start("run", "job.yaml")
    id_ = bench.until("it goes on")
    launcher.send_signal(signal.SIGSTOP)
    request, sleep = bench.folder / "model" / "runs" / f"{id_}.cancel", time.sleep

    def take_over(_):
        request.unlink()  # as another launcher does
        sleep(0.06)

    with contextlib.chdir(bench.folder), mock.patch.dict(os.environ, bench.env), monkeypatch.context() as patched:
        (run,) = verbs.list_runs(None)
        patched.setattr(verbs, "CANCEL_SECONDS", 0.1)
        patched.setattr(verbs.time, "sleep", take_over)
        with pytest.raises(UserError, match="was asked to end it, and has not yet"):
            verbs.cancel(run)
    assert not request.exists()
    end(launcher, signal.SIGKILL)
    assert f"lost: its launcher, process {launcher.pid} on " in bench.call("status", id_)[1]
    code, _, err = bench.call("attach", id_)
    assert code == 2
    assert err.endswith(f"`beamfeed resume {id_}` goes on with it\n")
    bench.stage("train", "print('trained')\n")
    assert bench.call("resume", id_)[0] == 0
    assert [run["state"] for run in bench.listed()] == ["done"]


def test_what_nobody_follows_is_found_where_it_runs(bench):
    launcher, id_ = bench.start_far()
    end(launcher)
    assert bench.listed()[0]["state"] == "left"
    assert "running: job 7 is busy; nobody follows it" in bench.call("status", id_, where=Path("/"))[1]
    code, _, err = bench.call("resume", id_, "--set", "launch.train.backend=local")
    assert (code, "job 7 of Far still works on it" in err) == (2, True)
    request = bench.folder / "model" / "runs" / f"{id_}.cancel"
    request.touch()  # of a launcher before
    attached = bench.start("attach", id_, where=Path("/"))
    time.sleep(1)
    (bench.folder / "far-job").write_text("done")
    attached.communicate(timeout=60)
    assert attached.returncode == 0
    (run,) = bench.listed()
    assert (run["state"], len(run["attempts"]), run["stages"][1]["handle"]) == ("done", 2, "job 7 of Far")
    assert not request.exists()


def test_who_attaches_starts_nothing_whatever_the_job_file_says_by_now(bench):
    launcher, id_ = bench.start_far()
    end(launcher)
    (bench.folder / "job.yaml").write_text(JOB.replace("workdir: model", "workdir: other"))
    attached = bench.start("attach", id_)
    time.sleep(1)
    (bench.folder / "far-job").write_text("done")
    attached.communicate(timeout=60)
    assert attached.returncode == 0
    assert not (bench.folder / "other").exists()


def test_where_the_cluster_does_not_answer_the_record_is_told_and_the_run_gone_on_with(bench):
    launcher, id_ = bench.start_far()
    end(launcher, signal.SIGKILL)
    (bench.folder / "far-gone").touch()
    code, out, _ = bench.call("status", id_)
    assert (code, "lost: its launcher" in out, "; Far does not answer" in out) == (0, True, True)
    assert bench.call("cancel", id_)[::2] == (2, "beamfeed: Far does not answer\n")
    bench.stage("train", "print('trained')\n")
    code, _, err = bench.call("resume", id_, "--set", "launch.train.backend=local")
    assert (code, "Far does not answer; going on without it" in err) == (0, True)
    (run,) = bench.listed()
    assert (run["state"], run["stages"][1]["backend"]) == ("done", "local")


@pytest.mark.parametrize("how", ["far-breaks", "far-gone"])
def test_work_is_not_forgotten_when_its_launcher_fails(bench, how):
    """Its launcher may have no memory left, or hear nothing of the cluster when it is interrupted."""
    launcher, id_ = bench.start_far()
    (bench.folder / how).touch()
    if how == "far-gone":
        launcher.send_signal(signal.SIGINT)
    _, err = launcher.communicate(timeout=60)
    code, words = {"far-breaks": (1, "Cannot allocate memory"), "far-gone": (130, "Far does not answer")}[how]
    assert (launcher.returncode, words in err) == (code, True)
    assert bench.listed()[0]["state"] == "left"
    (bench.folder / how).unlink()
    assert bench.call("cancel", id_)[0] == 0
    assert not (bench.folder / "far-job").exists()


@pytest.mark.parametrize("command", ["attach", "resume"])
def test_what_only_its_launcher_could_follow_is_not_begun_again(bench, command):
    (bench.folder / "far-tied").touch()
    launcher, id_ = bench.start_far()
    end(launcher, signal.SIGKILL)
    code, _, err = bench.call(command, id_)
    assert (code, err) == (
        2,
        f"beamfeed: run {id_}: job 7 of Far still works on it, and only its launcher could follow it, which is gone; "
        f"wait, or end it with `beamfeed cancel {id_}`\n",
    )
    assert bench.call("cancel", id_)[0] == 0
    assert not (bench.folder / "far-job").exists()


@pytest.mark.parametrize("command", ["run", "resume"])
def test_what_is_billed_is_asked_for_at_a_terminal(bench, command):
    asked = ["job.yaml", "--set", "launch.train.backend=far"]
    if command == "resume":
        bench.stage("train", "import sys\nsys.exit(1)\n")
        bench.call("run", "job.yaml")
    (bench.folder / "far-bills").touch()
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(FAR), str(bench.folder), command, *asked],
        cwd=bench.folder, env=bench.env, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs,
    )  # fmt: skip
    os.write(ours, b"n\n")
    process.communicate(timeout=60)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert (process.returncode, "go on? [y/N]" in shown, "nothing was started" in shown) == (2, True, True)
    assert not (bench.folder / "far-job").exists()


def test_leave_to_replace_a_dataset_counts_for_the_run_that_had_it(bench):
    bench.stage("train", "import sys\nsys.exit(1)\n")
    bench.call("run", "job.yaml", "--replace")
    with contextlib.chdir(bench.folder), mock.patch.dict(os.environ, bench.env):
        (run,) = verbs.list_runs(None)
        assert verbs.plan_again(run, ()).replace
        assert verbs.plan_again(run, ["windows.stride=2"]).replace
        assert not verbs.plan_again(run, ["output.path=other"]).replace
        run.record.outcome = "done"  # what stands there by now, another run may have made
        assert not verbs.plan_again(run, ()).replace


def test_a_log_whose_beginning_was_dropped(bench, capsys):
    log = bench.folder / "log"
    log.write_text("one\ntwo\n")
    assert verbs._print_from(str(log), 5000, 5000) == 5008
    assert verbs._print_from(str(log), 5004, 5000) == 5008
    assert verbs._print_from(str(log), 5008, 5000) == 5008
    assert capsys.readouterr().out == "one\ntwo\ntwo\n"


@pytest.mark.parametrize("how", ["Ctrl-C", "cancel"])
def test_a_launcher_that_is_ended_while_it_hands_work_in(bench, how):
    (bench.folder / "far-slow").touch()
    launcher = bench.start("run", "job.yaml", "--set", "launch.train.backend=far")
    wait_for((bench.folder / "far-job").exists)
    if how == "Ctrl-C":
        launcher.send_signal(signal.SIGINT)
    else:
        assert bench.call("cancel", "job.yaml")[0] == 0
    launcher.communicate(timeout=60)
    assert bench.listed()[0]["state"] == {"Ctrl-C": "left", "cancel": "cancelled"}[how]
    assert (bench.folder / "far-job").exists() == (how == "Ctrl-C")


def test_what_is_refused_is_no_run(bench):
    far = ["preprocess", "job.yaml", "--set", "launch.preprocess.backend=far"]
    launcher = bench.start(*far)
    wait_for((bench.folder / "far-job").exists)
    end(launcher)
    (id_,) = [run["id"] for run in bench.listed("data")]
    kept = (bench.folder / "data" / "runs" / f"{id_}.yaml").read_text()
    for more in ("limits.max_rejected_assets=3", "windows.stride=3"):  # it would go on with that run, or be another
        code, _, err = bench.call(*far, "--set", more)
        assert (code, "another job is there" in err) == (2, True)
        assert [(run["id"], run["state"], len(run["attempts"])) for run in bench.listed()] == [(id_, "left", 1)]
        assert (bench.folder / "data" / "runs" / f"{id_}.yaml").read_text() == kept


def test_a_later_stage_that_is_refused_loses_none_that_was_taken_on(bench):
    (bench.folder / "far-refuses").touch()
    launcher, id_ = bench.start_far("preprocess", "train")
    end(launcher)
    assert [(run["id"], run["state"]) for run in bench.listed()] == [(id_, "left")]
    assert "Far takes no second job; it is handed in again later" in bench.call("logs", id_)[1]


def test_what_is_refused_leaves_nothing(bench):
    (bench.folder / "far-job").write_text("busy")
    code, _, err = bench.call("preprocess", "job.yaml", "--set", "launch.preprocess.backend=far")
    assert (code, "another job is there" in err) == (2, True)
    assert not (bench.folder / "data").exists()


def test_what_a_later_run_has_there_is_not_an_earlier_ones(bench):
    launcher, first = bench.start_far()
    end(launcher)
    (bench.folder / "far-job").unlink()
    launcher = bench.start("run", "job.yaml", "--restart", "--set", "launch.train.backend=far")
    wait_for(lambda: any(run["id"] != first and run["stages"][1]["handle"] for run in bench.listed()))  # its record
    assert "job 7 of Far is not there any more" in bench.call("status", first)[1]
    assert "nothing of it is running" in bench.call("cancel", first)[2]
    assert (bench.folder / "far-job").exists()


def test_a_folder_whose_name_is_no_text_ends_no_run(bench):
    odd = os.fsencode(bench.folder) + b"/w\xff"
    os.mkdir(odd)
    for name in ("in", "job.yaml"):
        os.symlink(bench.folder / name, odd + b"/" + os.fsencode(name))
    bench.stage("train", "print('trained')\n")
    assert bench.call("run", "job.yaml", where=Path(os.fsdecode(odd)))[0] == 0


@pytest.mark.parametrize("how", ["left", "followed"])
def test_work_elsewhere_is_cancelled_with_its_run(bench, how):
    launcher, id_ = bench.start_far()
    if how == "left":
        end(launcher, signal.SIGKILL)
    code, _, err = bench.call("cancel", id_)
    assert (code, f"run {id_} is cancelled" in err) == (0, True)
    launcher.communicate(timeout=60)
    assert not (bench.folder / "far-job").exists()
    assert bench.listed()[0]["state"] == "cancelled"


def test_what_was_done_while_nobody_followed_is_not_lost(bench):
    launcher, id_ = bench.start_far("preprocess")
    end(launcher, signal.SIGTERM)
    (bench.folder / "far-job").unlink()
    assert "job 7 of Far is not there any more; resume the run to go on" in bench.call("status", id_)[1]


def test_variables_that_only_training_asks_for_hinder_no_record(bench, monkeypatch):
    monkeypatch.setitem(bench.env, "MASTER_ADDR", "left over")
    assert bench.call("preprocess", "job.yaml")[0] == 0
    assert [run["state"] for run in bench.listed()] == ["done"]


def test_a_place_that_takes_no_record_ends_no_run(bench):
    (bench.folder / "model").write_text("a file")
    bench.stage("train", "print('trained')\n")
    assert bench.call("run", "job.yaml")[0] == 0
    assert bench.listed() == []


@pytest.mark.parametrize("command", ["status", "logs", "attach", "resume", "cancel"])
def test_what_is_no_run_is_one_line(bench, command):
    for named in ("nowhere", "20260101-000000-abcd", "model/20260101-000000-abcd"):
        code, _, err = bench.call(command, named)
        assert (code, err) == (
            2,
            f"beamfeed: {named}: no such run is known here; name its job file, or the folder that it writes to\n",
        )


def record_of(id_, *stages):
    return RunRecord(
        id=id_, job="small", job_path="job.yaml", folder="/", overrides=[], asked=[], versions={},
        stages=[StageRecord.of(stage) for stage in stages], attempts=[Attempt.mine("beamfeed run")],
    )  # fmt: skip


def test_a_secret_in_a_path_makes_it_no_other_run(monkeypatch):
    """Also one of another job of this process, whose value happens to be in the path."""
    monkeypatch.setitem(errors._SECRETS, "machine7", "${ASSET_KEY}")
    stage = Stage("train", ("python",), "local", 1, "", False, "there is no model", output="/data/machine7/model")
    record = record_of("20260101-000000-0000", stage)
    assert "machine7" not in record.text()
    assert record.is_of([stage])
    assert not record.is_of([replace(stage, output="/data/other/model")])


def test_a_ctrl_c_as_a_run_ends_leaves_a_record_that_has_ended(tmp_path, monkeypatch):
    layout = RecordLayout(str(tmp_path), "20260101-000000-0000")
    record = record_of(layout.id)
    kept = recorder._Recorder(layout, record, RunLog(layout.log, 0, None), Display(), "name: small")
    say, calls = kept._say_how_it_ended, []

    def interrupted(error):
        calls.append(error)
        if len(calls) == 1:
            raise KeyboardInterrupt
        say(error)

    monkeypatch.setattr(kept, "_say_how_it_ended", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kept.close()
    assert read_record(layout).state() == "done"
