"""The steps of evaluation, many in one call, right under every strategy.

Each replica adds up what it finds in its own windows; when all are read, the replicas' sums are added up, which is the
one exchange of an evaluation.
"""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from beamfeed.trainer.loop.steps import added_losses, all_reduce_sum
from beamfeed.trainer.tasks.base import Fields
from beamfeed.trainer.tasks.objective import LOSS, Objective, Sums

WINDOWS = "windows"  # what is summed beside the objective


class EvalSteps:
    """Steps of evaluation: `begin`, then `run` until all windows are read, then `end`.

    The model must have been called once, so that it is known whether it adds losses.
    """

    def __init__(self, strategy: tf.distribute.Strategy, model: keras.Model, objective: Objective):
        self._strategy, self._model, self._objective = strategy, model, objective
        self._adds = bool(model.losses)
        zero = {**objective.zero(), WINDOWS: 0.0}
        self._zero = {name: tf.constant(value, tf.float64) for name, value in zero.items()}

    @tf.function(autograph=False)
    def begin(self) -> Any:
        """The sums over nothing, one vector for each replica."""
        return self._strategy.run(lambda: tf.identity(_pack(self._zero, self._zero)))

    def run(self, batches: Any, steps: int, sums: Any) -> Any:
        """Adds so many batches to the sums that `begin` or an earlier call returned, and returns when that is done.

        `batches` is a distributed iterator of dicts of the dataset's fields and weights `[batch]`, 0 for what was
        filled in. That is cut off before anything is computed of it: not all models, losses and metrics heed weights.
        """
        sums = self._run(batches, tf.constant(steps), sums)
        for tensor in self._strategy.experimental_local_results(sums):
            tensor.numpy()  # waits
        return sums

    def end(self, sums: Any) -> dict[str, np.ndarray]:
        """The sums over the windows of all replicas. Every worker calls this."""
        total = self._strategy.experimental_local_results(self._end(sums))[0]
        return {name: tensor.numpy() for name, tensor in _unpack(total, self._zero).items()}

    @tf.function(autograph=False)
    def _run(self, batches: Any, steps: tf.Tensor, sums: Any) -> Any:
        def add_next(step: tf.Tensor, sums: Any) -> tuple[tf.Tensor, Any]:
            return step + 1, self._strategy.run(self._add, args=(sums, *next(batches)))

        return tf.while_loop(lambda step, _: step < steps, add_next, (0, sums))[1]

    @tf.function(autograph=False)
    def _end(self, sums: Any) -> Any:
        return self._strategy.run(lambda tensor: all_reduce_sum([tensor])[0], args=(sums,))

    def _add(self, sums: tf.Tensor, fields: Fields, present: tf.Tensor) -> tf.Tensor:
        windows = tf.reduce_sum(present)
        real = tf.argsort(present, direction="DESCENDING", stable=True)
        real = real[: tf.maximum(tf.cast(windows, tf.int32), 1)]  # not none: not every layer takes that
        fields = {name: tf.gather(values, real) for name, values in fields.items()}
        examples = self._objective.examples(fields)
        outputs = self._objective.outputs(self._model(examples.x, training=False))
        sums_of_batch = {
            # Back in their places: the sum has the same rounding whatever was filled in.
            name: tf.reduce_sum(
                tf.math.multiply_no_nan(tf.scatter_nd(real[:, None], losses, tf.shape(present)), present)
            )
            for name, losses in self._objective.losses(examples, outputs).items()
        }
        if self._adds:
            sums_of_batch[LOSS] += tf.math.multiply_no_nan(added_losses(self._model)[0], windows)
        measured = self._objective.measure(examples, outputs, tf.gather(present, real))
        packed = _pack({**sums_of_batch, **measured, WINDOWS: windows}, self._zero)
        return sums + tf.where(windows > 0, packed, tf.zeros_like(packed))  # of nothing, whatever its window gave


def _pack(sums: Mapping[str, tf.Tensor], like: Sums) -> tf.Tensor:
    """One vector of float64, in the order of `like`."""
    return tf.concat([tf.reshape(tf.cast(sums[name], tf.float64), [-1]) for name in like], 0)


def _unpack(packed: tf.Tensor, like: Sums) -> Sums:
    parts = tf.split(packed, [tensor.shape.num_elements() for tensor in like.values()])
    return {name: tf.reshape(part, like[name].shape) for name, part in zip(like, parts, strict=True)}
