"""Weights of a model that was trained before, to begin with: `train.init`."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from beamfeed.contract.config.train import Init
from beamfeed.contract.dataset.initial import KEY, initial_model
from beamfeed.contract.errors import UserError, first_line, near_miss

Shape = tuple[int, ...]
SHOWN = 12  # names in a message


def warm_start(model: keras.Model, init: Init) -> int:
    """Gives layers of a model, which is built, the weights of another one.

    Returns:
      A number below 2**24 that stands for the values: alike on workers that read the same.

    Raises:
      UserError: if there is no such model, or its layers are not as these.
    """
    path = initial_model(init)
    their_weights = dict(weights_of(_load(path)))
    own_weights = dict(weights_of(model))
    chosen = choose(shapes_of(own_weights), shapes_of(their_weights), init.layers, path)
    digest = hashlib.sha256()
    for name, source in chosen.items():
        value = np.asarray(their_weights[source])
        digest.update(value.tobytes())
        own_weights[name].assign(value)
    return int.from_bytes(digest.digest()[:3], "big")


def choose(
    own: Mapping[str, Shape], saved: Mapping[str, Shape], layers: Sequence[str] | None, path: str
) -> dict[str, str]:
    """Which weight of theirs each of ours is to have, by name.

    Those of the same name, of all layers or of those that are named. Models that are built alike fit whatever their
    layers are called.

    Raises:
      UserError: if one has no counterpart of its shape.
    """
    if layers is None and list(own.values()) == list(saved.values()) and set(own) != set(saved):
        return dict(zip(own, saved, strict=True))
    chosen = []
    for pattern in ["*"] if layers is None else layers:
        matching = [name for name in own if fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}/*")]
        if not matching:
            names = _layers(own)
            raise UserError(f"{KEY}.layers: {pattern} names no layer (there: {_few(names)}){near_miss(pattern, names)}")
        chosen += matching
    for name in chosen:
        if saved.get(name) != own[name]:
            fault = f"is {list(saved[name])}" if name in saved else f"is missing (there: {_few(_layers(saved))})"
            hint = "" if layers else f"; {KEY}.layers names those that are to be taken"
            raise UserError(f"{KEY}: {name} is {list(own[name])} in this model, and in {path} it {fault}{hint}")
    return {name: name for name in chosen}


def weights_of(layer: Any, within: str = "") -> Iterator[tuple[str, keras.Variable]]:
    """The weights and statistics of a layer and of those in it, by the names of layers; seeds are none.

    Names of layers are kept with a model, other than paths of its variables. Of those that Keras has numbered, the
    numbers count all layers of the process: here they count those beside each other.
    """
    counts: dict[str, int] = {}
    for variable in [*layer._trainable_variables, *layer._non_trainable_variables]:
        if np.issubdtype(np.dtype(tf.as_dtype(variable.dtype).as_numpy_dtype), np.floating):
            yield f"{within}{_once(variable.name, counts)}", variable
    for inner in layer._flatten_layers(include_self=False, recursive=False):
        yield from weights_of(inner, f"{within}{_once(_unnumbered(inner), counts)}/")


def shapes_of(weights: Mapping[str, keras.Variable]) -> dict[str, Shape]:
    """Their shapes, by the same names."""
    return {name: tuple(variable.shape) for name, variable in weights.items()}


def _unnumbered(layer: Any) -> str:
    """Its name; where Keras made that, `gru_3`, without the number."""
    name, kind = re.sub(r"_\d+$", "", layer.name), type(layer).__name__.lower()
    is_numbered = name.replace("_", "") in (kind, f"forward{kind}", f"backward{kind}")  # the parts of a Bidirectional
    return name if is_numbered else layer.name


def _once(name: str, counts: dict[str, int]) -> str:
    """The name, with a number if it was seen before."""
    counts[name] = counts.get(name, 0) + 1
    return name if counts[name] == 1 else f"{name}#{counts[name]}"


def _layers(weights: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(name.rpartition("/")[0] or name for name in weights))


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def _load(path: str) -> keras.Model:
    """The model in a file, local or gs://."""
    try:
        return keras.saving.load_model(path, compile=False)
    except MemoryError:
        raise
    except Exception as error:  # a broken file makes Keras, zipfile and h5py raise whatever comes
        raise UserError(f"{KEY}.from: {path} cannot be read: {first_line(error)[:200]}") from error
