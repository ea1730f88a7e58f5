"""The SavedModel of a training run on a table: it takes raw columns by name, as the files have them.

It holds a copy of the dataset's transform graph, the very one that the training
rows went through, so what is served cannot be preprocessed otherwise.
"""

import keyword
import math
import re
from collections.abc import Callable, Sequence, Set
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from beamfeed.contract.dataset.raw_values import RawValues
from beamfeed.trainer.export.raw_text import RawText
from beamfeed.trainer.export.transform import load_transform
from beamfeed.trainer.models.latent import with_latent
from beamfeed.trainer.models.signature import ascii_name
from beamfeed.trainer.tasks.objective import Objective

Outputs = dict[str, tf.Tensor]
MISSING: dict[tf.DType, Any] = {tf.float32: math.nan, tf.string: "", tf.int64: np.int64(tf.int64.min)}


class ColumnServing(tf.Module):
    """The exported module. Its functions are the signatures; docs/serving.md describes them.

    Attributes:
      arguments: of the signature `preprocessed`, by the names of the model's inputs.

    Args:
      model: of the objective's signature.
      objective: what was learned, and so what the functions return.
      transform: the folder of the dataset's transform graph.
      unused: columns of the graph that nothing is learned from.
      raw: what becomes of the values of the files first; None if the dataset does not say.
    """

    def __init__(
        self, model: keras.Model, objective: Objective, transform: str, unused: Set[str] = frozenset(),
        raw: RawValues | None = None,
    ):  # fmt: skip
        super().__init__()
        self.model = model
        self._with_latent = with_latent(model)
        self._objective = objective
        self.transform: Any = load_transform(transform)
        (self._columns,), _ = self.transform.transform_fn.structured_input_signature
        self._unused = unused & self._columns.keys()
        self._raw = None if raw is None else RawText(raw)
        self.arguments = argument_names(list(objective.signature.inputs))
        self._arguments = argument_names(sorted(name for name in self._columns if name not in self._unused))
        told = {
            "columns": tf.constant(list(self._arguments), tf.string),
            "arguments": tf.constant(list(self._arguments.values()), tf.string),
            **objective.constants(),
        }
        self.told = tf.function(lambda: {name: tf.identity(one) for name, one in told.items()}, input_signature=[])

    def signatures(self) -> dict[str, Callable[..., Outputs]]:
        """The functions to save, by the names of their signatures."""
        columns = {
            argument: tf.TensorSpec([None], self._columns[name].dtype, name=argument)
            for name, argument in self._arguments.items()
        }
        of_field = self.arguments
        inputs = {spec.name: spec for spec in self.stored().values()}
        strings = tf.TensorSpec([None], tf.string, name="examples")
        found = {
            "serving_default": tf.function(
                lambda found: self.run_columns({name: found[one] for name, one in self._arguments.items()})
            ).get_concrete_function(columns),
            "examples": tf.function(self.run_examples, input_signature=[strings]).get_concrete_function(),
            "preprocessed": tf.function(
                lambda found: self.run_preprocessed({name: found[one] for name, one in of_field.items()})
            ).get_concrete_function(inputs),
            "columns": self.told.get_concrete_function(),
        }
        if self._raw is not None:
            name, texts = self.raw_arguments()
            found[name] = tf.function(
                lambda found: self.run_text({name: found[one] for name, one in self._arguments.items()})
            ).get_concrete_function({spec.name: spec for spec in texts.values()})
        return found

    def stored(self) -> dict[str, tf.TensorSpec]:
        """Of what `preprocessed` takes, as records hold it, by the names of the inputs."""
        fields = self._objective.signature.inputs
        return {
            name: tf.TensorSpec([None, *fields[name].shape], fields[name].dtype, name=argument)
            for name, argument in self.arguments.items()
        }

    def raw_arguments(self) -> tuple[str, dict[str, tf.TensorSpec]]:
        """The signature that takes rows as the files have them, and its arguments by column."""
        arguments = self._arguments.items()
        return "rows_of_text", {name: tf.TensorSpec([None], tf.string, name=one) for name, one in arguments}

    def run_columns(self, columns: dict[str, tf.Tensor]) -> Outputs:
        """Raw columns by name, `[batch]` each.

        Numbers are float32, and NaN is missing; texts and categories are strings as the files have them, and "" is
        missing; times are int64 seconds since 1970, and the smallest number is missing.
        """
        if self._raw is not None:
            texts = {name: self._raw.words(name, one) for name, one in columns.items() if one.dtype == tf.string}
            columns = {**columns, **texts}
        return self._run_read(columns)

    def _run_read(self, columns: dict[str, tf.Tensor]) -> Outputs:
        """Columns as `run_columns` takes them, texts of them as preprocessing reads them: not to be read again."""
        batch = tf.shape(next(iter(columns.values())))
        nothing = {name: tf.fill(batch, tf.constant(MISSING[self._columns[name].dtype])) for name in self._unused}
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
        types = {name: self._columns[name].dtype for name in self._arguments}
        spec = {name: tf.io.FixedLenFeature([], type_, MISSING[type_]) for name, type_ in types.items()}
        return self.run_columns(tf.io.parse_example(examples, spec))

    def run_preprocessed(self, fields: dict[str, tf.Tensor]) -> Outputs:
        """What the records hold, by the names of the inputs -> what the task serves."""
        x = self._objective.inputs(fields)
        latent, given = self._with_latent(x)
        encoded = {} if latent is None else {"latent": latent}
        return {**encoded, **self._objective.serve(x, self._objective.outputs(given), None)}


def without(outputs: Outputs, rows: tf.Tensor) -> Outputs:
    """The outputs `[batch, ...]`; floats of some rows, bool `[batch]`, are NaN, and strings ""."""

    def emptied(values: tf.Tensor) -> tf.Tensor:
        if values.dtype != tf.string and not values.dtype.is_floating:
            return values
        which = tf.reshape(rows, [-1] + [1] * (values.shape.rank - 1))
        return tf.where(which, tf.constant("" if values.dtype == tf.string else math.nan, values.dtype), values)

    return {name: emptied(values) for name, values in outputs.items()}


def argument_names(columns: Sequence[str]) -> dict[str, str]:
    """For each column a name that a signature can have: ASCII letters, digits and _; those that can stay as they are.

    No two differ in capitals alone: to TensorFlow these are one.
    One without any of them is the code points of its letters: `温度` is `u6e29u5ea6`.
    """
    found: dict[str, str] = {}
    fine: dict[str, str] = {}  # by small letters
    for name in filter(_is_argument, columns):
        fine.setdefault(name.lower(), name)
    taken = {*fine}
    for column in columns:
        name = column
        if fine.get(column.lower()) != column:
            name = re.sub(r"[^A-Za-z0-9_]+", "_", column).strip("_")
            name = name or ascii_name("".join(filter(str.isalpha, column))) or "column"
            name = name if name[0].isalpha() else f"column_{name}"
            name = name if _is_argument(name) else f"{name}_"
            base, number = name, 2
            while name.lower() in taken:
                name, number = f"{base}_{number}", number + 1
            taken.add(name.lower())
        found[column] = name
    return found


def _is_argument(name: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)) and not keyword.iskeyword(name)


def takes_columns(transform: str) -> bool:
    """Whether a transform graph takes columns by name, one value of each a row."""
    if not tf.saved_model.contains_saved_model(transform):
        return False
    (specs,), _ = load_transform(transform).transform_fn.structured_input_signature
    return all(spec.shape.rank == 1 for spec in specs.values())
