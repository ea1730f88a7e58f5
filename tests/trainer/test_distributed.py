"""Several devices and several worker processes train as one device does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import yaml
from exports import save_alone
from fleets import make_table
from labelled import labelled_job, write_labelled
from trained import TIMES, lines, without_times

import beamfeed.trainer.models  # noqa: F401  (Keras must know the class to load it)
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.trainer.main import main

pytestmark = pytest.mark.slow

ODD_WORKER = os.path.join(os.path.dirname(__file__), "odd_worker.py")


def run(command: list[str], environ: dict[str, str] | None = None) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *command],
        env={**os.environ, **(environ or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(processes: list[subprocess.Popen]) -> list[tuple[str, str]]:
    """Waits for all; fails, and leaves none behind, if one failed or hangs."""
    try:
        told = [process.communicate(timeout=600) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, told, strict=True):
        assert process.returncode == 0, errors
    return told


@pytest.fixture
def start_workers(free_ports):
    """Starts one worker process for each list of arguments; they export the Keras model and the result alone."""

    def start(arguments: list[list[str]], environ: dict[str, str] | None = None) -> list[subprocess.Popen]:
        addresses = [f"127.0.0.1:{port}" for port in free_ports(len(arguments))]
        processes = []
        for i, own in enumerate(arguments):
            config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": i}}
            processes.append(run([ODD_WORKER, "--bare", *own], {"TF_CONFIG": json.dumps(config), **(environ or {})}))
        return processes

    return start


@pytest.fixture
def bare(monkeypatch):
    """The same of trainings in this process."""
    monkeypatch.setattr("beamfeed.trainer.export.run.export_run", save_alone)


@pytest.fixture
def compare(job, tmp_path):
    """Writes job files, and compares the trained weights of two working folders."""

    def job_file(name: str, **train: object) -> str:
        made = job(workdir=str(tmp_path / name), **train)
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(made.model_dump(mode="json", by_alias=True)))
        return str(path)

    def same(name: str, other: str) -> None:
        models = [keras.saving.load_model(RunLayout(str(tmp_path / n)).model) for n in (name, other)]
        for a, b in zip(*(model.get_weights() for model in models), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
        losses = []
        for n in (name, other):
            with open(RunLayout(str(tmp_path / n)).complete) as file:
                losses.append(json.load(file)["test_loss"])
        assert losses[0] == pytest.approx(losses[1], abs=1e-5)

    return job_file, same


@pytest.mark.long
def test_two_devices_train_as_one(compare):
    job_file, same = compare
    feed = {"batch_size": 9, "shuffle": 32}  # 4 and 5 windows
    assert main(["--job", job_file("one", feed=feed)]) == 0
    ((_, errors),) = finish([run([ODD_WORKER, "--devices", "2", "--job", job_file("two", feed=feed)])])
    assert "epoch 2/2" in errors
    same("one", "two")


def test_two_workers_train_as_one_and_resume(compare, bare, start_workers, tmp_path):
    job_file, same = compare
    train = {
        "feed": {"batch_size": 11, "shuffle": 32},  # 5 and 6 windows; 6 steps in an epoch
        "evaluate_every": 3,
        "optimizer": {"name": "adamw", "learning_rate": 0.01, "ema": 0.9, "clip_norm": 1.0},
        "devices": {"accumulate": 2},
    }
    assert main(["--job", job_file("one", **train)]) == 0
    arguments = ["--job", job_file("two", **train)]
    finish(start_workers([[*arguments, "--set", "train.epochs=1"]] * 2))
    (_, chief), (out, other) = finish(start_workers([arguments] * 2))
    same("one", "two")
    assert "epoch 2/2" in chief
    assert "epoch 1/2" not in chief
    assert "epoch" not in other  # the chief alone tells
    assert out == ""
    assert len(os.listdir(tmp_path / "two" / "tensorboard")) == 2  # of two trainings


SYNCHRONIZED = """
import keras

def synchronized(length, features):
    windows = keras.Input((length, features))
    state = keras.layers.BatchNormalization(synchronized=True)(keras.layers.Dense(5, activation="tanh")(windows))
    return keras.Model(windows, keras.layers.Dense(features)(state))
"""


def test_layers_that_look_at_the_whole_batch_are_one_over_two_workers(
    compare, bare, start_workers, tmp_path, monkeypatch
):
    """The exchange within a layer failed with `RuntimeError: mask=None`, as the step's graph held another one."""
    (tmp_path / "synchronized_model.py").write_text(SYNCHRONIZED)
    path = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    job_file, same = compare
    train = {"model": {"class": "synchronized_model:synchronized"}, "feed": {"batch_size": 11, "shuffle": 32}}
    train["optimizer"] = {"name": "sgd", "learning_rate": 0.05}
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["--job", job_file("one", **train)]) == 0
    finish(start_workers([["--job", job_file("two", **train)]] * 2, path))
    same("one", "two")


