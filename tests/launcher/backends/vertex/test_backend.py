"""Training on Vertex AI: a stand-in for the service keeps the requests."""

import pytest
from cloud.standin import start_cloud
from cloud.vertex import PARENT

from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends import remote
from beamfeed.launcher.backends.vertex import backend as vertex
from beamfeed.launcher.display import Lines
from beamfeed.launcher.job import load_job
from beamfeed.launcher.plan import train_stage
from beamfeed.launcher.run import run_stage

JOB = """
name: small
source: {{kind: timeseries, files: gs://raw/*.parquet, time: {{column: t}}, features: [x]}}
windows: {{length: 8}}
output: {{path: {url}/data}}
train: {{model: {{name: recurrent_autoencoder}}, workdir: {url}/model}}
launch:
  train:
    backend: vertex
    workers: 3
    vertex:
      {{project: a-project, region: europe-west1, image: registry/beamfeed:1, machine_type: g2-standard-8{more}}}
"""
FULL = (
    ", gpus: 1, gpu_type: NVIDIA_L4, disk_gb: 200, spot: true, timeout: 2h, env: {TZ: UTC}, labels: {team: fleet}, "
    "service_account: trainer@a-project.iam.gserviceaccount.com, network: projects/1/global/networks/n"
)
RUNNING, DONE = "JOB_STATE_RUNNING", "JOB_STATE_SUCCEEDED"


@pytest.fixture
def cloud(root, tmp_path, monkeypatch):
    monkeypatch.setattr(vertex, "POLL_SECONDS", 0.01)
    files = {}  # of the bucket: pyarrow reads the environment when it is loaded, which it was before
    monkeypatch.setattr(vertex.storage, "write_text", files.__setitem__)
    with start_cloud(tmp_path, root, submits=True) as cloud:  # google.auth asks the metadata server of its first import
        for name, value in cloud.env.items():
            monkeypatch.setenv(name, value)
        cloud.vertex.states = [RUNNING, DONE]
        cloud.vertex.files = files
        yield cloud


@pytest.fixture
def stage(cloud, tmp_path, monkeypatch):
    def make(more="", **values):
        path = tmp_path / "job.yaml"
        path.write_text(JOB.format(url=cloud.url(), more=more))
        monkeypatch.setattr("beamfeed.launcher.plan.read_result", lambda _: None)
        monkeypatch.setattr("beamfeed.launcher.plan._begun", lambda *_: None)
        return train_stage(load_job(str(path)), {"job": str(path), "set": ["train.epochs=2"], **values}, "f" * 64)

    return make


def test_the_request(cloud, stage):
    assert run_stage(stage(FULL)) == 0
    (job,) = cloud.vertex.jobs
    chief, others = job["jobSpec"].pop("workerPoolSpecs")
    assert job["displayName"].startswith("beamfeed-beamfeed-test-model-")
    assert job["labels"].pop("beamfeed-work").startswith("beamfeed-")
    assert job["labels"] == {"team": "fleet"}
    assert job["jobSpec"] == {
        "scheduling": {"timeout": "7200s", "restartJobOnWorkerRestart": True, "strategy": "SPOT"},
        "serviceAccount": "trainer@a-project.iam.gserviceaccount.com",
        "network": "projects/1/global/networks/n",
    }
    workdir = cloud.url("model")
    assert (int(chief.pop("replicaCount")), int(others.pop("replicaCount"))) == (1, 2)
    assert chief == others
    assert chief == {
        "machineSpec": {
            "machineType": "g2-standard-8",
            "acceleratorType": "NVIDIA_L4",
            "acceleratorCount": 1,
        },
        "diskSpec": {"bootDiskSizeGb": 200},
        "containerSpec": {
            "imageUri": "registry/beamfeed:1",
            "command": ["python", "-m", "beamfeed.trainer.main", "--job", RunLayout(workdir).job],
            "env": [{"name": "TZ", "value": "UTC"}, {"name": "BEAMFEED_GPUS", "value": "1"}],
        },
    }
    assert "machine_type: g2-standard-8" in cloud.vertex.files[RunLayout(workdir).job]


def test_one_worker_is_one_pool(cloud, stage):
    one = vertex.VertexBackend().describe(stage())[0]
    assert one.startswith(
        "gcloud ai custom-jobs create --project=a-project --region=europe-west1 --display-name=beamfeed-"
    )
    assert "restartJobOnWorkerRestart: true" in one
    request = vertex.custom_job(stage().section, ("python",), "name", 1, "work")
    assert [pool["replicaCount"] for pool in request["jobSpec"]["workerPoolSpecs"]] == [1]


