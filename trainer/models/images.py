"""Models of images: a small residual network, and those of keras.applications. Nothing is downloaded."""

import inspect
import os
import shutil
import tempfile
from types import ModuleType
from typing import Any

import keras
import tensorflow as tf

from beamfeed.contract.config.model import Application, Residual
from beamfeed.contract.errors import UserError, near_miss
from beamfeed.contract.own_code import one_line
from beamfeed.trainer.models.members import model_of_states
from beamfeed.trainer.models.parts import check_outputs, dense, inputs_beside, is_text
from beamfeed.trainer.models.signature import Input, Signature, one_or_all

KEY = "train.model"
MIDDLE = 0.5  # of an image's values, which are from 0 to 1
WHITE = 255.0  # what the networks of keras.applications were made for
SUFFIXES = (".weights.h5", ".h5")


def is_image(field: Input) -> bool:
    """Whether an input is an image: float32 `[height, width, channels]`."""
    return field.dtype == "float32" and not field.in_rows and len(field.shape) == 3 and None not in field.shape


def images_of(signature: Signature, model: str, least: int = 1) -> list[str]:
    """The names of the inputs that are images, each side of at least so many pixels.

    Raises:
      UserError: if there is none, or one is too small.
    """
    images = [name for name, field in signature.inputs.items() if is_image(field)]
    if not images:
        raise UserError(
            f"train.model.name: {model!r} needs images, and the dataset has none that a model gets as float32; "
            "train.inputs says how a field of images is decoded"
        )
    for name in images:
        height, width, _ = signature.inputs[name].shape
        if min(height or 0, width or 0) < least:
            need = f"the model {model!r} needs at least {least} by {least}"
            raise UserError(f"train.inputs.{name}.size: is [{height}, {width}], {need}")
    return images


def beside_images(
    inputs: dict[str, keras.KerasTensor], signature: Signature, images: list[str], model: str
) -> list[keras.KerasTensor]:
    """The other inputs as dense layers take them, `[batch, numbers]` each.

    Raises:
      UserError: if one is neither numbers nor categories.
    """
    parts = []
    for name, field in signature.inputs.items():
        if name in images:
            continue
        if is_text(field):
            raise UserError(f"train.model.name: {model!r} takes no text, and {name!r} is one; use your own class")
        parts += inputs_beside(inputs[name], name, field, model, None)
    return parts


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
    beside = beside_images(inputs, signature, images, section.name)
    states = [
        dense([*(_read_image(inputs[name], section) for name in images), *beside], section.dense, section.dropout)
        for _ in range(section.members)
    ]
    return model_of_states(one_or_all(inputs), states, signature, section.name)


def _read_image(images: keras.KerasTensor, section: Residual) -> keras.KerasTensor:
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
    change = keras.layers.ReLU()(_convolution(state, filters, strides))
    change = _convolution(change, filters)
    if strides > 1 or state.shape[-1] != filters:
        state = _convolution(state, filters, strides, width=1)
    return keras.layers.ReLU()(keras.layers.Add()([state, change]))


def _convolution(state: keras.KerasTensor, filters: int, strides: int = 1, width: int = 3) -> keras.KerasTensor:
    """With batch normalization, whose offset is instead of a bias."""
    state = keras.layers.Conv2D(
        filters, width, strides, padding="same", use_bias=False, kernel_initializer="he_normal"
    )(state)
    return keras.layers.BatchNormalization(momentum=0.9)(state)


def build_application(section: Application, signature: Signature) -> keras.Model:
    """The network without its last layer, images scaled as it wants them, and heads on the mean of what it finds.

    Returns:
      A functional model, dict of inputs by name (a tensor where there is one) -> `[batch, units]` for each head.

    Raises:
      UserError: if there is no such network, it does not take such images, or the weights are not its own.
    """
    check_outputs(signature, section.name)
    make, module = find_network(section.network)
    images = images_of(signature, section.name)
    if len(images) > 1:
        raise UserError(f"{KEY}.name: {section.name!r} takes one image, the dataset has {', '.join(images)}")
    (name,) = images
    shape = signature.inputs[name].shape
    if shape[2] != 3:
        raise UserError(
            f"train.inputs.{name}.channels: is {shape[2]}, and {section.network} takes 3 (grey images can be "
            "decoded as 3 channels)"
        )
    try:
        network = make(include_top=False, weights=None, input_shape=shape, pooling="avg")
    except Exception as error:
        raise UserError(
            f"train.inputs.{name}.size: is {list(shape[:2])}, {section.network} cannot take it: {one_line(error)}"
        ) from error
    if section.weights is not None:
        _load_weights(network, section.weights, section.network)
    network.trainable = not section.frozen
    inputs = signature.keras_inputs()
    scaled = module.preprocess_input(keras.layers.Rescaling(WHITE)(inputs[name]))
    parts = [network(scaled), *beside_images(inputs, signature, images, section.name)]
    state = dense(parts, section.dense, section.dropout)
    return model_of_states(one_or_all(inputs), [state], signature, section.name)


def find_network(name: str) -> tuple[Any, ModuleType]:
    """The function that makes a network of keras.applications, and the module that says how images are scaled for it.

    Raises:
      UserError: if there is none of this name.
    """
    modules = [module for module in vars(keras.applications).values() if inspect.ismodule(module)]
    networks = {
        network: (function, module)
        for module in modules
        if hasattr(module, "preprocess_input")
        for network, function in vars(module).items()
        if network[0].isupper() and callable(function)
    }
    if name not in networks:
        allowed = sorted(networks)
        raise UserError(
            f"{KEY}.network: {name!r} is not a network of keras.applications{near_miss(name, allowed)} "
            f"(allowed: {', '.join(allowed)})"
        )
    return networks[name]


def _load_weights(network: keras.Model, path: str, name: str) -> None:
    key = f"{KEY}.weights"
    if not path.endswith(SUFFIXES):
        raise UserError(f"{key}: {path} must be a file of weights, {' or '.join(SUFFIXES)}")
    with tempfile.TemporaryDirectory() as folder:
        local = os.path.join(folder, os.path.basename(path))
        try:
            with tf.io.gfile.GFile(path, "rb") as source, open(local, "wb") as copy:
                shutil.copyfileobj(source, copy)
        except tf.errors.NotFoundError:
            raise UserError(f"{key}: there is no file {path}") from None
        except tf.errors.OpError as error:
            raise UserError(f"{key}: {path} cannot be read: {one_line(error)}") from error
        try:
            network.load_weights(local)
        except Exception as error:  # of h5py, or of Keras where the shapes differ
            raise UserError(
                f"{key}: {path} does not hold the weights of {name} without its last layer: {one_line(error)}"
            ) from error
