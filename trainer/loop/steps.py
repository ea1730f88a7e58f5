"""The steps of training, many in one call, right under every strategy.

Each replica sums its windows' losses over the size of the global batch, and the
replicas' sums are added up: the loss and the gradients of the whole batch,
whatever the number of replicas. So are the sums that metrics are made of. What is
summed goes in one vector, so a step has one exchange between workers, and a call has
no Python but at its ends.

Moving statistics of layers are made one on all replicas in the same exchange.

Losses that the model adds itself (regularizers, `add_loss`) count in each replica by
its share of the batch: a mean over the replica's windows adds up to that over all,
and what does not depend on the windows to itself. Regularizers of weights are made
small with the loss and not told with it: it is to be compared with that of other models.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from beamfeed.contract.config.train import Devices
from beamfeed.trainer.loop.replicas import make_one, statistics_of
from beamfeed.trainer.models.members import with_members
from beamfeed.trainer.tasks.base import Fields
from beamfeed.trainer.tasks.objective import LOSS, Examples, Objective, Sums

PACK_BYTES = 64 << 20  # of gradients that are copied into one vector; larger ones go as they are
NORM, NORMS, WAITED = "norm", "norms", "waited"  # what training sums beside the objective


def zero_train(objective: Objective) -> Sums:
    """Sums over the steps since the epoch began, float64; equal on all workers but for `waited`.

    - `loss` and the other sums of the objective, see `Objective.zero`: of losses, the batches' means.
    - `norm`, `norms`: of the gradients' norms before clipping, and of how many steps. A step that loss scaling
      skips, as its gradients overflow, is not among them.
    - `waited`: seconds until batches came, on this worker.
    """
    zero = {**objective.zero(), NORM: 0.0, NORMS: 0.0, WAITED: 0.0}
    return {name: tf.constant(value, tf.float64) for name, value in zero.items()}


def make_train_steps(
    strategy: tf.distribute.Strategy,
    model: keras.Model,
    objective: Objective,
    optimizer: keras.optimizers.Optimizer,
    batch_size: int,
    clip_norm: float | None = None,
    devices: Devices = Devices(),
) -> Callable[[Any, tf.Tensor, Sums, tf.Tensor], tuple[Sums, tf.Tensor]]:
    """Returns run(batches, steps, totals, sent) -> (totals, received).

    Args:
      strategy: under which the model and the optimizer were made.
      model: of the objective's signature.
      objective: what is learned.
      optimizer: applies gradients as they are.
      batch_size: windows in a global batch.
      clip_norm: scales the gradients of a step down to this norm.
      devices: of the job. Gradients of the parts that it asks for are added up before anything is exchanged.

    Returns:
      The function `run`. Its arguments:

      - `batches`: distributed iterator of global batches, dicts of the dataset's fields.
      - `steps`: int32 scalar, how many to run.
      - `totals`: of the steps before, see `zero_train`.
      - `sent`: float32 `[n]`, what this worker has to say. `received` is the sum of
        what all workers sent. It travels with the gradients of the last step.
    """
    scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    replicas = strategy.num_replicas_in_sync
    statistics = statistics_of(model) if replicas > 1 else []
    members, parts = with_members(model), devices.accumulate
    clock = python_clock if devices.deterministic else tf.timestamp

    def outputs_and_losses(examples: Examples) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        if members is None:
            outputs = objective.outputs(model(examples.x, training=True))
            return outputs, objective.losses(examples, outputs)
        outputs, of_members = map(objective.outputs, members(examples.x, training=True))
        return outputs, objective.losses_of_members(examples, of_members)

    def differentiate(examples: Examples) -> tuple[Sums, dict[str, tf.Tensor], list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            outputs, by_name = outputs_and_losses(examples)
            means = {
                name: tf.nn.compute_average_loss(losses, global_batch_size=batch_size)
                for name, losses in by_name.items()
            }
            if model.losses:
                windows = tf.shape(tf.nest.flatten(examples.x)[0])[0]
                share = tf.cast(windows, tf.float32) / batch_size
                of_calls, of_weights = added_losses(model)
                means[LOSS] += share * of_calls
                minimized = means[LOSS] + share * of_weights
            else:
                minimized = means[LOSS]
            target = optimizer.scale_loss(minimized) if scaled else minimized
        gradients = tape.gradient(target, model.trainable_variables, unconnected_gradients="zero")
        return means, outputs, gradients

    # No graph of its own without XLA: layers that look at the whole batch exchange in it, which takes the outermost.
    differentiate_step = tf.function(differentiate, jit_compile=True, autograph=False) if devices.xla else differentiate

    def sums_of(fields: Fields) -> tuple[Sums, list[tf.Tensor]]:
        examples = objective.examples(fields)
        means, outputs, gradients = differentiate_step(examples)
        sums = {**means, **objective.measure(examples, outputs)}
        # Said again: not every operation lets the shapes of its gradients be known.
        return sums, [tf.reshape(g, v.shape) for g, v in zip(gradients, model.trainable_variables, strict=True)]

    def replica_step(fields: Fields, sent: tf.Tensor) -> tuple[Sums, tf.Tensor, tf.Tensor]:
        sums, gradients = sums_of(fields) if parts == 1 else add_parts(sums_of, fields, parts)
        moved = [tf.cast(moving.value, tf.float32) for moving in statistics]  # by the call of the model
        reduced = iter(all_reduce_sum([*sums.values(), sent, *moved, *gradients]))
        sums = {name: next(reduced) for name in sums}
        sent = next(reduced)
        make_one(statistics, [next(reduced) for _ in statistics], replicas)
        gradients = list(reduced)
        norm = tf.linalg.global_norm(gradients)
        if scaled:
            norm = norm / optimizer.dynamic_scale
        if clip_norm is not None:
            factor = tf.minimum(1.0, clip_norm / tf.maximum(norm, 1e-12))
            gradients = [gradient * tf.cast(factor, gradient.dtype) for gradient in gradients]
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return sums, norm, sent

    # Nothing of ours has Python's control flow on tensors; to look for it takes seconds at the start of each run.
    @tf.function(autograph=False)
    def run(batches: Any, steps: tf.Tensor, totals: Sums, sent: tf.Tensor) -> tuple[Sums, tf.Tensor]:
        def run_next(step: tf.Tensor, totals: Sums, _: tf.Tensor) -> tuple[tf.Tensor, Sums, tf.Tensor]:
            begun = clock()
            fields = next(batches)
            waited = clock() - begun
            results = strategy.run(replica_step, args=(fields, sent))
            sums, norm, received = tf.nest.map_structure(
                lambda part: strategy.experimental_local_results(part)[0], results
            )
            applied = tf.cast(tf.math.is_finite(norm) if scaled else True, tf.float64)
            norm = tf.math.multiply_no_nan(tf.cast(norm, tf.float64), applied) if scaled else tf.cast(norm, tf.float64)
            further = {**sums, NORM: norm, NORMS: applied, WAITED: waited}
            totals = {name: total + tf.cast(further[name], tf.float64) for name, total in totals.items()}
            return step + 1, totals, received

        return tf.while_loop(lambda step, *_: step < steps, run_next, (0, totals, tf.zeros_like(sent)))[1:]

    return run


def python_clock() -> tf.Tensor:
    """Seconds, as `tf.timestamp` has them, which TensorFlow refuses where operations are to be deterministic."""
    return tf.ensure_shape(tf.numpy_function(time.time, [], tf.float64), [])


def add_parts(function: Callable[[Fields], Any], fields: Fields, parts: int) -> Any:
    """The sum of what a function of a batch gives of each part of it: `[batch, ...]` in so many parts.

    Only a batch of fewer rows has fewer: all workers, whose shares differ by a row, call layers equally often, so that
    one checkpoint holds where the random numbers of all go on.

    The function gives tensors in any structure, of shapes that are known.
    """
    batch = tf.shape(tf.nest.flatten(fields)[0])[0]
    count = tf.clip_by_value(batch, 1, parts)

    def of_part(number: tf.Tensor) -> Any:
        begin, end = number * batch // count, (number + 1) * batch // count
        return function({name: values[begin:end] for name, values in fields.items()})

    def add_next(number: tf.Tensor, total: Any) -> tuple[tf.Tensor, Any]:
        return number + 1, tf.nest.map_structure(tf.add, total, of_part(number))

    # The first by itself: it says what to begin with. None is empty, which not every layer takes.
    first = of_part(tf.constant(0))
    # One at a time: several would need the memory that parts are to save.
    _, total = tf.while_loop(lambda number, _: number < count, add_next, (1, first), parallel_iterations=1)
    return total


def added_losses(model: keras.Model) -> tuple[tf.Tensor, tf.Tensor]:
    """The sums of what the model's layers added in its last call, and of its weights' regularizers: float32 scalars."""
    losses = [tf.reduce_sum(tf.cast(loss, tf.float32)) for loss in model.losses]
    of_calls = len(losses) - sum(weight.regularizer is not None for weight in model.trainable_weights)
    return tf.add_n([tf.constant(0.0), *losses[:of_calls]]), tf.add_n([tf.constant(0.0), *losses[of_calls:]])


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
