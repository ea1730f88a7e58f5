"""However a run ends, it ends: in seconds, with its exit code, one line at most, and no lock left."""

import os
import re
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fleets import make_table
from sampling import sample
from unprivileged import drop_privileges

from beamfeed.contract.storage import lock

pytestmark = pytest.mark.slow
PATIENCE = 120  # seconds; a run takes some ten, and more on a busy machine
ENDS = 20  # seconds from a signal to the end


class Runs:
    """Starts `python -m beamfeed.pipelines.preprocess` on the job of a fleet."""

    def __init__(self, root: Path, fleet):
        self.root, self.fleet = root, fleet
        self.started: list[subprocess.Popen] = []
        self.temporary = fleet.folder / "temporary"
        self.temporary.mkdir()

    def start(self, *overrides: str, prepare: Callable[[], None] | None = None, redirect: str = "", **options):
        sets = [part for override in overrides for part in ("--set", override)]
        command = [sys.executable, "-m", "beamfeed.pipelines.preprocess", "--job", str(self.fleet.write_job()), *sets]
        if redirect:
            command = ["sh", "-c", f'exec "$@" {redirect}', "sh", *command]
        env = {**os.environ, "TMPDIR": str(self.temporary)}
        values = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": env, **options}
        self.started.append(subprocess.Popen(command, cwd=self.root, text=True, preexec_fn=prepare, **values))
        return self.started[-1]

    def run(self, *overrides: str, **options) -> tuple[int, str]:
        """The exit code, and what stood on stderr."""
        process = self.start(*overrides, **options)
        _, error = process.communicate(timeout=PATIENCE)
        return process.returncode, error or ""

    @property
    def left(self) -> list[str]:
        """What the runs left in the folder for temporary files."""
        return sorted(path.name for path in self.temporary.iterdir())

    def wait_for(self, pattern: str, process: subprocess.Popen) -> None:
        """Waits until there is a file or folder in the output that matches."""
        deadline = time.monotonic() + PATIENCE
        while not list(self.fleet.output.glob(pattern)):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.fixture
def runs(root, fleet):
    """Four good assets and a broken one: half of the assets may be rejected."""
    for i in range(4):
        fleet.write(f"m{i}.parquet", make_table(400, seed=i))
    fleet.write("broken.parquet", make_table(10)).write_bytes(b"PAR1 this is none PAR1")
    found = Runs(root, fleet)
    yield found
    for process in found.started:
        process.kill()
        process.communicate()


def assert_no_lock(fleet) -> None:
    with lock.hold(str(fleet.output / "lock.json")):
        pass
    assert not (fleet.output / "lock.json").exists()


def log_of(line: str) -> Path:
    """The log that the line names."""
    found = re.search(r"; log: (\S+)$", line)
    assert found, line
    return Path(found[1])


FAILS = ("limits.max_rejected_fraction=0", "launch.preprocess.workers=2")


@pytest.mark.parametrize(("overrides", "code"), sample([(FAILS, 1), ((), 0)], [(FAILS, 1)]))
def test_nobody_reads(runs, fleet, overrides, code):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert runs.run(*overrides, stdout=writer, stderr=writer)[0] == code
    finally:
        os.close(writer)
    assert (fleet.output / "manifest.json").exists() is (code == 0)
    assert not (fleet.output / "lock.json").exists()
    if code == 0:  # the second time it says that there is nothing to do
        assert runs.run(*overrides, redirect=">/dev/full") == (
            1,
            "stdout: cannot be written: No space left on device\n",
        )


@pytest.mark.parametrize("redirect", sample([">&- 2>&-", "2>/dev/full"], ["2>/dev/full"]))
def test_closed_and_full_ones(runs, fleet, redirect):
    assert runs.run(*FAILS, redirect=redirect)[0] == 1
    assert not (fleet.output / "manifest.json").exists()
    assert not (fleet.output / "lock.json").exists()


def test_a_failure_is_one_line_that_names_a_log(runs, fleet):
    code, error = runs.run(*FAILS)
    assert code == 1
    assert error.startswith("job failed: 20.0% of the assets were rejected")
    (line,) = error.splitlines()
    log = log_of(line)
    assert "Traceback" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert runs.run() == (0, "")
    assert runs.run("launch.preprocess.workers=2", f"output.path={fleet.folder}/again") == (0, "")
    assert runs.left == []
    assert not log.exists()
    assert {path.name for path in fleet.output.iterdir()} == {fleet.manifest.data, "manifest.json"}
    assert not (fleet.output / fleet.manifest.data / "tmp").exists()


