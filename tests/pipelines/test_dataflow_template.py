"""The template's entry point, started as the template launcher starts it."""

import io
import json
import os
import re
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
import yaml
from cloud.dataflow import ENDPOINT
from cloud.standin import start_cloud
from fleets import make_table

from beamfeed.contract.errors import UserError
from beamfeed.contract.packages import Package, to_wheel
from beamfeed.pipelines.dataflow_template import PYTHON, arguments, check_options, main

TEMPLATE = {
    "FLEX_TEMPLATE_PYTHON_PY_FILE": "/template/dataflow_template.py",
    "BEAMFEED_IMAGE": "repo/image:1",
    "BEAMFEED_WORKER_IMAGE": "repo/worker:1",
}
JOB = {
    "name": "small",
    "source": {"kind": "timeseries", "files": "gs://raw/fleet/*.parquet", "time": {"column": "t"}, "features": ["x*"]},
    "windows": {"length": 8},
    "output": {"path": "gs://made/elsewhere"},
    "train": {"model": {"name": "recurrent_autoencoder"}, "workdir": "gs://made/model"},
}
OBJECT = "gs://staging/template_launches/1/job_object"


@pytest.fixture
def cloud(root, tmp_path):
    with start_cloud(tmp_path, root, buckets=("made", "raw", "staging"), submits=True) as cloud:
        table = io.BytesIO()
        pq.write_table(make_table(200), table)
        cloud.store.put("raw", "fleet/one.parquet", table.getvalue())
        cloud.store.put("made", "jobs/small.yaml", yaml.safe_dump(JOB).encode())
        yield cloud


@pytest.fixture
def launch(cloud, tmp_path, root):
    """Runs the file in a folder that is not the checkout, as in the image."""

    def run(**parameters):
        command = [
            sys.executable,
            str(root / "pipelines" / "dataflow_template.py"),
            "--runner=DataflowRunner",
            "--project=a-project",
            "--region=europe-west1",
            "--job_name=a-launch",
            "--staging_location=gs://staging/staging",
            "--temp_location=gs://staging/tmp",
            f"--template_location={OBJECT}",
            '--labels={"goog-dataflow-provided-template-type": "flex"}',
            f"--dataflow_endpoint={ENDPOINT}",
            "--an_option_of_a_later_launcher=1",
            *(f"--{name}={value}" for name, value in parameters.items()),
        ]
        env = {**cloud.env, **TEMPLATE}
        return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)

    return run


@pytest.mark.slow
def test_it_writes_the_job_that_the_service_then_starts(cloud, launch):
    result = launch(job="gs://made/jobs/small.yaml", set="windows.stride=4; output.path=gs://made/data")
    assert result.returncode == 0, result.stderr
    assert cloud.dataflow.submitted == []  # the service does it
    job = json.loads(cloud.read_ending("template_launches/1/job_object"))
    assert job["name"] == "a-launch"
    assert job["labels"] == {"goog-dataflow-provided-template-type": "flex"}
    (pool,) = job["environment"]["workerPools"]
    assert pool["workerHarnessContainerImage"] == "repo/worker:1"
    assert [package["name"] for package in pool["packages"]] == ["submission_environment_dependencies.txt"]
    assert b"__main__" not in cloud.read_ending("/pipeline.pb")
    options = job["environment"]["sdkPipelineOptions"]["options"]
    assert options["set"] == ["windows.stride=4", "output.path=gs://made/data"]
    assert any(name.startswith("data/data-") for name in cloud.store.names("made"))
    assert not any(name.startswith("elsewhere") for name in cloud.store.names("made"))


STEPS = "def keep(table):\n    return table\n"


