"""What fills up the last batch of an evaluation reaches nothing, whatever metrics make of weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from labelled import write_labelled

from beamfeed.contract.config.task import Regress
from beamfeed.trainer.loop.evaluation import EvalSteps
from beamfeed.trainer.tasks.objective import Objective

OWN = """
import keras
import tensorflow as tf

class Relative(keras.metrics.MeanMetricWrapper):
    def __init__(self):
        super().__init__(lambda wanted, found: tf.abs(found - wanted) / tf.abs(wanted), name="relative")

class Heedless(keras.metrics.Metric):
    def __init__(self):
        super().__init__(name="heedless")
        self.errors = self.add_weight(shape=(), initializer="zeros")
        self.windows = self.add_weight(shape=(), initializer="zeros")

    def update_state(self, wanted, found, sample_weight=None):
        self.errors.assign_add(tf.reduce_sum(tf.abs(found - wanted)))
        self.windows.assign_add(tf.cast(tf.shape(wanted)[0], tf.float32))

    def result(self):
        return self.errors / self.windows
"""


def test_padding_reaches_no_metric(tmp_path, monkeypatch):
    (tmp_path / "own_padding.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    data = write_labelled(str(tmp_path / "data"))
    metrics = ["own_padding:Relative", "own_padding:Heedless", "mean_absolute_error"]
    objective = Objective(Regress(name="regress", target="life", metrics=metrics), data.manifest)
    inputs = keras.Input((8, 3))
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Flatten()(inputs)))
    eval_split = {name: data.fields["eval"][name] for name in ("values", "life")}

    def batch(first, last):
        filled = 9 - (last - first)
        fields = {
            name: np.concatenate([one[first:last], np.zeros((filled, *one.shape[1:]), one.dtype)]).astype("f4")
            for name, one in eval_split.items()
        }
        return fields, np.array([1] * (last - first) + [0] * filled, "f4")

    parts = [batch(0, 9), batch(9, 18), batch(18, 21), batch(21, 21)]  # the last one: a device without a window
    batches = iter(tf.data.Dataset.from_generator(
        lambda: iter(parts),
        output_signature=(
            {"values": tf.TensorSpec([9, 8, 3]), "life": tf.TensorSpec([9])}, tf.TensorSpec([9])
        ),
    ))  # fmt: skip
    steps = EvalSteps(tf.distribute.get_strategy(), model, objective)
    sums = steps.end(steps.run(batches, 1, steps.run(batches, len(parts) - 1, steps.begin())))
    assert sums["windows"] == 21
    errors = np.abs(model(eval_split["values"]).numpy()[:, 0] - eval_split["life"])
    expected = {
        "loss": (errors**2).mean(),
        "relative": (errors / eval_split["life"]).mean(),
        "heedless": errors.mean(),
        "mean_absolute_error": errors.mean(),
    }
    assert objective.values(sums, 21) == pytest.approx(expected, rel=1e-5)
