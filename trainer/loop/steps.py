"""The steps of training and of evaluation, many in one call, right under every strategy.

Each replica sums its windows' losses over the size of the global batch, and the
replicas' sums are added up: the loss and the gradients of the whole batch,
whatever the number of replicas. What is summed goes in one vector, so a step has
one exchange between workers, and a call has no Python but at its ends.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

PACK_BYTES = 64 << 20  # of gradients that are copied into one vector; larger ones go as they are


class Totals(NamedTuple):
    """Sums over the steps since the epoch began, float64 scalars; equal on all workers but for the last."""

    loss: Any  # of the mean losses of the batches
    norm: Any  # of the gradients' norms, before clipping
    waited: Any  # seconds until batches came, on this worker

    @classmethod
    def zero(cls) -> "Totals":
        """At the beginning of an epoch."""
        return cls(*(tf.zeros([], tf.float64) for _ in cls._fields))

    def floats(self) -> tuple[float, float, float]:
        """As numbers of Python."""
        return float(self.loss), float(self.norm), float(self.waited)


def window_losses(windows: tf.Tensor, reconstruction: tf.Tensor) -> tf.Tensor:
    """Mean squared error of each window, over time and features: float32 `[batch]`."""
    return tf.reduce_mean(tf.square(tf.cast(reconstruction, tf.float32) - windows), axis=[1, 2])


def make_train_steps(
    strategy: tf.distribute.Strategy,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    batch_size: int,
    clip_norm: float | None = None,
    xla: bool = False,
) -> Callable[[Any, tf.Tensor, Totals, tf.Tensor], tuple[Totals, tf.Tensor]]:
    """Returns run(batches, steps, totals, sent) -> (totals, received).

    Args:
      strategy: under which the model and the optimizer were made.
      model: from windows `[batch, time, features]` to the same shape.
      optimizer: applies gradients as they are.
      batch_size: windows in a global batch.
      clip_norm: scales the gradients of a step down to this norm.
      xla: compiles each step.

    Returns:
      The function `run`. Its arguments:

      - `batches`: distributed iterator of global batches, `[batch, time, features]`.
      - `steps`: int32 scalar, how many to run.
      - `totals`: of the steps before.
      - `sent`: float32 `[n]`, what this worker has to say. `received` is the sum of
        what all workers sent. It travels with the gradients of the last step.
    """
    scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)

    @tf.function(jit_compile=xla)
    def differentiate(windows: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            losses = window_losses(windows, model(windows, training=True))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=batch_size)
            target = optimizer.scale_loss(loss) if scaled else loss
        gradients = tape.gradient(target, model.trainable_variables, unconnected_gradients="zero")
        return loss, gradients

    def replica_step(windows: tf.Tensor, sent: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        loss, gradients = differentiate(windows)
        # Said again: not every operation lets the shapes of its gradients be known.
        gradients = [tf.reshape(g, v.shape) for g, v in zip(gradients, model.trainable_variables, strict=True)]
        loss, sent, *gradients = all_reduce_sum([loss, sent, *gradients])
        norm = tf.linalg.global_norm(gradients)
        if scaled:
            norm = norm / optimizer.dynamic_scale
        if clip_norm is not None:
            factor = tf.minimum(1.0, clip_norm / tf.maximum(norm, 1e-12))
            gradients = [gradient * tf.cast(factor, gradient.dtype) for gradient in gradients]
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss, norm, sent

    @tf.function
    def run(batches: Any, steps: tf.Tensor, totals: Totals, sent: tf.Tensor) -> tuple[Totals, tf.Tensor]:
        received = tf.zeros_like(sent)
        for _ in tf.range(steps):
            asked = tf.timestamp()
            windows = next(batches)
            waited = tf.timestamp() - asked
            results = strategy.run(replica_step, args=(windows, sent))
            loss, norm, received = (strategy.experimental_local_results(part)[0] for part in results)
            totals = Totals(
                totals.loss + tf.cast(loss, tf.float64),
                totals.norm + tf.cast(norm, tf.float64),
                totals.waited + waited,
            )
        return totals, received

    return run


def all_reduce_sum(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The sums of float tensors of known shapes over all replicas, in one exchange if they are not too large."""
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return list(tensors)
    sizes = [tensor.shape.num_elements() for tensor in tensors]
    if 4 * sum(sizes) > PACK_BYTES or len({tensor.dtype for tensor in tensors}) > 1:
        return context.all_reduce("SUM", list(tensors))
    packed = context.all_reduce("SUM", tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0))
    return [tf.reshape(part, tensor.shape) for part, tensor in zip(tf.split(packed, sizes), tensors, strict=True)]


def make_eval_steps(
    strategy: tf.distribute.Strategy, model: keras.Model
) -> Callable[[Any, tf.Tensor, tf.Tensor], tf.Tensor]:
    """Returns run(batches, steps, total) -> total, float64 `[2]`: the sum of losses and the number of windows.

    `batches` is a distributed iterator of windows `[batch, time, features]` and weights `[batch]`.
    """

    def replica_step(windows: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        losses = window_losses(windows, model(windows, training=False))
        sums = tf.stack([tf.reduce_sum(losses * weights), tf.reduce_sum(weights)])
        return tf.cast(sums, tf.float64)

    @tf.function
    def run(batches: Any, steps: tf.Tensor, total: tf.Tensor) -> tf.Tensor:
        for _ in tf.range(steps):
            total += strategy.reduce("SUM", strategy.run(replica_step, args=next(batches)), axis=None)
        return total

    return run
