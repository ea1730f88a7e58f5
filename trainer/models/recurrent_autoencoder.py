"""A recurrent autoencoder: a window is compressed to one state and told again from it."""

from collections.abc import Sequence

import keras

from beamfeed.contract.config.model import RecurrentAutoencoder
from beamfeed.contract.errors import UserError
from beamfeed.trainer.models.recurrent import CELLS
from beamfeed.trainer.models.signature import Signature


def build_recurrent_autoencoder(section: RecurrentAutoencoder, signature: Signature) -> keras.Model:
    """The model that the section describes.

    Raises:
      UserError: if the windows are no series, or something else than they is to be learned.
    """
    if not signature.gives_back:
        raise UserError(
            "train.model.name: 'recurrent_autoencoder' gives windows back and does nothing else, for train.task "
            "{name: reconstruct}; to classify or regress there is 'recurrent', or a class of your own"
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
