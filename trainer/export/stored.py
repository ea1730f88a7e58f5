"""The SavedModel that takes fields by name: arrays as the files have them, and else as the dataset stores them.

An image is the bytes of its file, or its pixels. It is decoded as it was in training, by the same operations, and
nothing is changed by chance. Arrays that preprocessing scaled go through a copy of the dataset's transform graph first.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from beamfeed.contract.config.sources.array import ROW
from beamfeed.trainer.export.serving import Outputs, Serving, Specs, inputs_of, signature
from beamfeed.trainer.tasks.objective import Objective


class StoredServing(Serving):
    """The exported module of arrays, with their transform graph, and of fields as the dataset stores them."""

    def __init__(self, model: keras.Model, objective: Objective, transform: Any = None):
        inputs = list(objective.signature.inputs)
        arguments = {name: name for name in inputs}
        super().__init__(model, objective, arguments, transform, {"inputs": tf.constant(inputs)})
        self._scaled = [] if transform is None else [name for name in inputs_of(transform) if name != ROW]

    def signatures(self) -> dict[str, Callable[..., Outputs]]:
        """The functions to save, by the names of their signatures."""
        return {
            **super().signatures(),
            "serving_default": signature(self.run_served, self.served()),
            "inputs": self.constants.get_concrete_function(),
        }

    def served(self) -> Specs:
        """Of what `serving_default` takes, by the names of the inputs: what is scaled is float32 before that, too."""
        return {
            name: tf.TensorSpec(spec.shape, tf.float32, name) if name in self._scaled else spec
            for name, spec in self.stored().items()
        }

    def raw_arguments(self) -> tuple[str, Specs] | None:
        """Of arrays, the signature that takes rows as the files have them, and its arguments by input."""
        return None if self.transform is None else ("serving_default", self.served())

    def run_served(self, fields: dict[str, tf.Tensor]) -> Outputs:
        """Values as the files or the dataset have them, `[batch, ...]` each, by the names of the inputs.

        Raises:
          tf.errors.InvalidArgumentError: if one that is to be decoded is damaged, or is empty.
        """
        if self.transform is not None:
            (batch, *_) = tf.unstack(tf.shape(next(iter(fields.values()))))
            raw = {ROW: tf.zeros([batch], tf.int64), **{name: fields[name] for name in self._scaled}}
            scaled = self.transform.transform_fn(raw)
            fields = {**fields, **{name: scaled[name] for name in self._scaled}}
        preparation = self._objective.preparation
        if preparation is None:
            return self.run_preprocessed(fields)
        for name in preparation.decoders:
            if fields[name].dtype == tf.string:  # the feed fills batches up with empty ones, which decoding takes
                holds = tf.reduce_all(tf.strings.length(fields[name]) > 0)
                tf.debugging.assert_equal(holds, True, f"{name}: one holds no bytes")
        return self.run_preprocessed(preparation.prepare(fields))
