"""Evaluation on several devices: one exchange, whatever the number of batches and calls."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json
import sys

from beamfeed.contract.imports import heavy_imports

sys.path.append(sys.argv[1])
with heavy_imports():
    import keras
    import numpy as np
    import tensorflow as tf
    from labelled import write_labelled

    from beamfeed.contract.config.task import Regress
    from beamfeed.trainer.loop import evaluation
    from beamfeed.trainer.tasks.objective import Objective

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
data = write_labelled(sys.argv[2])
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
objective = Objective(Regress(name="regress", target="life", metrics=["mae"]), data.manifest)
exchanges = []
whole = evaluation.all_reduce_sum
evaluation.all_reduce_sum = lambda tensors: exchanges.append(len(tensors)) or whole(tensors)
with strategy.scope():
    inputs = keras.Input((8, 3))
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Flatten()(inputs)))
    steps = evaluation.EvalSteps(strategy, model, objective)
fields = {name: data.fields["eval"][name][:20].astype("f4") for name in ("values", "life")}
weights = np.ones(20, "f4")
weights[17:] = 0
dataset = tf.data.Dataset.from_tensor_slices((fields, weights)).batch(2, drop_remainder=True)
batches = iter(strategy.distribute_datasets_from_function(lambda _: dataset))
sums = steps.run(batches, 2, steps.begin())
sums = steps.run(batches, 3, sums)
apart = [float(one.numpy()[-1]) for one in strategy.experimental_local_results(sums)]
before = len(exchanges)
found = steps.end(sums)
errors = np.abs(model(fields["values"]).numpy()[:17, 0] - fields["life"][:17])
print(json.dumps({
    "apart": apart, "before": before, "after": len(exchanges), "windows": float(found["windows"]),
    "found": objective.values(found, 17), "expected": {"loss": float((errors**2).mean()), "mae": float(errors.mean())},
}))
"""


@pytest.mark.slow
def test_replicas_add_up_by_themselves_until_the_end(tmp_path, root):
    command = [sys.executable, "-c", PROGRAM, str(root / "tests"), str(tmp_path / "data")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-3000:]
    told = json.loads(result.stdout.splitlines()[-1])
    assert (told["before"], told["windows"]) == (0, 17)
    assert told["after"] == 2  # the graph is made for each of the two devices
    assert sorted(told["apart"]) == [8, 9]
    assert told["found"] == pytest.approx(told["expected"], rel=1e-5)
