"""From what a model has found in its inputs to an output for each thing to classify or regress."""

from typing import Any

import keras

from beamfeed.trainer.models.signature import Output, Signature


def dropped(values: keras.KerasTensor, rate: float) -> keras.KerasTensor:
    """The values, in training without a share of them."""
    return keras.layers.Dropout(rate)(values) if rate else values


def heads(state: keras.KerasTensor, signature: Signature, added: dict[str, keras.KerasTensor] | None = None) -> Any:
    """The outputs of a model: one tensor `[batch, units]`, float32, or a dict by name where there are several.

    Args:
      state: `[batch, ...]`, that they are made from.
      signature: what the model must give.
      added: by name, `[batch, units]` to be added before the output is in the units of its target.
    """
    found = {}
    for name, output in signature.outputs.items():
        numbers = keras.layers.Dense(output.units, name=f"{name}_head", dtype="float32")(state)
        if added:
            numbers = keras.layers.Add(name=f"{name}_sum", dtype="float32")([numbers, added[name]])
        found[name] = in_units(numbers, name, output)
    return found if len(found) > 1 else next(iter(found.values()))


def in_units(numbers: keras.KerasTensor, name: str, output: Output) -> keras.KerasTensor:
    """In the units of the target: what a head learns first need not be their size."""
    if (output.scale, output.offset) == (1.0, 0.0):
        return numbers
    return keras.layers.Rescaling(output.scale, output.offset, name=f"{name}_units", dtype="float32")(numbers)
