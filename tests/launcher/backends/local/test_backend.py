"""The local backend, with real processes that stand in for the stages."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import psutil
import pytest

from beamfeed.contract.cluster.tf_config import tf_config
from beamfeed.contract.config.load import load_job
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Counts, Manifest, SplitInfo, write_manifest
from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends import backends
from beamfeed.launcher.backends.local import backend as local_backend
from beamfeed.launcher.backends.local.backend import free_ports
from beamfeed.launcher.progress import StageProgress
from beamfeed.launcher.run import run_stage
from beamfeed.launcher.stage import Stage

INDEX = "import json, os, signal, sys, time; i = json.loads(os.environ['TF_CONFIG'])['task']['index']"


@pytest.fixture
def mark(tmp_path):
    """A word in the command line of every process of a test, by which those left over are found."""
    return f"mark-{tmp_path}"


@pytest.fixture
def job(fleet):
    """Makes a job that trains with so many workers."""

    def make(workers):
        return load_job(str(fleet.write_job()), [f"launch.train.workers={workers}"])

    return make


def stage(tmp_path, mark, code, workers=3, **changes):
    command = (sys.executable, "-c", f"{INDEX if workers > 1 else ''}\n{textwrap.dedent(code)}", mark)
    values = {
        "name": "train",
        "command": command,
        "backend": "local",
        "workers": workers,
        "logs": str(tmp_path / "logs"),
        "complete": False,
        "reason": "",
    }
    return Stage(**{**values, **changes})


def left_over(mark, seconds=5.0):
    """The processes of a test that are still there; one that was killed may take a moment to go."""
    end = time.monotonic() + seconds
    while (found := marked(mark)) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def marked(mark):
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        if mark in (process.info["cmdline"] or []) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.info)
    return found


def run(a_stage):
    return run_stage(a_stage, progress=StageProgress(a_stage.name, time.monotonic(), phase=""))  # it has begun


def test_all_succeed_and_only_the_chief_speaks(tmp_path, mark, capfd):
    assert run(stage(tmp_path, mark, "print('I am', i, flush=True)")) == 0
    out = capfd.readouterr()
    assert out.out == "I am 0\n"
    assert out.err == ""
    assert (tmp_path / "logs" / "worker-1.log").read_text() == "I am 1\n"
    assert (tmp_path / "logs" / "worker-2.log").read_text() == "I am 2\n"
    assert not (tmp_path / "logs" / "worker-0.log").exists()


def test_one_that_dies_ends_the_others(tmp_path, mark, capfd):
    code = """
        if i == 1:
            print('the reason', file=sys.stderr)
            sys.exit(7)
        time.sleep(600)
    """
    began = time.monotonic()
    assert run(stage(tmp_path, mark, code)) == 7
    assert time.monotonic() - began < 10
    error = capfd.readouterr().err
    assert "train worker 1 of 3 ended with exit code 7" in error
    assert "the reason" in error
    assert "worker-1.log" in error
    assert left_over(mark) == []


def test_one_that_ignores_sigterm_is_ended_too(tmp_path, mark, capfd):
    ready = tmp_path / "ready"
    code = f"""
        if i == 1:
            while not os.path.exists({str(ready)!r}):
                time.sleep(0.02)
            sys.exit(7)
        if i == 2:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            open({str(ready)!r}, 'w').close()
        time.sleep(600)
    """
    assert run(stage(tmp_path, mark, code)) == 7
    assert left_over(mark) == []


def test_a_child_of_a_worker_is_ended_with_it(tmp_path, mark, capfd):
    code = f"""
        import subprocess
        subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', {mark!r}])
        sys.exit(3 * (i == 0))
    """
    assert run(stage(tmp_path, mark, code, workers=2)) == 3
    assert left_over(mark) == []


def test_a_killed_worker_is_named_with_its_signal(tmp_path, mark, capfd):
    code = """
        if i == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)
    """
    assert run(stage(tmp_path, mark, code)) == 128 + signal.SIGKILL
    assert "train worker 2 of 3 was ended by SIGKILL" in capfd.readouterr().err


def test_a_mistake_that_all_workers_find_is_told_once(tmp_path, mark, capfd):
    code = """
        print('beamfeed: the batch is odd', file=sys.stderr)
        time.sleep(0.3 * (i == 0))
        sys.exit(2)
    """
    assert run(stage(tmp_path, mark, code)) == 2
    assert capfd.readouterr().err == "beamfeed: the batch is odd\n"


def test_a_mistake_that_one_worker_finds_is_its_message(tmp_path, mark, capfd):
    code = """
        if i == 1:
            print('noise', file=sys.stderr)
            print('beamfeed: the disk is full', file=sys.stderr)
            sys.exit(2)
        time.sleep(600)
    """
    assert run(stage(tmp_path, mark, code)) == 2
    assert capfd.readouterr().err == "beamfeed: the disk is full\n"


def test_the_others_that_failed_with_it_are_named(tmp_path, mark, capfd):
    code = """
        time.sleep(0.3 * i)
        print('reason of', i, file=sys.stderr)
        sys.exit(1)
    """
    assert run(stage(tmp_path, mark, code)) == 1
    error = capfd.readouterr().err
    assert error.startswith("reason of 0\n")
    assert "worker 1 of 3 ended with exit code 1; its log is" in error


def test_a_log_that_is_cleared_meanwhile_is_still_shown(tmp_path, mark, capfd):
    code = f"""
        import shutil
        if i == 1:
            print('the reason', flush=True)
            shutil.rmtree({str(tmp_path / "logs")!r})
            sys.exit(7)
        time.sleep(600)
    """
    assert run(stage(tmp_path, mark, code, workers=2)) == 7
    assert "the reason" in capfd.readouterr().err


COUNTING = """
import os, sys
folder = os.environ["CHECKPOINTS"]
starts = int(open(folder + "/starts").read()) + 1
open(folder + "/starts", "w").write(str(starts))
if starts in (3, 4, 5):  # progress is made by these
    open(f"{folder}/step-{starts:09d}.json", "w").close()