@pytest.mark.slow
def test_the_users_own_code_goes_to_the_workers(cloud, launch, tmp_path):
    """That of a wheel in a bucket, and that of a folder."""
    (tmp_path / "own_kit").mkdir()
    (tmp_path / "own_kit" / "__init__.py").write_text(STEPS)
    (tmp_path / "own_other.py").write_text(STEPS)
    wheel = to_wheel(Package(str(tmp_path / "own_other.py")), str(tmp_path))
    (tmp_path / "own_other.py").unlink()
    name = os.path.basename(wheel)
    with open(wheel, "rb") as file:
        cloud.store.put("made", f"code/{name}", file.read())
    settings = "prepare.steps=['own_kit:keep', 'own_other:keep']; output.path=gs://made/data"
    packages = f"launch.preprocess.packages=['gs://made/code/{name}', own_kit]"
    result = launch(job="gs://made/jobs/small.yaml", set=f"{settings}; {packages}")
    assert result.returncode == 0, result.stderr
    (pool,) = json.loads(cloud.read_ending("template_launches/1/job_object"))["environment"]["workerPools"]
    staged = [package["name"] for package in pool["packages"] if package["name"].endswith(".whl")]
    assert len(staged) == 2
    for stored in cloud.store.objects():
        if stored.name.startswith("staging/") and stored.name.endswith(tuple(staged)):
            (tmp_path / os.path.basename(stored.name)).write_bytes(stored.data)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", "worker"]
    subprocess.run([*install, *staged], cwd=tmp_path, check=True, capture_output=True)
    code = "import own_kit, own_other; print(own_kit.keep(1) + own_other.keep(2))"
    there = [sys.executable, "-c", code]
    assert subprocess.run(there, cwd=tmp_path / "worker", check=True, capture_output=True, text=True).stdout == "3\n"


def test_code_that_would_stay_on_this_machine_is_told_before_anything_is_submitted(cloud, launch, tmp_path):
    (tmp_path / "own_kit.py").write_text(STEPS)
    result = launch(job="gs://made/jobs/small.yaml", set="prepare.steps=['own_kit:keep']; output.path=gs://made/data")
    assert result.returncode == 2
    (line,) = [line for line in result.stderr.splitlines() if "own_kit" in line]
    assert "where the workers cannot reach it; name it in launch.preprocess.packages" in line
    assert cloud.store.names("made") == ["jobs/small.yaml"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"job": "gs://made/jobs/none.yaml"}, "there is no such job file"),
        ({"job": "gs://made/jobs/small.yaml", "set": "windows.strid=4"}, "did you mean 'stride'?"),
    ],
)
def test_a_mistake_is_one_line(cloud, launch, parameters, message):
    result = launch(**parameters)
    assert result.returncode == 2, result.stderr
    assert message in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr
    assert cloud.dataflow.submitted == []


def test_a_launch_without_a_job_is_one_line(monkeypatch, capfd):
    for name, value in TEMPLATE.items():
        monkeypatch.setenv(name, value)
    assert main(["--project=a-project", "--region=europe-west1", "--temp_location=gs://staging/tmp"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("--job: is missing")


def test_workers_run_in_an_image_of_the_template_unless_told_otherwise(tmp_path):
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(JOB))
    feature = {"type": "own", "function": "a_module:a_function", "columns": {"x": "number"}}
    table = {"source": {"kind": "table", "files": "gs://raw/*.csv"}, "features": {"mine": feature}}
    (tmp_path / "table.yaml").write_text(yaml.safe_dump({"name": "small", "output": JOB["output"], **table}))
    job, own = f"--job={tmp_path}/job.yaml", "--set=prepare.steps=[a_module:a_step]"
    assert "--sdk_container_image=repo/worker:1" in arguments([job], TEMPLATE)
    assert "--sdk_container_image=repo/image:1" in arguments([job, own], TEMPLATE)
    assert "--sdk_container_image=repo/image:1" in arguments([f"--job={tmp_path}/table.yaml"], TEMPLATE)
    assert "--sdk_container_image=repo/image:1" in arguments([job], {**TEMPLATE, "BEAMFEED_WORKER_IMAGE": ""})
    given = arguments(["--sdk_container_image=mine:2"], TEMPLATE)
    assert [arg for arg in given if arg.startswith("--sdk")] == ["--sdk_container_image=mine:2"]
    assert arguments([], {}) == ["--runner=DataflowRunner"]


def test_another_python_than_the_images_submits_nothing(monkeypatch, root):
    assert (
        re.findall(r"^FROM python:(\S+)-slim", (root / "templates/Dockerfile").read_text(), flags=re.M)
        == ["{}.{}".format(*PYTHON)] * 3
    )
    monkeypatch.setattr(sys, "version_info", (3, 13, 1, "final", 0))
    with pytest.raises(UserError, match=r"this is Python 3.13, and the images have 3.11; submit with that"):
        check_options([])


def test_semicolons_separate_only_in_a_template():
    assert arguments(["--set=a.b=1; c=[2, 3];"], TEMPLATE)[:2] == ["--set=a.b=1", "--set=c=[2, 3]"]
    assert arguments(["--set=a.b=1;2"], {})[0] == "--set=a.b=1;2"
