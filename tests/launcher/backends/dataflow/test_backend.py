"""The Dataflow backend: real submissions to a server on this machine, and jobs played back to the launcher."""

import importlib.metadata
import io
import json
import re
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest
import yaml
from apache_beam.portability.api import beam_runner_api_pb2
from cloud.dataflow import ENDPOINT, JOB_ID
from cloud.standin import start_cloud
from fleets import make_table
from google.api_core import exceptions
from google.auth.exceptions import RefreshError

from beamfeed.pipelines.dataflow_template import PYTHON, explain

NAME = re.compile(r"beamfeed-made-data-[0-9a-f]{12}")
BUCKETS = ("made", "raw")
JOB = {
    "name": "Small_job",
    "source": {"kind": "timeseries", "files": "gs://raw/fleet/*.parquet", "time": {"column": "t"}, "features": ["x*"]},
    "windows": {"length": 8},
    "split": {"seed": 12},  # of five assets, one in each of eval and test
    "output": {"path": "gs://made/data"},
    "launch": {
        "train": {"workers": 1},
        "preprocess": {
            "backend": "dataflow",
            "dataflow": {
                "project": "a-project",
                "region": "europe-west1",
                "temp_location": "gs://made/tmp",
                "image": "repo/image:1",
                "worker_image": "repo/worker:1",
                "machine_type": "n2-standard-4",
                "disk_gb": 50,
                "min_ram_gb": 8,
                "max_workers": 20,
                "service_account": "robot@a-project.iam.gserviceaccount.com",
                "subnetwork": "regions/europe-west1/subnetworks/sub",
                "public_ips": False,
                "labels": {"team": "x"},
                "options": {"dataflow_service_options": ["enable_prime"]},
            },
        },
    },
}


class Bench:
    """A cloud with a small fleet in it, and the command line before it."""

    def __init__(self, cloud, folder):
        self.cloud, self.dataflow, self.env = cloud, cloud.dataflow, cloud.env
        self.folder = folder
        table = io.BytesIO()
        pq.write_table(make_table(200), table)
        cloud.store.put("raw", "fleet/one.parquet", table.getvalue())
        self.dataflow.states = ["JOB_STATE_DONE"]
        self.job = folder / "job.yaml"
        train = {"model": {"name": "recurrent_autoencoder"}, "workdir": str(folder / "model")}
        self.job.write_text(yaml.safe_dump({**JOB, "train": train}))

    def command(self, *args, command="run"):
        at = f"launch.preprocess.dataflow.options.dataflow_endpoint={ENDPOINT}"
        return [sys.executable, "-m", "beamfeed.launcher.cli", command, str(self.job), "--set", at, *args]

    def beamfeed(self, *args, env=None, **options):
        return subprocess.run(
            self.command(*args, **options), env=env or self.env, capture_output=True, text=True, timeout=90
        )


@pytest.fixture
def bench(root, tmp_path):
    with start_cloud(tmp_path, root, buckets=BUCKETS, submits=True) as cloud:
        yield Bench(cloud, tmp_path)


@pytest.fixture(scope="module")
def submitted(root, tmp_path_factory):
    """One job that was submitted, ended at once and left no dataset."""
    folder = tmp_path_factory.mktemp("submitted")
    with start_cloud(folder, root, buckets=BUCKETS, submits=True) as cloud:
        bench = Bench(cloud, folder)
        yield bench, bench.beamfeed()


@pytest.fixture
def request_of(submitted):
    bench, result = submitted
    assert bench.dataflow.submitted, result.stderr
    return bench.dataflow.submitted[0]


@pytest.fixture
def graph(submitted):
    pipeline = beam_runner_api_pb2.Pipeline()
    pipeline.ParseFromString(submitted[0].cloud.read_ending("/pipeline.pb"))
    return pipeline


