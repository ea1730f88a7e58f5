"""What a checkpoint keeps comes back as it was."""

import json

import keras
import numpy as np

from beamfeed.trainer.loop.checkpoint import Checkpoints, find_checkpoints, restore
from beamfeed.trainer.loop.state import TrainingState


def test_state_and_variables_come_back_and_the_file_is_json(tmp_path):
    sums = {"loss": 0.1, "auc/0": [1.0, float("nan"), 3.0], "worst/0": float("inf")}
    state = TrainingState(epoch=1, step=12, done=4, sums=sums, best=-0.5, best_step=8, measured={"auc": 0.5})
    variable = keras.Variable(np.arange(3, dtype="f4"))
    checkpoints = Checkpoints(str(tmp_path), keep=1)
    checkpoints.save(state, {"model/0000": variable})
    checkpoints.wait()
    checkpoints.close()
    variable.assign(np.zeros(3, "f4"))
    found = restore(str(tmp_path), 12, {"model/0000": variable})
    np.testing.assert_array_equal(variable.numpy(), [0, 1, 2])
    assert found == state._replace(sums={"loss": 0.1, "auc/0": [1.0, None, 3.0], "worst/0": None})
    (prefix,) = find_checkpoints(str(tmp_path)).values()
    with open(f"{prefix}.json") as file:
        json.load(file, parse_constant=lambda word: 1 / 0)  # NaN and Infinity are no JSON
