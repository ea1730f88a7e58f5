"""A recurrent autoencoder: a window is compressed to one state and told again from it."""

from collections.abc import Sequence
from typing import Any

import keras

CELLS = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU}


@keras.saving.register_keras_serializable("beamfeed")
class RecurrentAutoencoder(keras.Model):
    """Recurrent layers down to a latent state, and the same layers in reverse.

    Attributes:
      encoder: `[batch, length, features]` -> `[batch, latent]`
      decoder: `[batch, latent]` -> `[batch, length, features]`
    """

    def __init__(
        self, length: int, features: int, units: Sequence[int], latent: int, cell: str = "lstm", **kwargs: Any
    ):
        super().__init__(**kwargs)
        self._config = {
            "length": length,
            "features": features,
            "units": list(units),
            "latent": latent,
            "cell": cell,
        }
        layer = CELLS[cell]
        *deeper, last = units
        self.encoder = keras.Sequential(
            [
                keras.Input((length, features)),
                *[layer(size, return_sequences=True) for size in deeper],
                layer(last),
                keras.layers.Dense(latent, name="latent"),
            ],
            name="encoder",
        )
        self.decoder = keras.Sequential(
            [
                keras.Input((latent,)),
                keras.layers.RepeatVector(length),
                *[layer(size, return_sequences=True) for size in reversed(units)],
                keras.layers.Dense(features, name="reconstruction"),
            ],
            name="decoder",
        )

    def build(self, input_shape: Any) -> None:
        """The encoder and the decoder are built as they are made."""
        self.built = True

    def call(self, windows: Any, training: bool = False) -> Any:
        return self.decoder(self.encoder(windows, training=training), training=training)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._config}
