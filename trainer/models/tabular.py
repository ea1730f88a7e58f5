"""Dense layers over numbers and embeddings of categories; and their linear floor."""

from typing import Any

import keras

from beamfeed.contract.config.model import Linear, Tabular
from beamfeed.contract.errors import UserError
from beamfeed.trainer.models.heads import dropped, heads, in_units
from beamfeed.trainer.models.signature import Input, Signature, ascii_name


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
    parts = [part for name, one in signature.inputs.items()
             for part in inputs_beside(by_name[name], name, one, section.name, section.embedding)]  # fmt: skip
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
    found = {name: in_units(sums[name], name, output) for name, output in signature.outputs.items()}
    return keras.Model(inputs, found if len(found) > 1 else next(iter(found.values())), name="linear")


def check_outputs(signature: Signature, model: str) -> None:
    """Raises UserError if an input is to be given back."""
    if any(output.units is None for output in signature.outputs.values()):
        raise UserError(f"train.model.name: {model!r} gives no input back; it is to classify or regress")


def named(inputs: Any, signature: Signature) -> dict[str, keras.KerasTensor]:
    """The inputs of a functional model by name, also where there is one."""
    return inputs if isinstance(inputs, dict) else {next(iter(signature.inputs)): inputs}


def side_by_side(parts: list[keras.KerasTensor]) -> keras.KerasTensor:
    """`[batch, ...]` each -> one, `[batch, all of them]`."""
    return keras.layers.Concatenate()(parts) if len(parts) > 1 else parts[0]


def embedding_size(size: int) -> int:
    """Numbers for a column of so many categories: 1.6 size^0.56, at most 50; a rule of thumb of fast.ai."""
    return min(50, round(1.6 * size**0.56))


def categories_of(values: keras.KerasTensor, name: str, one: Input) -> list[tuple[str, int, keras.KerasTensor]]:
    """Each column of categories, `[batch]`, with its name and how many there are; an input that is one column."""
    if not one.shape:
        return [(name, one.sizes[0], values)]
    columns = enumerate(zip(one.columns, one.sizes, strict=True))
    return [(f"{name}_{column}", size, values[:, place]) for place, (column, size) in columns]


def is_text(one: Input) -> bool:
    """Whether an input is the words of a text."""
    return one.dtype == "int64" and len(one.sizes) == 1 and not one.columns and one.shape != ()


def are_categories(one: Input) -> bool:
    """Whether an input is a column of categories, or several."""
    return one.dtype == "int64" and bool(one.sizes) and (bool(one.columns) or one.shape == ())


def inputs_beside(
    values: keras.KerasTensor, name: str, one: Input, model: str, size: int | None
) -> list[keras.KerasTensor]:
    """What an input is to dense layers, `[batch, numbers]` each."""
    if one.dtype == "float32":
        return [keras.layers.Flatten()(values) if len(one.shape) > 1 else _as_column(values, one)]
    if not are_categories(one):
        raise UserError(_unfit(name, one, model))
    return [
        keras.layers.Embedding(count, size or embedding_size(count), name=f"{ascii_name(column)}_embedding")(part)
        for column, count, part in categories_of(values, name, one)
    ]


def _sums(inputs: dict[str, keras.KerasTensor], signature: Signature, model: str) -> dict[str, keras.KerasTensor]:
    """By output a weighted sum of all numbers and categories, `[batch, units]`."""
    found = {}
    for output_name, output in signature.outputs.items():
        terms = []
        for name, one in signature.inputs.items():
            values = inputs[name]
            if one.dtype == "float32":
                flat = keras.layers.Flatten()(values) if len(one.shape) > 1 else _as_column(values, one)
                terms.append(
                    keras.layers.Dense(output.units, name=f"{output_name}_{ascii_name(name)}_weights", dtype="float32")(
                        flat
                    )
                )
            elif are_categories(one):
                terms += [
                    keras.layers.Embedding(
                        count, output.units, embeddings_initializer="zeros", name=f"{output_name}_{ascii_name(column)}",
                        dtype="float32",
                    )(part)
                    for column, count, part in categories_of(values, name, one)
                ]  # fmt: skip
            else:
                raise UserError(_unfit(name, one, model))
        found[output_name] = keras.layers.Add(dtype="float32")(terms) if len(terms) > 1 else terms[0]
    return found


def _as_column(values: keras.KerasTensor, one: Input) -> keras.KerasTensor:
    return values if one.shape else keras.layers.Reshape((1,))(values)


def _unfit(name: str, one: Input, model: str) -> str:
    if is_text(one):
        return f"train.model.name: {model!r} takes no text, and {name!r} is one; there is 'text', or your own class"
    what = "strings" if one.dtype == "string" else "numbers of which nobody says how many there are"
    return f"train.model.name: {model!r} takes numbers and categories, and {name!r} holds {what}"