def small_files() -> None:
    """A disk that is full at some 100 kB: SIGXFSZ is ignored by Python, and writing fails."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


@pytest.mark.parametrize("workers", sample([1, 2], [2]))
def test_files_that_may_not_grow(runs, fleet, workers):
    fleet.write("large.parquet", make_table(20_000))
    code, error = runs.run("output.shards=1", f"launch.preprocess.workers={workers}", prepare=small_files)
    assert code == 1
    (line,) = error.splitlines()
    assert line.startswith("job failed: ")
    assert "File too large" in line
    assert "Traceback" in log_of(line).read_text()
    assert_no_lock(fleet)


@pytest.mark.parametrize("workers", sample([1, 2], [1]))
def test_a_full_disk(runs, fleet, workers, tmp_path):
    fleet.write("large.parquet", make_table(40_000))
    fleet.output.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(fleet.output)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        code, error = runs.run(f"launch.preprocess.workers={workers}", env={**os.environ, "TMPDIR": str(tmp_path)})
        assert code == 1
        (line,) = error.splitlines()
        assert "No space left on device" in line
        assert "Traceback" in log_of(line).read_text()
        assert_no_lock(fleet)
    finally:
        subprocess.run(["umount", str(fleet.output)], check=True)


def test_without_a_folder_for_temporary_files(runs, fleet, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    env = {**os.environ, "TMPDIR": str(tmp_path / "closed")}
    assert runs.run(env=env, prepare=drop_privileges) == (0, "")
    # No folder at all, as on a machine whose disk is full: Beam cannot be loaded without one.
    nowhere = tmp_path / "site"
    nowhere.mkdir()
    (nowhere / "sitecustomize.py").write_text("import tempfile\ntempfile._candidate_tempdir_list = lambda: []\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(nowhere), str(runs.root)])}
    code, error = runs.run(f"output.path={fleet.folder}/again", env=env)
    assert (code, len(error.splitlines())) == (1, 1)
    assert error.startswith("job failed: FileNotFoundError: [Errno 2] No usable temporary directory found")
    assert not (fleet.folder / "again").exists()


@pytest.mark.parametrize("place", sample(["closed/data", "closed"], ["closed/data"]))
def test_an_output_that_may_not_be_written_is_a_mistake(runs, fleet, place):
    (fleet.folder / "closed").mkdir(mode=0o500)
    code, error = runs.run(f"output.path={fleet.folder}/{place}", prepare=drop_privileges)
    assert code == 2
    assert error == f"output.path: {fleet.folder}/{place} cannot be written: Permission denied\n"
    code, error = runs.run("output.path=/proc/none")
    assert (code, error) == (2, "output.path: /proc/none cannot be written: No such file or directory\n")


def test_an_output_that_may_not_be_read(runs, fleet):
    fleet.output.mkdir(mode=0o300)
    code, error = runs.run(prepare=drop_privileges)
    assert (code, len(error.splitlines())) == (1, 1)
    assert f"Permission denied: '{fleet.output}" in error


@pytest.mark.parametrize("workers", sample([1, 2], [2]))
def test_a_permission_that_is_lost_half_way(runs, fleet, workers):
    process = runs.start(f"launch.preprocess.workers={workers}", prepare=drop_privileges)
    runs.wait_for("data-*/tmp/files.jsonl", process)
    (data,) = fleet.output.glob("data-*")
    data.chmod(0o500)
    try:
        _, error = process.communicate(timeout=PATIENCE)
    finally:
        data.chmod(0o700)
    assert process.returncode == 1
    (line,) = error.splitlines()
    assert re.search("[Pp]ermission denied", line)
    assert "Traceback" in log_of(line).read_text()
    assert_no_lock(fleet)


LOCKED, LISTED, WRITING = "lock.json", "data-*/tmp/files.jsonl", "data-*/tmp/train-*"


@pytest.mark.parametrize(
    ("sent", "reached", "workers"),
    sample(
        [
            (signal.SIGINT, LOCKED, 1),  # while TensorFlow is loaded, which holds stderr back
            (signal.SIGINT, LISTED, 2),
            (signal.SIGINT, WRITING, 1),
            (signal.SIGTERM, LISTED, 1),
            (signal.SIGTERM, WRITING, 2),
            (signal.SIGHUP, WRITING, 2),
        ],
        [(signal.SIGINT, LOCKED, 1), (signal.SIGTERM, WRITING, 2), (signal.SIGHUP, WRITING, 2)],
    ),
)
def test_a_signal(runs, fleet, sent, reached, workers):
    for i in range(8):
        fleet.write(f"large{i}.parquet", make_table(100_000, seed=i))

    def as_in_the_background() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    process = runs.start(f"launch.preprocess.workers={workers}", prepare=as_in_the_background)
    runs.wait_for(reached, process)
    process.send_signal(sent)
    _, error = process.communicate(timeout=ENDS)
    assert (process.returncode, error) == (128 + sent, "interrupted\n" if sent == signal.SIGINT else "")
    assert not (fleet.output / "lock.json").exists()
    assert not (fleet.output / "manifest.json").exists()
    assert runs.left == []


def test_nohup(runs, fleet):
    process = runs.start(prepare=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    runs.wait_for("lock.json", process)
    process.send_signal(signal.SIGHUP)
    assert process.communicate(timeout=PATIENCE) == ("", "")
    assert process.returncode == 0
