"""Folders that go away, also when their owner is killed."""

import os
import signal
import subprocess
import sys
import tempfile

import pytest

from beamfeed.trainer.feed.cache import scratch_folder

OWNER = """
import time
from beamfeed.trainer.feed.cache import scratch_folder
with scratch_folder() as folder:
    open(folder + "/file", "w").close()
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def top(tmp_path, monkeypatch):
    """A folder of temporary files of its own, for this process and its children."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_removed_at_the_end(top):
    with scratch_folder() as folder:
        assert os.listdir(folder) == []
        (top / os.path.basename(folder) / "file").write_text("x")
    assert os.listdir(top) == []


def test_it_is_removed_after_an_error(top):
    with pytest.raises(ValueError, match="stop"), scratch_folder():
        raise ValueError("stop")
    assert os.listdir(top) == []


def test_what_a_killed_process_left_is_removed_by_the_next_one_and_not_before(top):
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    try:
        folder = owner.stdout.readline().strip()
        with scratch_folder() as own:
            assert os.path.exists(f"{folder}/file")
            assert own != folder
        assert os.path.exists(f"{folder}/file")
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.communicate()
    assert os.path.exists(f"{folder}/file")
    with scratch_folder():
        assert not os.path.exists(folder)
    assert os.listdir(top) == []


def test_other_files_stay(top):
    (top / "beamfeed-scratch-mine").mkdir()
    with scratch_folder():
        pass
    assert os.listdir(top) == ["beamfeed-scratch-mine"]
