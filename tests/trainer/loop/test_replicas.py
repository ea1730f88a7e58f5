"""Copies of a model on two devices: one as to what is learned, and not as to what is drawn by chance."""

import subprocess
import sys

import numpy as np
import pytest

SCRIPT = """
import sys
from beamfeed.contract.imports import heavy_imports
with heavy_imports():
    import keras, numpy as np, tensorflow as tf
    from beamfeed.trainer.loop.replicas import make_one, spread_seeds, statistics_of
    from beamfeed.trainer.loop.steps import all_reduce_sum
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)

strategy = tf.distribute.MirroredStrategy()
keras.utils.set_random_seed(3)
with strategy.scope():
    frozen = keras.layers.Dense(5)
    inputs = keras.Input([5])
    moving = keras.layers.BatchNormalization(momentum=0.5)
    state = moving(keras.layers.GaussianNoise(1.0)(frozen(inputs)))
    model = keras.Model(inputs, keras.layers.Dropout(0.5)(state))
    frozen.trainable = False
names = [one.name for one in statistics_of(model)]
assert names == ["moving_mean", "moving_variance"], names

@tf.function
def step():
    def of_replica():
        place = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
        given = model(tf.ones([4, 5]) * (place + 1), training=True)
        found = statistics_of(model)
        make_one(found, all_reduce_sum([one.value * 1 for one in found]), 2)
        return tf.cast(given != 0, tf.int32), tf.identity(moving.moving_mean.value)
    return strategy.run(of_replica)

def run(steps):
    found = []
    for _ in range(steps):
        found += [[one.numpy() for one in strategy.experimental_local_results(part)] for part in step()]
    return found

spread_seeds(strategy, model)
first = run(2)
kept = {one.path: one.numpy() for one in model.variables}
then = run(2)
for one in model.variables:
    one.assign(kept[one.path])
spread_seeds(strategy, model)
np.savez(sys.argv[1], first=np.array([first[0], first[2]]), means=np.array([first[1], first[3]]),
         then=np.array([then[0], then[2]]), again=np.array([run(1)[0]]))
"""


@pytest.mark.slow
def test_devices_draw_differently_and_keep_one_set_of_statistics(tmp_path):
    done = subprocess.run([sys.executable, "-c", SCRIPT, tmp_path / "found.npz"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "found.npz")
    masks = found["first"]  # [step, device, window, unit]
    assert len({mask.tobytes() for step in masks for mask in step}) == 4
    assert np.array_equal(found["again"][0], found["then"][0])  # what a restored run draws
    assert not np.array_equal(found["then"][0], masks[0])
    means = found["means"]
    assert np.array_equal(means[:, 0], means[:, 1])
    assert not np.array_equal(means[0], means[1])
