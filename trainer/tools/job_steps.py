"""The training steps of a job, for tools that run some of them and keep nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from beamfeed.contract.cluster.worker_info import WorkerInfo
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer.cluster.strategy import Cluster, Together, connect
from beamfeed.trainer.cluster.watchdog import Watchdog
from beamfeed.trainer.feed.sharding import lanes_of
from beamfeed.trainer.loop.first_weights import fit_first_weights
from beamfeed.trainer.loop.model import make_learner
from beamfeed.trainer.loop.steps import zero_train
from beamfeed.trainer.loop.warm_start import warm_start
from beamfeed.trainer.tasks.objective import Objective, Sums


@dataclass(frozen=True)
class JobSteps:
    """The trainer's own steps, on this machine's devices.

    Attributes:
      cluster: this process.
      optimizer: with the weights as they begin.
      batches: shuffled training batches without end.
      zero: the sums over no step.
    """

    cluster: Cluster
    optimizer: keras.optimizers.Optimizer
    batches: Any
    zero: Sums
    _run: Callable[..., tuple[Sums, tf.Tensor]]

    def run(self, batches: Any, steps: int) -> Sums:
        """Runs so many steps to their end; the sums over them, see `zero_train`."""
        totals, received = self._run(batches, tf.constant(steps), self.zero, tf.zeros([1]))
        received.numpy()
        return totals


def make_job_steps(job: TrainingJob, manifest: Manifest, iterators: list[Any] | None = None) -> JobSteps:
    """Makes the job's model and its steps; see `make_learner`."""
    cluster, objective = connect(WorkerInfo()), Objective.of(job.train, manifest)
    learner = make_learner(job, manifest, cluster, objective, iterators)
    fit_first_weights(job, manifest, objective, learner.model, Together(cluster, Watchdog()))
    if job.train.init is not None:
        warm_start(learner.model, job.train.init)
    batches = learner.feed.train(epoch=0, step=0, lanes=lanes_of(job.train.feed.lanes, workers=1))
    return JobSteps(cluster, learner.optimizer, batches, zero_train(objective), learner.run)
