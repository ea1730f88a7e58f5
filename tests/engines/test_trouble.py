"""What engines cannot do is one line with the next step, and nothing is published."""

import json
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
from engines.beam_engines import flink_cluster, free_port, job_server, running
from engines.machines import kill, machines

pytestmark = pytest.mark.engines


@pytest.fixture
def flink(tmp_path):
    """Flink inside of its job server: the server's address and its process."""
    with job_server("flink", tmp_path, "[local]") as address:
        yield address


def failure(preprocess, job, code: int = 1, **section) -> str:
    """The one line that a job ends with."""
    ended, said = preprocess.run(job, "flink", **section)
    assert ended == code, said
    (line,) = [one for one in said.splitlines() if not one[:8].replace(":", "").isdigit()]  # not of progress
    assert not (preprocess.output / "manifest.json").exists()
    assert code == 2 or not (preprocess.output / "lock.json").exists()  # that of a killed one is left
    return line


def test_no_worker_pool(flink, prepared, preprocess):
    port = free_port()
    told = failure(preprocess, prepared("series").job, job_server=flink, worker_pool=f"localhost:{port}")
    assert told.startswith(
        f"job failed: a machine of the cluster finds no worker pool at localhost:{port}; start one on each: "
        f"python -m apache_beam.runners.worker.worker_pool_main --service_port={port}"
    )


@pytest.mark.parametrize(
    ("hidden", "told"),
    [
        ("output", "job failed: output.path: a worker does not see {path}"),
        ("input", "parquet: was there when the files were listed, and is not any more, or not on the machine that"),
    ],
)
def test_a_folder_that_a_worker_does_not_see(flink, prepared, preprocess, tmp_path, hidden, told):
    job, port = prepared("series").job, free_port()
    folder = preprocess.output if hidden == "output" else job.parent / "fleet"
    folder.mkdir(exist_ok=True)
    pool = f"exec {sys.executable} -m apache_beam.runners.worker.worker_pool_main --service_port={port}"
    hide = ["unshare", "--mount", "sh", "-c", f"mount -t tmpfs none {folder} && PATH={sys.prefix}/bin:$PATH {pool}"]
    if subprocess.run([*hide[:2], "true"]).returncode:
        pytest.skip("no mounts of its own for a process here")
    with running(hide, tmp_path / "pool.log"):
        time.sleep(4)
        line = failure(preprocess, job, job_server=flink, worker_pool=f"localhost:{port}")
    assert told.format(path=folder) in line


def test_too_many_rejects(flink, prepared, preprocess):
    code, said = preprocess.run(prepared("series").job, "flink", "limits.max_rejected_fraction=0", job_server=flink)
    assert code == 1
    assert "job failed: 7.7% of the assets were rejected, limits.max_rejected_fraction is 0.0%" in said


def wait_for_files(preprocess, process) -> None:
    while not any(preprocess.output.glob("data-*/tmp/progress-*")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def test_a_job_server_that_dies(prepared, preprocess, tmp_path):
    with job_server("flink", tmp_path, "[local]", processes := []) as address:
        process = preprocess.start(prepared("long series").job, "flink", job_server=address)
        wait_for_files(preprocess, process)
        time.sleep(4)
        kill(processes[0])
        _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"job failed: the job server at {address} does not answer any more" in error
    assert not (preprocess.output / "manifest.json").exists()


def jobs_of(address: str) -> list[str]:
    with urllib.request.urlopen(f"http://{address}/jobs", timeout=10) as answer:
        return [one["status"] for one in json.load(answer)["jobs"]]


def test_a_cluster_is_told_to_cancel(prepared, preprocess, tmp_path):
    job, pool = prepared("long series").job, free_port()
    with (
        machines(1) as nodes,
        flink_cluster(tmp_path, nodes[0].gateway, nodes, pool) as cluster,
        job_server("flink", tmp_path, cluster.address) as address,
    ):
        section = {"job_server": address, "worker_pool": f"localhost:{pool}", "master": cluster.address}

        def begin() -> subprocess.Popen:
            process = preprocess.start(job, "flink", **section)
            while "RUNNING" not in jobs_of(cluster.address):
                assert process.poll() is None, process.communicate()
                time.sleep(0.1)
            return process

        process = begin()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "of Flink is cancelled" in error
        assert jobs_of(cluster.address) == ["CANCELED"]

        process = begin()
        process.kill()  # it cannot tell
        process.communicate()
        told = failure(preprocess, job, code=2, **section)
        assert " is preprocessing into " in told
        cancelled = preprocess.start(job, "flink", command="cancel", **section)
        _, error = cancelled.communicate(timeout=60)
        assert cancelled.returncode == 0
        assert "of Flink is cancelled" in error
        assert set(jobs_of(cluster.address)) == {"CANCELED"}
        assert not (preprocess.output / "manifest.json").exists()

        told = failure(preprocess, job, **section, parallelism=50)
        assert told.startswith("job failed: Flink found no free slot for a task in time; lower parallelism")