def test_a_job_that_runs_is_followed_and_no_other_started(cloud, stage, capsys):
    first = vertex.VertexBackend().submit(stage(), Lines())
    assert first.title == "job 1 of Vertex AI"
    assert run_stage(stage()) == 0
    assert len(cloud.vertex.jobs) == 1
    assert "job 1 of Vertex AI is running already; following it" in capsys.readouterr().err
    assert vertex.VertexBackend().find(stage()) is None  # it has ended


def test_another_job_at_the_same_place_is_refused(cloud, stage):
    vertex.VertexBackend().submit(stage(), Lines())
    with pytest.raises(UserError, match="job 1 of Vertex AI is writing there with other input"):
        run_stage(stage(restart=True))


@pytest.mark.parametrize(
    ("state", "error", "code", "told"),
    [
        ("JOB_STATE_FAILED", "The replica workerpool0-0 exited with a non-zero status of 2.", 2, "status of 2"),
        (
            "JOB_STATE_FAILED",
            "The replica workerpool1-0 exited with a non-zero status of 138.",
            1,
            "run the same command",
        ),
        ("JOB_STATE_FAILED", "quota: custom_model_training_nvidia_l4_gpus", 1, "quota"),
        ("JOB_STATE_CANCELLED", "", 1, "was cancelled before it was done"),
        ("JOB_STATE_EXPIRED", "", 1, "was expired before it was done"),
    ],
)
def test_how_it_ends(cloud, stage, capsys, state, error, code, told):
    cloud.vertex.states, cloud.vertex.error = [RUNNING, state], error
    assert run_stage(stage()) == code
    assert told in capsys.readouterr().err


def test_it_is_cancelled(cloud, stage, capsys):
    run = vertex.VertexBackend().submit(stage(), Lines())
    assert run.state() == "job 1 of Vertex AI is pending"
    found = vertex.VertexBackend().find(stage())
    found.cancel()
    assert cloud.vertex.jobs[0]["state"] == "JOB_STATE_CANCELLED"
    assert vertex.VertexBackend().find(stage()) is None


@pytest.mark.parametrize(
    ("code", "told"), [(403, "roles/aiplatform.user"), (404, "vertex.project and region"), (400, "launch.train.vertex")]
)
def test_what_the_service_refuses_is_one_line(cloud, stage, code, told):
    cloud.vertex.refuse = (code, "no, not you")
    with pytest.raises(UserError, match=f"Vertex AI in {PARENT}: {code} no, not you; .*{told}"):
        run_stage(stage())


def test_a_service_that_does_not_answer_for_a_while_is_waited_for(cloud, stage, monkeypatch, capsys):
    run = vertex.VertexBackend().submit(stage(), Lines())
    real, answers = run._service.get, iter([remote.Unreachable("503 later"), None])

    def get(name):
        if error := next(answers, None):
            raise error
        return real(name)

    monkeypatch.setattr(run._service, "get", get)
    monkeypatch.setattr(remote, "POLL_SECONDS", 0.01)
    assert run.follow(vertex.StageProgress("train", 0.0), Lines()) == 0
    assert "Vertex AI does not answer (503 later); trying again" in capsys.readouterr().err


def test_folders_of_this_machine_are_refused(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(JOB.format(url=tmp_path, more=""))
    with pytest.raises(UserError, match=r"output.path: .* is on this machine, where Vertex AI cannot reach it"):
        vertex.VertexBackend().check(load_job(str(path)), "train")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (", labels: {team: Fleet}", "labels.team: 'Fleet' is not allowed, it must be at most 63 small letters"),
        (", network: default", "network: 'default' is not allowed, it must be projects/NUMBER/global/networks/NAME"),
        (", network: projects/my-project/global/networks/n", r"with the number \(not the id\) of the project"),
    ],
)
def test_what_the_service_refuses_is_told_first(tmp_path, more, told):
    (tmp_path / "job.yaml").write_text(JOB.format(url=tmp_path, more=more))
    with pytest.raises(UserError, match=told):
        load_job(str(tmp_path / "job.yaml"))


def test_a_gpu_without_its_type_is_refused(cloud, stage):
    with pytest.raises(UserError, match="gpus and gpu_type: give both, or none"):
        stage(", gpus: 1")
    with pytest.raises(UserError, match="env: TF_CONFIG is set by the service"):
        stage(", env: {TF_CONFIG: x}")
