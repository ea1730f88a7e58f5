"""The distributed training loop.

An explicit loop: Keras 3's `fit` does not work under MultiWorkerMirroredStrategy.
"""

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import tensorflow as tf

from contract.errors import JobFailed, UserError
from contract.fingerprint import run_fingerprint
from contract.job import Job
from contract.layout import RunLayout
from contract.manifest import Manifest
from contract.result import TrainResult
from trainer import export, models
from trainer.checkpoint import Checkpoints
from trainer.damage import explained
from trainer.feed import open_feed
from trainer.history import History
from trainer.progress import Progress, is_over, stops_early
from trainer.shares import check_split, train_steps, windows_in
from trainer.steps import make_eval_step, make_optimizer, make_train_step
from trainer.strategy import Cluster

LOOK_EVERY = 50  # steps between looks at the loss: each makes the loop wait for the device


def train_and_evaluate(job: Job, manifest: Manifest, cluster: Cluster) -> TrainResult:
    """Trains the job's model on a data set, from the last checkpoint on, and exports the best weights.

    Every worker calls this. After each epoch all windows of the eval split are
    evaluated once and a checkpoint is written; the weights with the lowest eval
    loss (train loss, where there is no eval split) are evaluated on the test
    split and exported.

    Args:
      job: the job; `output.path` is where the data set is.
      manifest: the data set's manifest.
      cluster: as `trainer.strategy.connect` returns it.

    Returns:
      The result, which the chief has written last.

    Raises:
      UserError: if the data set cannot be read or has too few windows.
      JobFailed: if the loss is not finite.
    """
    batch, train = job.train.feed.batch, job.train
    check_split(manifest, "train", batch, whole=True)
    names = RunLayout(train.workdir)
    with cluster.strategy.scope():
        model = models.build(train.model, manifest.windows.length, len(manifest.features), train.seed)
        optimizer = make_optimizer(train.optimizer)
        optimizer.build(model.trainable_variables)
    steps = train_steps(windows_in(manifest, "train"), batch)
    train_step = make_train_step(cluster.strategy, model, optimizer, batch)
    eval_step = make_eval_step(cluster.strategy, model)

    with ExitStack() as stack:
        stack.enter_context(explained(manifest, job.output.path))
        checkpoints = stack.enter_context(Checkpoints(names, model, optimizer, cluster.place.is_chief))
        feed = stack.enter_context(open_feed(job, manifest, cluster))
        progress = checkpoints.restore()
        if not cluster.all_same(progress.epoch):
            raise UserError(f"{names.workdir}: the workers do not find the same checkpoint; is this a shared folder?")
        history = History(names, progress.epoch, cluster.place.is_chief)
        stack.callback(history.close)

        train_batches = feed.train(progress.epoch)
        while not is_over(progress.epoch, progress.stale, train):
            began = time.perf_counter()
            with history.bar(progress.epoch + 1, train.epochs, steps) as bar:
                loss = run_epoch(train_step, train_batches, steps, batch, progress, bar)
            trained = time.perf_counter()
            eval_loss = feed.evaluate(eval_step, "eval")
            watched = loss if eval_loss is None else eval_loss
            is_best = watched < progress.best
            min_delta = train.early_stopping.min_delta if train.early_stopping else 0.0
            progress = progress.advance(steps, watched, min_delta)
            history.add(
                {
                    "epoch": progress.epoch,
                    "step": progress.step,
                    "loss": loss,
                    "eval_loss": eval_loss,
                    "seconds": time.perf_counter() - began,
                    "windows_per_second": steps * batch / (trained - began),
                },
                train.epochs,
            )
            checkpoints.save(progress, is_best)  # last: what is newer than it is dropped on resuming

        cluster.barrier()  # until the chief has written the best checkpoint
        checkpoints.restore_best()
        result = TrainResult(
            fingerprint=run_fingerprint(job, manifest.fingerprint),
            epochs=progress.epoch,
            stale=progress.stale,
            stopped_early=stops_early(progress.stale, train.early_stopping),
            first_loss=history.epochs[0]["loss"] if history.epochs else None,
            last_loss=history.epochs[-1]["loss"] if history.epochs else None,
            best_loss=progress.best,
            test_loss=feed.evaluate(eval_step, "test"),
            seconds=sum(epoch["seconds"] for epoch in history.epochs),
            workers=cluster.place.workers,
        )
        if cluster.place.is_chief:
            export.export_run(job, manifest, model.get_weights(), history.epochs, result)
        cluster.barrier()  # a worker that left would take the chief with it
    return result


def run_epoch(train_step: Any, batches: Iterator[Any], steps: int, batch: int, progress: Progress, bar: Any) -> float:
    """Runs `steps` steps; returns their mean loss.

    Raises:
      JobFailed: if the loss is not finite, on every worker at the same step.
    """
    total = tf.zeros([], tf.float64)
    for step in range(1, steps + 1):
        loss, total = train_step(next(batches), total)
        if step % LOOK_EVERY == 0 or step == steps:
            value = float(loss)
            if not math.isfinite(value) or not math.isfinite(float(total)):
                raise JobFailed(
                    f"the loss is {value} in epoch {progress.epoch + 1}, by step {progress.step + step}; "
                    "try a lower train.optimizer.learning_rate, and look for extreme values in the data"
                )
            bar.set_postfix_str(f"loss {value:.5f}, {_rate(bar) * batch:,.0f} windows/s", refresh=False)
        bar.update()
    return float(total) / steps


def _rate(bar: Any) -> float:
    return bar.format_dict.get("rate") or 0.0
