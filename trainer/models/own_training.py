"""What a model of the user's own would do in training beside its `call`: refused in a line, before anything is trained.

The trainer has a loop of its own and calls the model alone. What Keras's `fit` would call beside it would be ignored
without a word, and numbers that Keras does not know of are in no checkpoint. A model that predicts by chance is
another function each time: evaluation could choose no best weights, and no export would be the trained model.
"""

import random
import re
from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from beamfeed.contract.config.train import Devices
from beamfeed.contract.errors import UserError
from beamfeed.contract.own_code import one_line
from beamfeed.trainer.models.signature import Signature

INSTEAD = "the trainer has its own loop and only calls the model"
LOSSES = "add a loss in call with self.add_loss, or name one in train.task"
OUTPUTS = "let call return what the model gives"
# Methods that Keras's fit, evaluate and predict call, and what to do instead.
UNUSED = {
    "train_step": LOSSES,
    "test_step": LOSSES,
    "compute_loss": LOSSES,
    "compute_loss_and_updates": LOSSES,
    "stateless_compute_loss": LOSSES,
    "compute_metrics": "name metrics in train.task.metrics",
    "make_train_function": LOSSES,
    "make_test_function": LOSSES,
    "train_on_batch": LOSSES,
    "fit": "leave it out",
    "predict_step": OUTPUTS,
    "make_predict_function": OUTPUTS,
    "evaluate": "name metrics in train.task.metrics",
    "predict": OUTPUTS,
}
TRAINING_ONLY = "evaluation and export need a model that always predicts the same; do so only if training is true"
SEED = "give it a keras.random.SeedGenerator that the layer keeps: keras.random.normal(..., seed=self.seed)"
GENERATOR = re.compile("Stateful(Standard|Uniform|Truncated|Random)|Rng")  # operations of tf.random.Generator
SEED_STATE = "seed_generator_state"  # how Keras names the state of a SeedGenerator: int64 [seed, count]
PYTHON = ("PyFunc", "PyFuncStateless", "EagerPyFunc")


def check_training(model: keras.Model, key: str, name: str, signature: Signature, devices: Devices) -> None:
    """Traces the model as training and prediction call it, and looks for what they cannot do or keep.

    Args:
      model: which was built and tried.
      key: of the job that names it.
      name: its class, as the job has it.
      signature: what it gets.
      devices: `train.devices` of the job.

    Raises:
      UserError: for the first thing, in one line that says what to do instead.
    """
    for method, instead in UNUSED.items():
        owner = next((cls for cls in type(model).__mro__ if method in vars(cls)), None)
        if method in vars(model) or (owner is not None and not owner.__module__.startswith("keras.")):
            raise UserError(f"{key}: {name} defines {method}, which would not be called: {INSTEAD}; {instead}")
    if model.compiled:
        raise UserError(
            f"{key}: {name} is compiled, but the job says what is trained and how: train.optimizer, train.task.loss, "
            "train.task.metrics; leave compile out (keras.saving.load_model: compile=False)"
        )
    _check_types(model, key, name, devices.precision)
    _check_synchronized(model, key, name, devices)
    built = {variable.path for variable in model.variables}

    def known_variables() -> list[Any]:
        late = [variable.path for variable in model.variables if variable.path not in built]
        if late:
            raise UserError(
                f"{key}: {name} makes weights only when training=True ({late[0]}), when it is too late for the "
                "optimizer; let __init__ or build make them"
            )
        return [*model.variables, *(variable for metric in model.metrics for variable in metric.variables)]

    def trained(x: Any) -> Any:
        """All that a step computes: regularizers and constraints of weights are functions of the user's, too."""
        output = model(x, training=True)
        pairs = [
            (variable.constraint, variable) for variable in model.trainable_variables if variable.constraint is not None
        ]
        return output, model.losses, [constraint(keras.ops.convert_to_tensor(weight)) for constraint, weight in pairs]

    noise = signature.noise(2)
    check_function(trained, noise, known_variables, f"{key}: {name}", SEED)
    _check_predictions(model, f"{key}: {name}", noise)


def check_made_again(model: keras.Model, again: keras.Model, key: str, name: str, x: Any) -> None:
    """The export makes the model anew, as a run that is resumed does: from the same seed it must be the same.

    Args:
      model: that is to be trained, with its first weights.
      again: made by the same call, after the same seed was set.
      key: of the job that names it.
      name: its class, as the job has it.
      x: a batch of its inputs.

    Raises:
      UserError: if its weights, or what it makes of them, are others.
    """
    advice = "draw numbers by keras.initializers or keras.random, which follow train.seed"
    shapes = [[tuple(variable.shape) for variable in each.variables] for each in (model, again)]
    if shapes[0] != shapes[1]:
        raise UserError(f"{key}: {name} has weights of other shapes when it is made again: its arguments must say them")
    for first, second in zip(model.variables, again.variables, strict=True):
        if not np.array_equal(keras.ops.convert_to_numpy(first), keras.ops.convert_to_numpy(second)):
            raise UserError(
                f"{key}: {name} begins with other weights when it is made again with the same seed "
                f"({first.path}): {advice}"
            )
    if not _same(model(x, training=False), again(x, training=False)):
        raise UserError(
            f"{key}: {name} computes something else when it is built again with the same weights, as for the export: "
            f"its constants must be weights, or follow from its arguments; {advice}"
        )


