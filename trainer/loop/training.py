"""A training run under way: its model, its state, and the steps between two evaluations.

An explicit loop: Keras 3's `fit` does not work under MultiWorkerMirroredStrategy.
"""

import math
import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from beamfeed.contract import storage
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.batches import eval_steps, train_steps, windows_in
from beamfeed.contract.dataset.layout import RunLayout, manifest_path
from beamfeed.contract.dataset.manifest import Manifest, find_fingerprint
from beamfeed.contract.dataset.result import Watched
from beamfeed.contract.errors import JobFailed, Unanswered, UserError
from beamfeed.contract.storage import FileStat
from beamfeed.trainer.cluster.strategy import Cluster, Together
from beamfeed.trainer.cluster.watchdog import Preempted, Watchdog
from beamfeed.trainer.loop.callbacks import Callbacks
from beamfeed.trainer.loop.evaluation import WINDOWS, EvalSteps
from beamfeed.trainer.loop.first_weights import fit_first_weights
from beamfeed.trainer.loop.metrics import MetricsLog, describe_epoch
from beamfeed.trainer.loop.model import make_learner
from beamfeed.trainer.loop.optimizer import averaged
from beamfeed.trainer.loop.profile import StepProfile
from beamfeed.trainer.loop.saving import Saving
from beamfeed.trainer.loop.start import Start
from beamfeed.trainer.loop.state import TrainingState, until_evaluation
from beamfeed.trainer.loop.steps import NORM, zero_train
from beamfeed.trainer.review.pictures import Pictures
from beamfeed.trainer.tasks.first_fits import begins_trained
from beamfeed.trainer.tasks.objective import LOSS, Objective, Sums, find_watched

CALL_SECONDS = 0.5  # about as long as a call of many steps takes: what is watched, and SIGTERM, wait for its end
MOST_STEPS = 1024  # in a call
LEAST_SCALE = 1e-6  # of a loss: what overflows float16 even so is no number


