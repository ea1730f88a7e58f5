"""Runners that take the job and return: it is waited for, and gives the files of a local run."""

import os
import signal
import subprocess
import sys

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import RunnerResult
from apache_beam.runners.runner import PipelineState
from fleets import files_of, make_table

from beamfeed.contract.errors import JobFailed
from beamfeed.pipelines.runner import trouble_of_engine, wait_for
from tests import tables
from tests.tables import Lake

EMBEDDED = ("--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK")

OWN = """
import tensorflow_transform as tft

def preprocessing_fn(inputs):
    return {"count_number": tft.scale_to_0_1(inputs["count"])}
"""


@pytest.fixture
def run(root, fleet):
    """Runs `python -m beamfeed.pipelines.preprocess` on the job of the fleet."""
    for i in range(4):
        fleet.write(f"m{i}.parquet", make_table(400, seed=i))

    def start(*arguments: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "beamfeed.pipelines.preprocess", "--job", str(fleet.write_job()), *arguments]
        return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)

    return start


@pytest.mark.slow
def test_a_table_with_a_function_of_the_users_own_gives_the_files_of_a_local_run(root, tmp_path, monkeypatch):
    lake = Lake(tmp_path)
    for day in range(2):
        lake.write(f"day={day}/a.parquet", tables.make_table(200, day), row_group_size=50)
    (tmp_path / "of_mine.py").write_text(OWN)
    own = {"type": "own", "columns": {"count": "number"}, "function": "of_mine:preprocessing_fn"}
    lake.job["features"] |= {"mine": own}
    lake.job["output"]["partition_by"] = ["kind"]
    lake.job["launch"]["preprocess"]["packages"] = [str(tmp_path / "of_mine.py")]
    monkeypatch.delitem(sys.modules, "of_mine", raising=False)
    assert lake.preprocess(f"output.path={tmp_path}/here") == 0
    del sys.modules["of_mine"]
    command = [sys.executable, "-m", "beamfeed.pipelines.preprocess", "--job", str(tmp_path / "job.yaml")]
    done = subprocess.run(
        [*command, "--set", f"output.path={tmp_path}/there", *EMBEDDED],
        cwd=root, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    here, there = (files_of(tmp_path / name) for name in ("here", "there"))
    assert here == there
    assert any("kind=web" in str(path) for path in here)


@pytest.mark.slow
def test_a_job_that_fails_there_is_one_line(run, fleet):
    fleet.write("bad.parquet", make_table(10)).write_bytes(b"PAR1 this is none PAR1")
    done = run(*EMBEDDED, "--set", "limits.max_rejected_fraction=0")
    assert done.returncode == 1
    assert done.stderr.startswith("job failed: 20.0% of the assets were rejected")
    assert len(done.stderr.splitlines()) == 1
    assert not (fleet.output / "manifest.json").exists()
    assert not (fleet.output / "lock.json").exists()


PRISM = """#!/bin/sh
# Beam's job server in the place of Prism's binary: --job_port NUMBER comes first on its command line.
echo $$ >> "{pids}"
exec {python} -m apache_beam.runners.portability.local_job_service_main "$1" "$2" > "{pids}.log" 2>&1
"""


@pytest.fixture
def prism(tmp_path):
    """The options of a runner that starts a server of its own, and the ids of the servers that it started."""
    binary, pids = tmp_path / "prism", tmp_path / "pids"
    binary.write_text(PRISM.format(pids=pids, python=sys.executable))
    binary.chmod(0o755)
    yield ("--runner=PrismRunner", f"--prism_location={binary}"), lambda: [int(one) for one in pids.read_text().split()]
    for pid in map(int, pids.read_text().split()):
        if runs(pid):
            os.kill(pid, signal.SIGKILL)


def runs(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
def test_a_server_that_was_started_for_the_job_ends_with_it(run, prism, fleet, fails):
    options, pids = prism
    done = run(*options, *(["--set", "windows.length=5000"] if fails else []))
    assert done.returncode == (1 if fails else 0), done.stderr
    assert len(done.stderr.splitlines()) == fails
    assert pids()
    assert not any(map(runs, pids()))
    if not fails:
        assert fleet.preprocess(f"output.path={fleet.folder}/local") == 0
        assert files_of(fleet.output) == files_of(fleet.folder / "local")
        assert {path.name for path in fleet.output.iterdir()} == {fleet.manifest.data, "manifest.json"}


@pytest.mark.parametrize("state", [PipelineState.CANCELLED, PipelineState.DRAINED, PipelineState.FAILED])
def test_any_other_end_than_done_is_a_failure(state):
    with pytest.raises(JobFailed, match=f"the job is {state.lower()}; nothing was published"):
        wait_for(RunnerResult(state, {}), PipelineOptions())
    wait_for(RunnerResult(PipelineState.DONE, {}), PipelineOptions())


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            "failed in state FAILED: java.net.ConnectException: finishConnect(..) failed",
            "finds no worker pool at node:5;",
        ),
        ('java.io.IOException: Cannot run program "docker": error=2', "has no docker to start workers with"),
        ("IOException: Insufficient number of network buffers: required 17", "raise taskmanager.memory.network.max"),
        ("x.JobCancellationException: Job was cancelled.", "the job was cancelled"),
        ("java.util.concurrent.TimeoutException: Timeout has occurred: 20000 ms", "no free slot for a task in time"),
        ("ValueError: Timeout", None),
    ],
)
def test_what_an_engine_could_not_do_is_told_with_the_next_step(told, words):
    trouble = trouble_of_engine(f"Pipeline x_y failed in state FAILED: {told}", "node:5")
    assert trouble is None if words is None else words in trouble
