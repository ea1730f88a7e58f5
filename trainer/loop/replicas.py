"""What keeps the copies of a model on several devices one model, and their random numbers apart.

Weights are alike on all devices, as they get the same gradients. Keras leaves two kinds of variables to each device:
moving statistics, as those of BatchNormalization, follow the device's own part of the batch and drift apart; and the
seeds of random layers are the same everywhere, so that Dropout drops the same places of each part.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from beamfeed.trainer.models.own_training import SEED_STATE

APART = 1_000_003  # from the seed of one replica to that of the next


def statistics_of(model: keras.Model) -> list[Any]:
    """The variables that layers change while they are called, of float types: moving means and the like.

    Not the weights of layers that are frozen, which may be large: those were made to be trained.
    """
    return [
        variable
        for variable in model.non_trainable_variables
        if variable.dtype.startswith(("float", "bfloat")) and not variable.value.trainable
    ]


def make_one(statistics: Sequence[Any], sums: Sequence[tf.Tensor], replicas: int) -> None:
    """Gives the variables of this replica the mean over all of them, from the sums of their values over all replicas.

    For a moving mean that is the moving mean of all.
    """
    for variable, total in zip(statistics, sums, strict=True):
        variable.assign(tf.cast(total / replicas, variable.dtype))


def spread_seeds(strategy: tf.distribute.Strategy, model: keras.Model) -> None:
    """Moves the seeds of random layers apart on all replicas but the first, whose are those of a checkpoint.

    To be called once where all replicas have the same: after the model was made or restored.
    """
    seeds = [variable for variable in model.non_trainable_variables if variable.name == SEED_STATE]
    if strategy.num_replicas_in_sync == 1 or not seeds:
        return

    def of_replica() -> None:
        replica = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.int64)
        for seed in seeds:
            seed.assign(seed.value + tf.cast(tf.stack([APART * replica, tf.zeros_like(replica)]), seed.dtype))

    tf.function(lambda: strategy.run(of_replica), autograph=False)()
