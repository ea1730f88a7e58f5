"""Recurrent layers over a window: heads on their last state, or an autoencoder."""

from collections.abc import Sequence

import keras

from beamfeed.contract.config.model import Recurrent, RecurrentAutoencoder
from beamfeed.contract.errors import UserError
from beamfeed.trainer.models.parts import dense_model, dropped
from beamfeed.trainer.models.signature import Signature

CELLS = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU}


def build_recurrent(section: Recurrent, signature: Signature) -> keras.Model:
    """The model that the section describes.

    A functional model of plain Keras layers: `keras.saving.load_model` reads it
    where nothing of this project is installed.

    Returns:
      A model `[batch, length, features]` -> `[batch, units]` for each head, float32; a dict by the names of the
      outputs where there are several.

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
    return dense_model(windows, [layer(last)(state)], section.dense, section.dropout, signature, section.name)


def build_recurrent_autoencoder(section: RecurrentAutoencoder, signature: Signature) -> keras.Model:
    """The model that the section describes.

    Raises:
      UserError: if the windows are no series, or something else than they is to be learned.
    """
    if not signature.gives_back:
        raise UserError(
            "train.model.name: 'recurrent_autoencoder' only reconstructs windows, for train.task {name: reconstruct}; "
            "to classify or regress, use 'recurrent' or your own class"
        )
    if signature.series is None:
        raise UserError("train.model.name: 'recurrent_autoencoder' is for series: windows of rows of numbers")
    return recurrent_autoencoder(*signature.series, section.units, section.latent, section.cell)


def recurrent_autoencoder(
    length: int, features: int, units: Sequence[int], latent: int, cell: str = "lstm"
) -> keras.Model:
    """Recurrent layers down to a latent state, and the same layers in reverse.

    A functional model of plain Keras layers: `keras.saving.load_model` reads it
    where nothing of this project is installed.

    Returns:
      A model `[batch, length, features]` -> the same shape, of two layers:

      - encoder: `[batch, length, features]` -> `[batch, latent]`
      - decoder: `[batch, latent]` -> `[batch, length, features]`
    """
    layer = CELLS[cell]
    *deeper, last = units
    encoder = keras.Sequential(
        [
            keras.Input((length, features)),
            *[layer(size, return_sequences=True) for size in deeper],
            layer(last),
            keras.layers.Dense(latent, name="latent"),
        ],
        name="encoder",
    )
    decoder = keras.Sequential(
        [
            keras.Input((latent,)),
            keras.layers.RepeatVector(length),
            *[layer(size, return_sequences=True) for size in reversed(units)],
            keras.layers.Dense(features, name="reconstruction"),
        ],
        name="decoder",
    )
    windows = keras.Input((length, features), name="windows")
    return keras.Model(windows, decoder(encoder(windows)), name="recurrent_autoencoder")
