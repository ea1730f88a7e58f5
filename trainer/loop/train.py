"""The distributed training loop.

An explicit loop: Keras 3's `fit` does not work under MultiWorkerMirroredStrategy.
"""

import math
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from beamfeed.contract.config.duration import seconds_of
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.fingerprint import run_fingerprint
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.manifest import Manifest, read_manifest
from beamfeed.contract.dataset.result import TrainResult
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.trainer import models
from beamfeed.trainer.cluster.strategy import Cluster
from beamfeed.trainer.cluster.watchdog import Preempted, Watchdog
from beamfeed.trainer.export import saved_model as export
from beamfeed.trainer.feed.distributed import Feed
from beamfeed.trainer.feed.read_errors import explained
from beamfeed.trainer.feed.sharding import check_split, train_steps, windows_in
from beamfeed.trainer.loop import plots as report
from beamfeed.trainer.loop.checkpoint import Checkpoints, find_checkpoints, restore, state_of
from beamfeed.trainer.loop.metrics import Epoch, History
from beamfeed.trainer.loop.optimizer import learning_rate, make_optimizer
from beamfeed.trainer.loop.state import Progress, is_over, stops_early
from beamfeed.trainer.loop.steps import Totals, make_eval_steps, make_train_steps
from beamfeed.trainer.loop.workdir import claim

CALL_SECONDS = 0.5  # about as long as a call of many steps takes: what is watched, and SIGTERM, wait for its end
MOST_STEPS = 1024  # in a call


