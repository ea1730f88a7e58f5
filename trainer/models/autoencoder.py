"""Autoencoders of series: a network down to a latent state and up again, beside a linear path that begins as PCA.

    latent = linear(window) + network(window)        window = linear(latent) + network(latent)

The linear path alone can do what principal components do, and begins with those of training windows, see
`beamfeed.trainer.loop.first_weights`. The networks' last layers begin with zeros, so a model begins at the loss of PCA.

All are functional models of plain Keras layers: `keras.saving.load_model` reads them where nothing of this project is
installed. A model `[batch, length, features]` -> the same shape has two layers:

- encoder: `[batch, length, features]` -> `[batch, latent]`
- decoder: `[batch, latent]` -> `[batch, length, features]`
"""

from collections.abc import Callable, Sequence

import keras
import numpy as np

from beamfeed.contract.config.model import DenseAutoencoder, RecurrentAutoencoder
from beamfeed.contract.errors import UserError
from beamfeed.trainer.models.parts import dropped
from beamfeed.trainer.models.recurrent import CELLS
from beamfeed.trainer.models.signature import Signature

LINEAR = "linear"  # the name of the layers of the linear path
Network = Callable[[keras.KerasTensor], keras.KerasTensor]


def build_recurrent_autoencoder(section: RecurrentAutoencoder, signature: Signature) -> keras.Model:
    """Recurrent layers down to a latent state, and the same layers in reverse.

    Raises:
      UserError: if the windows are no series, or something else than they is to be learned.
    """
    length, features = _series(section.name, signature)
    layer = CELLS[section.cell]
    *deeper, last = section.units

    def down(rows: keras.KerasTensor) -> keras.KerasTensor:
        for size in deeper:
            rows = layer(size, return_sequences=True)(rows)
        return layer(last)(rows)

    def up(latent: keras.KerasTensor) -> keras.KerasTensor:
        rows = keras.layers.RepeatVector(length)(latent)
        for size in reversed(section.units):
            rows = layer(size, return_sequences=True)(rows)
        return keras.layers.Dense(features, kernel_initializer=_last(section.linear), name="reconstruction")(rows)

    return _autoencoder(section.name, (length, features), section.latent, down, up, section.linear)


def build_dense_autoencoder(section: DenseAutoencoder, signature: Signature) -> keras.Model:
    """Dense layers over all numbers of a window down to a latent state, and the same layers in reverse.

    Raises:
      UserError: if the windows are no series, or something else than they is to be learned.
    """
    shape = _series(section.name, signature)

    def dense(values: keras.KerasTensor, units: Sequence[int]) -> keras.KerasTensor:
        for size in units:
            values = dropped(keras.layers.Dense(size, activation="gelu")(values), section.dropout)
        return values

    def down(rows: keras.KerasTensor) -> keras.KerasTensor:
        return dense(keras.layers.Flatten()(rows), section.units)

    def up(latent: keras.KerasTensor) -> keras.KerasTensor:
        state = dense(latent, section.units[::-1])
        numbers = keras.layers.Dense(
            int(np.prod(shape)), kernel_initializer=_last(section.linear), name="reconstruction"
        )(state)
        return keras.layers.Reshape(shape)(numbers)

    return _autoencoder(section.name, shape, section.latent, down, up, section.linear)


def linear_path(model: keras.Model) -> list[keras.Variable]:
    """The weights of a model's linear path, or none: kernel and bias to the latent state, and back from it."""
    parts = [layer for layer in model.layers if layer.name in ("encoder", "decoder") and hasattr(layer, "layers")]
    layers = [layer for part in parts for layer in part.layers if layer.name == LINEAR]
    return [weight for layer in layers for weight in (layer.kernel, layer.bias)] if len(layers) == 2 else []


def _series(name: str, signature: Signature) -> tuple[int, int]:
    """Length and features of the windows, which are to be given back."""
    if not signature.gives_back:
        raise UserError(
            f"train.model.name: {name!r} only reconstructs windows, for train.task {{name: reconstruct}}; to classify "
            "or regress, use 'recurrent' or your own class"
        )
    if signature.series is None:
        raise UserError(f"train.model.name: {name!r} is for series: windows of rows of numbers")
    return signature.series


def _last(linear: bool) -> str:
    """How the last layer of a network begins."""
    return "zeros" if linear else "glorot_uniform"


def _autoencoder(
    name: str, shape: tuple[int, int], latent: int, down: Network, up: Network, linear: bool
) -> keras.Model:
    """An autoencoder.

    Args:
      name: of the model.
      shape: of a window.
      latent: numbers of the latent state.
      down: windows `[batch, length, features]` -> a state `[batch, units]`.
      up: a latent state `[batch, latent]` -> windows.
      linear: whether there is a linear path.
    """
    windows, state = keras.Input(shape), keras.Input((latent,))
    to_latent = keras.layers.Dense(latent, kernel_initializer=_last(linear), name="latent")(down(windows))
    to_windows = up(state)
    if linear:
        along = keras.layers.Dense(latent, name=LINEAR)(keras.layers.Flatten()(windows))
        to_latent = keras.layers.Add()([along, to_latent])
        back = keras.layers.Reshape(shape)(keras.layers.Dense(int(np.prod(shape)), name=LINEAR)(state))
        to_windows = keras.layers.Add()([back, to_windows])
    encoder = keras.Model(windows, to_latent, name="encoder")
    decoder = keras.Model(state, to_windows, name="decoder")
    whole = keras.Input(shape, name="windows")
    return keras.Model(whole, decoder(encoder(whole)), name=name)