def test_a_job_that_ends_without_a_dataset_is_not_trained_on(submitted):
    bench, result = submitted
    assert result.returncode == 1, result.stderr
    assert f"preprocess: job {JOB_ID}, https://console.cloud.google.com/dataflow/jobs/europe-west1/" in result.stderr
    assert "the job ended, but gs://made/data holds no dataset of this job" in result.stderr
    assert "Traceback" not in result.stderr
    assert [path.name for path in (bench.folder / "model").iterdir()] == ["runs"]
    assert not any(name.endswith("manifest.json") for name in bench.cloud.store.names("made"))


def test_the_request_names_workers_and_image(request_of):
    environment = request_of["environment"]
    (pool,) = environment["workerPools"]
    assert NAME.fullmatch(request_of["name"])
    assert request_of["labels"].keys() == {"team", "beamfeed-data"}
    assert re.fullmatch("[0-9a-f]{16}", request_of["labels"]["beamfeed-data"])
    assert pool["kind"] == "harness"
    assert pool["workerHarnessContainerImage"] == "repo/worker:1"
    assert [image["containerImage"] for image in pool["sdkHarnessContainerImages"]] == ["repo/worker:1"]
    assert (pool["machineType"], pool["diskSizeGb"]) == ("n2-standard-4", 50)
    assert pool["autoscalingSettings"]["maxNumWorkers"] == 20
    assert pool["subnetwork"] == "regions/europe-west1/subnetworks/sub"
    assert pool["ipConfiguration"] == 2  # private
    assert environment["serviceAccountEmail"] == "robot@a-project.iam.gserviceaccount.com"
    assert environment["serviceOptions"] == ["enable_prime"]


def test_nothing_is_installed_on_the_workers_when_they_start(submitted, request_of):
    staged = [package["name"] for package in request_of["environment"]["workerPools"][0]["packages"]]
    assert staged == ["submission_environment_dependencies.txt"]  # no main session, no packages
    assert not any("pickled" in name for name in submitted[0].cloud.store.names("made"))
    assert b"__main__" not in submitted[0].cloud.read_ending("/pipeline.pb")  # all code is in the image


@pytest.mark.skipif(sys.version_info[:2] != PYTHON, reason="the locks are of another Python")
def test_the_versions_are_those_of_the_lock(submitted, request_of, root):
    told = submitted[0].cloud.read_ending("/submission_environment_dependencies.txt").decode().replace("\\n", "\n")
    text = "".join((root / f"requirements{part}.lock").read_text() for part in ("", "-worker"))
    lock = re.findall(r"^\S+==\S+", text, flags=re.M)
    for package in ("apache-beam", "tensorflow", "tensorflow-transform", "pyarrow", "numpy"):
        (line,) = [line for line in lock if line.startswith(f"{package}==")]
        assert line in told
    assert request_of["environment"]["userAgent"]["version"] == importlib.metadata.version("apache-beam")


def test_the_steps_have_readable_names(graph):
    names = {one.unique_name for key, one in graph.components.transforms.items() if key not in graph.root_transform_ids}
    top = {name.partition("/")[0] for name in names}
    assert {"Listing", "ScanFile", "PlanAsset", "ValidateUnit", "WriteToTFRecord", "VerifyShard"} <= top
    assert not any(re.search(r"<lambda|ref_|0x[0-9a-f]{6}", name) for name in top)


def test_the_steps_carry_display_data(graph):
    told = [one for one in graph.components.transforms.values() if one.unique_name == "ValidateUnit"]
    assert any(data.urn == "beam:display_data:labelled:v1" for one in told for data in one.display_data)


def test_the_memory_that_a_worker_needs_is_a_hint(graph):
    hints = [env.resource_hints for env in graph.components.environments.values() if env.resource_hints]
    assert all(dict(hint) == {"beam:resources:min_ram_bytes:v1": b"8000000000"} for hint in hints)
    assert hints


def test_no_path_of_this_machine_is_in_the_options(submitted, request_of):
    told = dict(request_of["environment"]["sdkPipelineOptions"]["options"])
    bench, _ = submitted
    assert told.pop("job") == str(bench.job)  # what the user typed
    assert str(bench.folder) not in json.dumps(told)


