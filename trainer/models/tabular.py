"""Dense layers over numbers and embeddings of categories; and their linear floor."""

import keras

from beamfeed.contract.config.model import Linear, Tabular
from beamfeed.contract.errors import UserError
from beamfeed.trainer.models.parts import (
    are_categories,
    as_column,
    categories_of,
    check_outputs,
    dropped,
    heads,
    in_units,
    inputs_beside,
    named,
    side_by_side,
    unfit,
)
from beamfeed.trainer.models.signature import Signature, ascii_name, one_or_all


def build_tabular(section: Tabular, signature: Signature) -> keras.Model:
    """Dense layers over all inputs side by side; a layer as wide as that before it adds to it (residual).

    Returns:
      A functional model, dict of inputs by name (a tensor where there is one) -> `[batch, units]` for each head.

    Raises:
      UserError: if an input is neither numbers nor categories, or the task gives an input back.
    """
    check_outputs(signature, section.name)
    inputs = signature.keras_inputs()
    by_name = named(inputs, signature)
    parts = [part for name, field in signature.inputs.items()
             for part in inputs_beside(by_name[name], name, field, section.name, section.embedding)]  # fmt: skip
    state = side_by_side(parts)
    for units in section.units:
        after = keras.layers.Dense(units, activation="relu")(state)
        state = keras.layers.Add()([state, after]) if state.shape[-1] == units else after
        state = dropped(state, section.dropout)
    wide = _sums(by_name, signature, section.name) if section.wide else None
    return keras.Model(inputs, heads(state, signature, wide), name="tabular")


def build_linear(section: Linear, signature: Signature) -> keras.Model:
    """A weight for each number and each category, and their sum.

    Returns and raises as `build_tabular`.
    """
    check_outputs(signature, section.name)
    inputs = signature.keras_inputs()
    sums = _sums(named(inputs, signature), signature, section.name)
    outputs = {name: in_units(sums[name], name, output) for name, output in signature.outputs.items()}
    return keras.Model(inputs, one_or_all(outputs), name="linear")


def _sums(inputs: dict[str, keras.KerasTensor], signature: Signature, model: str) -> dict[str, keras.KerasTensor]:
    """By output a weighted sum of all numbers and categories, `[batch, units]`."""
    sums = {}
    for output_name, output in signature.outputs.items():
        terms = []
        for name, field in signature.inputs.items():
            values = inputs[name]
            if field.dtype == "float32":
                flat = keras.layers.Flatten()(values) if len(field.shape) > 1 else as_column(values, field)
                terms.append(
                    keras.layers.Dense(output.units, name=f"{output_name}_{ascii_name(name)}_weights", dtype="float32")(
                        flat
                    )
                )
            elif are_categories(field):
                terms += [
                    keras.layers.Embedding(
                        count, output.units, embeddings_initializer="zeros", name=f"{output_name}_{ascii_name(column)}",
                        dtype="float32",
                    )(part)
                    for column, count, part in categories_of(values, name, field)
                ]  # fmt: skip
            else:
                raise UserError(unfit(name, field, model))
        sums[output_name] = keras.layers.Add(dtype="float32")(terms) if len(terms) > 1 else terms[0]
    return sums
