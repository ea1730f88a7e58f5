"""Layers over the words of texts, and what they find beside the other inputs."""

import keras

from beamfeed.contract.config.model import TextModel
from beamfeed.contract.dataset.argument_names import ascii_name
from beamfeed.contract.errors import UserError
from beamfeed.trainer.models.members import model_of_states
from beamfeed.trainer.models.parts import check_outputs, dense, dropped, inputs_beside, is_text, side_by_side
from beamfeed.trainer.models.recurrent import CELLS
from beamfeed.trainer.models.signature import Input, Signature, one_or_all


def build_text(section: TextModel, signature: Signature) -> keras.Model:
    """Embeddings of words, a layer over them (convolutions after Kim 2014), and dense layers.

    Returns:
      A functional model, dict of inputs by name (a tensor where there is one) -> `[batch, units]` for each head.

    Raises:
      UserError: if no input is a text of one length, or the task gives an input back.
    """
    check_outputs(signature, section.name)
    if not any(is_text(field) for field in signature.inputs.values()):
        raise UserError("train.model.name: 'text' needs a text, and the dataset has none; there is 'tabular'")
    inputs, parts = signature.keras_inputs(), []
    for name, field in signature.inputs.items():
        if is_text(field):
            parts.append(_read(inputs[name], name, field, section))
        else:
            parts += inputs_beside(inputs[name], name, field, section.name, None)
    state = dense(parts, section.dense, section.dropout)
    return model_of_states(one_or_all(inputs), [state], signature, section.name)


def _read(ids: keras.KerasTensor, name: str, field: Input, section: TextModel) -> keras.KerasTensor:
    """Numbers of words `[batch, length]` -> `[batch, numbers]`."""
    (length,) = field.shape
    if length is None:
        raise UserError(f"features.{name}: length: ragged is for your own model; 'text' needs a number of words")
    words = keras.layers.Embedding(field.sizes[0], section.embedding, name=f"{ascii_name(name)}_embedding")(ids)
    words = dropped(words, section.dropout)
    if section.layer == "convolution":
        highest = [
            keras.layers.GlobalMaxPooling1D()(
                keras.layers.Conv1D(section.units, width, activation="relu", padding="same")(words)
            )
            for width in section.widths
        ]
        return side_by_side(highest)
    mask = keras.ops.not_equal(ids, 0)
    if section.layer == "mean":
        ones = keras.ops.expand_dims(keras.ops.cast(mask, words.dtype), -1)
        count = keras.ops.maximum(keras.ops.sum(ones, axis=1), 1)  # 0 of a text without a word
        return keras.ops.sum(words * ones, axis=1) / count
    return keras.layers.Bidirectional(CELLS[section.layer](section.units))(words, mask=mask)