def test_the_requests_are_signed(submitted):
    bench, _ = submitted
    calls = bench.dataflow.requests
    assert all(call.headers.get("authorization", "").startswith("Bearer ") for call in calls)
    assert calls


def test_ctrl_c_leaves_the_job_and_the_same_command_follows_it(submitted, request_of):
    bench, _ = submitted
    bench.dataflow.active = [{"id": JOB_ID, "currentState": "JOB_STATE_RUNNING", **request_of}]
    bench.dataflow.states = ["JOB_STATE_RUNNING"]
    first = subprocess.Popen(bench.command(), env=bench.env, stderr=subprocess.PIPE, text=True)
    lines = []
    for line in first.stderr:
        lines.append(line)
        if "job is running" in line:
            break
    first.send_signal(signal.SIGINT)
    rest = first.communicate(timeout=30)[1]
    assert first.returncode == 130, lines
    assert "run the same command again to follow it" in rest
    assert f"gcloud dataflow jobs cancel {JOB_ID} --region=europe-west1 --project=a-project" in rest
    assert not any(call.method in ("PUT", "POST") and JOB_ID in call.path for call in bench.dataflow.requests)

    bench.dataflow.states = ["JOB_STATE_CANCELLED"]
    began = time.monotonic()
    second = bench.beamfeed()
    assert time.monotonic() - began < 10
    assert second.returncode == 1
    assert f"job {request_of['name']} is already running; following it" in second.stderr
    assert "the job was cancelled before it was done" in second.stderr
    assert len(bench.dataflow.submitted) == 1


def test_a_job_that_makes_other_data_at_the_output_is_not_disturbed(submitted, request_of):
    bench, _ = submitted
    bench.dataflow.active = [{"id": JOB_ID, "currentState": "JOB_STATE_RUNNING", **request_of}]
    before = bench.cloud.store.objects()
    result = bench.beamfeed("--set", "windows.stride=4")
    assert result.returncode == 2, result.stderr
    assert f"output.path: job {JOB_ID} is preprocessing into gs://made/data with other input or" in result.stderr
    assert f"gcloud dataflow jobs cancel {JOB_ID} --region=europe-west1 --project=a-project" in result.stderr
    assert len(bench.dataflow.submitted) == 1
    assert bench.cloud.store.objects() == before


def test_a_job_that_fails(submitted, request_of):
    bench, _ = submitted
    bench.dataflow.active = [{"id": JOB_ID, "currentState": "JOB_STATE_RUNNING", **request_of}]  # it is followed
    bench.dataflow.states = ["JOB_STATE_FAILED"]
    bench.dataflow.messages = [("JOB_MESSAGE_ERROR", "Workflow failed. Causes: Quota 'CPUS' exceeded.")]
    result = bench.beamfeed()
    assert result.returncode == 1
    assert "preprocess: quota: Workflow failed. Causes: Quota 'CPUS' exceeded.; lower launch" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_a_submission_that_is_refused_is_one_line(bench):
    bench.dataflow.refuse = (429, "RESOURCE_EXHAUSTED", "Project a-project has too many running jobs")
    result = bench.beamfeed()
    assert result.returncode == 1, result.stderr
    (line,) = result.stderr.splitlines()[1:]
    assert line.startswith("Dataflow: quota: Project a-project has too many running jobs; wait for other jobs to end")
    assert not any(name.endswith("manifest.json") for name in bench.cloud.store.names("made"))


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (exceptions.Forbidden("no"), 2, "no permission: no; the account needs roles/dataflow.developer"),
        (exceptions.BadRequest("POST http://x/y: No such subnetwork"), 2, "No such subnetwork"),
        (exceptions.Conflict("There is already an active job named x"), 2, "already an active job"),
        (exceptions.ServiceUnavailable("later"), 1, "nothing was submitted"),
        (RefreshError("expired"), 2, "gcloud auth application-default login"),
        (ValueError("Pipeline has validations errors: \nInvalid GCS path"), 2, "Invalid GCS path"),
        (OSError("Could not upload to GCS path gs://x"), 2, "gs://x"),
    ],
)
def test_what_a_refusal_means(error, code, message):
    found = explain(error)
    assert found is not None
    assert found[0] == code
    assert message in found[1]


