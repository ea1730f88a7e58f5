"""What a runner says goes to a file, and only where a job fails."""

import logging
import os
import stat
import subprocess
import sys

import pytest

from beamfeed.contract import failure_log
from beamfeed.contract.failure_log import FailureLog, print_failure
from beamfeed.contract.verbosity import VARIABLE


def test_it_takes_what_is_printed_and_logged_while_it_listens(tmp_path, capsys):
    log = FailureLog()
    log.folders = (str(tmp_path),)
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    with log.listening(logging.WARNING):
        print("a traceback", file=sys.stderr)
        logging.getLogger("runner").warning("a warning \udcff")
        logging.getLogger("runner").info("chatter")
    assert (root.level, list(root.handlers)) == before
    print_failure("job failed: x", log)
    (path,) = tmp_path.iterdir()
    assert capsys.readouterr().err == f"job failed: x; log: {path}\n"
    assert path.read_bytes() == b"a traceback\na warning \\udcff\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_anything_to_say_there_is_no_file(tmp_path, capsys):
    log = FailureLog()
    log.folders = (str(tmp_path),)
    with log.listening(logging.WARNING):
        pass
    print_failure("job failed: x", log)
    assert capsys.readouterr().err == "job failed: x\n"
    log.write("something")
    log.clear()
    print_failure("job failed: x", log)
    assert list(tmp_path.iterdir()) == []


def test_the_next_folder_is_taken_where_one_takes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(failure_log.tempfile, "tempdir", str(tmp_path))
    log = FailureLog()
    (tmp_path / "a file").touch()
    log.folders = ("/proc/none", str(tmp_path / "a file" / "not there"))
    with log.listening(logging.WARNING):
        print("why", file=sys.stderr)
    path = log.keep()
    assert path is not None
    assert os.path.dirname(path) == str(tmp_path)
    monkeypatch.setattr(failure_log.tempfile, "tempdir", "/proc/none")
    assert log.keep() is None
    print_failure("job failed: x", log)
    assert capsys.readouterr().err == "job failed: x\n"


def test_a_folder_that_is_not_there_yet_is_made(tmp_path):
    log = FailureLog()
    log.folders = (str(tmp_path / "not there"),)
    log.write("why")
    path = log.keep()
    assert path is not None
    assert os.path.dirname(path) == str(tmp_path / "not there")


def test_it_keeps_the_end_and_not_more(monkeypatch, tmp_path):
    monkeypatch.setattr(failure_log, "MOST", 100)
    log = FailureLog()
    log.folders = (str(tmp_path),)
    for i in range(100):
        log.write(f"line {i:04d}\n")
    with open(log.keep()) as file:
        assert file.read() == "".join(f"line {i:04d}\n" for i in range(90, 100))
    log.write("x" * 300 + "at once")
    with open(log.keep()) as file:
        assert file.read() == "x" * 93 + "at once"


@pytest.mark.parametrize(
    ("value", "shown", "kept"),
    [
        ("", "", "WARN of a runner\n"),
        ("quiet", "", "WARN of a runner\n"),
        ("verbose", "INFO a: info\nWARNING a: WARN of a runner\n", "info\nWARN of a runner\n"),
    ],
)
def test_what_is_logged_is_shown_where_it_is_wanted(monkeypatch, capsys, tmp_path, value, shown, kept):
    monkeypatch.setenv(VARIABLE, value)
    log = FailureLog()
    log.folders = (str(tmp_path),)
    with log.listening(logging.WARNING):
        logging.getLogger("a").info("info")
        logging.getLogger("a").warning("WARN of a runner")
    assert capsys.readouterr().err == shown
    with open(log.keep()) as file:
        assert file.read() == kept


def test_logs_of_tests_go_with_the_tests(folder_of_temporary_files):
    log = FailureLog()
    log.write("why")
    assert os.path.dirname(log.keep()) == str(folder_of_temporary_files)
    command = [sys.executable, "-c", "import tempfile; print(tempfile.gettempdir())"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == str(folder_of_temporary_files)
