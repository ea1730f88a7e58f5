"""A training's steps with and without the feed: what share of one is spent waiting for input."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from contract.job import Job
from contract.manifest import Manifest
from trainer import models
from trainer.feed import open_feed
from trainer.steps import make_optimizer, make_train_step
from trainer.strategy import Place, connect

LEAST = 5  # steps, however long they take


@dataclass(frozen=True)
class StepTimes:
    """Times of a step in seconds.

    Attributes:
      resident: of a step on one batch that is there already: the model alone.
      fed: of a step that takes the next batch first.
      waiting: of that, until the batch has come.
      asking: of that, what asking takes where the batch is there already: the call, and nothing to wait for.
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

    Each step is waited for to its end, so on a GPU nothing of the waiting is
    hidden behind the step before: the share is at most what a training has.

    Args:
      job: `output.path` is where the data set is.
      manifest: of that data set.
      seconds: that each of the two measurements takes, after a quarter of it to warm up.
    """
    cluster = connect(Place())
    with cluster.strategy.scope():
        model = models.build(job.train.model, manifest.windows.length, len(manifest.features), job.train.seed)
        optimizer = make_optimizer(job.train.optimizer)
        optimizer.build(model.trainable_variables)
    train_step = make_train_step(cluster.strategy, model, optimizer, job.train.feed.batch)
    total = tf.zeros([], tf.float64)

    def step(windows: Any) -> None:
        loss, _ = train_step(windows, total)
        loss.numpy()

    with open_feed(job, manifest, cluster) as feed:
        batches = feed.train(epoch=0)
        batch = next(batches)
        first = tf.data.Dataset.from_tensors(cluster.strategy.experimental_local_results(batch)[0]).repeat().prefetch(2)
        same = iter(cluster.strategy.distribute_datasets_from_function(lambda _: first))
        resident, asking = _run(lambda: next(same), step, seconds)
        fed, waiting = _run(lambda: next(batches), step, seconds)
    return StepTimes(resident - asking, fed, waiting, asking, cluster.strategy.num_replicas_in_sync)


def _run(take: Callable[[], Any], step: Callable[[Any], None], seconds: float) -> tuple[float, float]:
    """Warms up and measures: the mean seconds of a step with taking its batch, and of taking it."""
    for _ in _clock(seconds / 4):
        step(take())
    count, waited, began = 0, 0.0, time.perf_counter()
    for _ in _clock(seconds):
        asked = time.perf_counter()
        batch = take()
        waited += time.perf_counter() - asked
        step(batch)
        count += 1
    return (time.perf_counter() - began) / count, waited / count


def _clock(seconds: float) -> Iterator[None]:
    """Yields until the time is over, at least LEAST times."""
    began, count = time.perf_counter(), 0
    while count < LEAST or time.perf_counter() - began < seconds:
        yield
        count += 1
