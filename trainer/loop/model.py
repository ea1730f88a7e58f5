"""The model of a training run, ready to be trained as the job says, and its steps."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.model import CustomModel
from beamfeed.contract.config.train import Train
from beamfeed.contract.dataset.batches import run_steps, windows_in
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer import models
from beamfeed.trainer.cluster.strategy import Cluster
from beamfeed.trainer.feed.distributed import Feed
from beamfeed.trainer.loop.optimizer import make_optimizer
from beamfeed.trainer.loop.steps import make_train_steps
from beamfeed.trainer.models.custom import CLASS
from beamfeed.trainer.models.own_training import check_made_again, check_training
from beamfeed.trainer.models.recurrence import quicken
from beamfeed.trainer.models.signature import Signature
from beamfeed.trainer.tasks.objective import Objective, Sums


class Learner(NamedTuple):
    """What a job trains, and how: `run` makes many steps in a call, see `make_train_steps`."""

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    feed: Feed
    run: Callable[[Any, tf.Tensor, Sums, tf.Tensor], tuple[Sums, tf.Tensor]]


def make_learner(
    job: TrainingJob, manifest: Manifest, cluster: Cluster, objective: Objective, iterators: list[Any] | None
) -> Learner:
    """Makes the job's model and its steps; of `iterators`, see `Feed`.

    Raises:
      UserError: see `make_model`.
    """
    train = job.train
    with cluster.strategy.scope():
        model = make_model(train, objective.signature)
        scaled = train.devices.precision == "mixed_float16"
        steps = run_steps(train, windows_in(manifest, "train"))
        optimizer = make_optimizer(train.optimizer, model.trainable_variables, scaled, steps)
    run = make_train_steps(
        cluster.strategy, model, objective, optimizer, train.feed.batch_size, train.optimizer.clip_norm,
        train.devices,
    )  # fmt: skip
    feed = Feed(job, manifest, cluster, objective.fields(), objective.preparation, iterators)
    return Learner(model, optimizer, feed, run)


def make_model(train: Train, signature: Signature) -> keras.Model:
    """Builds the model and settles what its layers compute in, and by which operations.

    Call it in the strategy's scope.

    Raises:
      UserError: see `models.build`, `check_training` and `check_made_again`.
    """
    with computing_in(train.devices.precision):
        model = models.build(train.model, signature, train.seed)
        if isinstance(train.model, CustomModel):
            check_training(model, CLASS, train.model.class_, signature, train.devices)
            again = models.build(train.model.bare, signature, train.seed)
            check_made_again(model, again, CLASS, train.model.class_, signature.noise(2))
    if train.devices.xla:
        for layer in model._flatten_layers():
            if getattr(layer, "use_cudnn", False):  # kernels that XLA cannot compile
                layer.use_cudnn = False
    elif not isinstance(train.model, CustomModel):
        # A user's own model may differentiate twice, which the quick layers cannot.
        quicken(model)
    return model


@contextmanager
def computing_in(precision: str) -> Iterator[None]:
    """Keras makes layers that compute in this precision; their weights stay float32."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
