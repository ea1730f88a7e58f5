"""A recurrent autoencoder: a window is compressed to one state and told again from it."""

from collections.abc import Sequence

import keras

CELLS = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU}


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
