"""An ensemble of networks that share most of their weights, in one model.

BatchEnsemble, Wen et al. 2020; for tables TabM, Gorishniy et al. 2024. Each member has its own scales of the values
before and after a shared dense layer, and its own head. Members learn each by itself: the loss of a step is the mean
of theirs, where that of evaluation is of the mean of their outputs.
"""

from typing import Any

import keras

from beamfeed.contract.dataset.argument_names import ascii_name
from beamfeed.trainer.models.parts import dropped, in_units
from beamfeed.trainer.models.signature import Signature, one_or_all

MEAN = "_mean_of_members"  # what the name of the layer ends with that makes one output of all members'
SPREAD = 0.5  # of the scales that members begin with, around 1


def as_members(values: keras.KerasTensor, members: int) -> keras.KerasTensor:
    """`[batch, numbers]` -> `[batch, members, numbers]`, scaled differently for each member."""
    initial = keras.initializers.RandomNormal(1.0, SPREAD)
    return _scaled(keras.layers.RepeatVector(members)(values), initial)


def dense_of_members(values: keras.KerasTensor, units: int, dropout: float, *, first: bool) -> keras.KerasTensor:
    """A dense layer of all members with a skip connection where it is as wide as its input.

    Args:
      values: `[batch, members, numbers]`.
      units: of the layer.
      dropout: share of its values that training leaves out.
      first: whether the values have the scales of their members already.
    """
    members = values.shape[1]
    state = values if first else _scaled(values, "ones")
    state = keras.layers.Dense(units, use_bias=False, kernel_initializer="he_uniform")(state)
    state = keras.layers.EinsumDense(
        "bmu,mu->bmu", (members, units), bias_axes="mu", kernel_initializer="ones", activation="relu"
    )(state)
    if values.shape[-1] == units:
        state = keras.layers.Add()([values, state])
    return dropped(state, dropout)


def heads_of_members(
    state: keras.KerasTensor, signature: Signature, added: dict[str, keras.KerasTensor] | None = None
) -> Any:
    """The outputs of a model, as `beamfeed.trainer.models.parts.heads`, of `[batch, members, numbers]`."""
    outputs = {}
    for name, output in signature.outputs.items():
        assert output.units is not None
        head = keras.layers.EinsumDense(
            "bmn,mnu->bmu", (state.shape[1], output.units), bias_axes="mu", name=f"{name}_head", dtype="float32",
            kernel_initializer="zeros" if added else "glorot_uniform",
        )  # fmt: skip
        numbers = head(state)
        if added:
            same = keras.layers.Reshape((1, -1), dtype="float32")(added[name])
            numbers = keras.layers.Add(name=f"{name}_sum", dtype="float32")([numbers, same])
        numbers = in_units(numbers, name, output)
        mean = keras.layers.GlobalAveragePooling1D(name=f"{ascii_name(name)}{MEAN}", dtype="float32")
        outputs[name] = mean(numbers)
    return one_or_all(outputs)


def with_members(model: keras.Model) -> keras.Model | None:
    """A model of the same layers for (output, outputs of the members, `[batch, members, units]` each).

    None where the model has no members.
    """
    means = {layer.name.removesuffix(MEAN): layer for layer in model.layers if layer.name.endswith(MEAN)}
    if not means:
        return None
    outputs = model._outputs_struct
    names = [ascii_name(name) for name in outputs] if isinstance(outputs, dict) else list(means)
    members = [means[name].input for name in names]
    return keras.Model(
        model._inputs_struct,
        (outputs, dict(zip(outputs, members, strict=True)) if isinstance(outputs, dict) else members[0]),
    )


def _scaled(values: keras.KerasTensor, initial: Any) -> keras.KerasTensor:
    """Each member's numbers times scales of its own."""
    return keras.layers.EinsumDense("bmn,mn->bmn", tuple(values.shape[1:]), kernel_initializer=initial)(values)
