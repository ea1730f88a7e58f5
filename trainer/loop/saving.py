"""The checkpoints of a training run: what it goes on from, when they are written, and the best weights."""

import sys
import time
from collections.abc import Callable

import keras

from beamfeed.contract.config.duration import seconds_of
from beamfeed.contract.config.train import Train
from beamfeed.contract.dataset.checkpoints import find_checkpoints
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.errors import UserError
from beamfeed.trainer.cluster.strategy import Together
from beamfeed.trainer.feed.sharding import lanes_of
from beamfeed.trainer.loop.checkpoint import (
    Checkpoints,
    Damaged,
    remove_unfinished,
    restore,
    restore_newest,
    set_aside,
    variables_of,
)
from beamfeed.trainer.loop.optimizer import keep_averages
from beamfeed.trainer.loop.replicas import spread_seeds
from beamfeed.trainer.loop.state import TrainingState
from beamfeed.trainer.loop.warm_start import warm_start
from beamfeed.trainer.loop.workdir import note_done


class Saving:
    """Saves a run's state and puts it back. Every worker makes one, and the chief alone writes.

    `fit` gives the model the weights that come of the data.
    """

    def __init__(
        self,
        train: Train,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        together: Together,
        fit: Callable[[], None],
    ):
        self._fit = fit
        self._train, self._model, self._optimizer = train, model, optimizer
        self._cluster, self._together = together.cluster, together
        self._names = RunLayout(train.workdir)
        self._checkpoints = Checkpoints(self._names.checkpoints, train.checkpoint.keep)
        # Each checkpoint that is kept names the best weights of its time, and the next best are written before it is.
        self._best = Checkpoints(self._names.best, train.checkpoint.keep + 1)
        self._saved = time.monotonic()

    def restore(self, step: int | None = None, once: str = "") -> TrainingState:
        """Puts the last checkpoint that is whole into model and optimizer, or that of a step; the same on every worker.

        What is newer is set aside: it would be taken for what comes after, and best weights for the best.

        Raises:
          UserError: if the workers find different ones, or none can be read.
        """
        variables = variables_of(self._model, self._optimizer)
        restored, damaged = restore_newest(self._names.checkpoints, variables, step)
        # Before who finds none makes first weights, which takes exchanges of its own.
        if not self._cluster.all_same(0 if restored is None else (restored.step + 1) % 2**24):
            raise UserError(
                f"{self._names.workdir}: the workers do not find the same checkpoint; is this a shared folder?"
            )
        state = restored or self._begin()
        if (lanes := self._train.feed.lanes) not in (None, state.lanes):
            raise UserError(
                f"train.feed.lanes: is {lanes}, and the training run in {self._names.workdir} began with "
                f"{state.lanes}; leave it out, or start again with --restart"
            )
        if self._cluster.worker.is_chief:
            for error in damaged:
                print(f"{error}; going on from step {state.step}", file=sys.stderr)
            for folder in (self._names.checkpoints, self._names.best):
                remove_unfinished(folder)
                set_aside(folder, state.step)
            if step is not None:
                note_done(self._train.workdir, once)
        self._cluster.barrier()
        # All drop it or none: what they see of a shared folder may differ for a moment.
        if not self._cluster.all_are(state.best_step is None or state.best_step in find_checkpoints(self._names.best)):
            if self._cluster.worker.is_chief:
                problem = f"{self._names.best}: the weights of step {state.best_step}, the best so far, are gone"
                print(f"{problem}; those of the next evaluation are kept", file=sys.stderr)
            state = state._replace(best=None, best_step=None)
        spread_seeds(self._cluster.strategy, self._model)
        return state

    def _begin(self) -> TrainingState:
        """The state of a run that begins, with the weights that it begins with."""
        self._fit()
        if (init := self._train.init) is not None and not self._cluster.all_same(warm_start(self._model, init)):
            raise UserError(f"train.init.from: {init.from_} is not the same on all workers; is this a shared folder?")
        return TrainingState(lanes=lanes_of(self._train.feed.lanes, self._cluster.worker.count))

    def save_if_due(self, state: TrainingState) -> None:
        """Saves the state after so many steps, and after some time if no other save is under way."""
        checkpoint = self._train.checkpoint
        if checkpoint.every_steps is not None and state.step % checkpoint.every_steps == 0:
            self.save(state)
        elif time.monotonic() - self._saved > seconds_of(checkpoint.every) and not self._checkpoints.writing:
            self._write(state)  # each worker has a clock of its own, but the chief alone writes

    def wait(self) -> None:
        """Until the checkpoint that is being written is there."""
        self._checkpoints.wait()

    def save(self, state: TrainingState) -> None:
        """Writes a checkpoint in the background, once the one before is written. Every worker calls this."""
        self._together("saving", self._checkpoints.wait)
        self._write(state)

    def _write(self, state: TrainingState) -> None:
        self._saved = time.monotonic()
        if self._cluster.worker.is_chief:
            self._checkpoints.save(state, variables_of(self._model, self._optimizer))

    def save_best(self, state: TrainingState) -> None:
        """Keeps the weights; before the checkpoint that says so, so that none can be ahead of them."""
        if self._cluster.worker.is_chief:
            self._best.save(state, variables_of(self._model))
        self._together("saving the best weights", self._best.wait)

    def restore_best(self, state: TrainingState) -> None:
        """Puts the best weights into the model of every worker; they must have been evaluated once."""
        self._together("saving", self._checkpoints.wait)
        self._together.watchdog.long("reading the best weights")
        if state.best_step is None:  # they are gone, and no evaluation came after: the last ones are all there is
            keep_averages(self._model, self._optimizer)
            return
        try:
            restore(self._names.best, state.best_step, variables_of(self._model))
        except Damaged as error:
            raise UserError(f"{error}; --from-step goes back to a checkpoint before it") from error

    def close(self) -> None:
        """Waits for what is being written."""
        self._checkpoints.close()
        self._best.close()
