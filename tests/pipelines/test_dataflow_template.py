"""The template's entry point, started as the template launcher starts it."""

import io
import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
import yaml
from cloud.dataflow import ENDPOINT
from cloud.standin import start_cloud
from fleets import make_table

from beamfeed.pipelines.dataflow_template import arguments

TEMPLATE = {"FLEX_TEMPLATE_PYTHON_PY_FILE": "/template/dataflow_template.py", "BEAMFEED_IMAGE": "repo/image:1"}
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


def test_it_writes_the_job_that_the_service_then_starts(cloud, launch):
    result = launch(job="gs://made/jobs/small.yaml", set="windows.stride=4; output.path=gs://made/data")
    assert result.returncode == 0, result.stderr
    assert cloud.dataflow.submitted == []  # the service does it
    job = json.loads(cloud.read_ending("template_launches/1/job_object"))
    assert job["name"] == "a-launch"
    assert job["labels"] == {"goog-dataflow-provided-template-type": "flex"}
    (pool,) = job["environment"]["workerPools"]
    assert pool["workerHarnessContainerImage"] == "repo/image:1"
    assert [package["name"] for package in pool["packages"]] == ["submission_environment_dependencies.txt"]
    assert b"__main__" not in cloud.read_ending("/pipeline.pb")
    options = job["environment"]["sdkPipelineOptions"]["options"]
    assert options["overrides"] == ["windows.stride=4", "output.path=gs://made/data"]
    assert any(name.startswith("data/data-") for name in cloud.store.names("made"))
    assert not any(name.startswith("elsewhere") for name in cloud.store.names("made"))


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({}, "--job: is missing"),
        ({"job": "gs://made/jobs/none.yaml"}, "there is no such job file"),
        ({"job": "gs://made/jobs/small.yaml", "set": "windows.strid=4"}, "did you mean 'stride'?"),
    ],
)
def test_a_mistake_is_one_line(cloud, launch, parameters, told):
    result = launch(**parameters)
    assert result.returncode == 2, result.stderr
    assert told in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr
    assert cloud.dataflow.submitted == []


def test_the_image_of_the_template_is_the_workers_unless_told_otherwise():
    assert "--sdk_container_image=repo/image:1" in arguments([], TEMPLATE)
    given = arguments(["--sdk_container_image=mine:2"], TEMPLATE)
    assert [arg for arg in given if arg.startswith("--sdk")] == ["--sdk_container_image=mine:2"]
    assert arguments([], {}) == ["--runner=DataflowRunner"]


def test_semicolons_separate_only_in_a_template():
    assert arguments(["--set=a.b=1; c=[2, 3];"], TEMPLATE)[:2] == ["--set=a.b=1", "--set=c=[2, 3]"]
    assert arguments(["--set=a.b=1;2"], {})[0] == "--set=a.b=1;2"
