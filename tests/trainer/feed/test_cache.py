"""Copies that processes of a machine share, and that go away, also when those were killed."""

import gzip
import os
import signal
import subprocess
import sys
import tempfile

import pytest

from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import stat
from beamfeed.trainer.feed import cache
from beamfeed.trainer.feed.cache import local_copies, remove_copies, shared_folder

OWNER = """
import sys
from beamfeed.trainer.feed.cache import shared_folder
with shared_folder(sys.argv[1]) as folder:
    open(folder + "/file", "a").close()
    print(folder, flush=True)
    sys.stdin.read()
"""
COPIES = """
import sys
from beamfeed.contract.storage import stat
from beamfeed.trainer.feed import cache
copied = []
whole = cache.os.replace
cache.os.replace = lambda part, target: copied.append(target) or whole(part, target)
paths = cache.local_copies("data", [stat(path) for path in sys.argv[1:]], "gzip")
print(len(copied), *[open(path, "rb").read().decode() for path in paths], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def top(tmp_path, monkeypatch):
    """A folder of temporary files of its own, for this process and its children."""
    folder = tmp_path / "top"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    remove_copies()


@pytest.fixture
def start():
    """Starts a program in another process and returns it with its first line; all are ended."""
    running = []

    def run(program, *arguments):
        command = [sys.executable, "-c", program, *map(str, arguments)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        running.append(process)
        return process, process.stdout.readline().strip()

    yield run
    for process in running:
        process.kill()
        process.communicate()


def test_it_is_removed_at_the_end(top):
    with shared_folder("a") as folder:
        assert os.listdir(folder) == []
        (top / os.path.basename(folder) / "file").write_text("x")
        assert os.stat(folder).st_mode & 0o77 == 0
    assert os.listdir(top) == []


def test_it_is_removed_after_an_error(top):
    with pytest.raises(ValueError, match="stop"), shared_folder("a"):
        raise ValueError("stop")
    assert os.listdir(top) == []


def test_the_last_one_to_leave_removes_it(top, start):
    owner, folder = start(OWNER, "a")
    with shared_folder("a") as own:
        assert own == folder
        assert os.listdir(own) == ["file"]
        with shared_folder("b") as other:
            assert other != own
        owner.communicate()
        assert os.listdir(own) == ["file"]
    assert os.listdir(top) == []


def test_what_a_killed_process_left_is_removed_by_the_next_one_and_not_before(top, start):
    owner, folder = start(OWNER, "a")
    with shared_folder("b"):
        assert os.path.exists(f"{folder}/file")
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    assert os.path.exists(f"{folder}/file")
    with shared_folder("b"):
        assert not os.path.exists(folder)
    assert os.listdir(top) == []


def test_many_come_and_go(top, start):
    """None ever finds its folder removed under it."""
    program = OWNER.replace("    sys.stdin.read()\n", "").replace("with shared", "for _ in range(300):\n  with shared")
    program = program.replace("    print(folder, flush=True)\n", "") + "print('done')"
    groups = [subprocess.Popen([sys.executable, "-c", program, "a"], stderr=subprocess.PIPE) for _ in range(3)]
    for process in groups:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert os.listdir(top) == []


def test_other_files_stay(top):
    (top / "beamfeed-copies-mine").mkdir()
    with shared_folder("a"):
        pass
    assert os.listdir(top) == ["beamfeed-copies-mine"]


def test_a_link_of_somebody_else_is_not_followed(top, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (top / f"{cache.PREFIX}{os.getuid()}-a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="another user"), shared_folder("a"):
        pass
    assert (tmp_path / "elsewhere").is_dir()


def shards(folder, count):
    for number in range(count):
        (folder / f"{number}.gz").write_bytes(gzip.compress(f"shard{number}".encode()))
    return [str(folder / f"{number}.gz") for number in range(count)]


def test_processes_unpack_each_shard_once(top, tmp_path, start):
    paths = shards(tmp_path, 3)
    first, told = start(COPIES, *paths[:2])
    assert told == "2 shard0 shard1"
    second, told = start(COPIES, *paths[1:])
    assert told == "1 shard1 shard2"
    third, told = start(COPIES, *paths)
    assert told == "0 shard0 shard1 shard2"
    (tmp_path / "2.gz").write_bytes(gzip.compress(b"another"))  # its copy is not that any more
    fourth, told = start(COPIES, *paths)
    assert told == "1 shard0 shard1 another"
    for process in (first, second, third, fourth):
        assert len(os.listdir(top)) == 2
        process.communicate()
    assert os.listdir(top) == []


def test_a_damaged_one_is_told_and_leaves_no_copy(top, tmp_path):
    (path,) = shards(tmp_path, 1)
    with open(path, "r+b") as file:
        file.truncate(20)
    for _ in range(2):
        with pytest.raises(UserError, match=r"0\.gz: damaged"):
            local_copies("data", [stat(path)], "gzip")


def test_what_is_read_is_read_on_when_copies_are_removed(top, tmp_path):
    (copy,) = local_copies("data", [stat(path) for path in shards(tmp_path, 1)], "gzip")
    with open(copy) as file:
        remove_copies()
        assert os.listdir(top) == []
        assert file.read() == "shard0"
    (again,) = local_copies("data", [stat(str(tmp_path / "0.gz"))], "gzip")
    assert os.path.exists(again)
