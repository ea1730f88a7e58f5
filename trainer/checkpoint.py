"""Checkpoints: one after each epoch to go on from, and the best one to export."""

from contextlib import ExitStack
from types import TracebackType

import keras
import tensorflow as tf

from contract.layout import RunLayout
from trainer.progress import Progress
from trainer.scratch import scratch_folder

KEEP = 2


class Checkpoints:
    """Saves and restores model, optimizer and progress.

    Every worker must save, because saving a distributed variable may need all of
    them, but only the chief's files are kept: the others write to a scratch
    folder of their machine. All restore from the chief's.

    Args:
      names: the files of the run.
      model: the built model.
      optimizer: the built optimizer.
      is_chief: whether this worker's files are kept.
    """

    def __init__(self, names: RunLayout, model: keras.Model, optimizer: keras.optimizers.Optimizer, is_chief: bool):
        self._names = names
        self._numbers = tf.Variable(tf.zeros([len(Progress())], tf.float64), trainable=False)
        self._state = tf.train.Checkpoint(model=model, optimizer=optimizer, progress=self._numbers)
        self._model = tf.train.Checkpoint(model=model)
        self._is_chief = is_chief

    def __enter__(self) -> "Checkpoints":
        self._stack = ExitStack()
        own = self._names if self._is_chief else RunLayout(self._stack.enter_context(scratch_folder()))
        self._latest = tf.train.CheckpointManager(self._state, own.checkpoints, max_to_keep=KEEP)
        self._best = tf.train.CheckpointManager(self._model, own.best, max_to_keep=1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def restore(self) -> Progress:
        """Restores the state after the last epoch; Progress() where there is none."""
        latest = tf.train.latest_checkpoint(self._names.checkpoints)
        if latest is None:
            return Progress()
        self._state.restore(latest).assert_existing_objects_matched()
        epoch, step, best, reference, stale = (float(number) for number in self._numbers.numpy())
        return Progress(int(epoch), int(step), best, reference, int(stale))

    def save(self, progress: Progress, is_best: bool) -> None:
        """Saves the state after an epoch; the best first, so that no restored state can be ahead of it."""
        if is_best:
            self._best.save(checkpoint_number=progress.epoch)
        self._numbers.assign(tf.constant(progress, tf.float64))
        self._latest.save(checkpoint_number=progress.epoch)

    def restore_best(self) -> None:
        """Puts the best weights into the model. All workers must have saved them."""
        best = tf.train.latest_checkpoint(self._names.best)
        if best is not None:
            self._model.restore(best).assert_existing_objects_matched()