sys.exit(138)
"""


def test_however_many_workers_fail_there_are_three_lines(tmp_path, mark, capfd):
    code = """
        print('\\n'.join(f'line {n} of {i}' for n in range(40)), file=sys.stderr, flush=True)
        time.sleep(600 * (i == 0))
        sys.exit(7)
    """
    assert run(stage(tmp_path, mark, code, workers=5)) == 7
    lines = capfd.readouterr().err.splitlines()
    own, told = [one for one in lines if one.endswith("of 0")], [one for one in lines if not one.endswith("of 0")]
    assert len(own) == 40  # of the chief, which has the terminal
    assert len(told) <= 3
    assert re.fullmatch(r"beamfeed: train worker \d of 5 ended with exit code 7; its log is \S+worker-\d.log", told[0])
    assert re.fullmatch(r"line 39 of \d", told[1])


@pytest.mark.parametrize(
    ("fingerprint", "told"),
    [
        (None, "nothing published"),
        ("another", "nothing published, the earlier dataset is unchanged"),
        ("the same", "the dataset is published"),
    ],
)
def test_what_an_interrupted_preprocessing_leaves(tmp_path, mark, fingerprint, told):
    if fingerprint:
        empty = SplitInfo(assets=0, windows=0, records=0, bytes=0, shards=[])
        manifest = Manifest(
            name="small",
            kind="timeseries",
            fingerprint=fingerprint,
            data="data-1",
            fields=[Field(name="values", dtype="float32", shape=(1,), role="input", columns=["a"])],
            windows=Windows(length=8),
            records="segments",
            compression="none",
            counts=Counts(files=2, assets=2, rejected_assets=0, rejected_files=0, rows_read=9),
            splits={"train": empty, "eval": empty, "test": empty},
        )
        write_manifest(str(tmp_path), manifest)
    assert local_backend.what_is_left(stage(tmp_path, mark, "", output=str(tmp_path), fingerprint="the same")) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "the same command continues from the start"),
        ('{"epoch": 2, "done": 3}', "the same command continues from step 1,177"),
        ("{", "the same command continues from the start"),
    ],
)
def test_what_an_interrupted_training_run_leaves(tmp_path, mark, text, told):
    if text is not None:
        (tmp_path / "step-000001177.json").write_text(text)
    assert local_backend.what_is_left(stage(tmp_path, mark, "", checkpoints=str(tmp_path))) == told


def test_an_interrupted_run_asks_no_bucket(tmp_path, mark):
    left = local_backend.what_is_left(stage(tmp_path, mark, "", checkpoints="gs://nowhere/model/checkpoints"))
    assert left == "the same command continues from its last checkpoint"


def test_restarts_count_from_the_last_progress(tmp_path, mark, capfd, monkeypatch):
    (tmp_path / "starts").write_text("0")
    monkeypatch.setenv("CHECKPOINTS", str(tmp_path))
    assert run(stage(tmp_path, mark, COUNTING, workers=1, restarts=2, checkpoints=str(tmp_path))) == 138
    # Two without any, three that end after a checkpoint, and two more from there.
    assert (tmp_path / "starts").read_text() == "7"
    told = re.findall(r"\((\d) of 2\)", capfd.readouterr().err)
    assert told == ["1", "2", "1", "1", "1", "2"]


def test_progress_after_going_back_is_progress(tmp_path, mark, monkeypatch):
    (tmp_path / "starts").write_text("0")
    (tmp_path / "step-000050000.json").touch()  # of the run before, which this one removes
    monkeypatch.setenv("CHECKPOINTS", str(tmp_path))
    code = (
        f"import os; os.path.exists(old := {str(tmp_path / 'step-000050000.json')!r}) and os.remove(old)\n" + COUNTING
    )
    assert run(stage(tmp_path, mark, code, workers=1, restarts=2, checkpoints=str(tmp_path))) == 138
    assert (tmp_path / "starts").read_text() == "7"


def test_a_start_anew_of_several_launchers_has_a_name(tmp_path, mark, capfd, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", TWO)
    code = "import sys; print([argument for argument in sys.argv[2:] if 'progress' not in argument])"
    anew = stage(tmp_path, mark, code, workers=1, starts_anew=True)
    anew = replace(anew, command=(*anew.command, "--from-step", "7"))
    with pytest.raises(UserError, match=r"TF_CONFIG says that this is worker 1 of 2, .*name this start, .*--once NAME"):
        run(anew)
    assert run(replace(anew, command=(*anew.command, "--once", "a"), once="a")) == 0
    assert capfd.readouterr().out == "['--from-step', '7', '--once', 'a']\n"
    monkeypatch.delenv("TF_CONFIG")
    assert run(anew) == 0  # of one launcher, which names it
    assert re.fullmatch(r"\['--from-step', '7', '--once', '[0-9a-f]{32}'\]\n", capfd.readouterr().out)


def test_preprocessing_asks_for_no_workers(tmp_path, mark, monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "left over")
    assert run(stage(tmp_path, mark, "pass", workers=1, name="preprocess")) == 0


TWO = json.dumps({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}})


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"TF_CONFIG": TWO}, "TF_CONFIG says that this is worker 1 of 2"),
        (
            {"WORLD_SIZE": "3", "RANK": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"},
            "torchrun says that this is worker 2 of 3",
        ),
        (
            {
                "SLURM_JOB_ID": "7",
                "SLURM_STEP_ID": "0",
                "SLURM_STEP_NUM_TASKS": "2",
                "SLURM_PROCID": "1",
                "SLURM_STEP_NODELIST": "gpu[01-02]",
                "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
            },
            "Slurm says that this is worker 1 of 2",
        ),
    ],
)
def test_workers_that_the_environment_names_are_not_replaced(tmp_path, mark, capfd, monkeypatch, job, variables, told):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    local = backends()["local"]
    with pytest.raises(UserError, match=f"launch.train.workers: is 2, but {told}; set it to 1"):
        local.check(job(workers=2), "train")
    local.check(job(workers=2), "preprocess")
    local.check(job(workers=1), "train")
    with pytest.raises(UserError, match=f"is not preprocessed, and {told}, each of which would do it"):
        run(stage(tmp_path, mark, "raise SystemExit", workers=1, name="preprocess", output="data"))
    # The process that is started is the worker that the environment says.
    code = f"import os; print([os.environ[name] for name in {list(variables)!r}])"
    assert run(stage(tmp_path, mark, code, workers=1)) == 0
    assert capfd.readouterr().out == f"{list(variables.values())}\n"


def test_of_one_worker_it_may_say_what_it_likes(monkeypatch, job):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 0}}))
    backends()["local"].check(job(workers=2), "train")


def test_workers_of_a_machine_learn_their_share_of_it(tmp_path, mark, capfd):
    assert run(stage(tmp_path, mark, "print(os.environ['BEAMFEED_SHARE'], flush=True)", workers=2)) == 0
    assert capfd.readouterr().out == "0/2\n"
    assert (tmp_path / "logs" / "worker-1.log").read_text() == "1/2\n"


def test_workers_of_a_share_of_a_machine_share_that(tmp_path, mark, capfd, monkeypatch):
    monkeypatch.setenv("BEAMFEED_SHARE", "1/3")  # of a trial, the second of three at once
    assert run(stage(tmp_path, mark, "print(os.environ['BEAMFEED_SHARE'], flush=True)", workers=2)) == 0
    assert capfd.readouterr().out == "2/6\n"
    assert (tmp_path / "logs" / "worker-1.log").read_text() == "3/6\n"


def test_workers_of_a_machine_share_its_cores(tmp_path, mark, capfd, monkeypatch):
    for name in local_backend.THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(local_backend, "available_cores", lambda: 7)
    code = (
        "import os; print(*(os.environ.get(f'TF_NUM_{name}_THREADS') for name in ('INTRAOP', 'INTEROP')), flush=True)"
    )
    for variable, workers, told in (("", 2, "4 4"), ("", 8, "1 1"), ("", 1, "None None"), ("5", 2, "4 5")):
        if variable:
            monkeypatch.setenv("TF_NUM_INTEROP_THREADS", variable)
        assert run(stage(tmp_path, mark, code, workers=workers)) == 0
        assert capfd.readouterr().out == f"{told}\n"


def test_one_worker_has_no_cluster(tmp_path, mark, capfd, monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    code = "import os; print(os.environ.get('TF_CONFIG'), os.environ['TF_CPP_MIN_LOG_LEVEL'])"
    assert run(stage(tmp_path, mark, code, workers=1)) == 0
    assert capfd.readouterr().out == "None 2\n"


def test_workers_get_free_ports_and_their_own_index():
    ports = free_ports(3)
    assert len(set(ports)) == 3
    for port in ports:
        with socket.socket() as one:
            one.bind(("127.0.0.1", port))
    config = json.loads(tf_config([f"127.0.0.1:{port}" for port in ports], 2))
    assert config["cluster"]["worker"] == [f"127.0.0.1:{port}" for port in ports]
    assert config["task"] == {"type": "worker", "index": 2}


def test_preprocessing_gets_a_progress_folder_that_is_removed(tmp_path, mark, capfd):
    code = """
        import sys
        assert sys.argv[-2] == '--progress-dir'
        folder = sys.argv[-1]
        with open(folder + '/w.jsonl', 'w') as file:
            file.write('{"stage": "write", "total_assets": 2, "total_rows": 30}\\n')
            file.write('{"stage": "write", "assets": 2, "rows": 30}\\n')
        print(folder)
    """
    assert run(stage(tmp_path, mark, code, workers=1, name="preprocess")) == 0
    out, error = capfd.readouterr()
    assert "preprocess: write: 2 assets, 30 rows in" in error
    assert not os.path.exists(out.strip())


def test_logs_of_a_remote_workdir_go_to_a_local_folder(tmp_path, mark, capfd, monkeypatch):
    monkeypatch.setattr(local_backend.tempfile, "tempdir", str(tmp_path))
    assert run(stage(tmp_path, mark, "print('I am', i)", workers=2, logs="gs://bucket/model/logs")) == 0
    (log,) = tmp_path.glob("beamfeed-logs-*/worker-1.log")
    assert log.read_text() == "I am 1\n"


def test_describe_starts_nothing(tmp_path, mark):
    lines = backends()["local"].describe(stage(tmp_path, mark, "raise SystemExit", workers=2))
    assert len(lines) == 2
    assert all(line.startswith("TF_CONFIG='{") and sys.executable in line for line in lines)
    assert not (tmp_path / "logs").exists()


LAUNCHER = """
import sys
from beamfeed.launcher import cli, commands
from beamfeed.launcher.run import run_stage
from beamfeed.launcher.plan import Stage

