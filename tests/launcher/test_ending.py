"""The `beamfeed` command where nobody reads what it prints, where it may not write, and when it is asked to end."""

import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest
from fleets import make_table
from unprivileged import drop_privileges

PATIENCE = 240  # seconds; a run takes some ten, and more on a busy machine


@pytest.fixture
def start(root, fleet):
    """Starts the command on the job of a fleet of four good assets and a broken one."""
    for i in range(4):
        fleet.write(f"m{i}.parquet", make_table(400, seed=i))
    fleet.write("broken.parquet", make_table(10)).write_bytes(b"PAR1 this is none PAR1")
    started = []

    def run(command: str, *arguments: str, **options) -> subprocess.Popen:
        job = [str(fleet.write_job())] if command != "schema" else []
        whole = [sys.executable, "-m", "beamfeed.launcher.cli", command, *job, *arguments]
        values = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        started.append(subprocess.Popen(whole, cwd=root, text=True, **values))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()
        for end in (process.stdout, process.stderr):
            if end is not None:
                end.close()


def head(process: subprocess.Popen) -> tuple[str, int]:
    """What `| head -1` prints, and the exit code of the command before it."""
    line = process.stdout.readline()
    process.stdout.close()
    return line, process.wait(PATIENCE)


@pytest.mark.parametrize(("command", "arguments"), [("schema", []), ("run", ["--dry-run"]), ("run", ["--help"])])
def test_a_reader_of_the_output_that_has_enough(start, command, arguments):
    process = start(command, *arguments)
    line, code = head(process)
    assert (bool(line), code, process.stderr.read()) == (True, 0, "")


def test_output_that_cannot_be_written(start):
    with open("/dev/full", "w") as full:
        process = start("schema", stdout=full)
    assert process.communicate(timeout=PATIENCE)[1] == "stdout: cannot be written: No space left on device\n"
    assert process.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "expected"), [("0", 1), ("0.5", 0)])
def test_a_reader_of_everything_that_has_enough(start, fleet, limit, expected):
    process = start(
        "preprocess", "--set", f"limits.max_rejected_fraction={limit}", "--set", "launch.preprocess.workers=2",
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    line, code = head(process)
    assert re.match(r"\d\d:\d\d:\d\d preprocess: no dataset in ", line)
    assert code == expected
    assert (fleet.output / "manifest.json").exists() is (code == 0)
    assert not (fleet.output / "lock.json").exists()


@pytest.mark.long
def test_a_whole_run_that_nobody_reads(start, fleet):
    small = ["train.epochs=1", "train.feed.batch_size=16", "launch.train.workers=2"]
    process = start("run", *(part for one in small for part in ("--set", one)), stderr=subprocess.STDOUT)
    assert head(process)[1] == 0
    assert (fleet.folder / "model" / "complete.json").exists()


def test_an_output_that_may_not_be_read_is_one_line(start, fleet):
    fleet.output.mkdir(mode=0)
    process = start("preprocess", preexec_fn=drop_privileges)
    _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert error.startswith("beamfeed: job failed: PermissionError: ")
    assert len(error.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal(start, fleet, sent):
    def as_in_the_background() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    process = start("preprocess", preexec_fn=as_in_the_background)
    deadline = time.monotonic() + PATIENCE
    while not (fleet.output / "lock.json").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(sent)
    _, error = process.communicate(timeout=20)
    assert process.returncode == 128 + sent
    assert error.splitlines()[1:] == (["beamfeed: interrupted: nothing published"] if sent == signal.SIGINT else [])
    assert not (fleet.output / "lock.json").exists()
    assert psutil.wait_procs(children, timeout=5)[1] == []


SLOW = """
import keras
import tensorflow as tf

@keras.saving.register_keras_serializable("test")
class Wait(keras.layers.Layer):
    def call(self, x, training=False):
        if not training:
            return x
        square = tf.ones([500, 500]) / 500
        busy = tf.while_loop(lambda i, a: i < 1000, lambda i, a: (i + 1, a @ square), (0, square))  # takes seconds
        with tf.control_dependencies(busy):
            return tf.identity(x)

def make(length, features):
    windows = keras.Input((length, features))
    return keras.Model(windows, Wait()(keras.layers.Dense(features)(windows)))
"""


@pytest.mark.long
def test_what_was_trained_is_saved_however_long_a_step_takes(start, fleet):
    (fleet.folder / "slow_model.py").write_text(SLOW)
    changes = ["train.model={class: 'slow_model:make'}", "train.feed.batch_size=16", "launch.train.workers=1"]
    env = {**os.environ, "PYTHONPATH": str(fleet.folder)}
    process = start("run", *(part for one in changes for part in ("--set", one)), env=env)
    events = fleet.folder / "model" / "tensorboard"
    deadline = time.monotonic() + PATIENCE
    while not events.exists():  # the training run has begun
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(15)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert re.search(r"^train: stopped at step \d+, saved. The same command continues.$", error, re.MULTILINE)
    assert list((fleet.folder / "model" / "checkpoints").glob("step-*.json"))
