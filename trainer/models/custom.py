"""A model of the user's own, from the class that the job names. What is wrong with it is told in one line."""

import difflib
import importlib
import os
import traceback
from typing import Any

import keras
import numpy as np

from beamfeed.contract.config.model import CustomModel
from beamfeed.contract.errors import UserError

CLASS, ARGS = "train.model.class", "train.model.args"


def build_custom(section: CustomModel, length: int, features: int) -> keras.Model:
    """Builds `Class(length=length, features=features, **args)` and tries it on windows of zeros.

    Returns:
      A built model from float32 `[batch, length, features]` to the same shape.

    Raises:
      UserError: in one line that names the key, and the user's line where it failed.
    """
    make = find_class(section.class_)
    try:
        model = make(length=length, features=features, **section.args)
    except Exception as error:
        given = ", ".join(f"{key}={value!r}" for key, value in section.args.items())
        call = f"{make.__name__}(length={length}, features={features}{', ' if given else ''}{given})"
        raise UserError(f"{ARGS}: {call} failed: {_told(error)}") from error
    if not isinstance(model, keras.Model):
        raise UserError(f"{CLASS}: {section.class_} makes a {type(model).__name__}, it must be a keras.Model")
    _try_out(model, section.class_, (2, length, features))
    return model


def find_class(path: str) -> Any:
    """Imports `package.module:Class`. A function that returns a keras.Model will do too.

    Raises:
      UserError: if there is no such module or class, or the module cannot be imported.
    """
    module_name, _, name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise UserError(f"{CLASS}: importing {module_name} failed: {_told(error)}") from error
        raise UserError(
            f"{CLASS}: there is no module {error.name!r}; start in the folder that holds it, or name that in PYTHONPATH"
        ) from None
    except Exception as error:
        raise UserError(f"{CLASS}: importing {module_name} failed: {_told(error)}") from error
    if not callable(found := getattr(module, name, None)):
        near = difflib.get_close_matches(name, [n for n in vars(module) if callable(getattr(module, n))], n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        place = getattr(module, "__file__", None) or "a folder"  # that has no __init__.py
        raise UserError(f"{CLASS}: {module_name} ({place}) has no class {name!r}{hint}")
    return found


def find_encoder(model: keras.Model) -> keras.Layer | None:
    """The part that compresses windows to a latent state: the model's attribute or layer `encoder`, if it has one."""
    found = getattr(model, "encoder", next((layer for layer in model.layers if layer.name == "encoder"), None))
    return found if isinstance(found, keras.Layer) else None


def _try_out(model: keras.Model, name: str, shape: tuple[int, int, int]) -> None:
    """Runs the model and its encoder once, and sees whether it can be saved: not only when the training run is over.

    This also makes the weights of layers that wait for their first input.
    """
    windows = np.zeros(shape, np.float32)
    encoder = find_encoder(model)
    try:
        found = model(windows, training=False)
        latent = found if encoder is None else encoder(windows, training=False)
    except Exception as error:
        raise UserError(f"{CLASS}: {name} fails on windows {list(shape)}: {_told(error)}") from error
    if not hasattr(found, "shape"):
        raise UserError(f"{CLASS}: {name} returns a {type(found).__name__}, it must be a tensor shaped as the windows")
    if tuple(found.shape) != shape:
        raise UserError(f"{CLASS}: {name} makes {list(found.shape)} of windows {list(shape)}, it must keep the shape")
    if keras.backend.standardize_dtype(found.dtype) != "float32":
        raise UserError(f"{CLASS}: {name} returns {found.dtype.name}, it must be float32 as the windows")
    if not hasattr(latent, "shape") or tuple(latent.shape)[:1] != shape[:1]:
        raise UserError(f"{CLASS}: the encoder of {name} must make one tensor of windows, with the batch first")
    if not model.trainable_variables:
        raise UserError(f"{CLASS}: {name} has no weights to train")
    try:
        keras.saving.serialize_keras_object(model)
    except Exception as error:  # Keras raises whatever get_config does, and some pages of advice
        raise UserError(f"{CLASS}: {name} cannot be saved, it needs a get_config: {_told(error)}") from error


def _told(error: Exception) -> str:
    """The error in one line, and the last line of code outside of Keras and Python that led to it."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    if isinstance(error, SyntaxError):
        place: str | None = f"{error.filename}:{error.lineno}"
        text = error.msg
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if f.filename != __file__ and not _is_installed(f.filename)]
        place = f"{own[-1].filename}:{own[-1].lineno}" if own else None
    return f"{type(error).__name__}: {text}" + (f" ({place})" if place else "")


def _is_installed(filename: str) -> bool:
    """Whether a file of code is Python's or of an installed package."""
    return filename.startswith("<") or filename.startswith(os.path.dirname(os.__file__)) or "site-packages" in filename
