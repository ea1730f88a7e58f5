"""The calls to Dataflow, and what becomes of their errors."""

import pytest
from cloud.dataflow import ENDPOINT, JOB_ID
from cloud.standin import start_cloud

from beamfeed.contract.errors import UserError
from beamfeed.launcher import cli
from beamfeed.launcher.backends.dataflow import backend as dataflow
from beamfeed.launcher.backends.dataflow.api import DataflowService
from beamfeed.launcher.backends.remote import Unreachable, job_name
from beamfeed.launcher.run import run_stage
from beamfeed.launcher.stage import Stage


@pytest.fixture
def cloud(root, tmp_path, monkeypatch):
    with start_cloud(tmp_path, root) as cloud:
        for name, value in cloud.env.items():
            monkeypatch.setenv(name, value)
        cloud.dataflow.states = ["JOB_STATE_RUNNING"]
        yield cloud


@pytest.fixture
def flags(cloud):
    return [
        "--project=a-project",
        "--region=europe-west1",
        "--job_name=a-name",
        "--no_auth",
        f"--dataflow_endpoint={ENDPOINT}",
    ]


@pytest.fixture
def service(flags):
    return DataflowService(flags)


def test_a_running_job_is_found_by_its_name(cloud, service):
    assert service.active_job("a-name") is None
    cloud.dataflow.active = [{"id": "1", "name": "another"}, {"id": "2", "name": "a-name"}]
    assert service.active_job("a-name") == "2"
    target = cloud.dataflow.requests[-1].target
    assert target.startswith("/v1b3/projects/a-project/locations/europe-west1/jobs?")
    assert "filter=ACTIVE" in target


def test_state_messages_and_metrics(cloud, service):
    cloud.dataflow.messages = [("JOB_MESSAGE_ERROR", "bad")]
    cloud.dataflow.metrics = [{"scalar": 1}]
    assert service.state(JOB_ID) == "JOB_STATE_RUNNING"
    assert [(one.importance, one.text) for one in service.messages(JOB_ID)] == [("JOB_MESSAGE_ERROR", "bad")]
    assert service.metrics(JOB_ID) == [{"scalar": 1}]


@pytest.mark.parametrize("code", [429, 500, 503])
def test_what_may_pass(cloud, service, code):
    cloud.dataflow.states = [code]
    with pytest.raises(Unreachable, match=f"{code} come back later"):
        service.state(JOB_ID)


@pytest.mark.parametrize(("code", "message"), [(403, "roles/dataflow.developer"), (404, "project and region")])
def test_what_will_not_pass_is_the_users_to_change(cloud, service, code, message):
    cloud.dataflow.states = [code]
    with pytest.raises(UserError, match=message):
        service.state(JOB_ID)


def test_nobody_listens(flags):
    with pytest.raises(Unreachable):
        DataflowService([*flags, "--dataflow_endpoint=http://localhost:1"]).state(JOB_ID)


def test_another_launcher_that_was_faster(cloud, flags, monkeypatch, capsys):
    cloud.dataflow.states = ["JOB_STATE_CANCELLED"]

    def refused(*_):
        cloud.dataflow.active = [{"id": JOB_ID, "name": "a-name"}]
        return 1, None

    monkeypatch.setattr(dataflow, "_submit", refused)
    stage = Stage("preprocess", tuple(flags), "dataflow", 1, "logs", False, "")
    assert run_stage(stage) == 1
    told = capsys.readouterr().err
    assert "job a-name was submitted elsewhere, following it" in told
    assert "the job was cancelled" in told


def test_a_job_that_can_no_longer_be_seen_is_left_alone(cloud, flags, capsys):
    cloud.dataflow.active, cloud.dataflow.states = [{"id": JOB_ID, "name": "a-name"}], [403]
    stage = Stage("preprocess", tuple(flags), "dataflow", 1, "logs", False, "")
    with pytest.raises(UserError, match="403"):
        run_stage(stage)
    assert "the job keeps running in the cloud; run the same command again to follow it" in capsys.readouterr().err


def test_nothing_to_follow(flags, monkeypatch):
    stage = Stage("preprocess", tuple(flags), "dataflow", 1, "logs", False, "")
    monkeypatch.setattr(dataflow, "_submit", lambda *_: (2, None))
    assert run_stage(stage) == 2
    monkeypatch.setattr(dataflow, "_submit", lambda *_: (0, None))  # published by another in the meantime
    assert run_stage(stage) == 0


JOB = """
name: small
source: {{kind: timeseries, files: gs://raw/*.parquet, time: {{column: t}}, features: [x]}}
windows: {{length: 8}}
output: {{path: gs://made/data}}
launch:
  preprocess:
    backend: dataflow
    dataflow:
      {{project: a-project, region: europe-west1, temp_location: gs://temp/t, image: i,
        options: {{dataflow_endpoint: {endpoint}, no_auth: true}}}}
"""


def test_a_running_job_can_be_cancelled_and_no_other(cloud, tmp_path, capsys):
    path = tmp_path / "job.yaml"
    path.write_text(JOB.format(endpoint=ENDPOINT))
    name = job_name("gs://made/data")
    # By the place that it writes to: its input may have changed since.
    labels = {"beamfeed-data": "of another input"}
    cloud.dataflow.active = [{"id": "1", "name": "another"}, {"id": JOB_ID, "name": name, "labels": labels}]
    assert cli.main(["cancel", str(path)]) == 0
    assert cloud.dataflow.cancelled == [JOB_ID]
    assert f"preprocess: job {JOB_ID} is asked to stop" in capsys.readouterr().err
    assert cli.main(["cancel", str(path)]) == 0
    assert f"{path}: nothing of it is running" in capsys.readouterr().err
    assert cloud.dataflow.active == [{"id": "1", "name": "another"}]


def test_a_job_that_cannot_be_cancelled_is_told(cloud, service):
    with pytest.raises(UserError, match=f"404 there is no active job {JOB_ID}"):
        service.cancel(JOB_ID)


def test_cancelling_where_dataflow_does_not_answer_is_one_line(cloud, tmp_path, capsys):
    path = tmp_path / "job.yaml"
    path.write_text(JOB.format(endpoint=ENDPOINT))
    cloud.dataflow.active = [{"id": JOB_ID, "name": job_name("gs://made/data")}]
    cloud.dataflow.refuse = (503, "UNAVAILABLE", "try later")
    assert cli.main(["cancel", str(path)]) == 2
    told = f"beamfeed: Dataflow does not answer: 503 try later; job {JOB_ID} may still run\n"
    assert capsys.readouterr().err == told


def test_a_smoke_test_is_cancelled_by_its_own_place(cloud, tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(JOB.format(endpoint=ENDPOINT))
    whole = {"id": "1", "name": job_name("gs://made/data")}
    cloud.dataflow.active = [whole, {"id": JOB_ID, "name": job_name("gs://made/data-3-assets")}]
    assert cli.main(["cancel", str(path), "--max-assets", "3"]) == 0
    assert cloud.dataflow.active == [whole]
