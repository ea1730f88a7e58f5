"""The training steps of a job, for tools that run some of them and keep nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from beamfeed.contract.cluster.worker_info import WorkerInfo
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer.cluster.strategy import Cluster, connect
from beamfeed.trainer.feed.distributed import Feed
from beamfeed.trainer.feed.sharding import lanes_of
from beamfeed.trainer.loop.model import make_model
from beamfeed.trainer.loop.optimizer import make_optimizer
from beamfeed.trainer.loop.steps import make_train_steps, zero_train
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


def make_job_steps(job: TrainingJob, manifest: Manifest, kept: list[Any] | None = None) -> JobSteps:
    """Makes the job's model and its steps.

    Args:
      job: `output.path` is where the dataset is.
      manifest: of that dataset.
      kept: see `Feed`.
    """
    cluster = connect(WorkerInfo())
    train = job.train
    objective = Objective.of(train, manifest)
    with cluster.strategy.scope():
        model = make_model(train, objective.signature)
        if train.init is not None:
            warm_start(model, train.init)
        scaled = train.devices.precision == "mixed_float16"
        optimizer = make_optimizer(train.optimizer, model.trainable_variables, scaled)
    run = make_train_steps(
        cluster.strategy, model, objective, optimizer, train.feed.batch_size, train.optimizer.clip_norm,
        train.devices.xla, train.devices.accumulate,
    )  # fmt: skip
    batches = Feed(job, manifest, cluster, objective.fields(), objective.preparation, kept).train(
        epoch=0, step=0, lanes=lanes_of(train.feed.lanes, workers=1)
    )
    return JobSteps(cluster, optimizer, batches, zero_train(objective), run)