code, grace = sys.argv[3], float(sys.argv[4])
stage = Stage("train", (sys.executable, "-c", code, sys.argv[1]), "local", 2, sys.argv[2], False, "", grace=grace)


commands.CALLS["run"] = lambda args: run_stage(stage)
sys.exit(cli.main(["run", "job.yaml"]))
"""


IGNORING = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(600)
"""
SAVING = """
import signal, sys, time

def save(*_):
    time.sleep(3.5)  # longer than a group that failed is given
    print("saved", flush=True)
    sys.exit(143)

signal.signal(signal.SIGTERM, save)
print("up", flush=True)
time.sleep(600)
"""


def start_launcher(tmp_path, mark, code, grace):
    """A launcher whose two workers are up."""
    command = [sys.executable, "-c", LAUNCHER, mark, str(tmp_path / "logs"), code, str(grace)]
    launcher = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert launcher.stdout.readline() == "up\n"
    log = tmp_path / "logs" / "worker-1.log"
    end = time.monotonic() + 20
    while not (log.exists() and log.read_text() == "up\n") and time.monotonic() < end:
        time.sleep(0.05)
    assert len(marked(mark)) >= 2
    return launcher


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_workers_have_the_time_to_save(tmp_path, mark, sent):
    with start_launcher(tmp_path, mark, SAVING, 60) as launcher:
        launcher.send_signal(sent)
        out, _ = launcher.communicate(timeout=40)
    assert out == "saved\n"
    assert (tmp_path / "logs" / "worker-1.log").read_text() == "up\nsaved\n"
    assert left_over(mark) == []


def test_a_second_interruption_does_not_wait(tmp_path, mark):
    with start_launcher(tmp_path, mark, IGNORING, 600) as launcher:
        launcher.send_signal(signal.SIGINT)
        time.sleep(1)
        assert launcher.poll() is None
        launcher.send_signal(signal.SIGINT)
        launcher.communicate(timeout=30)
    assert left_over(mark) == []


@pytest.mark.parametrize(
    ("sent", "expected"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_whatever_ends_the_launcher_ends_its_processes(tmp_path, mark, sent, expected):
    with start_launcher(tmp_path, mark, IGNORING, 3) as launcher:
        launcher.send_signal(sent)
        _, error = launcher.communicate(timeout=30)
    assert launcher.returncode == expected
    assert "Traceback" not in error
    assert left_over(mark) == []
