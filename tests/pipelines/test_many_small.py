"""Many small files are read by processes: the dataset, the rejects and the messages are those of threads."""

import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
from apache_beam.runners.portability.local_job_service import SubprocessSdkWorker

from beamfeed.contract.storage import FileStat
from beamfeed.pipelines import runner
from beamfeed.pipelines.runner import MANY_FILES, SMALL_BYTES, are_many_small
from tests.fleets import files_of, make_table


def test_what_counts_as_many_and_small():
    def files(count, size):
        return [FileStat(f"a{i}", size, 0) for i in range(count)]

    assert are_many_small(files(MANY_FILES, SMALL_BYTES))
    assert not are_many_small(files(MANY_FILES - 1, SMALL_BYTES))
    assert not are_many_small(files(MANY_FILES, SMALL_BYTES + 1))


@pytest.fixture
def fleet(fleet):
    """Some files are broken."""
    first = fleet.write("m0.parquet", make_table(12))
    for i in range(1, 80):
        shutil.copy(first, first.with_name(f"m{i}.parquet"))
    for i in range(20):
        first.with_name(f"m{i}.parquet").write_bytes(b"PAR1 this is none PAR1")
    fleet.job["limits"] = {"max_rejected_fraction": 0.3}
    fleet.job["launch"]["preprocess"] = {"workers": 2}
    return fleet


def preprocess(fleet, *arguments) -> subprocess.Popen:
    """By processes, of few files."""
    command = [sys.executable, "-m", "beamfeed.launcher.cli", "preprocess", str(fleet.write_job()), *arguments]
    options = ["--", "--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    return subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_processes_make_what_threads_make(fleet, monkeypatch):
    started, start = [], SubprocessSdkWorker.run
    monkeypatch.setattr(SubprocessSdkWorker, "run", lambda worker: started.append(worker) or start(worker))
    made = []
    for many in (MANY_FILES, 60):
        assert not started
        monkeypatch.setattr(runner, "MANY_FILES", many)
        shutil.rmtree(fleet.output, ignore_errors=True)
        assert fleet.preprocess() == 0
        assert fleet.manifest.counts.rejected_assets == 20
        made.append(files_of(fleet.output))
    assert len(started) == 2
    assert made[0] == made[1]


@pytest.mark.slow
def test_a_limit_is_told_in_one_line_and_an_interrupted_run_leaves_no_process(fleet):
    process = preprocess(fleet, "--set", "limits.max_rejected_fraction=0.001")
    _, error = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "limits.max_rejected_fraction" in error.splitlines()[-1], error
    process = preprocess(fleet)
    while not (workers := [one for one in psutil.Process(process.pid).children(recursive=True) if is_worker(one)]):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    psutil.wait_procs(workers, timeout=20)
    assert not [worker for worker in workers if worker.is_running()]
    assert not (fleet.output / "manifest.json").exists()


def is_worker(process: psutil.Process) -> bool:
    try:
        return "sdk_worker_main" in " ".join(process.cmdline())
    except psutil.Error:
        return False
