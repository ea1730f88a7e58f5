"""What the SavedModels of all kinds of dataset share, and how the transform graph that they hold is loaded."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

from beamfeed.contract.dataset.transform_graph import check_graph
from beamfeed.trainer.models.latent import with_latent
from beamfeed.trainer.tasks.base import Restore
from beamfeed.trainer.tasks.objective import Objective

Outputs = dict[str, tf.Tensor]
Specs = dict[str, tf.TensorSpec]


class Serving(tf.Module):
    """An exported module. Its functions are the signatures; docs/serving.md describes them.

    Attributes:
      arguments: of the signature `preprocessed`, by the names of the model's inputs.
      transform: the dataset's transform graph, as `load_transform` gives it; None where it has none.
      constants: a function for a signature: by name, what it tells beside what the objective does.
    """

    def __init__(
        self, model: keras.Model, objective: Objective, arguments: Mapping[str, str], transform: Any,
        constants: Mapping[str, tf.Tensor],
    ):  # fmt: skip
        super().__init__()
        self.model = model
        self.arguments = dict(arguments)
        self.transform = transform
        self._objective = objective
        self._predict = with_latent(model)
        constants = {**constants, **objective.constants()}
        self.constants = tf.function(
            lambda: {name: tf.identity(value) for name, value in constants.items()},
            input_signature=[],
            autograph=False,
        )

    def signatures(self) -> dict[str, Callable[..., Outputs]]:
        """The functions to save, by the names of their signatures."""
        return {"preprocessed": signature(self.run_preprocessed, self._specs())}

    def stored(self) -> Specs:
        """Of inputs as records hold them, by name."""
        preparation, specs = self._objective.preparation, self._specs()
        for name, decoder in preparation.decoders.items() if preparation is not None else ():
            specs[name] = tf.TensorSpec(decoder.stored.shape, decoder.stored.dtype, self.arguments[name])
        return specs

    def raw_arguments(self) -> tuple[str, Specs] | None:
        """The signature that takes rows as the files have them, and its arguments by name; None where none does."""
        return None

    def run_preprocessed(self, fields: Mapping[str, tf.Tensor]) -> Outputs:
        """What the model gets, by the names of the inputs -> what the task serves and, with an encoder, latent."""
        return serve(self._objective, self._predict, self._objective.inputs(fields))

    def _specs(self) -> Specs:
        """Of what the model gets, by the names of the inputs."""
        inputs = self._objective.signature.inputs
        return {
            name: tf.TensorSpec([None, *inputs[name].shape], inputs[name].dtype, argument)
            for name, argument in self.arguments.items()
        }


def serve(
    objective: Objective, predict: Callable[[Any], tuple[Any, Any]], x: Any, restore: Restore | None = None
) -> Outputs:
    """What a SavedModel returns of some windows, as `with_latent` of its model predicts them.

    `restore` brings values back to raw units, where windows came in those.
    """
    latent, outputs = predict(x)
    encoded = {} if latent is None else {"latent": latent}
    return {**encoded, **objective.serve(x, objective.outputs(outputs), restore)}


def signature(function: Callable[[dict[str, tf.Tensor]], Outputs], specs: Specs) -> Callable[..., Outputs]:
    """A function of a dict as one of named arguments, which are called what the specs are."""

    def call(arguments: dict[str, tf.Tensor]) -> Outputs:
        return function({name: arguments[spec.name] for name, spec in specs.items()})

    return tf.function(call, autograph=False).get_concrete_function({spec.name: spec for spec in specs.values()})


def load_transform(folder: str) -> Any:
    """The transform graph in a folder, which somebody else may have written, as `tf.saved_model.load` gives it.

    None where there is none, as in datasets of other tools.

    Raises:
      UserError: if it would do more than compute: read or write files, or call Python.
    """
    if not tf.saved_model.contains_saved_model(folder):
        return None
    path = os.path.join(folder, "saved_model.pb")
    saved = saved_model_pb2.SavedModel()
    with tf.io.gfile.GFile(path, "rb") as file:
        saved.ParseFromString(file.read())
    check_graph(path, saved, op_def_registry.get)
    return tf.saved_model.load(folder)


def inputs_of(transform: Any) -> Specs:
    """What a transform graph takes, by name."""
    (specs,), _ = transform.transform_fn.structured_input_signature
    return specs
