"""Heads of networks, and an ensemble of these in one model: each by itself, or with most of their weights in common.

Members learn each by itself: the loss of a step is the mean of theirs, where that of evaluation is of the mean of their
outputs. Of those with weights in common (BatchEnsemble, Wen et al. 2020; for tables TabM, Gorishniy et al. 2024) each
has its own scales of the values before and after a shared dense layer, and its own head.
"""

from collections.abc import Sequence
from typing import Any

import keras

from beamfeed.contract.dataset.argument_names import ascii_name
from beamfeed.contract.errors import UserError
from beamfeed.trainer.models.parts import broadcast_add, dropped, in_units
from beamfeed.trainer.models.signature import Signature, one_or_all

MEAN = "_mean_of_members"  # what the name of the layer ends with that makes one output of all members'
SPREAD = 0.5  # of the scales that members begin with, around 1


def model_of_states(
    inputs: Any,
    states: Sequence[keras.KerasTensor],
    signature: Signature,
    name: str,
    added: dict[str, keras.KerasTensor] | None = None,
) -> keras.Model:
    """A functional model of these inputs, with a head an output on the state of each member, `[batch, numbers]`.

    Args:
      inputs: a tensor where there is one, else a dict by name.
      states: of networks with no dense layer in common; one is no ensemble.
      signature: what the model must give.
      name: of the model.
      added: of one network, see `heads`.

    Raises:
      UserError: if several are to forecast.
    """
    state = states[0]
    if len(states) > 1:
        if any(output.continues for output in signature.outputs.values()):
            raise UserError(f"train.model.members: is {len(states)}, and a forecast takes 1")
        state = keras.layers.Concatenate(axis=1)([keras.layers.Reshape((1, -1))(state) for state in states])
    return keras.Model(inputs, heads(state, signature, added), name=name)


def heads(state: keras.KerasTensor, signature: Signature, added: dict[str, keras.KerasTensor] | None = None) -> Any:
    """The outputs of a model: one tensor `[batch, units]`, float32, or a dict by name where there are several.

    Args:
      state: `[batch, numbers]`, that they are made from; of an ensemble `[batch, members, numbers]`, and the outputs
        are the means of the members'.
      signature: what the model must give.
      added: by name, `[batch, units]` (of a forecast, `[batch, rows, columns]`) to be added before the output is
        in the units of its target.
    """
    of_members, outputs = len(state.shape) == 3, {}
    for name, output in signature.outputs.items():
        assert output.units is not None
        beside = added.get(name) if added else None
        settings = {"name": f"{name}_head", "kernel_initializer": "glorot_uniform" if beside is None else "zeros"}
        if of_members:
            shape = (state.shape[1], output.units)
            head = keras.layers.EinsumDense("bmn,mnu->bmu", shape, bias_axes="mu", dtype="float32", **settings)
        else:
            head = keras.layers.Dense(output.units, dtype="float32", **settings)
        numbers = head(state)
        if output.continues:
            numbers = keras.layers.Reshape(output.shapes[0], name=f"{name}_rows", dtype="float32")(numbers)
        if beside is not None:
            beside = keras.layers.Reshape((1, -1), dtype="float32")(beside) if of_members else beside
            numbers = broadcast_add(beside, numbers, f"{name}_sum")
        numbers = in_units(numbers, name, output)
        if of_members:
            mean = keras.layers.GlobalAveragePooling1D(name=f"{ascii_name(name)}{MEAN}", dtype="float32")
            numbers = mean(numbers)
        outputs[name] = numbers
    return one_or_all(outputs)


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
