"""What functional models are made of: inputs side by side, dense layers, and outputs in the units of their targets."""

from collections.abc import Sequence

import keras

from beamfeed.contract.dataset.argument_names import ascii_name
from beamfeed.contract.errors import UserError
from beamfeed.trainer.models.signature import Input, Output, Signature


def check_outputs(signature: Signature, model: str) -> None:
    """Raises UserError if an input is to be given back."""
    if any(output.units is None for output in signature.outputs.values()):
        raise UserError(f"train.model.name: {model!r} gives no input back; it is to classify or regress")


def side_by_side(parts: list[keras.KerasTensor]) -> keras.KerasTensor:
    """`[batch, ...]` each -> one, `[batch, all of them]`."""
    return keras.layers.Concatenate()(parts) if len(parts) > 1 else parts[0]


def embedding_size(size: int) -> int:
    """Numbers for a column of so many categories: 1.6 size^0.56, at most 50; a rule of thumb of fast.ai."""
    return min(50, round(1.6 * size**0.56))


def categories_of(values: keras.KerasTensor, name: str, field: Input) -> list[tuple[str, int, keras.KerasTensor]]:
    """Each column of categories, `[batch]`, with its name and how many there are; an input that is one column."""
    if not field.shape:
        return [(name, field.sizes[0], values)]
    columns = enumerate(zip(field.columns, field.sizes, strict=True))
    return [(f"{name}_{column}", size, values[:, place]) for place, (column, size) in columns]


def is_text(field: Input) -> bool:
    """Whether an input is the words of a text."""
    return field.dtype == "int64" and len(field.sizes) == 1 and not field.columns and field.shape != ()


def are_categories(field: Input) -> bool:
    """Whether an input is a column of categories, or several."""
    return field.dtype == "int64" and bool(field.sizes) and (bool(field.columns) or field.shape == ())


def inputs_beside(
    values: keras.KerasTensor, name: str, field: Input, model: str, size: int | None
) -> list[keras.KerasTensor]:
    """What an input is to dense layers, `[batch, numbers]` each."""
    if field.dtype == "float32":
        return [as_columns(values, field)]
    if not are_categories(field):
        raise UserError(unfit(name, field, model))
    return [
        keras.layers.Embedding(count, size or embedding_size(count), name=f"{ascii_name(column)}_embedding")(part)
        for column, count, part in categories_of(values, name, field)
    ]


def dense(parts: list[keras.KerasTensor], widths: Sequence[int], dropout: float) -> keras.KerasTensor:
    """Parts `[batch, numbers]` side by side, and dense layers over them; dropout of the parts and of each layer."""
    state = dropped(side_by_side(parts), dropout)
    for units in widths:
        state = dropped(keras.layers.Dense(units, activation="relu")(state), dropout)
    return state


def dropped(values: keras.KerasTensor, rate: float) -> keras.KerasTensor:
    """The values, in training without a share of them."""
    return keras.layers.Dropout(rate)(values) if rate else values


def in_units(numbers: keras.KerasTensor, name: str, output: Output) -> keras.KerasTensor:
    """In the units of the target: what a head learns first need not be their size."""
    if (output.scale, output.offset) == (1.0, 0.0):
        return numbers
    scale, offset = (list(unit) if isinstance(unit, tuple) else unit for unit in (output.scale, output.offset))
    return keras.layers.Rescaling(scale, offset, name=f"{name}_units", dtype="float32")(numbers)


def broadcast_add(few: keras.KerasTensor, many: keras.KerasTensor, name: str) -> keras.KerasTensor:
    """The sum of `[batch, 1, columns]` and `[batch, rows, columns]`, or of two of one shape, in this order.

    In the other one Keras 3 takes `[batch, 1, 1]` for biases of the rows where a batch has as many windows as rows.
    """
    return keras.layers.Add(name=name, dtype="float32")([few, many])


def continued(windows: keras.KerasTensor, output: Output) -> keras.KerasTensor:
    """Of windows `[batch, length, features]` the columns that a forecast continues, `[batch, length, columns]`."""
    if output.continues == tuple(range(windows.shape[-1])):
        return windows
    columns = [windows[:, :, place : place + 1] for place in output.continues]
    return keras.layers.Concatenate(axis=-1, dtype="float32")(columns) if len(columns) > 1 else columns[0]


def as_columns(values: keras.KerasTensor, field: Input) -> keras.KerasTensor:
    """Numbers `[batch, *shape]` of an input -> `[batch, columns]`."""
    if not field.shape:
        return keras.layers.Reshape((1,), dtype="float32")(values)
    return keras.layers.Flatten(dtype="float32")(values) if len(field.shape) > 1 else values


def unfit(name: str, field: Input, model: str) -> str:
    """What to say of an input that is neither numbers nor categories."""
    if is_text(field):
        return f"train.model.name: {model!r} takes no text, and {name!r} is one; use 'text', or your own class"
    content = "strings" if field.dtype == "string" else "an unknown number of values"
    return f"train.model.name: {model!r} takes numbers and categories, and {name!r} holds {content}"
