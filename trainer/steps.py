"""One step of training and one of evaluation, right under every strategy.

Each replica sums its windows' losses over the size of the global batch, and the
replicas' sums are added up: the loss and the gradients of the whole batch,
whatever the number of replicas.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from contract.job import Optimizer


def make_optimizer(section: Optimizer) -> keras.optimizers.Optimizer:
    """The optimizer that the job names; to be made and built inside the strategy's scope."""
    kinds = {
        "adam": keras.optimizers.Adam,
        "adamw": keras.optimizers.AdamW,
        "sgd": keras.optimizers.SGD,
        "rmsprop": keras.optimizers.RMSprop,
    }
    return kinds[section.name](section.learning_rate)


def window_losses(windows: tf.Tensor, reconstruction: tf.Tensor) -> tf.Tensor:
    """Mean squared error of each window, over time and features: `[batch]`."""
    return tf.reduce_mean(tf.square(reconstruction - windows), axis=[1, 2])


def make_train_step(
    strategy: tf.distribute.Strategy, model: keras.Model, optimizer: keras.optimizers.Optimizer, batch: int
) -> Callable[[Any, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """Returns step(windows, total) -> (loss, total + loss).

    `windows` is the distributed global batch, `[batch, time, features]`, and the
    total a float64 scalar, so that the loop need not wait for each step's loss.
    """

    def replica_step(windows: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = window_losses(windows, model(windows, training=True))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=batch)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def step(windows: Any, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        loss = strategy.reduce("SUM", strategy.run(replica_step, args=(windows,)), axis=None)
        return loss, total + tf.cast(loss, tf.float64)

    return step


def make_eval_step(strategy: tf.distribute.Strategy, model: keras.Model) -> Callable[[Any, tf.Tensor], tf.Tensor]:
    """Returns step(padded, total) -> total, float64 `[2]`: the sum of losses and the number of windows.

    `padded` is a distributed pair of windows `[batch, time, features]` and weights `[batch]`.
    """

    def replica_step(windows: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        losses = window_losses(windows, model(windows, training=False))
        sums = tf.stack([tf.reduce_sum(losses * weights), tf.reduce_sum(weights)])
        return tf.cast(sums, tf.float64)

    @tf.function
    def step(padded: Any, total: tf.Tensor) -> tf.Tensor:
        return total + strategy.reduce("SUM", strategy.run(replica_step, args=padded), axis=None)

    return step
