"""Recurrent layers over a window, and heads on their last state."""

import keras

from beamfeed.contract.config.model import Recurrent
from beamfeed.contract.errors import UserError
from beamfeed.trainer.models.parts import dense_model, dropped, last_rows
from beamfeed.trainer.models.signature import Signature

CELLS = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU}


def build_recurrent(section: Recurrent, signature: Signature) -> keras.Model:
    """The model that the section describes.

    A functional model of plain Keras layers: `keras.saving.load_model` reads it
    where nothing of this project is installed.

    Returns:
      A model `[batch, length, features]` -> `[batch, units]` for each head, float32; a dict by the names of the
      outputs where there are several. Of a forecast `[batch, rows, columns]`: the last row, and what the head adds.

    Raises:
      UserError: if the windows are no series, or are to be given back.
    """
    if any(output.units is None for output in signature.outputs.values()):
        raise UserError(
            "train.model.name: 'recurrent' does not reconstruct windows; use 'recurrent_autoencoder', or your own class"
        )
    if signature.series is None:
        raise UserError("train.model.name: 'recurrent' is for series: windows of rows of numbers")
    layer = CELLS[section.cell]
    *deeper, last = section.units
    windows = keras.Input(signature.series, name="windows")
    state = windows
    for size in deeper:
        state = dropped(layer(size, return_sequences=True)(state), section.dropout)
    states, added = [layer(last)(state)], last_rows(windows, signature)
    return dense_model(windows, states, section.dense, section.dropout, signature, section.name, added)
