"""A model of the user's own, from the class that the job names. What is wrong with it is told in one line."""

from typing import Any

import keras
import tensorflow as tf

from beamfeed.contract.config.model import CustomModel
from beamfeed.contract.errors import UserError, near_miss
from beamfeed.contract.own_code import import_own, one_line
from beamfeed.trainer.models.latent import sees_input, with_latent
from beamfeed.trainer.models.signature import Output, Signature, one_or_all

CLASS, ARGS = "train.model.class", "train.model.args"
TRIED = 2  # windows


def build_custom(section: CustomModel, signature: Signature) -> keras.Model:
    """Builds the class and tries it on windows of zeros.

    It is called with `length=` and `features=` where the one input is windows of rows, with `inputs={name: shape}`
    elsewhere; and with `outputs=` unless it only gives back what it gets: how many numbers, or where there are
    several outputs a dict of that by their names (for an output that gives windows back, their shape).

    Returns:
      A built model from and to what the signature says.

    Raises:
      UserError: in one line that names the key, and the user's line where it failed.
    """
    make = import_own(section.class_, CLASS)
    arguments = arguments_of(signature)
    try:
        model = make(**arguments, **section.args)
    except Exception as error:
        call = ", ".join(f"{key}={value!r}" for key, value in {**arguments, **section.args}.items())
        raise UserError(f"{ARGS}: {make.__name__}({call}) failed: {one_line(error)}") from error
    if not isinstance(model, keras.Model):
        raise UserError(f"{CLASS}: {section.class_} makes a {type(model).__name__}, it must be a keras.Model")
    _try_out(model, section.class_, signature)
    return model


def arguments_of(signature: Signature) -> dict[str, Any]:
    """What the dataset and the task say to a model's constructor."""
    arguments: dict[str, Any] = {}
    if signature.series is not None:
        arguments["length"], arguments["features"] = signature.series
    else:
        arguments["inputs"] = {name: list(field.shape) for name, field in signature.inputs.items()}
    if not signature.gives_back:
        outputs = {name: output.argument for name, output in signature.outputs.items()}
        arguments["outputs"] = one_or_all(outputs)
    return arguments


def _try_out(model: keras.Model, name: str, signature: Signature) -> None:
    """Runs the model and its encoder once, and sees whether it can be saved: not only when the training run is over.

    This also makes the weights of layers that wait for their first input, and the losses that layers add.
    """
    windows = signature.zeros(TRIED)
    of = f"windows {[list(array.shape) for array in tf.nest.flatten(windows)]}"
    if isinstance(windows, tf.Tensor):
        of = f"windows {list(windows.shape)}"
    try:
        latent, outputs = with_latent(model)(windows)
    except Exception as error:
        raise UserError(f"{CLASS}: {name} fails on {of}: {one_line(error)}") from error
    for output, tensor in _by_output(outputs, name, signature).items():
        _check_output(tensor, output, name, of, signature)
    try:
        of_noise = tf.function(model, autograph=False)(signature.noise(TRIED), training=False)
    except Exception as error:
        raise UserError(
            f"{CLASS}: {name} fails in a graph (tf.function), as training runs it: {one_line(error)}"
        ) from error
    for output, tensor in _by_output(of_noise, name, signature).items():
        _check_logits(tensor, signature.outputs[output], name, output)
    if latent is not None:
        if not hasattr(latent, "shape") or tuple(latent.shape)[:1] != (TRIED,):
            raise UserError(f"{CLASS}: the encoder of {name} must make one tensor of windows, with the batch first")
        if not sees_input(model, signature.noise(TRIED)):
            raise UserError(
                f"{CLASS}: {name} does not give its input to its encoder unchanged, so the exported latent state would "
                "differ from its own; let `encoder` do everything from the input to the latent state"
            )
    if not model.trainable_variables:
        raise UserError(f"{CLASS}: {name} has no weights to train")
    try:
        keras.saving.serialize_keras_object(model)
    except Exception as error:  # Keras raises whatever get_config does, and some pages of advice
        raise UserError(f"{CLASS}: {name} cannot be saved, it needs a get_config: {one_line(error)}") from error


def _by_output(outputs: Any, name: str, signature: Signature) -> dict[str, Any]:
    names = list(signature.outputs)
    if len(names) == 1:
        if not hasattr(outputs, "shape"):
            expected = "shaped as the windows" if signature.gives_back else f"of {_shapes(signature.outputs[names[0]])}"
            raise UserError(f"{CLASS}: {name} returns a {type(outputs).__name__}, it must be a tensor {expected}")
        return {names[0]: outputs}
    if not isinstance(outputs, dict):
        raise UserError(
            f"{CLASS}: {name} returns a {type(outputs).__name__}, it must be a dict with the outputs {', '.join(names)}"
        )
    for output in names:
        if output not in outputs:
            hint = near_miss(output, list(outputs))
            raise UserError(
                f"{CLASS}: {name} returns no output {output!r}{hint} (it returns: {', '.join(map(str, outputs))}; "
                f"the task needs: {', '.join(names)})"
            )
        if not hasattr(outputs[output], "shape"):
            raise UserError(f"{CLASS}: {name} returns a {type(outputs[output]).__name__} for the output {output!r}")
    if further := [str(output) for output in outputs if output not in names]:
        raise UserError(
            f"{CLASS}: {name} returns the output {further[0]!r}, which the task does not have "
            f"(it needs: {', '.join(names)})"
        )
    return outputs


def _check_output(tensor: Any, output: str, name: str, of: str, signature: Signature) -> None:
    spec = signature.outputs[output]
    shape = tuple(tensor.shape)
    if shape not in [(TRIED, *(size or 1 for size in shape_)) for shape_ in spec.shapes]:
        text = f"{CLASS}: {name} makes {list(shape)} of {of}"
        if signature.gives_back:
            raise UserError(f"{text}, it must keep the shape")
        if len(signature.outputs) > 1:
            text = f"{CLASS}: {name} makes {list(shape)} for the output {output!r} of {of}"
        raise UserError(f"{text}, the task needs {_shapes(spec)}")
    if not keras.backend.is_float_dtype(tensor.dtype):
        raise UserError(f"{CLASS}: {name} returns {tensor.dtype.name}, it must be of floating point numbers")


def _check_logits(tensor: tf.Tensor, spec: Output, name: str, output: str) -> None:
    """Of probabilities, a softmax makes a loss that hardly learns: each class is between 1 and e times as likely."""
    if not spec.logits or spec.units == 1:
        return
    numbers = tf.cast(tensor, tf.float32).numpy()
    if (numbers >= 0).all() and (abs(numbers.sum(axis=-1) - 1) < 1e-3).all():
        raise UserError(
            f"{CLASS}: {name} makes probabilities for the output {output!r}, the task needs logits: "
            "leave the softmax out"
        )


def _shapes(output: Output) -> str:
    return f"{' or '.join(str([TRIED, *shape]) for shape in output.shapes)}: {output.description}"
