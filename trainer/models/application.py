"""A network of keras.applications over images, with the dataset's own outputs. Nothing is downloaded."""

import inspect
import os
import shutil
import tempfile
from types import ModuleType
from typing import Any

import keras
import tensorflow as tf

from beamfeed.contract.config.model import Application
from beamfeed.contract.errors import UserError, near_miss
from beamfeed.contract.own_code import told
from beamfeed.trainer.models.heads import dropped, heads
from beamfeed.trainer.models.pictures import beside_images, images_of
from beamfeed.trainer.models.signature import Signature
from beamfeed.trainer.models.tabular import check_outputs, named, side_by_side

KEY = "train.model"
WHITE = 255.0  # what these networks were made for
SUFFIXES = (".weights.h5", ".h5")


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
    network = _make(make, section, shape, name)
    network.trainable = not section.frozen
    inputs = signature.keras_inputs()
    by_name = named(inputs, signature)
    scaled = module.preprocess_input(keras.layers.Rescaling(WHITE)(by_name[name]))
    parts = [network(scaled), *beside_images(by_name, signature, images, section.name)]
    state = dropped(side_by_side(parts), section.dropout)
    for units in section.dense:
        state = dropped(keras.layers.Dense(units, activation="relu")(state), section.dropout)
    return keras.Model(inputs, heads(state, signature), name="application")


def find_network(name: str) -> tuple[Any, ModuleType]:
    """The function that makes a network of keras.applications, and the module that says how images are scaled for it.

    Raises:
      UserError: if there is none of this name.
    """
    modules = [one for one in vars(keras.applications).values() if inspect.ismodule(one)]
    found = {
        network: (function, module)
        for module in modules
        if hasattr(module, "preprocess_input")
        for network, function in vars(module).items()
        if network[0].isupper() and callable(function)
    }
    if name not in found:
        known = sorted(found)
        raise UserError(
            f"{KEY}.network: {name!r} is no network of keras.applications{near_miss(name, known)} "
            f"(allowed: {', '.join(known)})"
        )
    return found[name]


def _make(make: Any, section: Application, shape: tuple[int | None, ...], name: str) -> keras.Model:
    """The network with its weights."""
    try:
        network = make(include_top=False, weights=None, input_shape=shape, pooling="avg")
    except Exception as error:
        raise UserError(
            f"train.inputs.{name}.size: is {list(shape[:2])}, {section.network} cannot take it: {told(error)}"
        ) from error
    if section.weights is not None:
        _load(network, section.weights, section.network)
    return network


def _load(network: keras.Model, path: str, name: str) -> None:
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
            raise UserError(f"{key}: {path} cannot be read: {told(error)}") from error
        try:
            network.load_weights(local)
        except Exception as error:  # of h5py, or of Keras where the shapes differ
            raise UserError(
                f"{key}: {path} does not hold the weights of {name} without its last layer: {told(error)}"
            ) from error
