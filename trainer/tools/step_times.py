"""How long a step of a training run takes, and how much of that is waiting for its batch: the trainer's own steps."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer.loop.steps import WAITED
from beamfeed.trainer.tools.job_steps import make_job_steps

LEAST_STEPS = 16  # steps in a call


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


def measure_steps(job: TrainingJob, manifest: Manifest, seconds: float) -> StepTimes:
    """Trains the job's model for a few seconds, on this machine's devices, and keeps nothing.

    It runs the trainer's own steps, many in a call, which take the time of waiting.

    Args:
      job: `output.path` is where the dataset is.
      manifest: of that dataset.
      seconds: that each of the two measurements takes, after a quarter of it to warm up.
    """
    trained = make_job_steps(job, manifest)
    strategy = trained.cluster.strategy
    batch = next(trained.batches)
    first = tf.data.Dataset.from_tensors(strategy.experimental_local_results(batch)[0]).repeat().prefetch(2)
    same = iter(strategy.distribute_datasets_from_function(lambda _: first))

    def run(batches: Any, steps: int) -> float:
        return float(trained.run(batches, steps)[WAITED])

    resident, asking = _run_steps(run, same, seconds)
    fed, waiting = _run_steps(run, trained.batches, seconds)
    return StepTimes(resident - asking, fed, waiting, asking, strategy.num_replicas_in_sync)


def _run_steps(run: Callable[..., float], batches: Any, seconds: float) -> tuple[float, float]:
    """Warms up and measures: the mean seconds of a step with taking its batch, and of taking it."""
    steps = LEAST_STEPS
    run(batches, steps)  # is traced
    began = time.perf_counter()
    while time.perf_counter() - began < seconds / 4:
        run(batches, steps)
    count, waited, began = 0, 0.0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        count, waited = count + steps, waited + run(batches, steps)
    return spent / count, waited / count
