"""Checkpoints: the whole state of a training run at a step, written by the chief while it goes on.

    <folder>/step-000001200.data-00000-of-00001  step-000001200.index     the variables
    <folder>/step-000001200.json                                          the state of the run, written last

Every worker holds the same values, so the chief's are enough, and saving needs no
word with the others.

Own code, as Orbax and TensorFlow's CheckpointManager would have each worker take part in
saving, know no state beside the variables, and leave it to the caller which of
several checkpoints is whole.
"""

import json
import re
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from pydantic_core import to_json

from beamfeed.contract import storage
from beamfeed.contract.dataset.checkpoints import check_step, checkpoint_path, find_checkpoints
from beamfeed.contract.errors import UserError, first_line
from beamfeed.trainer.loop.optimizer import state_of
from beamfeed.trainer.loop.state import TrainingState

_ASIDE = re.compile(r"step-(\d{9,})\.json\.aside")
_PART = re.compile(r"(step-\d{9,})\.(?:index|data-00000-of-00001|json)(\.tempstate\d+|\.tmp-\w+)?")
FILES = (".index", ".data-00000-of-00001", ".json")  # of a checkpoint
# What TensorFlow's reader says of files that are cut off or changed; it has no error of its own for each.
_DAMAGE = re.compile(r"checksum|corrupt|truncated|sstable|less bytes|out of range", re.I)

Variables = Mapping[str, Any]  # names -> variables of Keras


def variables_of(model: keras.Model, optimizer: keras.optimizers.Optimizer | None = None) -> dict[str, Any]:
    """All variables that training changes: weights, moving statistics, seeds of random layers, the optimizer's.

    But for the learning rate, which the job says.
    """
    variables = {f"model/{number:04d}": variable for number, variable in enumerate(model.variables)}
    if optimizer is not None:
        variables |= {f"optimizer/{name}": variable for name, variable in state_of(optimizer).items()}
    return variables


class Damaged(Exception):
    """A checkpoint that is not as it was written."""


def restore(folder: str, step: int, variables: Variables) -> TrainingState:
    """Puts the values of a checkpoint into the variables; all of them, or none.

    Raises:
      Damaged: if it cannot be read.
      UserError: if it does not fit the variables.
    """
    prefix = checkpoint_path(folder, step)
    expected = {name: tuple(variable.shape) for name, variable in variables.items()}
    try:
        reader = tf.train.load_checkpoint(prefix)
        shapes = reader.get_variable_to_shape_map()
        if {name: tuple(shape) for name, shape in shapes.items() if name in expected} != expected:
            raise UserError(f"{prefix}: belongs to another model or optimizer; start again with --restart")
        values = {name: reader.get_tensor(name) for name in expected}  # compares checksums
        state = TrainingState(**json.loads(storage.read_text(prefix + ".json")))
    except (FileNotFoundError, ValueError, TypeError, IndexError, RuntimeError, tf.errors.OpError) as error:
        # What the reader says of a file that is gone is also what it says of a disk that does not answer.
        files = set(storage.list_folder(folder))
        missing = [name for end in FILES if (name := f"step-{step:09d}{end}") not in files]
        if (
            not missing
            and isinstance(error, OSError | RuntimeError | tf.errors.OpError)
            and not _DAMAGE.search(str(error))
        ):
            raise  # of the machine
        why = f"{missing[0]} is gone" if missing else first_line(error)[:200]
        raise Damaged(f"{prefix}: is damaged ({why})") from error
    for name, variable in variables.items():
        variable.assign(tf.constant(values[name], dtype=variable.dtype))
    return state


def restore_newest(
    folder: str, variables: Variables, step: int | None = None
) -> tuple[TrainingState | None, list[Damaged]]:
    """Likewise from the newest checkpoint that can be read; with `step`, from this one and no other.

    Returns:
      The state, None where there is no checkpoint; and what was passed over.

    Raises:
      UserError: if there are checkpoints, and none can be read, or not the one that is asked for.
    """
    steps = list(find_checkpoints(folder))
    if step is not None:
        check_step(folder, step)
    damaged: list[Damaged] = []
    for candidate in steps[::-1] if step is None else [step]:
        try:
            return restore(folder, candidate, variables), damaged
        except Damaged as error:
            damaged.append(error)
    if damaged and step is not None:
        raise UserError(f"{damaged[0]}; there are checkpoints of the steps {', '.join(map(str, steps))}")
    if damaged:
        raise UserError(f"{damaged[0]}, and there is none before it; start again with --restart")
    return None, []


def set_aside(folder: str, step: int) -> None:
    """Takes the checkpoints after a step out of the way of those to come, which remove them when they come to it."""
    for later, prefix in reversed(find_checkpoints(folder).items()):  # so that what is left is never the newest
        if later > step:
            tf.io.gfile.rename(prefix + ".json", prefix + ".json.aside", overwrite=True)


def remove_unfinished(folder: str) -> None:
    """Removes files of checkpoints that a process did not finish as it ended; no other one may be writing there."""
    names = set(storage.list_folder(folder))
    for name in names:
        match = _PART.fullmatch(name)
        if match and (match[2] or names.isdisjoint({f"{match[1]}.json", f"{match[1]}.json.aside"})):
            storage.remove_file(storage.join(folder, name))


class Checkpoints:
    """Writes the checkpoints of one folder, local or gs://, and keeps the last of them, so many."""

    def __init__(self, folder: str, keep: int):
        self._folder, self._keep = folder, keep
        self._thread = ThreadPoolExecutor(1)
        self._pending: Future | None = None

    def save(self, state: TrainingState, variables: Variables) -> None:
        """Copies the values, and writes them in the background; waits for the checkpoint before."""
        values = {name: variable.value.numpy() for name, variable in variables.items()}
        self.wait()
        self._pending = self._thread.submit(self._write, state, values)

    @property
    def writing(self) -> bool:
        """Whether the last checkpoint is still being written."""
        return self._pending is not None and not self._pending.done()

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
        prefix = checkpoint_path(self._folder, state.step)
        with tf.device("CPU"):
            tf.raw_ops.SaveV2(
                prefix=prefix,
                tensor_names=list(values),
                shape_and_slices=[""] * len(values),
                tensors=[tf.constant(value) for value in values.values()],
            )
        storage.write_text(prefix + ".json", to_json(state._asdict(), inf_nan_mode="null").decode() + "\n")
        checkpoints = find_checkpoints(self._folder)
        for step in list(checkpoints)[: -self._keep]:
            remove(self._folder, step)
        aside = [int(match[1]) for name in storage.list_folder(self._folder) if (match := _ASIDE.fullmatch(name))]
        for step in sorted(aside):
            if step in checkpoints:
                storage.remove_file(f"{checkpoints[step]}.json.aside")
            elif step < state.step:
                remove(self._folder, step)


def remove(folder: str, step: int) -> None:
    """Removes a checkpoint; its name first, so that no half of one is ever found."""
    for end in (".json.aside", *reversed(FILES)):
        storage.remove_file(checkpoint_path(folder, step) + end)
