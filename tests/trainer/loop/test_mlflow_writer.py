"""Metrics on a real MLflow server on this machine."""

import json
import os
import subprocess
import sys
import time
import urllib.request

import pytest
import yaml

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.errors import UserError
from beamfeed.contract.tracking import ADDRESS, check_writers
from beamfeed.trainer.loop import mlflow_writer
from beamfeed.trainer.loop.mlflow_writer import MLflow, flat

START_SECONDS = 120


class Server:
    """`mlflow server`, which can be stopped and started again with what it holds."""

    def __init__(self, folder, port):
        self.address = f"http://127.0.0.1:{port}"
        database = f"sqlite:///{folder}/mlflow.db"
        self._command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", database]
        self._command += ["--artifacts-destination", f"{folder}/artifacts", "--host", "127.0.0.1", "--port", str(port)]
        self._command += ["--workers", "1"]
        self._log = folder / "server.log"
        self.start()

    def start(self):
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"{self.address}/health", timeout=5).close()
                return
            except OSError:
                if time.monotonic() > end or self._process.poll() is not None:
                    pytest.fail(self._log.read_text())
                time.sleep(0.2)

    def stop(self):
        os.killpg(self._process.pid, 9)  # it has children
        self._process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory, free_ports):
    made = Server(tmp_path_factory.mktemp("mlflow"), free_ports(1)[0])
    yield made
    made.stop()


@pytest.fixture
def client(server, monkeypatch):
    monkeypatch.setenv(ADDRESS, server.address)
    from mlflow import MlflowClient

    return MlflowClient(server.address)


def runs_of(client, job: TrainingJob):
    found = client.get_experiment_by_name(job.name)
    return client.search_runs([found.experiment_id]) if found else []


def history(client, run, name):
    return {metric.step: metric.value for metric in client.get_metric_history(run.info.run_id, name)}


@pytest.mark.slow
def test_a_training_run_and_its_going_on_are_one_run(job, client, tmp_path):
    path = tmp_path / "job.yaml"
    for steps in (8, 12):  # the second start goes on with the first
        made = job(writers=["mlflow"], max_steps=steps, evaluate_every=4).model_copy(update={"name": "one-run"})
        path.write_text(yaml.safe_dump(made.model_dump(mode="json", by_alias=True)))
        command = [sys.executable, "-m", "beamfeed.trainer.main", "--job", str(path)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result.stderr
        assert "mlflow" not in (result.stdout + result.stderr).lower()
    (run,) = runs_of(client, made)
    assert (run.info.status, run.info.run_name) == ("FINISHED", "run")
    assert run.data.params["model.name"] == "dense_autoencoder"
    assert run.data.params["feed.batch_size"] == "8"
    with open(RunLayout(made.train.workdir).metrics) as file:
        lines = [json.loads(line) for line in file]
    for name in ("loss", "eval_loss", "epoch"):
        assert history(client, run, name) == {line["step"]: line[name] for line in lines}
        assert len(client.get_metric_history(run.info.run_id, name)) == len(lines) == 3
    assert history(client, run, "steps/loss")
    pictures = client.list_artifacts(run.info.run_id, "pictures")
    assert pictures
    assert all(one.path.endswith(".png") for one in pictures)


def line(epoch: int) -> dict:
    return {"epoch": epoch, "step": 10 * epoch, "loss": 1 / epoch, "eval_loss": None}


@pytest.mark.slow
def test_a_run_does_not_end_with_the_server_and_catches_up(job, client, server, capsys, monkeypatch):
    monkeypatch.setattr(mlflow_writer, "TRY_AGAIN_SECONDS", 0.0)
    made = job().model_copy(update={"name": "catches-up"})
    names = RunLayout(made.train.workdir)
    lines = [line(1), line(2), line(3), line(4)]
    writer = MLflow(names, made, 40)
    writer.evaluation(lines[:1])
    server.stop()
    writer.evaluation(lines[:2])
    writer.steps(25, {"loss": 1.0})
    writer.pictures(25, {"window": b"png"})
    writer.close(finished=False)
    again = MLflow(names, made, 40)  # started again, as it is after a failure
    again.evaluation(lines[:3])
    assert capsys.readouterr().err.count("mlflow: evaluations: ") == 2  # once for each start
    server.start()
    monkeypatch.setattr(mlflow_writer, "TRY_AGAIN_SECONDS", 1000.0)
    again.evaluation(lines[:3])
    server.stop()
    again.evaluation(lines)  # fails, and is tried again at the end
    server.start()
    again.close(finished=True)
    (run,) = runs_of(client, made)
    assert history(client, run, "loss") == {one["step"]: one["loss"] for one in lines}
    assert run.info.status == "FINISHED"

    client.delete_run(run.info.run_id)
    third = MLflow(names, made, 40)
    third.evaluation(lines)
    third.close(finished=False)
    (new,) = runs_of(client, made)
    assert new.info.run_id != run.info.run_id
    assert history(client, new, "loss") == history(client, run, "loss")
    assert new.info.status == "FAILED"


@pytest.mark.slow
def test_an_address_where_nothing_answers_is_a_mistake_at_the_first_start(job, monkeypatch, free_ports):
    monkeypatch.setenv(ADDRESS, f"http://someone:sec/ret@127.0.0.1:{free_ports(1)[0]}")
    made = job()
    with pytest.raises(UserError, match=r"^train.writers: mlflow: .*127\.0\.0\.1") as told:
        MLflow(RunLayout(made.train.workdir), made, 0)
    assert "ret@" not in str(told.value)
    assert "\n" not in str(told.value)
    assert not os.path.exists(RunLayout(made.train.workdir).mlflow)


def test_what_must_be_there_before_anything_begins():
    check_writers(["csv"], {})
    with pytest.raises(UserError, match=ADDRESS):
        check_writers(["csv", "mlflow"], {})


def test_without_the_package(monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "meta_path", [])
    monkeypatch.delitem(sys.modules, "mlflow", raising=False)
    with pytest.raises(UserError, match="mlflow-skinny"):
        check_writers(["mlflow"], {ADDRESS: "http://localhost:5000"})


def test_a_section_as_parameters():
    section = {"model": {"units": [4, 2], "name": "linear"}, "max_steps": None, "floor": False, "epochs": 3}
    assert flat(section) == {"model.units": "[4, 2]", "model.name": "linear", "floor": "false", "epochs": "3"}
