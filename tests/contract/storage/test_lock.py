"""beamfeed.contract.storage.lock on a disk; tests/gs/test_lock.py has it in a bucket."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import lock

HOLDER = """
import sys
from beamfeed.contract.storage import lock
with lock.hold(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""
COUNTER = """
import sys
from beamfeed.contract.storage import lock
from beamfeed.contract.errors import UserError
path, counter, turns = sys.argv[1:]
for _ in range(int(turns)):
    while True:
        try:
            with lock.hold(path):
                count = int(open(counter).read())
                open(counter, "w").write(str(count + 1))
            break
        except UserError:
            pass
"""


@pytest.fixture
def holder(root, tmp_path):
    """A process that holds the lock until its standard input is closed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "out" / "lock.json")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root, text=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_names_the_holder_and_is_gone_after_it(holder, tmp_path):
    path = tmp_path / "out" / "lock.json"
    with pytest.raises(UserError) as caught, lock.hold(str(path)):
        pass
    assert f"process {holder.pid} on {os.uname().nodename} is preprocessing into {tmp_path}/out right now" in str(
        caught.value
    )
    assert "\n" not in str(caught.value)
    holder.communicate()
    assert not path.exists()
    with lock.hold(str(path)):
        assert path.exists()


def test_a_killed_holder_holds_nothing(holder, tmp_path):
    path = tmp_path / "out" / "lock.json"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert path.exists()
    with lock.hold(str(path)):
        pass
    assert not path.exists()


def test_leaves_no_folder_where_nothing_came_of_it(tmp_path):
    with pytest.raises(ZeroDivisionError), lock.hold(str(tmp_path / "new" / "lock.json")):
        raise ZeroDivisionError
    assert not (tmp_path / "new").exists()
    (tmp_path / "old").mkdir()
    with lock.hold(str(tmp_path / "old" / "lock.json")):
        pass
    assert (tmp_path / "old").exists()


def test_many_take_turns(root, tmp_path):
    """Processes that open, lock and remove the file at the same time: none ever enters beside another."""
    counter = tmp_path / "counter"
    counter.write_text("0")
    command = [sys.executable, "-c", COUNTER, str(tmp_path / "lock.json"), str(counter), "300"]
    processes = [subprocess.Popen(command, cwd=root) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert counter.read_text() == "1200"


def test_it_may_be_given_back_before_its_end_and_twice(tmp_path):
    path = tmp_path / "lock.json"
    with lock.hold(str(path)) as held:
        held.give_back()
        assert not path.exists()
        with lock.hold(str(path)):
            held.give_back()
            assert path.exists()


@pytest.mark.parametrize("moment", ["fcntl.flock", "os.makedirs"])
def test_a_signal_just_as_it_is_taken_leaves_no_lock(root, tmp_path, moment):
    """The process is told to end between the making of the file, or of its folder, and the next line."""
    code = f"""
import fcntl, os, signal, sys, time
from beamfeed.contract.ending import Ending
from beamfeed.contract.storage import lock

def interrupted(*args, **options):
    do(*args, **options)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.2)

ending = Ending()
ending.watch_signals()
do, {moment} = {moment}, interrupted
with lock.hold(sys.argv[1], ending):
    time.sleep(600)
"""
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path / "out" / "lock.json")], cwd=root, timeout=60)
    assert run.returncode == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_goes_away_is_no_trouble(tmp_path):
    path = tmp_path / "out" / "lock.json"
    with lock.hold(str(path)):
        shutil.rmtree(path.parent)
    with lock.hold(str(path)) as first:
        shutil.rmtree(path.parent)
        with lock.hold(str(path)):
            first.give_back()
            with pytest.raises(UserError, match="right now"), lock.hold(str(path)):
                pass


def test_no_link_is_followed(tmp_path):
    """A folder that somebody sent may hold one to a file of ours."""
    ours, path = tmp_path / "ours", tmp_path / "lock.json"
    ours.write_text("kept")
    path.symlink_to(ours)
    with pytest.raises(UserError, match=f"{tmp_path} cannot be written: "), lock.hold(str(path)):
        pass
    assert ours.read_text() == "kept"


@pytest.mark.parametrize("place", ["/proc/none", "/dev/null/out", "/" + "long" * 100])
def test_a_place_that_cannot_be_written_is_a_mistake(place):
    with pytest.raises(UserError) as caught, lock.hold(f"{place}/lock.json"):
        pass
    assert str(caught.value).startswith(f"output.path: {place} cannot be written: ")
    assert "\n" not in str(caught.value)


def test_trouble_of_the_machine_is_no_mistake(root, tmp_path):
    code = f"""
import resource
from beamfeed.contract.errors import JobFailed
from beamfeed.contract.storage import lock
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
try:
    with lock.hold({str(tmp_path / "lock.json")!r}):
        pass
except JobFailed as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"job failed: output.path: {tmp_path} cannot be written: Too many open files\n", done.stderr
