"""The SavedModel of a training run on arrays: it takes inputs by name, as the files have them.

It holds a copy of the dataset's transform graph, which scales those inputs that were scaled.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from beamfeed.contract.config.sources.array import ROW
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer.tasks.objective import Objective

Outputs = dict[str, tf.Tensor]


class ArrayServing(tf.Module):
    """The exported module. Its functions are the signatures; docs/serving.md describes them.

    Args:
      model: of the objective's signature.
      objective: what was learned, and so what the functions return.
      transform: the folder of the dataset's transform graph.
    """

    def __init__(self, model: Any, objective: Objective, transform: str):
        super().__init__()
        self.model = model
        self._objective = objective
        self.transform: Any = tf.saved_model.load(transform)
        (specs,), _ = self.transform.transform_fn.structured_input_signature
        self._scaled = {name: spec for name, spec in specs.items() if name != ROW}
        told = {"inputs": tf.constant(list(objective.signature.inputs), tf.string), **objective.constants()}
        self.told = tf.function(lambda: {name: tf.identity(one) for name, one in told.items()}, input_signature=[])

    def signatures(self) -> dict[str, Callable[..., Outputs]]:
        """The functions to save, by the names of their signatures."""
        fields = self._objective.signature.inputs
        preprocessed = {name: tf.TensorSpec([None, *one.shape], one.dtype, name=name) for name, one in fields.items()}
        raw = {
            name: tf.TensorSpec(spec.shape, tf.float32 if name in self._scaled else spec.dtype, name=name)
            for name, spec in preprocessed.items()
        }
        return {
            "serving_default": tf.function(self.run_raw).get_concrete_function(raw),
            "preprocessed": tf.function(self.run_preprocessed).get_concrete_function(preprocessed),
            "inputs": self.told.get_concrete_function(),
        }

    def run_raw(self, inputs: dict[str, tf.Tensor]) -> Outputs:
        """Inputs by name, `[batch, *shape]`, as the files have them; scaled ones as float32."""
        (batch, *_) = tf.unstack(tf.shape(next(iter(inputs.values()))))
        scaled = self.transform.transform_fn(
            {ROW: tf.zeros([batch], tf.int64), **{name: inputs[name] for name in self._scaled}}
        )
        return self.run_preprocessed({**inputs, **{name: scaled[name] for name in self._scaled}})

    def run_preprocessed(self, fields: dict[str, tf.Tensor]) -> Outputs:
        """What the records hold, by the names of the inputs -> what the task serves."""
        x = self._objective.inputs(fields)
        given = self.model(x, training=False)
        return self._objective.serve(x, self._objective.outputs(given), None)


def takes_arrays(manifest: Manifest, transform: str) -> bool:
    """Whether rows of the dataset are told by their number alone, and it has a transform graph."""
    keys = [field.name for field in manifest.fields if (field.role, field.dtype, field.per) == ("key", "int64", "row")]
    return ROW in keys and tf.saved_model.contains_saved_model(transform)
