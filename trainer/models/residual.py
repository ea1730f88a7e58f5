"""A small residual network over images."""

import keras

from beamfeed.contract.config.model import Residual
from beamfeed.trainer.models.heads import dropped, heads
from beamfeed.trainer.models.pictures import MIDDLE, beside_images, images_of
from beamfeed.trainer.models.signature import Signature
from beamfeed.trainer.models.tabular import check_outputs, named, side_by_side


def build_residual(section: Residual, signature: Signature) -> keras.Model:
    """Blocks of two convolutions and what comes in (He et al. 2015, "Deep residual learning", 3 x 3 blocks).

    Each image of the inputs has a network of its own; other inputs stand beside what these find.

    Returns:
      A functional model, dict of inputs by name (a tensor where there is one) -> `[batch, units]` for each head.

    Raises:
      UserError: if no input is an image, one is too small, or the task gives an input back.
    """
    check_outputs(signature, section.name)
    halvings = len(section.filters) - 1 + (section.stem > 1) + (section.stem > 2)
    images = images_of(signature, section.name, least=2**halvings)
    inputs = signature.keras_inputs()
    by_name = named(inputs, signature)
    parts = [_read(by_name[name], section) for name in images]
    parts += beside_images(by_name, signature, images, section.name)
    state = dropped(side_by_side(parts), section.dropout)
    for units in section.dense:
        state = dropped(keras.layers.Dense(units, activation="relu")(state), section.dropout)
    return keras.Model(inputs, heads(state, signature), name="residual")


def _read(images: keras.KerasTensor, section: Residual) -> keras.KerasTensor:
    """Images from 0 to 1, `[batch, height, width, channels]` -> `[batch, filters]`, the mean over what was found."""
    state = keras.layers.Rescaling(2.0, -2 * MIDDLE)(images)
    state = _convolution(state, section.filters[0], strides=min(section.stem, 2))
    state = keras.layers.ReLU()(state)
    if section.stem > 2:
        state = keras.layers.MaxPooling2D(2, padding="same")(state)
    for stage, filters in enumerate(section.filters):
        for block in range(section.blocks):
            state = _block(state, filters, strides=2 if stage and not block else 1)
    return keras.layers.GlobalAveragePooling2D()(state)


def _block(state: keras.KerasTensor, filters: int, strides: int) -> keras.KerasTensor:
    found = keras.layers.ReLU()(_convolution(state, filters, strides))
    found = _convolution(found, filters)
    if strides > 1 or state.shape[-1] != filters:
        state = _convolution(state, filters, strides, width=1)
    return keras.layers.ReLU()(keras.layers.Add()([state, found]))


def _convolution(state: keras.KerasTensor, filters: int, strides: int = 1, width: int = 3) -> keras.KerasTensor:
    """With batch normalization, whose offset is instead of a bias."""
    found = keras.layers.Conv2D(
        filters, width, strides, padding="same", use_bias=False, kernel_initializer="he_normal"
    )(state)
    return keras.layers.BatchNormalization(momentum=0.9)(found)
