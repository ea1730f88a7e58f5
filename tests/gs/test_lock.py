"""beamfeed.contract.storage.lock in a bucket: a lease that lasts as long as its holder renews it."""

import json
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import timedelta

import pytest

pytestmark = pytest.mark.slow

HOLD = """
import sys
from beamfeed.contract.storage import lock
from beamfeed.contract.errors import UserError
lock.RENEWED_SECONDS = float((*sys.argv, 0.2)[2])
try:
    with lock.hold(sys.argv[1]):
        print("held", flush=True)
        sys.stdin.read()
except UserError as error:
    print(error)
"""


@contextmanager
def holding(gs, host: str = "", renewed: float = 0.2):
    script = f"import socket\nsocket.gethostname = lambda: {host!r}\n{HOLD}" if host else HOLD
    with subprocess.Popen(
        [sys.executable, "-c", script, gs.url("out", "lock.json"), str(renewed)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=gs.env, cwd=gs.root, text=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "held\n", process.stderr.read()
        yield process
        process.kill()


def attempt(gs) -> str:
    """What a run says that takes the lease, or does not, and ends at once."""
    done = gs.python("-c", HOLD, gs.url("out", "lock.json"))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_excludes_others_and_is_gone_after(gs):
    with holding(gs) as process:
        told = attempt(gs)
        assert f"process {process.pid} on " in told
        assert f"is preprocessing into {gs.url('out')} right now; wait for it (if it was killed, for " in told
        process.communicate()
    assert gs.list("out") == []
    assert attempt(gs) == "held"


def test_a_lease_that_is_renewed_while_it_is_read(gs):
    code = f"""
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import lock
for _ in range(30):
    try:
        with lock.hold({gs.url("out", "lock.json")!r}):
            print("held")
    except UserError as error:
        print(error)
"""
    with holding(gs, renewed=0.002) as process:
        lines = gs.python("-c", code).stdout.splitlines()
        assert len(lines) == 30
        assert [line for line in lines if f": process {process.pid} on " not in line] == []


def test_a_dead_holder(gs):
    """One of this machine is known to be dead; of another the lease has to run out."""
    with holding(gs) as process:
        process.kill()
    assert gs.list("out") == ["lock.json"]
    assert attempt(gs) == "held"
    with holding(gs, host="elsewhere") as process:
        process.kill()
    assert "on elsewhere is preprocessing into" in attempt(gs)
    age(gs, seconds=61)
    assert attempt(gs) == "held"
    assert gs.list("out") == []


def age(gs, seconds: float) -> None:
    """Sets the lease back in time."""
    gs.store.age(gs.bucket, "out/lock.json", timedelta(seconds=seconds))


def test_a_holder_that_lost_its_lease_stops(gs):
    with holding(gs) as process:
        gs.store.put(gs.bucket, "out/lock.json", json.dumps({"host": "b", "pid": 1, "token": "another"}).encode())
        assert process.wait(30) == 1
        assert "another run has taken the lock" in process.stderr.read()
    assert gs.list("out") == ["lock.json"]


def test_a_signal_gives_it_back(gs):
    code = """
import sys, time
from beamfeed.contract.ending import Ending
from beamfeed.contract.storage import lock
ending = Ending()
ending.watch_signals()
with lock.hold(sys.argv[1], ending):
    print("held", flush=True)
    time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, gs.url("out", "lock.json")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=gs.env, cwd=gs.root, text=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "held\n", process.stderr.read()
        assert gs.list("out") == ["lock.json"]
        process.terminate()
        assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == 128 + signal.SIGTERM
    assert gs.list("out") == []


def test_a_lost_answer_is_no_loss(gs):
    """The lease was renewed, but its holder was not told: it holds all the same."""
    with holding(gs) as process:
        gs.store.put(gs.bucket, "out/lock.json", gs.read("out/lock.json"))
        written = gs.store.get(gs.bucket, "out/lock.json").generation
        deadline = time.monotonic() + 30
        while gs.store.get(gs.bucket, "out/lock.json").generation == written:
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.communicate()
        assert process.returncode == 0
    assert gs.list("out") == []


def test_faults_are_survived(gs):
    gs.inject("write", "503", times=2)
    gs.inject("delete", "503")
    assert attempt(gs) == "held"
    assert gs.list("out") == []
    assert gs.counts().faults == 3


def test_a_bucket_that_is_not_there_is_one_line(gs):
    for bucket, reason in (("absent", "there is no bucket"), (gs.forbidden, "no permission")):
        told = gs.python("-c", HOLD, f"gs://{bucket}/out/lock.json").stdout
        assert reason in told, told
