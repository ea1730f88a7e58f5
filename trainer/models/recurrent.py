"""Recurrent layers over a window, and heads on their last state."""

import keras

from beamfeed.contract.config.model import Recurrent
from beamfeed.contract.errors import UserError
from beamfeed.trainer.models.forecast import linear_forecast
from beamfeed.trainer.models.members import model_of_states
from beamfeed.trainer.models.parts import dense, dropped
from beamfeed.trainer.models.signature import Signature

TREND = 25  # rows of the moving mean of the linear part of a forecast
CELLS = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU}


def build_recurrent(section: Recurrent, signature: Signature) -> keras.Model:
    """The model that the section describes.

    A functional model of plain Keras layers: `keras.saving.load_model` reads it
    where nothing of this project is installed.

    Returns:
      A model `[batch, length, features]` -> `[batch, units]` for each head, float32; a dict by the names of the
      outputs where there are several. Of a forecast `[batch, rows, columns]`: a linear one, and what the head adds,
      which at first is nothing: so it does not lose to a linear model.

    Raises:
      UserError: if the windows are no series, or are to be given back, or members are to forecast.
    """
    if any(output.units is None for output in signature.outputs.values()):
        raise UserError(
            "train.model.name: 'recurrent' does not reconstruct windows; use 'recurrent_autoencoder', or your own class"
        )
    if signature.series is None:
        raise UserError("train.model.name: 'recurrent' is for series: windows of rows of numbers")
    windows = keras.Input(signature.series, name="windows")
    added = {
        name: linear_forecast(windows, name, output, TREND, last=True)
        for name, output in signature.outputs.items()
        if output.continues
    }
    # Of forecasts alone, all is seen from the last row: so a level that training did not have changes nothing.
    seen = windows - windows[:, -1:] if len(added) == len(signature.outputs) else windows
    states = [_read_rows(seen, section) for _ in range(section.members)]
    return model_of_states(windows, states, signature, section.name, added)


def _read_rows(rows: keras.KerasTensor, section: Recurrent) -> keras.KerasTensor:
    """`[batch, length, features]` -> `[batch, numbers]`: of the last row's state, as dense layers have it."""
    layer = CELLS[section.cell]
    *deeper, last = section.units
    for size in deeper:
        rows = dropped(layer(size, return_sequences=True)(rows), section.dropout)
    return dense([layer(last)(rows)], section.dense, section.dropout)
