"""The SavedModel of a training run whose fields are decoded: it takes them as the dataset stores them.

So an image is the bytes of its file. It is decoded as it was in training, by the same operations, and nothing is
changed by chance.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from beamfeed.trainer.models.latent import with_latent
from beamfeed.trainer.tasks.objective import Objective

Outputs = dict[str, tf.Tensor]


class StoredServing(tf.Module):
    """The exported module. Its functions are the signatures; docs/image_training.md describes them.

    Attributes:
      arguments: of the signature `preprocessed`, by the names of the model's inputs.

    Args:
      model: of the objective's signature.
      objective: what was learned, and how fields are decoded, if they are.
    """

    def __init__(self, model: keras.Model, objective: Objective):
        super().__init__()
        self.model = model
        self._objective = objective
        self._with_latent = with_latent(model)
        self.arguments = {name: name for name in objective.signature.inputs}
        told = {"inputs": tf.constant(list(objective.signature.inputs), tf.string), **objective.constants()}
        self.told = tf.function(lambda: {name: tf.identity(one) for name, one in told.items()}, input_signature=[])

    def signatures(self) -> dict[str, Callable[..., Outputs]]:
        """The functions to save, by the names of their signatures."""
        return {
            "serving_default": _named(self.run_served, self.served()),
            "preprocessed": _named(self.run_preprocessed, self._prepared()),
            "inputs": self.told.get_concrete_function(),
        }

    def served(self) -> dict[str, tf.TensorSpec]:
        """Of what `serving_default` takes, by the names of the inputs."""
        preparation = self._objective.preparation
        found = self._prepared()
        for name, decoder in preparation.decoders.items() if preparation is not None else ():
            found[name] = tf.TensorSpec(decoder.stored.shape, decoder.stored.dtype, name)
        return found

    def _prepared(self) -> dict[str, tf.TensorSpec]:
        inputs = self._objective.signature.inputs
        return {name: tf.TensorSpec([None, *one.shape], tf.as_dtype(one.dtype), name) for name, one in inputs.items()}

    def run_served(self, fields: dict[str, tf.Tensor]) -> Outputs:
        """Values as the dataset stores them, `[batch, ...]` each, by the names of the inputs.

        Raises:
          tf.errors.InvalidArgumentError: if one that is to be decoded is damaged, or is empty.
        """
        preparation = self._objective.preparation
        if preparation is None:
            return self.run_preprocessed(fields)
        for name in preparation.decoders:
            if (
                fields[name].dtype == tf.string
            ):  # the feed fills batches up with empty ones, so that decoding takes them
                holds = tf.reduce_all(tf.strings.length(fields[name]) > 0)
                tf.debugging.assert_equal(holds, True, f"{name}: one holds no bytes")
        return self.run_preprocessed(preparation.prepare(fields))

    def run_preprocessed(self, fields: dict[str, tf.Tensor]) -> Outputs:
        """What the model gets, by the names of the inputs -> what the task serves and, with an encoder, latent."""
        x = self._objective.inputs(fields)
        latent, given = self._with_latent(x)
        encoded = {} if latent is None else {"latent": latent}
        return {**encoded, **self._objective.serve(x, self._objective.outputs(given), None)}


def _named(function: Callable[[dict[str, tf.Tensor]], Outputs], specs: dict[str, tf.TensorSpec]) -> Any:
    """A function of a dict as one of named arguments."""
    return tf.function(lambda fields: function(fields)).get_concrete_function(specs)
