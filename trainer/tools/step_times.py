"""How long a step of a training run takes, and how much of that is waiting for its batch: the trainer's own steps."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer.loop.steps import WAITED
from beamfeed.trainer.tools.job_steps import make_job_steps
from beamfeed.trainer.tools.steady import ROUNDS, until_steady

LEAST_STEPS = 16  # steps in a call


@dataclass(frozen=True)
class StepTimes:
    """Times of a step in seconds.

    Attributes:
      resident: of a step on one batch that is there already: the model alone.
      fed: of a step that takes the next batch first.
      waiting: of that, until the batch has come.
      asking: the same where the batch is there already: the call, and nothing to wait for.
      spread: of `resident` or of `fed`, the larger one, see `steady.Figure`.
    """

    resident: float
    fed: float
    waiting: float
    asking: float
    devices: int
    spread: float = 0.0

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
      seconds: that each of the two measurements takes, after a quarter of it to warm up; three times as long where
        they are not steady.
    """
    trained = make_job_steps(job, manifest)
    strategy = trained.cluster.strategy
    batch = next(trained.batches)
    first = tf.data.Dataset.from_tensors(strategy.experimental_local_results(batch)[0]).repeat().prefetch(2)
    same = iter(strategy.distribute_datasets_from_function(lambda _: first))

    def run(batches: Any, steps: int) -> float:
        return float(trained.run(batches, steps)[WAITED])

    for batches in (same, trained.batches):
        _run_steps(run, batches, seconds / 4)  # is traced, and gets warm

    def measure_round() -> list[float]:
        times = [_run_steps(run, batches, seconds / ROUNDS) for batches in (same, trained.batches)]
        waited.append([of_waiting for _, of_waiting in times])
        return [whole for whole, _ in times]

    waited: list[list[float]] = []
    alone, fed = until_steady(measure_round)
    asking, waiting = (statistics.median(one) for one in zip(*waited[-ROUNDS:], strict=True))
    spread = max(alone.spread, fed.spread)
    return StepTimes(alone.value - asking, fed.value, waiting, asking, strategy.num_replicas_in_sync, spread)


def _run_steps(run: Callable[..., float], batches: Any, seconds: float) -> tuple[float, float]:
    """The mean seconds of a step with taking its batch, and of taking it, in so many seconds."""
    steps = LEAST_STEPS
    count, waited, began = 0, 0.0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        count, waited = count + steps, waited + run(batches, steps)
    return spent / count, waited / count