def test_a_fault_of_our_own_is_not_explained_away():
    assert explain(ValueError("some bug")) is None


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("nework: x", "--nework: Beam has no such option; did you mean '--network'?"),
        (
            "number_of_worker_harness_threads: many",
            "argument --number_of_worker_harness_threads: 'many' is not a whole number",
        ),
    ],
)
def test_a_wrong_option_is_one_line_and_nothing_is_submitted(bench, option, message):
    key, _, value = option.partition(": ")
    result = bench.beamfeed("--set", f"launch.preprocess.dataflow.options.{key}={value}")
    assert result.returncode == 2, result.stderr
    assert message in result.stderr.splitlines()[-1]
    assert len(result.stderr.splitlines()) == 2
    assert bench.dataflow.submitted == []


def test_a_local_output_is_one_line(bench):
    result = bench.beamfeed("--set", "output.path=out/data")
    assert result.returncode == 2
    assert result.stderr.startswith("beamfeed: output.path: out/data is on this machine")
    assert len(result.stderr.splitlines()) == 1


def test_no_credentials_are_told_at_once(bench):
    env = {name: value for name, value in bench.env.items() if name != "GOOGLE_APPLICATION_CREDENTIALS"}
    env["NO_GCE_CHECK"] = "true"
    began = time.monotonic()
    result = bench.beamfeed(env=env)
    assert time.monotonic() - began < 10
    assert result.returncode == 2, result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "gcloud auth application-default login" in result.stderr


def test_dry_run_shows_the_submission(bench):
    result = bench.beamfeed("--dry-run")
    assert result.returncode == 0, result.stderr
    (line,) = [line for line in result.stdout.splitlines() if "-m beamfeed.pipelines.dataflow_template" in line]
    assert "--runner=DataflowRunner --project=a-project --region=europe-west1 --job_name=beamfeed-made-data-" in line
    assert bench.dataflow.submitted == []


@pytest.mark.long
def test_training_goes_on_when_the_dataset_is_there(bench):
    for i in range(4):
        table = io.BytesIO()
        pq.write_table(make_table(200, i), table)
        bench.cloud.store.put("raw", f"fleet/{i}.parquet", table.getvalue())
    bench.dataflow.states = ["JOB_STATE_RUNNING"]
    small = ["train.epochs=1", "train.model.units=[4]", "train.model.latent=2"]
    launched = subprocess.Popen(
        bench.command(*(part for one in small for part in ("--set", one))),
        env=bench.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    seen = []
    for line in launched.stderr:
        seen.append(line)
        if "job is running" in line:
            break
    # What the workers do in the cloud, on the same bucket.
    command = [sys.executable, "-m", "beamfeed.pipelines.preprocess", "--job", str(bench.job)]
    worked = subprocess.run(command, env=bench.env, capture_output=True, text=True, timeout=200)
    assert worked.returncode == 0, worked.stderr
    bench.dataflow.states = ["JOB_STATE_DONE"]
    told, rest = launched.communicate(timeout=200)
    assert launched.returncode == 0, "".join(seen) + rest
    assert "preprocess: job is done" in rest
    assert "train loss" in told
    assert (bench.folder / "model" / "model.keras").exists()
    assert len(bench.dataflow.submitted) == 1

    again = bench.beamfeed(*(part for one in small for part in ("--set", one)))
    assert again.returncode == 0, again.stderr
    assert "preprocess: complete, nothing to do" in again.stderr
    assert len(bench.dataflow.submitted) == 1
