"""Checkpoints: the whole state of a training run at a step, written by the chief while it goes on.

    <folder>/step-000001200.data-00000-of-00001  step-000001200.index     the variables
    <folder>/step-000001200.json                                          the state of the run, written last

Every worker holds the same values, so the chief's are enough, and saving needs no
word with the others.
"""

import json
import math
import re
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from beamfeed.contract import storage
from beamfeed.contract.errors import UserError
from beamfeed.trainer.loop.optimizer import state_of
from beamfeed.trainer.loop.state import TrainingState

_DONE = re.compile(r"step-(\d{9,})\.json")

Variables = Mapping[str, Any]  # names -> variables of Keras


def variables_of(model: keras.Model, optimizer: keras.optimizers.Optimizer | None = None) -> dict[str, Any]:
    """All variables that training changes: weights, moving statistics, seeds of random layers, the optimizer's.

    But for the learning rate, which the job says.
    """
    found = {f"model/{number:04d}": variable for number, variable in enumerate(model.variables)}
    if optimizer is not None:
        found |= {f"optimizer/{name}": variable for name, variable in state_of(optimizer).items()}
    return found


def find_checkpoints(folder: str) -> dict[int, str]:
    """The finished checkpoints in a folder: step -> prefix of its files, in order of steps."""
    try:
        names = storage.list_folder(folder)
    except FileNotFoundError:
        return {}
    steps = sorted(int(found[1]) for name in names if (found := _DONE.fullmatch(name)))
    return {step: storage.join(folder, f"step-{step:09d}") for step in steps}


def restore(folder: str, step: int, variables: Variables) -> TrainingState:
    """Puts the values of a checkpoint into the variables.

    Raises:
      UserError: if it does not fit them.
    """
    prefix = find_checkpoints(folder)[step]
    reader = tf.train.load_checkpoint(prefix)
    shapes = reader.get_variable_to_shape_map()
    wanted = {name: tuple(variable.shape) for name, variable in variables.items()}
    if {name: tuple(shape) for name, shape in shapes.items() if name in wanted} != wanted:
        raise UserError(f"{prefix}: belongs to another model or optimizer; start again with --restart")
    for name, variable in variables.items():
        variable.assign(tf.constant(reader.get_tensor(name), dtype=variable.dtype))
    return TrainingState(**json.loads(storage.read_text(prefix + ".json")))


class Checkpoints:
    """Writes the checkpoints of one folder, and keeps the last of them.

    Args:
      folder: local or gs://
      keep: how many stay.
    """

    def __init__(self, folder: str, keep: int):
        self._folder, self._keep = folder, keep
        self._thread = ThreadPoolExecutor(1)
        self._pending: Future | None = None

    def save(self, state: TrainingState, variables: Variables) -> None:
        """Copies the values, and writes them in the background; waits for the checkpoint before."""
        values = {name: variable.value.numpy() for name, variable in variables.items()}
        self.wait()
        self._pending = self._thread.submit(self._write, state, values)

    def wait(self) -> None:
        """Returns when the last checkpoint is written.

        Raises:
          OSError, tf.errors.OpError: if it could not be.
        """
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.result()

    def close(self) -> None:
        """Waits for what is being written."""
        self._thread.shutdown(wait=True)

    def _write(self, state: TrainingState, values: Mapping[str, np.ndarray]) -> None:
        tf.io.gfile.makedirs(self._folder)
        prefix = storage.join(self._folder, f"step-{state.step:09d}")
        with tf.device("CPU"):
            tf.raw_ops.SaveV2(
                prefix=prefix,
                tensor_names=list(values),
                shape_and_slices=[""] * len(values),
                tensors=[tf.constant(value) for value in values.values()],
            )
        storage.write_text(prefix + ".json", json.dumps(_plain(state._asdict()), allow_nan=False) + "\n")
        for step in list(find_checkpoints(self._folder))[: -self._keep]:
            remove(self._folder, step)


def _plain(value: Any) -> Any:
    """As JSON has it: a sum of a metric that is no number is null."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def remove(folder: str, step: int) -> None:
    """Removes a checkpoint; its name first, so that no half of one is ever found."""
    prefix = storage.join(folder, f"step-{step:09d}")
    for path in (prefix + ".json", *tf.io.gfile.glob(prefix + ".*")):
        if tf.io.gfile.exists(path):
            tf.io.gfile.remove(path)
