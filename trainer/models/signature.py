"""What a dataset and a task ask of a model: the inputs that it gets and the outputs that it gives."""

import math
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

Shape = tuple[int | None, ...]


def one_or_all(by_name: dict[str, Any]) -> Any:
    """As models take inputs and give outputs: the value where there is one, a dict by name where there are several."""
    return by_name if len(by_name) > 1 else next(iter(by_name.values()))


@dataclass(frozen=True)
class Input:
    """One input.

    Attributes:
      shape: of one window's value, without the batch: `(time, features)` of series.
      dtype: float32, int64 or string.
      in_rows: whether it is a window of several rows, with time first.
      columns: names of the parts of the last axis, where they have names.
      sizes: of numbers that stand for categories: how many there are, for each column; of the words of a text, one.
    """

    shape: Shape
    dtype: str = "float32"
    in_rows: bool = False
    columns: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def numbers(self) -> int:
        """How many there are in one window's value; what may be of any length counts as 1."""
        return math.prod(size or 1 for size in self.shape)


@dataclass(frozen=True)
class Output:
    """One output.

    Attributes:
      shapes: that a window's may have, without the batch; the first is the rule.
      description: what the numbers are, in a few words.
      units: how many numbers a head has to give; None where an input is to be given back.
      scale: a head's numbers, times this and
      offset: plus this, are in the target's own units; of a forecast one each for its columns.
      logits: whether the numbers are logits, which a softmax makes probabilities of.
      continues: of a forecast, the columns of the window that it continues; a head's numbers are scaled as they are.
    """

    shapes: tuple[Shape, ...]
    description: str
    units: int | None = None
    scale: float | tuple[float, ...] = 1.0
    offset: float | tuple[float, ...] = 0.0
    logits: bool = False
    continues: tuple[int, ...] = ()

    @property
    def argument(self) -> int | list[int | None]:
        """What the constructor of a model of the user's own is told: the numbers of a head, or a window's shape."""
        return list(self.shapes[0]) if self.units is None or self.continues else self.units


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs by their names.

    A model gets a tensor where there is one input and a dict by name where there are several. It gives a tensor
    where there is one output and a dict by name where there are several.
    """

    inputs: dict[str, Input]
    outputs: dict[str, Output]

    @property
    def series(self) -> tuple[int, int] | None:
        """Length and features of the windows, where they are the one input; else None."""
        match list(self.inputs.values()):
            case [Input(shape=(int(length), int(features)), dtype="float32", in_rows=True)]:
                return length, features
        return None

    @property
    def gives_back(self) -> bool:
        """Whether the one output is the one input again: what an autoencoder does."""
        return len(self.outputs) == 1 and next(iter(self.outputs.values())).units is None

    def zeros(self, batch: int) -> Any:
        """Such a batch of nothing, to try a model out. What may be of any length is of length 1."""
        zeros = {
            name: tf.zeros([batch, *(size or 1 for size in field.shape)], field.dtype)
            for name, field in self.inputs.items()
        }
        return one_or_all(zeros)

    def noise(self, batch: int) -> Any:
        """The same with numbers from a normal distribution for zeros, always the same ones; classes stay 0."""

        def noisy(zeros: tf.Tensor) -> tf.Tensor:
            return tf.random.stateless_normal(zeros.shape, (1, 2)) if zeros.dtype == tf.float32 else zeros

        return tf.nest.map_structure(noisy, self.zeros(batch))

    def keras_inputs(self) -> dict[str, keras.KerasTensor]:
        """Inputs of a functional model by name, named as the fields are."""
        return {name: keras.Input(field.shape, dtype=field.dtype, name=name) for name, field in self.inputs.items()}