def _check_predictions(model: keras.Model, subject: str, x: Any) -> None:
    """Refuses predictions that are others each time: the graph's, or those of the same Python code traced again."""
    function = tf.function(lambda x: model(x, training=False), autograph=False)
    graph = function.get_concrete_function(x).graph
    predicting = f"{subject} when it predicts (training=False)"
    _check_draws(graph, predicting, TRAINING_ONLY)
    changed = _changed(graph)
    for variable in graph.variables:
        if id(variable.handle) in changed:
            label = variable.name.split(":")[0]
            does = "draws random numbers" if SEED_STATE in label else f"changes the variable {label!r}"
            raise UserError(f"{predicting} {does}: {TRAINING_ONLY}")
    if not _same(function(x), model(x, training=False)):
        raise UserError(f"{subject} predicts other numbers each time it is called with training=False: {TRAINING_ONLY}")


def check_function(
    function: Callable[[Any], Any], x: Any, variables: Callable[[], Iterable[Any]], subject: str, instead: str
) -> None:
    """Refuses what a checkpoint does not hold: random numbers without a seed of the model's, and strange variables.

    Args:
      function: is traced into a graph, and not run.
      x: what it is called with.
      variables: gives the variables of Keras that are saved, once the function was traced.
      subject: key and name, for messages.
      instead: what to do for random numbers.

    Raises:
      UserError: for the first thing; likewise if the function cannot be traced.
    """
    before = _states()
    try:
        graph = tf.function(function, autograph=False).get_concrete_function(x).graph
    except Exception as error:
        raise UserError(f"{subject} fails in training (training=True): {one_line(error)}") from error
    drawn = [library for library, state in _states().items() if before[library] != state]
    _check_graph(graph, variables(), subject, instead)
    if drawn:
        raise UserError(
            f"{subject} draws numbers from {drawn[0]} in call: once, and they are the same in each step; {instead}"
        )


def _check_draws(graph: Any, subject: str, instead: str) -> None:
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    for node in nodes:
        # Operations that keep the state of their random numbers themselves have two seeds. cuDNN's would drop by them.
        keeps = {"seed", "seed2"} <= set(node.attr) and not ("dropout" in node.attr and node.attr["dropout"].f == 0)
        if keeps or GENERATOR.match(node.op):
            raise UserError(f"{subject} draws random numbers that no checkpoint holds ({node.op}): {instead}")
        if node.op in PYTHON:
            raise UserError(
                f"{subject} calls Python from its graph ({node.op}), which no SavedModel holds; use keras.ops or tf"
            )


def _changed(graph: Any) -> set[int]:
    """The `id` of the handle of each variable that a graph assigns."""
    within = {id(op.inputs[0]) for op in graph.get_operations() if op.type.startswith("Assign")}
    return {id(outer) for outer, inner in graph.captures if id(inner) in within}


def _check_graph(graph: Any, variables: Iterable[Any], subject: str, instead: str) -> None:
    _check_draws(graph, subject, instead)
    values = [variable.value for variable in variables]
    saved = {id(copy) for value in values for copy in getattr(value, "values", (value,))}  # one on each device
    changed = _changed(graph)
    for variable in graph.variables:
        if id(variable) in saved:
            continue
        label = variable.name.split(":")[0]
        if SEED_STATE in label:
            raise UserError(f"{subject} draws random numbers without a seed, which no checkpoint holds: {instead}")
        if variable.trainable or id(variable.handle) in changed:
            raise UserError(
                f"{subject} uses the variable {label!r}, which Keras does not know: neither trained nor saved; "
                "make it with self.add_weight"
            )


def _check_types(model: keras.Model, key: str, name: str, precision: str) -> None:
    for variable in model.trainable_variables:
        if variable.dtype != "float32":
            raise UserError(
                f"{key}: {name} has weights of {variable.dtype} ({variable.path}), they must be float32; to compute in "
                "fewer bits there is train.devices.precision"
            )
    for layer in model._flatten_layers():
        computes = getattr(getattr(layer, "dtype_policy", None), "compute_dtype", None)
        if computes == "float16" and precision != "mixed_float16":
            raise UserError(
                f"{key}: {name} computes in float16 ({layer.name}), where small gradients become 0 unless the loss is "
                "scaled; say train.devices.precision: mixed_float16"
            )


def _check_synchronized(model: keras.Model, key: str, name: str, devices: Devices) -> None:
    """Layers that exchange while they are called can do so only in the step itself."""
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return
    within = "xla: true" if devices.xla else f"accumulate: {devices.accumulate}" if devices.accumulate > 1 else None
    layers = [layer.name for layer in model._flatten_layers() if getattr(layer, "synchronized", False)]
    if within and layers:
        raise UserError(
            f"{key}: {name} has a synchronized layer ({layers[0]}), which on several devices does not go with "
            f"train.devices.{within}; leave one of the two out"
        )


def _states() -> dict[str, Any]:
    """Where the random numbers of these libraries are."""
    kind, keys, place, *_ = np.random.get_state()
    return {"numpy.random": (kind, np.asarray(keys).tobytes(), place), "Python's random": random.getstate()}


def _same(left: Any, right: Any) -> bool:
    """Whether outputs are alike, but for how they were rounded: `[batch, ...]` each, in any structure."""

    def are_close(left: Any, right: Any) -> bool:
        size = np.abs(left[np.isfinite(left)]).max(initial=0)
        return np.allclose(left, right, rtol=0, atol=1e-2 * max(float(size), 1e-6), equal_nan=True)

    pairs = zip(tf.nest.flatten(left), tf.nest.flatten(right), strict=True)
    return all(are_close(*(np.asarray(tf.cast(tensor, tf.float32)) for tensor in pair)) for pair in pairs)