class Training:
    """A training run under way: the model, its state and all that serves them. Every worker makes one."""

    def __init__(self, job: TrainingJob, manifest: Manifest, cluster: Cluster, watchdog: Watchdog, start: Start):
        self.job, self.manifest, self.cluster, self.watchdog = job, manifest, cluster, watchdog
        self.names = RunLayout(job.train.workdir)
        train = job.train
        self.objective = Objective.of(train, manifest)
        self.watched = find_watched(train.watch, self.objective)
        learner = make_learner(job, manifest, cluster, self.objective, start.iterators)
        self.model, self.optimizer, self.feed, self._train = learner
        self.steps = train_steps(windows_in(manifest, "train"), train.feed.batch_size)  # of an epoch
        self._eval = EvalSteps(cluster.strategy, self.model, self.objective)
        self.pictures = Pictures(job, manifest, self.objective)
        self._at_a_time = 1
        self._published: FileStat | None = None  # the manifest at the last look
        self._spent = 0.0  # seconds of the last call
        self._full = 0.0  # the same if it was of as many steps as may be, else 0
        self._evaluated: set[SplitName] = set()
        self.together = Together(cluster, watchdog)
        fit = partial(fit_first_weights, job, manifest, self.objective, self.model, self.together)
        self.saving = Saving(train, self.model, self.optimizer, self.together, fit)
        self.callbacks = Callbacks(train.callbacks if cluster.worker.is_chief else ())
        self._progress = start.progress
        self._profile = StepProfile(start.profile, self.names.tensorboard, cluster.worker.is_chief)

    def run(self, batches: Any, state: TrainingState, metrics: MetricsLog) -> TrainingState:
        """Runs the steps up to the next evaluation.

        Raises:
          JobFailed: if the loss is not finite, on every worker at the same step.
          Preempted: if a worker was asked to stop.
        """
        totals = self._sums_of(state)
        state = state._replace(sums=_as_numbers(totals))  # it may be evaluated without another step
        if not self._spent:
            self._progress.phase("compiling")
            self.watchdog.long("the first step, which is compiled")
        while remaining := until_evaluation(state, self.steps, self.job.train):
            state = state.next_epoch(self.steps)
            before, began = state, time.perf_counter()
            every = self.job.train.checkpoint.every_steps
            until_checkpoint = MOST_STEPS if every is None else every - state.step % every
            most = min(until_checkpoint, self._profile.limit(state.step))
            steps = min(self._at_a_time, self.steps - state.done, remaining, most)
            sent = tf.constant([float(self.watchdog.stop_asked), self._full])
            with self._profile.recording(state.step):
                totals, received = self._train(batches, tf.constant(steps), totals, sent)
                received = received.numpy()  # waits
            stop, spent = (float(value) / self.cluster.strategy.num_replicas_in_sync for value in received)
            self._spent = time.perf_counter() - began
            self._full = self._spent if steps == self._at_a_time else 0.0
            state = state.train(steps, _as_numbers(totals), self._spent)
            self.watchdog.alive("training", self._spent)
            self._check_scale(state)
            for name, noun in ((LOSS, "the loss"), (NORM, "the norm of the gradients")):
                if not math.isfinite(state.sums[name]):
                    raise JobFailed(
                        f"{noun} is {state.sums[name]} in epoch {state.epoch + 1}, by step {state.step}; "
                        "try a lower train.optimizer.learning_rate, and look for extreme values in the data; "
                        "if saved weights are bad already, --from-step N goes back to an earlier checkpoint "
                        "(--list-checkpoints)"
                    )
            metrics.step(before, state, self.job.train.feed.batch_size, self.optimizer)
            self._profile.end(state.step)
            self._pace(spent)
            if stop:
                self.saving.save(state)
                self.saving.wait()
                raise Preempted(state.step)
            if remaining > steps:
                self.saving.save_if_due(state)
        return state

    def _check_scale(self, state: TrainingState) -> None:
        """Raises JobFailed where each step is skipped: if gradients were too large, a smaller scale had helped."""
        if isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):
            scale = float(self.optimizer.dynamic_scale.numpy())
            if scale < LEAST_SCALE:
                raise JobFailed(
                    f"the gradients are not finite in epoch {state.epoch + 1}, by step {state.step}, and all steps are "
                    "skipped; try train.devices.precision: mixed_bfloat16, and look for extreme values in the data"
                )

    def _sums_of(self, state: TrainingState) -> Sums:
        """The sums so far. Those of metrics that the job did not have then begin here."""
        zero = zero_train(self.objective)
        # NumPy takes null, which stands for no number.
        saved = {name: tf.constant(np.array(state.sums[name], np.float64)) for name in zero if name in state.sums}
        return {
            name: saved[name] if name in saved and saved[name].shape == initial.shape else initial
            for name, initial in zero.items()
        }

    def _pace(self, spent: float) -> None:
        """More steps in a call, or fewer.

        Args:
          spent: seconds of the call before, the mean of all workers, so that all decide alike; 0 if that was cut short.
        """
        if 0 < spent < CALL_SECONDS / 2:
            self._at_a_time = min(2 * self._at_a_time, MOST_STEPS)
        elif spent > 2 * CALL_SECONDS:
            self._at_a_time = max(1, self._at_a_time // 2)

    def evaluate(self, split: SplitName) -> dict[str, float | None] | None:
        """The mean loss of a split's windows, each counted once, and what else is measured; None if it is empty.

        Raises:
          UserError: if the split holds other windows than the manifest says.
          JobFailed: if the loss is not finite.
        """
        self._progress.phase("evaluating")
        if split in self._evaluated:
            self.watchdog.alive("evaluation", self._spent)
        else:
            self.watchdog.long("the first evaluation, which is compiled")
        self._evaluated.add(split)
        windows, feed = windows_in(self.manifest, split), self.job.train.feed
        if windows == 0:
            return None
        batches = self.feed.padded(split)
        sums, left = self._eval.begin(), eval_steps(windows, feed.batch_size)
        while left:
            steps = min(left, self._at_a_time)
            sums = self._eval.run(batches, steps, sums)
            left -= steps
            self.watchdog.alive("evaluation", self._spent)
        self.watchdog.long("waiting for the others to evaluate")
        totals = self._eval.end(sums)
        loss, count = float(totals[LOSS]), float(totals[WINDOWS])
        if (count != windows and not feed.skip_corrupt) or count == 0:
            raise UserError(
                f"{self.job.output.path}: the split {split} held {count:.0f} windows, the manifest says {windows}; "
                f"{self.manifest.remedy}"
            )
        if not math.isfinite(loss):
            raise JobFailed(f"the loss on the split {split} is {loss}; look for extreme values in the data")
        return self.objective.values(totals, count)

    def keep_first(self, state: TrainingState) -> TrainingState:
        """Evaluates a model that begins as a linear one: training may not find better weights."""
        if state.step or not begins_trained(self.job.train.model, self.objective.signature):
            return state
        evaluated = self.evaluate("eval")
        score = None if evaluated is None else self._score(evaluated)
        if evaluated is None or score is None:
            return state
        state = state._replace(best=score, best_step=0, measured=evaluated)  # early stopping counts from epoch 1
        self.saving.save_best(state)
        return state

    def end(self, state: TrainingState, metrics: MetricsLog) -> TrainingState:
        """Evaluates the weights, or their averages, keeps them if they are the best, and tells of it."""
        train, began = self.job.train, time.perf_counter()
        trained = self.objective.values(state.sums, state.since)
        with averaged(self.model, self.optimizer):
            evaluated = self.evaluate("eval")
            seconds = time.perf_counter() - began
            metrics.add(describe_epoch(state, train, self.optimizer, trained, evaluated, seconds))
            decides = trained if evaluated is None else evaluated
            min_delta = train.early_stopping.min_delta if train.early_stopping else 0.0
            state = state.evaluate(self._score(decides), decides, min_delta).next_epoch(self.steps)
            if state.best_step == state.step:
                self.saving.save_best(state)

            def report() -> None:
                metrics.write(self.model)
                if metrics.picture_is_due():
                    metrics.pictures(state.step, self.pictures.draw(self.model))
                self._published = note_new_data(self.job, self.manifest, self._published)

            self.together("telling of it", report)
        return state

    def _score(self, measured: Mapping[str, float | None]) -> float | None:
        """What is watched, as a score; a loss is not better than the least one that so many windows can tell."""
        score, windows = self.watched.score(measured), windows_in(self.manifest, "eval")
        least = self.objective.least_loss(windows) if windows and self.watched == Watched(LOSS, False) else None
        return score if score is None or least is None else max(score, least)

    def close(self) -> None:
        self.together.close()
        self._profile.close()
        self.saving.close()


def _as_numbers(totals: Sums) -> dict[str, Any]:
    """Sums as a checkpoint has them."""
    return {name: sums.numpy().tolist() for name, sums in totals.items()}


def note_new_data(job: TrainingJob, manifest: Manifest, last_stat: FileStat | None) -> FileStat | None:
    """Tells that the dataset was preprocessed anew; this training run goes on with what it began with.

    Args:
      job: where the dataset is.
      manifest: that it had.
      last_stat: what the file was at the last look, where that was the same manifest. A large one is not read again.

    Returns:
      `last_stat` of the next look.
    """
    try:
        try:
            current = storage.stat(manifest_path(job.output.path))
        except OSError:
            current = None
        if current is not None and current == last_stat:
            return last_stat
        fingerprint = find_fingerprint(job.output.path)
    except Unanswered:
        return last_stat
    if fingerprint != manifest.fingerprint:
        print(
            f"{job.output.path}: was preprocessed again while this training runs; it continues with the data "
            "that it began with, and a later start needs --restart to train on the new data",
            file=sys.stderr,
        )
        return None
    return current
