"""Several inputs of any shapes: convolutions over images, and dense layers over all that was found."""

import keras

from beamfeed.contract.config.model import MultiInput
from beamfeed.contract.dataset.argument_names import ascii_name
from beamfeed.contract.errors import UserError
from beamfeed.trainer.models.members import model_of_states
from beamfeed.trainer.models.parts import as_columns, check_outputs, dense
from beamfeed.trainer.models.signature import Input, Signature, one_or_all

LEAST = 2  # of a height or a width that is halved


def build_multi_input(section: MultiInput, signature: Signature) -> keras.Model:
    """Each input by itself, then all side by side through dense layers.

    Returns:
      A functional model, dict of inputs by name (a tensor where there is one) -> `[batch, units]` for each head.

    Raises:
      UserError: if an input is not of real numbers of one shape, or the task gives an input back.
    """
    check_outputs(signature, section.name)
    inputs = signature.keras_inputs()
    parts = [_read(inputs[name], name, field, section) for name, field in signature.inputs.items()]
    state = dense(parts, section.units, section.dropout)
    return model_of_states(one_or_all(inputs), [state], signature, section.name)


def _read(values: keras.KerasTensor, name: str, field: Input, section: MultiInput) -> keras.KerasTensor:
    """An input `[batch, *shape]` -> `[batch, numbers]`."""
    if field.dtype == "string" or field.dtype.startswith("complex") or field.sizes or None in field.shape:
        content = "categories or words" if field.sizes else f"{field.dtype} {list(field.shape)}"
        raise UserError(f"train.model.name: {section.name!r} takes numbers of one shape, and {name!r} holds {content}")
    if field.dtype != keras.config.floatx():
        unit = 1 / 255 if field.dtype == "uint8" else 1.0  # of pixels it makes numbers up to 1
        values = keras.layers.Rescaling(unit, name=f"{ascii_name(name)}_numbers")(values)
    if section.filters and len(field.shape) in (2, 3) and not field.in_rows and min(field.shape[:2]) > LEAST:  # type: ignore
        return _convolved(values, name, field, section)
    return as_columns(values, field)


def _convolved(values: keras.KerasTensor, name: str, field: Input, section: MultiInput) -> keras.KerasTensor:
    """Images `[batch, height, width(, channels)]` -> `[batch, numbers]`."""
    if len(field.shape) == 2:
        values = keras.layers.Reshape((*field.shape, 1))(values)
    for place, filters in enumerate(section.filters):
        layer = keras.layers.Conv2D(
            filters, 3, padding="same", activation="relu", name=f"{ascii_name(name)}_convolution_{place}"
        )
        values = layer(values)
        if min(values.shape[1:3]) > LEAST:
            values = keras.layers.MaxPooling2D()(values)
    return keras.layers.Flatten()(values)
