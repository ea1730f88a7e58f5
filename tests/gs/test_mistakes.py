"""Mistakes with gs:// are one clear line, exit code 2, and soon."""

import socket
import time

import pytest
from fleets import make_table


def told(gs, *arguments: str, **env: str) -> str:
    """The line that preprocessing ends with."""
    begin = time.monotonic()
    done = gs.preprocess(*arguments, **env)
    assert time.monotonic() - begin < 60  # trying again takes minutes
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.fixture
def job(fleet) -> str:
    fleet.write("m0.parquet", make_table(100))
    return str(fleet.write_job())


NO_BUCKET = ": there is no bucket 'nowhere'"
NO_PERMISSION = ": no permission: tester@example.com does not have storage.objects access to the bucket."


@pytest.mark.parametrize(
    ("bucket", "expected", "key"),
    [
        ("nowhere", NO_BUCKET, "source.files"),
        ("nowhere", NO_BUCKET, "job"),
        ("forbidden", NO_PERMISSION, "source.files"),
        ("forbidden", NO_PERMISSION, "output.path"),
    ],
)
def test_a_bucket_that_cannot_be_used(gs, job, bucket, expected, key):
    where = f"gs://{bucket}/x"
    arguments = ["--job", where] if key == "job" else ["--job", job, "--set", f"{key}={where}"]
    line = told(gs, *arguments)
    assert line.startswith(where)
    assert expected in line


def test_nothing_in_the_bucket(gs, job):
    nothing = gs.url("none")
    assert told(gs, "--job", job, "--set", f"source.files={nothing}").startswith(
        f"source.files: no file matches {nothing} (suffixes: "
    )
    assert told(gs, "--job", nothing) == f"{nothing}: there is no such job file"


def test_a_job_file_in_a_bucket_includes_one_beside_it(gs, tmp_path):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "job.yaml").write_text("include: ../common.yaml\nname: a\n")
    (tmp_path / "common.yaml").write_text("\nwindow: {length: 3}\noutput: {path: '${JOB_DIR}/data'}\nsource: 5\n")
    (tmp_path / "jobs" / "other.yaml").write_text("include: none.yaml\n")
    url = gs.upload(tmp_path, "x")
    done = gs.preprocess("--job", f"{url}/jobs/job.yaml")
    assert done.returncode == 2
    assert f"{url}/common.yaml:2: window: unknown key; did you mean 'windows'?" in done.stderr
    line = told(gs, "--job", f"{url}/jobs/other.yaml")
    assert line == f"{url}/jobs/other.yaml:1: include: {url}/jobs/none.yaml: there is no such job file"


@pytest.fixture
def silent_port():
    """Takes connections and never says a word, as an address that a firewall drops."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


NO_CREDENTIALS = "gs://: there are no credentials on this machine; run `gcloud auth application-default login`"


def test_no_credentials(gs, job, silent_port):
    server = dict.fromkeys(("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT"), f"127.0.0.1:{silent_port}")
    for env in (server, {"NO_GCE_CHECK": "true"}):
        assert told(gs, "--job", job, "--set", f"source.files={gs.url('x')}", **env).startswith(NO_CREDENTIALS)
    lost = {"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere/key.json"}
    line = told(gs, "--job", job, "--set", f"output.path={gs.url('x')}", **lost)
    assert line.startswith("GOOGLE_APPLICATION_CREDENTIALS: /nowhere/key.json: there is no such file; run `gcloud auth")
    assert not gs.counts().requests