class Training:
    """A training under way: the model, its state and all that serves them. Every worker makes one.

    Args:
      job: the job; `output.path` is where the data set is.
      manifest: the data set's manifest.
      cluster: as `beamfeed.trainer.cluster.strategy.connect` returns it.
      watchdog: is told that the training goes on.
    """

    def __init__(self, job: Job, manifest: Manifest, cluster: Cluster, watchdog: Watchdog):
        self.job, self.manifest, self.cluster, self.watchdog = job, manifest, cluster, watchdog
        self.names = RunLayout(job.train.workdir)
        train = job.train
        check_split(manifest, "train", train.feed.batch, whole=True)
        with cluster.strategy.scope(), computing_in(train.devices.precision):
            self.model = models.build(train.model, manifest.windows.length, len(manifest.features), train.seed)
            self.optimizer = make_optimizer(train.optimizer, scale_loss=train.devices.precision == "mixed_float16")
            self.optimizer.build(self.model.trainable_variables)
        self.steps = train_steps(windows_in(manifest, "train"), train.feed.batch)  # of an epoch
        self.feed = Feed(job, manifest, cluster)
        self._train = make_train_steps(
            cluster.strategy, self.model, self.optimizer, train.feed.batch, train.optimizer.clip_norm, train.devices.xla
        )
        self._eval = make_eval_steps(cluster.strategy, self.model)
        self._checkpoints = Checkpoints(self.names.checkpoints, train.checkpoint.keep)
        self._best = Checkpoints(self.names.best, 2)  # the one before is still named by the last checkpoint
        self._sample: np.ndarray | None = None  # for the picture
        self._at_a_time, self._spent, self._saved = 1, 0.0, time.monotonic()

    def restore(self) -> Progress:
        """Puts the last checkpoint into model and optimizer; the same on every worker.

        Raises:
          UserError: if the workers find different ones.
        """
        step = max(find_checkpoints(self.names.checkpoints), default=0)
        if not self.cluster.all_same(step % 2**24):
            raise UserError(
                f"{self.names.workdir}: the workers do not find the same checkpoint; is this a shared folder?"
            )
        if not step:
            return Progress()
        return restore(self.names.checkpoints, step, state_of(self.model, self.optimizer))

    def run_epoch(self, batches: Any, progress: Progress, history: History) -> Progress:
        """Runs the steps that are left of an epoch.

        Raises:
          JobFailed: if the loss is not finite, on every worker at the same step.
          Preempted: if a worker was asked to stop.
        """
        totals = Totals(*(tf.constant(value, tf.float64) for value in (progress.loss, progress.norm, progress.waited)))
        with history.bar(progress, self.job.train.epochs, self.steps) as bar:
            while progress.done < self.steps:
                before, began = progress, time.perf_counter()
                steps = min(self._at_a_time, self.steps - progress.done, self._until_checkpoint(progress))
                told = tf.constant([float(self.watchdog.stop_asked), self._spent])
                totals, heard = self._train(batches, tf.constant(steps), totals, told)
                stop, spent = (float(value) / self.cluster.strategy.num_replicas_in_sync for value in heard.numpy())
                self._spent = time.perf_counter() - began
                progress = progress.train(steps, totals.floats(), self._spent)
                self.watchdog.alive("training")
                if not math.isfinite(progress.loss):
                    raise JobFailed(
                        f"the loss is {progress.loss} in epoch {progress.epoch + 1}, by step {progress.step}; "
                        "try a lower train.optimizer.learning_rate, and look for extreme values in the data"
                    )
                history.step(before, progress, self.job.train.feed.batch, self.optimizer, bar)
                self._pace(spent)
                if stop:
                    self.save(progress)
                    self._checkpoints.wait()
                    raise Preempted
                if progress.done < self.steps and self._is_due(progress):
                    self.save(progress)
        return progress

    def _pace(self, spent: float) -> None:
        """More steps in a call, or fewer; `spent` is the mean of all workers, so all decide alike."""
        if 0 < spent < CALL_SECONDS / 2:
            self._at_a_time = min(2 * self._at_a_time, MOST_STEPS)
        elif spent > 2 * CALL_SECONDS:
            self._at_a_time = max(1, self._at_a_time // 2)

    def _until_checkpoint(self, progress: Progress) -> int:
        every = self.job.train.checkpoint.every_steps
        return MOST_STEPS if every is None else every - progress.step % every

    def _is_due(self, progress: Progress) -> bool:
        checkpoint = self.job.train.checkpoint
        by_steps = checkpoint.every_steps is not None and progress.step % checkpoint.every_steps == 0
        return by_steps or time.monotonic() - self._saved > seconds_of(checkpoint.every)

    def save(self, progress: Progress) -> None:
        """Writes a checkpoint; in the background, and the chief alone."""
        self._saved = time.monotonic()
        if self.cluster.place.is_chief:
            self._checkpoints.save(progress, state_of(self.model, self.optimizer))

    def save_best(self, progress: Progress) -> None:
        """Keeps the weights; before the checkpoint that says so, so that none can be ahead of them."""
        if self.cluster.place.is_chief:
            self._best.save(progress, state_of(self.model))
            self._best.wait()

    def restore_best(self, progress: Progress) -> None:
        """Puts the best weights into the model of every worker; a whole epoch must have been run."""
        self._checkpoints.wait()
        self.cluster.barrier()
        restore(self.names.best, progress.best_step, state_of(self.model))

    def evaluate(self, split: Any) -> float | None:
        """The mean loss of a split's windows, each counted once; None if it is empty."""
        self.watchdog.alive("evaluation")
        return self.feed.evaluate(self._eval, split, self._at_a_time, lambda: self.watchdog.alive("evaluation"))

    def draw(self) -> bytes:
        """A picture of a window and of what the model makes of it, PNG."""
        if self._sample is None:
            self._sample = export.sample_window(self.job, self.manifest)
        reconstruction = self.model(self._sample[None], training=False).numpy()[0]
        return report.draw_window(self._sample, reconstruction, self.manifest)

    def close(self) -> None:
        self._checkpoints.close()
        self._best.close()


def train_and_evaluate(
    job: Job, manifest: Manifest, cluster: Cluster, watchdog: Watchdog | None = None, restart: bool = False
) -> TrainResult:
    """Trains the job's model on a data set, from the last checkpoint on, and exports the best weights.

    Every worker calls this, and must not end before the chief has: it would take the
    chief with it. After each epoch all windows of the eval split are
    evaluated once and a checkpoint is written; the weights with the lowest eval
    loss (train loss, where there is no eval split) are evaluated on the test
    split and exported.

    Args:
      job: the job; `output.path` is where the data set is.
      manifest: the data set's manifest.
      cluster: as `beamfeed.trainer.cluster.strategy.connect` returns it.
      watchdog: is told that the training goes on, and says whether it should stop.
      restart: whether what the working folder holds is removed first.

    Returns:
      The result, which the chief has written last; for the others it may not be written yet.

    Raises:
      UserError: if the data set cannot be read or has too few windows.
      JobFailed: if the loss is not finite.
      Preempted: if a worker was asked to stop.
    """
    train = job.train
    watchdog = watchdog or Watchdog()
    with ExitStack() as stack:
        stack.enter_context(explained(manifest, job.output.path))
        training = stack.enter_context(closing(Training(job, manifest, cluster, watchdog)))
        if cluster.place.is_chief:
            claim(job, manifest, restart)  # not before the model could be made of the job
        cluster.barrier()
        watchdog.alive("getting ready")
        progress = training.restore()
        history = History(training.names, progress, cluster.place.is_chief)
        stack.callback(history.close)
        batches = None
        while not is_over(progress.epoch, progress.stale, train):
            if batches is None:
                batches = training.feed.train(progress.epoch, progress.done)
            progress = training.run_epoch(batches, progress, history)
            began = time.perf_counter()
            eval_loss = training.evaluate("eval")
            line = describe_epoch(progress, job, training, eval_loss, time.perf_counter() - began)
            watched = line["loss"] if eval_loss is None else eval_loss
            progress = progress.end_epoch(watched, train.early_stopping.min_delta if train.early_stopping else 0.0)
            if progress.best_step == progress.step:
                training.save_best(progress)
            history.add(line, train.epochs)
            if history.picture_is_due():
                history.picture(progress.step, training.draw())
            if cluster.place.is_chief:
                note_new_data(job, manifest)
            training.save(progress)  # last: what is newer than it is dropped on resuming

        training.restore_best(progress)
        result = TrainResult(
            fingerprint=run_fingerprint(job, manifest.fingerprint),
            epochs=progress.epoch,
            stale=progress.stale,
            stopped_early=stops_early(progress.stale, train.early_stopping),
            first_loss=history.epochs[0]["loss"] if history.epochs else None,
            last_loss=history.epochs[-1]["loss"] if history.epochs else None,
            best_loss=progress.best,
            test_loss=training.evaluate("test"),
            seconds=sum(epoch["seconds"] for epoch in history.epochs),
            workers=cluster.place.workers,
        )
        if cluster.place.is_chief:
            watchdog.alone("export")
            export.export_run(job, manifest, training.model.get_weights(), history.epochs, result)
    return result


@contextmanager
def computing_in(precision: str) -> Iterator[None]:
    """Keras makes layers that compute in this precision; their weights stay float32."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def describe_epoch(
    progress: Progress, job: Job, training: Training, eval_loss: float | None, evaluated: float
) -> Epoch:
    """The line of an epoch whose steps are all run."""
    return {
        "epoch": progress.epoch + 1,
        "step": progress.step,
        "loss": progress.loss / progress.done,
        "eval_loss": eval_loss,
        "learning_rate": learning_rate(training.optimizer),
        "gradient_norm": progress.norm / progress.done,
        "seconds": progress.seconds + evaluated,
        "windows_per_second": progress.done * job.train.feed.batch / progress.seconds,
        "waiting": progress.waited / progress.seconds,
    }


def note_new_data(job: Job, manifest: Manifest) -> None:
    """Tells that the data set was prepared anew; this training goes on with what it began with."""
    try:
        found = read_manifest(job.output.path)
    except (OSError, UserError):
        found = None
    if found is None or found.fingerprint != manifest.fingerprint:
        print(
            f"{job.output.path}: was prepared anew while this training runs; it goes on with the data it began with, "
            "and cannot be started again on the new ones without --restart",
            file=sys.stderr,
        )
