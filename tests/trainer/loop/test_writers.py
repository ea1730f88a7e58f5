"""Where metrics are written, read back by others."""

import csv
import json

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.trainer.loop.metrics import WRITERS

LINES = [
    {"epoch": 1, "step": 10, "loss": 0.5, "eval_loss": None},
    {"epoch": 2, "step": 20, "loss": 0.25, "eval_loss": 1e-12, "accuracy": 0.75},
]


@pytest.mark.parametrize("name", ["tensorboard", "csv"])  # mlflow: test_mlflow_writer.py
def test_each_takes_all_that_is_told(tmp_path, job, name):
    writer = WRITERS[name](RunLayout(str(tmp_path)), job(), 0)
    writer.steps(3, {"loss": 0.7})
    writer.evaluation(LINES[:1])
    writer.evaluation(LINES)
    writer.pictures(20, {})
    writer.close(finished=True)
    assert list(tmp_path.iterdir())


def test_a_table(tmp_path, job):
    writer = WRITERS["csv"](RunLayout(str(tmp_path)), job(), 0)
    writer.evaluation(LINES[:1])
    writer.evaluation(LINES)
    with open(tmp_path / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["epoch", "step", "loss", "eval_loss", "accuracy"]
    found = [{name: float(value) for name, value in row.items() if value} for row in rows]
    assert found == [{name: value for name, value in line.items() if value is not None} for line in LINES]


def test_tensorboard(tmp_path, job):
    writer = WRITERS["tensorboard"](RunLayout(str(tmp_path)), job(), 0)
    writer.steps(3, {"loss": 0.7})
    writer.evaluation(LINES)
    writer.close(finished=True)
    events = EventAccumulator(str(tmp_path / "tensorboard"), size_guidance={"tensors": 0})
    events.Reload()
    values = {
        name: [(event.step, float(tf.make_ndarray(event.tensor_proto))) for event in events.Tensors(name)]
        for name in events.Tags()["tensors"]
        if not name.startswith("_hparams_")
    }
    assert values["steps/loss"] == [(3, pytest.approx(0.7))]
    assert values["accuracy"] == [(20, 0.75)]
    assert {"epoch", "step"}.isdisjoint(values)


def test_tensorboard_compares_runs_by_the_keys_that_their_jobs_set(tmp_path, job):
    made = job(epochs=3, optimizer={"learning_rate": 0.25, "schedule": None})
    WRITERS["tensorboard"](RunLayout(str(tmp_path)), made, 0).close(finished=True)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    content = events.PluginTagToContent("hparams")["_hparams_/session_start_info"]
    kept = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info.hparams
    found = {name: getattr(value, value.WhichOneof("kind")) for name, value in kept.items()}
    assert found["epochs"] == 3
    assert found["optimizer.learning_rate"] == 0.25
    assert json.loads(found["model.units"]) == made.train.model.units
    assert {"workdir", "optimizer.schedule", "optimizer.name"}.isdisjoint(found)