SHARED = """
import keras

def shared(length, features, outputs):
    windows = keras.Input((length, features))
    state = keras.layers.GRU(6, kernel_regularizer="l2")(windows)
    back = keras.layers.Reshape(outputs["back"])(keras.layers.Dense(length * features)(state))
    return keras.Model(windows, {"fault": keras.layers.Dense(outputs["fault"])(state), "back": back})
"""
CLASSIFIER = {
    "task": {
        "name": "classify", "target": "fault", "class_weights": "balanced", "sample_weight": "importance",
        "metrics": ["accuracy", "auc", "f1_score"],
    },
    "watch": {"metric": "auc"},
}  # fmt: skip
TWO_OUTPUTS = {
    "model": {"class": "shared_model:shared"},
    "task": {
        "outputs": {
            "back": {"name": "reconstruct", "weight": 0.5},
            "fault": {"name": "classify", "target": "fault", "metrics": ["accuracy", "auc"]},
        }
    },
}


@pytest.mark.long
@pytest.mark.parametrize("train", [CLASSIFIER, TWO_OUTPUTS], ids=["classifier", "two_outputs"])
def test_one_two_and_three_workers_measure_alike(tmp_path, start_workers, train):
    """Batches of 10 and 61 windows divide by nothing; of the last eval batch, one worker has no window."""
    (tmp_path / "shared_model.py").write_text(SHARED)
    data = write_labelled(str(tmp_path / "data"))
    environ = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    found = []
    for workers in (1, 2, 3):
        job = labelled_job(
            data.output, **train, feed={"batch_size": 10, "shuffle": 32}, workdir=str(tmp_path / f"run{workers}")
        )
        path = tmp_path / f"{workers}.yaml"
        path.write_text(yaml.safe_dump(job.model_dump(mode="json", by_alias=True)))
        finish(start_workers([["--job", str(path)]] * workers, environ))
        with open(RunLayout(job.train.workdir).complete) as file:
            result = json.load(file)
        found.append(
            [*without_times(lines(job)), result["metrics"], result["test_metrics"], {"loss": result["test_loss"]}]
        )
    for several in found[1:]:
        for a, b in zip(found[0], several, strict=True):
            assert a == pytest.approx(b, rel=1e-6)


@pytest.mark.long
def test_a_step_of_two_workers_is_that_of_one_where_training_jumps(tmp_path, start_workers):
    data = write_labelled(str(tmp_path / "data"))
    first = []
    for workers in (1, 2):
        job = labelled_job(
            data.output,
            model={"name": "recurrent", "cell": "lstm", "units": [8]},
            task={"name": "classify", "target": "fault", "sample_weight": "importance"},
            optimizer={"name": "rmsprop", "learning_rate": 0.02, "clip_norm": 0.1},
            feed={"batch_size": 20, "shuffle": 32}, max_steps=1, workdir=str(tmp_path / f"run{workers}"),
        )  # fmt: skip
        path = tmp_path / f"{workers}.yaml"
        path.write_text(yaml.safe_dump(job.model_dump(mode="json", by_alias=True)))
        finish(start_workers([["--job", str(path)]] * workers))
        with open(RunLayout(job.train.workdir).metrics) as file:
            first.append({name: value for name, value in json.loads(file.read()).items() if name not in TIMES})
    assert first[0].keys() >= {"loss", "gradient_norm", "accuracy"}
    measured = {name: value for name, value in first[1].items() if not name.startswith("eval_")}
    assert measured == pytest.approx({name: first[0][name] for name in measured}, rel=1e-6)


def test_workers_with_different_jobs_are_told(compare, start_workers):
    job_file, _ = compare
    arguments = ["--job", job_file("shared")]
    other = ["--set", "train.optimizer.learning_rate=0.5", "--set", "train.epochs=7"]
    for number, process in enumerate(start_workers([arguments, [*arguments, *other]])):
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 2, errors
        (line,) = [line for line in errors.splitlines() if "different training runs" in line]
        assert f"(train.epochs: here {7 if number else 2}; train.optimizer: here " in line
        assert f'"learning_rate": {0.5 if number else 0.01}' in line


@pytest.mark.long
def test_workers_without_a_shared_folder_are_told(compare, start_workers, tmp_path):
    job_file, _ = compare
    arguments = ["--job", job_file("shared")]
    assert main([*arguments, "--set", "train.epochs=1"]) == 0
    processes = start_workers([arguments, [*arguments, "--set", f"train.workdir={tmp_path}/other"]])
    for process in processes:
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 2, errors
        assert "do not find the same checkpoint" in errors


@pytest.mark.long
def test_forecasts_are_learned_alike_by_one_to_three_workers(fleet, start_workers):
    for number in range(3):
        fleet.write(f"m{number}.parquet", make_table(150, seed=number))
    fleet.job["split"] = {"by": "rows", "train": 90, "eval": 30, "test": 30}
    fleet.job["label"] = {"ahead": {"rows": 3, "columns": ["x2", "x0"]}}
    weights, losses = [], []
    for workers in (1, 2, 3):
        fleet.job["train"] = {
            "model": {"name": "dlinear", "trend": 3},
            "task": {"name": "forecast"},
            "feed": {"batch_size": 11, "shuffle": 40},
            "epochs": 2,
            "workdir": str(fleet.folder / f"model-{workers}"),
        }
        if workers == 1:
            assert fleet.preprocess() == 0
        finish(start_workers([["--job", str(fleet.write_job())]] * workers))
        names = RunLayout(fleet.job["train"]["workdir"])
        weights.append(keras.saving.load_model(names.model).get_weights())
        losses.append(json.loads(Path(names.complete).read_text())["test_loss"])
    assert losses == pytest.approx([losses[0]] * 3, abs=1e-5)
    for found in weights[1:]:
        for a, b in zip(weights[0], found, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
