"""The SavedModel of a training run on a table: it takes raw columns by name, as the files have them.

It holds a copy of the dataset's transform graph, the very one that the training
rows went through, so what is served cannot be preprocessed otherwise.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from beamfeed.trainer.tasks.objective import Objective

Outputs = dict[str, tf.Tensor]
NO_TIME = tf.int64.min


class ColumnServing(tf.Module):
    """The exported module. Its functions are the signatures; docs/serving.md describes them.

    Args:
      model: of the objective's signature.
      objective: what was learned, and so what the functions return.
      transform: the folder of the dataset's transform graph.
    """

    def __init__(self, model: keras.Model, objective: Objective, transform: str):
        super().__init__()
        self.model = model
        self._objective = objective
        told = objective.constants()
        self.classes = tf.function(lambda: {name: tf.identity(one) for name, one in told.items()}, input_signature=[])
        self.transform: Any = tf.saved_model.load(transform)
        (self._columns,), _ = self.transform.transform_fn.structured_input_signature

    def signatures(self) -> dict[str, Callable[..., Outputs]]:
        """The functions to save, by the names of their signatures."""
        columns = {name: tf.TensorSpec([None], spec.dtype, name=name) for name, spec in self._columns.items()}
        inputs = {
            name: tf.TensorSpec([None, *one.shape], one.dtype, name=name)
            for name, one in self._objective.signature.inputs.items()
        }
        strings = tf.TensorSpec([None], tf.string, name="examples")
        found = {
            "serving_default": tf.function(self.run_columns).get_concrete_function(columns),
            "examples": tf.function(self.run_examples, input_signature=[strings]).get_concrete_function(),
            "preprocessed": tf.function(self.run_preprocessed).get_concrete_function(inputs),
        }
        if self._objective.constants():
            found["classes"] = self.classes.get_concrete_function()
        return found

    def run_columns(self, columns: dict[str, tf.Tensor]) -> Outputs:
        """Raw columns by name, `[batch]` each.

        Numbers are float32, and NaN is missing; texts and categories are strings, and "" is missing; times are int64
        seconds since 1970, and the smallest number is missing.
        """
        fields = self.transform.transform_fn(columns)
        return self.run_preprocessed(fields)

    def run_examples(self, examples: tf.Tensor) -> Outputs:
        """Serialized tf.train.Example `[batch]` with a feature for each column; one that is not there is missing."""
        missing = {tf.float32: float("nan"), tf.string: "", tf.int64: NO_TIME}
        spec = {name: tf.io.FixedLenFeature([], one.dtype, missing[one.dtype]) for name, one in self._columns.items()}
        return self.run_columns(tf.io.parse_example(examples, spec))

    def run_preprocessed(self, fields: dict[str, tf.Tensor]) -> Outputs:
        """What the records hold, by the names of the inputs -> what the task serves."""
        x = self._objective.inputs(fields)
        given = self.model(x, training=False)
        return self._objective.serve(x, self._objective.outputs(given), None)


def takes_columns(transform: str) -> bool:
    """Whether a transform graph takes columns by name, one value of each a row."""
    if not tf.saved_model.contains_saved_model(transform):
        return False
    (specs,), _ = tf.saved_model.load(transform).transform_fn.structured_input_signature
    return all(spec.shape.rank == 1 for spec in specs.values())
