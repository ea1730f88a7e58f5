"""Metrics on a real MLflow server on this machine."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress

import pytest
import yaml

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.errors import UserError
from beamfeed.contract.tracking import ADDRESS, check_writers
from beamfeed.trainer.loop import mlflow_writer
from beamfeed.trainer.loop.mlflow_writer import SETTINGS, MLflow, flat
from beamfeed.trainer.main import main

START_SECONDS = 120
ODD_WORKER = os.path.join(os.path.dirname(__file__), os.pardir, "odd_worker.py")


class Server:
    """`mlflow server` behind a door: where that is closed, nobody answers."""

    def __init__(self, folder, port, behind):
        self.address, self._port, self._behind = f"http://127.0.0.1:{port}", port, behind
        command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
        command += ["--artifacts-destination", f"{folder}/artifacts", "--host", "127.0.0.1", "--port", str(behind)]
        command += ["--workers", "1"]
        log = folder / "server.log"
        lean = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # half a minute of processor time
        with log.open("ab") as file:
            self._process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True, env=lean)
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{behind}/health", timeout=5).close()
                break
            except OSError:
                if time.monotonic() > end or self._process.poll() is not None:
                    pytest.fail(log.read_text())
                time.sleep(0.2)
        self.open()

    def open(self):
        self._sockets = [socket.create_server(("127.0.0.1", self._port))]
        threading.Thread(target=self._let_in, args=(self._sockets,), daemon=True).start()

    def close(self):
        for one in self._sockets:
            with suppress(OSError):  # the other end has closed it
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _let_in(self, sockets):
        with suppress(OSError):  # closed
            while True:
                pair = sockets[0].accept()[0], socket.create_connection(("127.0.0.1", self._behind))
                sockets += pair
                for way in (pair, pair[::-1]):
                    threading.Thread(target=self._carry, args=way, daemon=True).start()

    @staticmethod
    def _carry(one, other):
        with suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def stop(self):
        os.killpg(self._process.pid, 9)  # it has children
        self._process.wait()
        self.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory, free_ports):
    made = Server(tmp_path_factory.mktemp("mlflow"), *free_ports(2))
    yield made
    made.stop()


@pytest.fixture
def client(server, monkeypatch):
    monkeypatch.setenv(ADDRESS, server.address)
    for setting in SETTINGS.items():  # which a run leaves
        monkeypatch.setenv(*setting)
    from mlflow import MlflowClient

    return MlflowClient(server.address)


def runs_of(client, job: TrainingJob):
    found = client.get_experiment_by_name(job.name)
    return client.search_runs([found.experiment_id]) if found else []


def history(client, run, name):
    return {metric.step: metric.value for metric in client.get_metric_history(run.info.run_id, name)}


@pytest.mark.slow
def test_a_training_run_and_its_going_on_are_one_run(job, client, tmp_path, capfd):
    path = tmp_path / "job.yaml"
    for steps in (8, 12):  # the second start goes on with the first
        made = job(writers=["mlflow"], max_steps=steps, evaluate_every=4).model_copy(update={"name": "one-run"})
        path.write_text(yaml.safe_dump(made.model_dump(mode="json", by_alias=True)))
        if steps == 8:
            assert main(["--job", str(path)]) == 0
            printed = capfd.readouterr()
        else:  # in a process that has yet to import it
            command = [sys.executable, ODD_WORKER, "--bare", "--job", str(path)]
            environ = {name: value for name, value in os.environ.items() if name not in SETTINGS}
            process = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300)
            assert process.returncode == 0, process.stderr
            printed = process.stdout, process.stderr
        assert "mlflow" not in "".join(printed).lower()
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
    server.close()
    writer.evaluation(lines[:2])
    writer.steps(25, {"loss": 1.0})
    writer.pictures(25, {"window": b"png"})
    writer.close(finished=False)
    again = MLflow(names, made, 40)  # started again, as it is after a failure
    again.evaluation(lines[:3])
    assert capsys.readouterr().err.count("mlflow: evaluations: ") == 2  # once for each start
    server.open()
    monkeypatch.setattr(mlflow_writer, "TRY_AGAIN_SECONDS", 1000.0)
    again.evaluation(lines[:3])
    server.close()
    again.evaluation(lines)  # fails, and is tried again at the end
    server.open()
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
def test_a_run_whose_parameters_do_not_go_through_stays_the_one(job, client, capsys, monkeypatch):
    made = job().model_copy(update={"name": "parameters"})
    names = RunLayout(made.train.workdir)
    with monkeypatch.context() as patched:
        patched.setattr(type(client), "log_batch", lambda *_, **__: 1 / 0)
        MLflow(names, made, 0)  # and is killed
    assert "mlflow: parameters: division by zero; going on, it is tried again later" in capsys.readouterr().err
    again = MLflow(names, made, 0)
    (run,) = runs_of(client, made)
    assert run.data.params["model.name"] == "dense_autoencoder"
    again.close(finished=True)
    other = job(optimizer={"learning_rate": 0.5}).model_copy(update={"name": "parameters"})
    MLflow(names, other, 0).close(finished=True)
    assert runs_of(client, made)[0].data.params == run.data.params
    assert capsys.readouterr().err == ""


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
