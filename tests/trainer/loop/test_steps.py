"""Losses that a model adds itself, on one device and on two, against a plain loop over whole batches."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from labelled import labelled_job, write_labelled
from trained import lines, without_times

from beamfeed.contract.cluster.worker_info import WorkerInfo
from beamfeed.trainer import models
from beamfeed.trainer.cluster.strategy import connect
from beamfeed.trainer.feed.dataset import load_dataset
from beamfeed.trainer.loop.steps import add_parts
from beamfeed.trainer.loop.train import train_and_evaluate
from beamfeed.trainer.tasks.objective import Objective

ADDING = """
import keras
from keras import ops

L2 = keras.regularizers.L2(0.03)


@keras.saving.register_keras_serializable("adding")
class Variational(keras.Model):
    \"\"\"A mean and a variance for each window, whose divergence from a normal distribution is a loss.\"\"\"

    def __init__(self, length, features, **kwargs):
        super().__init__(**kwargs)
        self.sizes = {"length": length, "features": features}
        self.flat = keras.layers.Flatten()
        self.mean = keras.layers.Dense(4, kernel_regularizer=L2, activity_regularizer=L2)
        self.spread = keras.layers.Dense(4)
        self.back = keras.layers.Dense(length * features, kernel_regularizer=L2)
        self.shape_again = keras.layers.Reshape((length, features))

    def call(self, windows, training=False):
        flat = self.flat(windows)
        mean, spread = self.mean(flat), self.spread(flat)
        divergence = ops.sum(ops.square(mean) + ops.exp(spread) - 1 - spread, axis=-1) / 2
        self.add_loss(0.1 * ops.mean(divergence))
        return self.shape_again(self.back(mean))

    def get_config(self):
        return {**super().get_config(), **self.sizes}


def heads(length, features, outputs):
    windows = keras.Input((length, features))
    state = keras.layers.Dense(5, kernel_regularizer=L2, activation="tanh")(keras.layers.Flatten()(windows))
    return keras.Model(windows, {name: keras.layers.Dense(n)(state) for name, n in outputs.items()})
"""

TWO_CPUS = """
import json, sys
from beamfeed.contract.imports import heavy_imports
with heavy_imports():
    import tensorflow as tf
    from beamfeed.contract.config.job import TrainingJob
    from beamfeed.contract.dataset.manifest import read_manifest
    from beamfeed.trainer.cluster.strategy import connect
    from beamfeed.contract.cluster.worker_info import WorkerInfo
    from beamfeed.trainer.loop.steps import add_parts
from beamfeed.trainer.loop.train import train_and_evaluate
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
job = TrainingJob.model_validate_json(sys.argv[1])
cluster = connect(WorkerInfo())
assert cluster.replicas == 2
train_and_evaluate(job, read_manifest(job.output.path), cluster)
"""

pytestmark = pytest.mark.slow

VARIATIONAL = {"model": {"class": "adding_model:Variational"}, "task": {"name": "reconstruct"}}
HEADS = {
    "model": {"class": "adding_model:heads"},
    "task": {
        "outputs": {
            "fault": {
                "name": "classify",
                "target": "fault",
                "class_weights": "balanced",
                "metrics": ["auc", "accuracy"],
            },
            "hot": {"name": "classify", "target": "hot", "sample_weight": "importance", "weight": 3},
        }
    },
}
SGD = {"name": "sgd", "learning_rate": 0.05}


@pytest.fixture
def data(tmp_path, monkeypatch):
    """61, 21 and 11 windows, in batches of 9: of the last eval batch, the second device has nothing."""
    (tmp_path / "adding_model.py").write_text(ADDING)
    monkeypatch.syspath_prepend(tmp_path)
    yield write_labelled(str(tmp_path / "data"))
    sys.modules.pop("adding_model", None)


def plain(job, data):
    """One epoch by a loop over whole batches, and the loss on the eval split in one batch of all its windows."""
    objective = Objective(job.train.task, data.manifest)
    model = models.build(job.train.model, objective.signature, job.train.seed)
    optimizer = keras.optimizers.SGD(0.05)
    feed = job.train.feed
    regular = [layer for layer in model.layers if getattr(layer, "kernel_regularizer", None)]
    means = []
    for fields in load_dataset(data.output, "train", batch_size=9, shuffle=feed.shuffle, seed=feed.seed):
        penalty = tf.add_n([layer.kernel_regularizer(layer.kernel) for layer in regular])
        with tf.GradientTape() as tape:
            examples = objective.examples(fields)
            losses = objective.losses(examples, objective.outputs(model(examples.x, training=True)))
            total = tf.reduce_mean(losses["loss"]) + tf.add_n(model.losses)
        optimizer.apply_gradients(
            zip(tape.gradient(total, model.trainable_variables), model.trainable_variables, strict=True)
        )
        means.append(float(total - penalty))
    examples = objective.examples({name: tf.constant(value) for name, value in data.fields["eval"].items()})
    losses = objective.losses(examples, objective.outputs(model(examples.x, training=False)))
    penalty = tf.add_n([layer.kernel_regularizer(layer.kernel) for layer in regular])
    assert float(penalty) > 0.01
    added = tf.add_n(model.losses) - penalty
    return np.mean(means), float(tf.reduce_mean(losses["loss"]) + added)


@pytest.mark.parametrize(
    "train", [pytest.param(VARIATIONAL, marks=pytest.mark.long), HEADS], ids=["variational", "heads"]
)
def test_losses_that_the_model_adds_count_once_on_any_number_of_devices(data, tmp_path, train):
    one, two = (
        labelled_job(data.output, **train, optimizer=SGD, workdir=str(tmp_path / name)) for name in ("one", "two")
    )
    train_and_evaluate(one, data.manifest, connect(WorkerInfo()))
    code = [sys.executable, "-c", TWO_CPUS, two.model_dump_json(by_alias=True)]
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(code, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for a, b in zip(without_times(lines(one)), without_times(lines(two)), strict=True):
        assert a == pytest.approx(b, rel=1e-6)
    train_loss, eval_loss = plain(one, data)
    assert lines(one)[0]["loss"] == pytest.approx(train_loss, rel=1e-6)
    assert lines(one)[0]["eval_loss"] == pytest.approx(eval_loss, rel=1e-6)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 10])
def test_shares_that_differ_by_a_row_have_as_many_parts(rows):
    """Else random layers of one worker would be further than those of another, and a checkpoint has one of them."""
    sizes = []

    def work(fields):
        sizes.append(len(fields["x"]))
        return tf.reduce_sum(fields["x"])

    assert add_parts(work, {"x": tf.range(rows)}, 3) == sum(range(rows))
    assert len(sizes) == min(3, rows)
    assert max(sizes) - min(sizes) <= 1
