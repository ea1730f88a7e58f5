"""A process that is asked to end does, whatever it is busy with."""

import signal
import subprocess
import sys
import time

import pytest

# The main thread is in C, where no handler of Python's is called until it comes back.
BUSY = """
import hashlib, os, sys, threading, time
from beamfeed.contract.ending import Ending

ending = Ending()
ending.watch_signals()
with ending.undoing(lambda: open("undone", "a").write("first")), ending.undoing(lambda: {undo}):
    print("up", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
"""


def start(root, tmp_path, undo: str = 'open("undone", "a").write("last ")', ignored: int | None = None):
    def prepare() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN if number == ignored else signal.SIG_DFL)

    process = subprocess.Popen(
        [sys.executable, "-c", BUSY.format(undo=undo)], cwd=tmp_path, env={"PYTHONPATH": str(root)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=prepare,
    )  # fmt: skip
    assert process.stdout.readline() == "up\n"
    return process


@pytest.mark.parametrize(
    ("sent", "ignored", "message"),
    [
        (signal.SIGINT, None, "interrupted\n"),
        (signal.SIGINT, signal.SIGINT, "interrupted\n"),
        (signal.SIGTERM, None, ""),
        (signal.SIGHUP, None, ""),
    ],
)
def test_a_signal_ends_it_and_undoes_what_it_holds(root, tmp_path, sent, ignored, message):
    with start(root, tmp_path, ignored=ignored) as process:
        process.send_signal(sent)
        _, error = process.communicate(timeout=20)
    assert (process.returncode, error) == (128 + sent, message)
    assert (tmp_path / "undone").read_text() == "last first"


def test_under_nohup_it_goes_on(root, tmp_path):
    with start(root, tmp_path, ignored=signal.SIGHUP) as process:
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM


@pytest.mark.parametrize("undo", ["time.sleep(600)", "1 / 0"])
def test_what_cannot_be_undone_is_not_waited_for(root, tmp_path, undo):
    with start(root, tmp_path, undo=undo) as process:
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=20)
    assert (process.returncode, error) == (128 + signal.SIGTERM, "")
    assert (tmp_path / "undone").exists() is (undo == "1 / 0")


SCRATCH = """
import os, subprocess, sys, tempfile
from beamfeed.contract.ending import Ending

ending = Ending()
ending.watch_signals()
with ending.scratch():
    with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory() as folder:
        child = "import tempfile; print(tempfile.mkdtemp())"
        print(file.name, folder, subprocess.check_output([sys.executable, "-c", child], text=True).strip(), flush=True)
        if sys.argv[1:]:
            sys.stdin.read()
print(tempfile.gettempdir(), os.environ["TMPDIR"])
"""


@pytest.mark.parametrize("ended", [False, True])
def test_temporary_files_go_with_it(root, tmp_path, ended):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRATCH, *["wait"] * ended], env={"PYTHONPATH": str(root), "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        for path in process.stdout.readline().split():
            assert path.startswith(f"{tmp_path}/beamfeed-")
        if ended:
            assert len(list(tmp_path.rglob("*"))) == 4
            process.terminate()
        assert process.wait(20) == (143 if ended else 0)
        rest = process.stdout.read()
    assert rest == ("" if ended else f"{tmp_path} {tmp_path}\n")
    assert list(tmp_path.iterdir()) == []


TRACES = """
import tensorflow as tf
from beamfeed.contract.ending import leave


@tf.function
def double(x):
    if x > 0:
        x = 2 * x
    return x


assert double(tf.constant(2)).numpy() == 4
leave(7)
"""


@pytest.mark.slow
def test_leaving_removes_what_tensorflow_generates(root, tmp_path):
    (tmp_path / "traced.py").write_text(TRACES)  # a file: TensorFlow looks for the source
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    env = {"PYTHONPATH": str(root), "TMPDIR": str(temporary), "TF_CPP_MIN_LOG_LEVEL": "3"}
    assert subprocess.run([sys.executable, tmp_path / "traced.py"], env=env).returncode == 7
    assert list(temporary.iterdir()) == []
