"""A training's steps with and without the feed: what share of one is spent waiting for input."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer import models
from beamfeed.trainer.cluster.strategy import Place, connect
from beamfeed.trainer.feed.distributed import Feed
from beamfeed.trainer.loop.optimizer import make_optimizer
from beamfeed.trainer.loop.steps import Totals, make_train_steps

LEAST = 16  # steps in a call


@dataclass(frozen=True)
class StepTimes:
    """Times of a step in seconds.

    Attributes:
      resident: of a step on one batch that is there already: the model alone.
      fed: of a step that takes the next batch first.
      waiting: of that, until the batch has come.
      asking: the same where the batch is there already: the call, and nothing to wait for.
    """

    resident: float
    fed: float
    waiting: float
    asking: float
    devices: int

    @property
    def share_waiting(self) -> float:
        """From 0 to 1."""
        return self.waiting / self.fed


def measure_steps(job: Job, manifest: Manifest, seconds: float) -> StepTimes:
    """Trains the job's model for a few seconds, on this machine's devices, and keeps nothing.

    It runs the trainer's own steps, many in a call, which take the time of waiting.

    Args:
      job: `output.path` is where the data set is.
      manifest: of that data set.
      seconds: that each of the two measurements takes, after a quarter of it to warm up.
    """
    cluster = connect(Place())
    train = job.train
    with cluster.strategy.scope():
        model = models.build(train.model, manifest.windows.length, len(manifest.features), train.seed)
        optimizer = make_optimizer(train.optimizer)
        optimizer.build(model.trainable_variables)
    run = make_train_steps(cluster.strategy, model, optimizer, train.feed.batch, train.optimizer.clip_norm)
    batches = Feed(job, manifest, cluster).train(epoch=0)
    batch = next(batches)
    first = tf.data.Dataset.from_tensors(cluster.strategy.experimental_local_results(batch)[0]).repeat().prefetch(2)
    same = iter(cluster.strategy.distribute_datasets_from_function(lambda _: first))
    resident, asking = _run(run, same, seconds)
    fed, waiting = _run(run, batches, seconds)
    return StepTimes(resident - asking, fed, waiting, asking, cluster.strategy.num_replicas_in_sync)


def _run(run: Callable[..., Any], batches: Any, seconds: float) -> tuple[float, float]:
    """Warms up and measures: the mean seconds of a step with taking its batch, and of taking it."""
    told = tf.zeros([1])
    steps = LEAST
    run(batches, tf.constant(steps), Totals.zero(), told)[1].numpy()  # is traced
    began = time.perf_counter()
    while time.perf_counter() - began < seconds / 4:
        run(batches, tf.constant(steps), Totals.zero(), told)[1].numpy()
    count, waited, began = 0, 0.0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        totals, heard = run(batches, tf.constant(steps), Totals.zero(), told)
        heard.numpy()
        count, waited = count + steps, waited + float(totals.waited)
    return spent / count, waited / count
