"""The SavedModel of a training run on a table: it takes raw columns by name, as the files have them.

It holds a copy of the dataset's transform graph, the very one that the training
rows went through, so what is served cannot be preprocessed otherwise.
"""

import math
from collections.abc import Callable, Set
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from beamfeed.contract.dataset.argument_names import argument_names
from beamfeed.contract.dataset.raw_values import RawValues
from beamfeed.trainer.export.raw_text import RawText
from beamfeed.trainer.export.serving import Outputs, Serving, Specs, inputs_of, signature
from beamfeed.trainer.tasks.objective import Objective

MISSING: dict[tf.DType, Any] = {tf.float32: math.nan, tf.string: "", tf.int64: np.int64(tf.int64.min)}


class ColumnServing(Serving):
    """The exported module of a table.

    From the `unused` columns of the transform graph nothing is learned. `raw` says what becomes of the values of the
    files first; it is None if the dataset does not say.
    """

    def __init__(
        self, model: keras.Model, objective: Objective, transform: Any, unused: Set[str],
        raw: RawValues | None,
    ):  # fmt: skip
        columns = inputs_of(transform)
        names = argument_names(sorted(columns.keys() - unused))
        constants = {
            "columns": tf.constant(list(names), tf.string),
            "arguments": tf.constant(list(names.values()), tf.string),
        }
        super().__init__(model, objective, argument_names(list(objective.signature.inputs)), transform, constants)
        self._columns = {name: tf.TensorSpec([None], columns[name].dtype, names[name]) for name in names}
        self._unused = {name: columns[name].dtype for name in unused & columns.keys()}
        self._raw = None if raw is None else RawText(raw)

    def signatures(self) -> dict[str, Callable[..., Outputs]]:
        """The functions to save, by the names of their signatures."""
        strings = tf.TensorSpec([None], tf.string, name="examples")
        functions = {
            **super().signatures(),
            "serving_default": signature(self.run_columns, self._columns),
            "examples": tf.function(
                self.run_examples, input_signature=[strings], autograph=False
            ).get_concrete_function(),
            "columns": self.constants.get_concrete_function(),
        }
        if (of_text := self.raw_arguments()) is not None:
            functions[of_text[0]] = signature(self.run_text, of_text[1])
        return functions

    def raw_arguments(self) -> tuple[str, Specs] | None:
        """The signature that takes rows of text, and its arguments by column; None where it is not known how."""
        if self._raw is None:
            return None
        return "rows_of_text", {
            name: tf.TensorSpec([None], tf.string, column.name) for name, column in self._columns.items()
        }

    def run_columns(self, columns: dict[str, tf.Tensor]) -> Outputs:
        """Raw columns by name, `[batch]` each.

        Numbers are float32, and NaN is missing; texts and categories are strings as the files have them, and "" is
        missing; times are int64 seconds since 1970, and the smallest number is missing.
        """
        if self._raw is not None:
            texts = {
                name: self._raw.words(name, column) for name, column in columns.items() if column.dtype == tf.string
            }
            columns = {**columns, **texts}
        return self._run_read(columns)

    def _run_read(self, columns: dict[str, tf.Tensor]) -> Outputs:
        """Columns as `run_columns` takes them, texts of them as preprocessing reads them: not to be read again."""
        batch = tf.shape(next(iter(columns.values())))
        nothing = {name: tf.fill(batch, tf.constant(MISSING[dtype])) for name, dtype in self._unused.items()}
        return self.run_preprocessed(self.transform.transform_fn({**columns, **nothing}))

    def run_text(self, columns: dict[str, tf.Tensor]) -> Outputs:
        """Raw columns by name, strings `[batch]` each, as the lines of a CSV have them.

        `reason`, strings `[batch]`, says why preprocessing would set the row aside, or is ""; its outputs are NaN, "".
        """
        assert self._raw is not None
        read, reason = self._raw.read(columns)
        return {**without(self._run_read(read), reason != ""), "reason": reason}

    def run_examples(self, examples: tf.Tensor) -> Outputs:
        """Serialized tf.train.Example `[batch]` with a feature for each column; one that is not there is missing."""
        types = {name: spec.dtype for name, spec in self._columns.items()}
        features = {name: tf.io.FixedLenFeature([], dtype, MISSING[dtype]) for name, dtype in types.items()}
        return self.run_columns(tf.io.parse_example(examples, features))


def without(outputs: Outputs, rows: tf.Tensor) -> Outputs:
    """The outputs `[batch, ...]`; floats of some rows, bool `[batch]`, are NaN, and strings ""."""

    def emptied(values: tf.Tensor) -> tf.Tensor:
        if values.dtype != tf.string and not values.dtype.is_floating:
            return values
        mask = tf.reshape(rows, [-1] + [1] * (values.shape.rank - 1))
        return tf.where(mask, tf.constant("" if values.dtype == tf.string else math.nan, values.dtype), values)

    return {name: emptied(values) for name, values in outputs.items()}
