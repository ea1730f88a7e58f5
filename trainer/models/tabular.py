"""An ensemble of dense networks over embeddings of numbers and categories; and their linear floor."""

from collections.abc import Iterable

import keras

from beamfeed.contract.config.model import Linear, Tabular
from beamfeed.contract.dataset.argument_names import ascii_name
from beamfeed.contract.errors import UserError
from beamfeed.trainer.models.members import as_members, dense_of_members, heads
from beamfeed.trainer.models.parts import (
    are_categories,
    as_columns,
    categories_of,
    check_outputs,
    dropped,
    in_units,
    inputs_beside,
    side_by_side,
    unfit,
)
from beamfeed.trainer.models.signature import Input, Signature, one_or_all

BINS = "_bins"  # what the name of the layer ends with that a column's bins are the weights of
EMBEDDED = 16  # numbers that a number becomes
MOST_BINNED = 256  # numbers of an input; of more, such as those of an array, each is taken as it is


def build_tabular(section: Tabular, signature: Signature) -> keras.Model:
    """Dense layers over all inputs side by side; a layer as wide as that before it adds to it (residual).

    Returns:
      A functional model, dict of inputs by name (a tensor where there is one) -> `[batch, units]` for each head.

    Raises:
      UserError: if an input is neither numbers nor categories, or the task gives an input back.
    """
    _check_outputs(signature, section.name)
    inputs, parts = signature.keras_inputs(), []
    for name, field in signature.inputs.items():
        parts += inputs_beside(inputs[name], name, field, section.name, section.embedding)
        if has_bins(section, field):
            parts.append(_embedded(as_columns(inputs[name], field), f"{ascii_name(name)}{BINS}", section.bins))
    wide = _sums(inputs, signature, section.name) if section.wide else None
    state = side_by_side(parts)
    if section.members == 1:
        for units in section.units:
            after = keras.layers.Dense(units, activation="relu")(state)
            state = keras.layers.Add()([state, after]) if state.shape[-1] == units else after
            state = dropped(state, section.dropout)
    else:
        state = as_members(state, section.members)
        for number, units in enumerate(section.units):
            state = dense_of_members(state, units, section.dropout, first=number == 0)
    return keras.Model(one_or_all(inputs), heads(state, signature, wide), name="tabular")


def _check_outputs(signature: Signature, model: str) -> None:
    check_outputs(signature, model)
    if any(output.continues for output in signature.outputs.values()):
        raise UserError(f"train.model.name: {model!r} does not forecast; use 'dlinear', 'recurrent' or your own class")


def has_bins(section: Tabular, field: Input) -> bool:
    """Whether an input's numbers are embedded by bins of their values."""
    return bool(section.bins) and field.dtype == "float32" and len(field.shape) <= 1 and field.numbers <= MOST_BINNED


def bin_weights(model: keras.Model, inputs: Iterable[str]) -> dict[str, list[keras.Variable]]:
    """Kernel and bias of the encoding, `[columns, bins]` each, by the names of those inputs that have bins."""
    layers = {layer.name: layer for layer in model.layers if layer.name.endswith(BINS)}
    return {name: layers[layer].weights for name in inputs if (layer := f"{ascii_name(name)}{BINS}") in layers}


def linear_weights(model: keras.Model, output: str, signature: Signature) -> list[keras.Variable]:
    """Those of the weighted sum: kernels of numbers `[columns, units]`, of categories `[count, units]`, then biases.

    Columns come in the order of `beamfeed.trainer.tasks.rows.Layout`.
    """
    by_name = {layer.name: layer.weights for layer in model.layers}
    numbers, categories = [], []
    for name, field in signature.inputs.items():
        if field.dtype == "float32":
            numbers.append(by_name[_of_numbers(output, name)])
        else:
            columns = [f"{name}_{column}" for column in field.columns] if field.shape else [name]
            categories += [by_name[_of_category(output, column)] for column in columns]
    return [*(kernel for kernel, _ in numbers), *(kernel for (kernel,) in categories), *(bias for _, bias in numbers)]


def _of_numbers(output: str, name: str) -> str:
    return f"{output}_{ascii_name(name)}_weights"


def _of_category(output: str, column: str) -> str:
    return f"{output}_{ascii_name(column)}"


def _embedded(values: keras.KerasTensor, name: str, bins: int) -> keras.KerasTensor:
    """Numbers `[batch, columns]` -> `[batch, columns * EMBEDDED]`: linear within each bin of a column."""
    columns = values.shape[1]
    encode = keras.layers.EinsumDense("bc,ct->bct", (columns, bins), bias_axes="ct", name=name, dtype="float32")
    encoded = keras.layers.ReLU(max_value=1.0, dtype="float32")(encode(values))
    encode.trainable = False  # it is set to the bins of training rows, see beamfeed.trainer.loop.first_weights
    embed = keras.layers.EinsumDense("bct,ctd->bcd", (columns, EMBEDDED), bias_axes="cd")
    return keras.layers.Flatten()(embed(encoded))


def build_linear(section: Linear, signature: Signature) -> keras.Model:
    """A weight for each number and each category, and their sum.

    Returns and raises as `build_tabular`.
    """
    _check_outputs(signature, section.name)
    inputs = signature.keras_inputs()
    sums = _sums(inputs, signature, section.name)
    outputs = {name: in_units(sums[name], name, output) for name, output in signature.outputs.items()}
    return keras.Model(one_or_all(inputs), one_or_all(outputs), name="linear")


def _sums(inputs: dict[str, keras.KerasTensor], signature: Signature, model: str) -> dict[str, keras.KerasTensor]:
    """By output a weighted sum of all numbers and categories, `[batch, units]`."""
    sums = {}
    for output_name, output in signature.outputs.items():
        terms = []
        for name, field in signature.inputs.items():
            values = inputs[name]
            if field.dtype == "float32":
                weights = keras.layers.Dense(output.units, name=_of_numbers(output_name, name), dtype="float32")
                terms.append(weights(as_columns(values, field)))
            elif are_categories(field):
                terms += [
                    keras.layers.Embedding(
                        count, output.units, embeddings_initializer="zeros", name=_of_category(output_name, column),
                        dtype="float32",
                    )(part)
                    for column, count, part in categories_of(values, name, field)
                ]  # fmt: skip
            else:
                raise UserError(unfit(name, field, model))
        sums[output_name] = keras.layers.Add(dtype="float32")(terms) if len(terms) > 1 else terms[0]
    return sums
