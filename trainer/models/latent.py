"""The latent state of a model: what its part named `encoder` makes of the model's input."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras


def find_encoder(model: keras.Model) -> keras.Layer | None:
    """The part that compresses windows to a latent state: the model's attribute or layer `encoder`, if it has one."""
    part = getattr(model, "encoder", next((layer for layer in model.layers if layer.name == "encoder"), None))
    return part if isinstance(part, keras.Layer) else None


def with_latent(model: keras.Model) -> Callable[[Any], tuple[Any, Any]]:
    """A function of a batch of inputs -> (latent, given): what the encoder makes of it, and what the model gives.

    The model itself gives the second, whatever it does with its parts. `latent` is None where there is no encoder. In
    a functional model the encoder is run once for both, at its place in the model; else it is called with the input.
    """
    encoder = find_encoder(model)
    if encoder is None:
        return lambda x: (None, model(x, training=False))
    functional = _both_outputs(model, encoder)
    if functional is not None:
        return lambda x: functional(x, training=False)
    return lambda x: (encoder(x, training=False), model(x, training=False))


def sees_input(model: keras.Model, x: Any) -> bool:
    """Whether the encoder makes of the input what it makes where the model runs; also if the model does not call it.

    Args:
      model: which was built.
      x: a batch of its inputs, of noise.
    """
    encoder = find_encoder(model)
    if encoder is None or _both_outputs(model, encoder) is not None:
        return True
    with _recorded(encoder) as recorded:
        model(x, training=False)
    latent = keras.ops.convert_to_numpy(encoder(x, training=False))
    within = [keras.ops.convert_to_numpy(values) for values in recorded]
    return not within or any(values.shape == latent.shape and _close(values, latent) for values in within)


def _both_outputs(model: keras.Model, encoder: keras.Layer) -> keras.Model | None:
    """A model of the same layers for (latent, given); None unless the encoder is one step of a functional model."""
    levels = getattr(model, "_nodes_by_depth", {}) if type(model).__module__.startswith("keras.") else {}
    steps = [node for level in levels.values() for node in level if node.operation is encoder]
    if len(steps) != 1 or len(steps[0].outputs) != 1:
        return None
    return keras.Model(model._inputs_struct, (steps[0].outputs[0], model._outputs_struct))


@contextmanager
def _recorded(layer: keras.Layer) -> Iterator[list[Any]]:
    """Lists what the layer makes when it is called."""
    outputs: list[Any] = []
    call = layer.call

    def recording(*args: Any, **kwargs: Any) -> Any:
        outputs.append(call(*args, **kwargs))
        return outputs[-1]

    layer.call = recording
    try:
        yield outputs
    finally:
        layer.call = call


def _close(left: Any, right: Any) -> bool:
    return bool(abs(left - right).max(initial=0) <= 1e-4 * max(1.0, abs(right).max(initial=0)))
