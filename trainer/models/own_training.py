"""What a model of the user's own would do in training beside its `call`: refused in a line, before anything is trained.

The trainer has a loop of its own and calls the model alone. What Keras's `fit` would call beside it would be ignored
without a word, and numbers that Keras does not know of are in no checkpoint.
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
from beamfeed.contract.own_code import told
from beamfeed.trainer.models.signature import Signature

INSTEAD = "the trainer has its own loop and calls the model alone"
LOSSES = "add a loss in call with self.add_loss, or name one in train.task"
# Methods that Keras's fit and evaluate call, and what to do instead.
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
}
SEED = "give it a keras.random.SeedGenerator that the layer keeps: keras.random.normal(..., seed=self.seed)"
GENERATOR = re.compile("Stateful(Standard|Uniform|Truncated|Random)|Rng")  # operations of tf.random.Generator
PYTHON = ("PyFunc", "PyFuncStateless", "EagerPyFunc")


def check_training(model: keras.Model, key: str, name: str, signature: Signature, devices: Devices) -> None:
    """Traces the model as training calls it, and looks for what training cannot do or keep.

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
        owner = next((one for one in type(model).__mro__ if method in vars(one)), None)
        if method in vars(model) or (owner is not None and not owner.__module__.startswith("keras.")):
            raise UserError(f"{key}: {name} has a {method} of its own, which would not be called: {INSTEAD}; {instead}")
    if model.compiled:
        raise UserError(
            f"{key}: {name} is compiled, but the job says what is trained and how: train.optimizer, train.task.loss, "
            "train.task.metrics; leave compile out (keras.saving.load_model: compile=False)"
        )
    _check_types(model, key, name, devices.precision)
    _check_synchronized(model, key, name, devices)
    made = {variable.path for variable in model.variables}

    def known() -> list[Any]:
        late = [variable.path for variable in model.variables if variable.path not in made]
        if late:
            raise UserError(
                f"{key}: {name} makes weights only when training=True ({late[0]}), when it is too late for the "
                "optimizer; let __init__ or build make them"
            )
        return [*model.variables, *(variable for metric in model.metrics for variable in metric.variables)]

    check_function(lambda x: model(x, training=True), signature.noise(2), known, f"{key}: {name}", SEED)


def check_function(
    function: Callable[[Any], Any], x: Any, known: Callable[[], Iterable[Any]], what: str, instead: str
) -> None:
    """Refuses what a checkpoint does not hold: random numbers without a seed of the model's, and strange variables.

    Args:
      function: is traced into a graph, and not run.
      x: what it is called with.
      known: gives the variables of Keras that are saved, once the function was traced.
      what: key and name, for messages.
      instead: what to do for random numbers.

    Raises:
      UserError: for the first thing; likewise if the function cannot be traced.
    """
    before = _states()
    try:
        graph = tf.function(function).get_concrete_function(x).graph
    except Exception as error:
        raise UserError(f"{what} fails in training (training=True): {told(error)}") from error
    drawn = [library for library, state in _states().items() if before[library] != state]
    _check_graph(graph, known(), what, instead)
    if drawn:
        raise UserError(
            f"{what} draws numbers from {drawn[0]} in call: once, and they are the same in each step; {instead}"
        )


def _check_graph(graph: Any, known: Iterable[Any], what: str, instead: str) -> None:
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    for node in nodes:
        # Operations that keep the state of their random numbers themselves have two seeds. cuDNN's would drop by them.
        keeps = {"seed", "seed2"} <= set(node.attr) and not ("dropout" in node.attr and node.attr["dropout"].f == 0)
        if keeps or GENERATOR.match(node.op):
            raise UserError(f"{what} draws random numbers that no checkpoint holds ({node.op}): {instead}")
        if node.op in PYTHON:
            raise UserError(
                f"{what} calls Python from its graph ({node.op}), which no SavedModel holds; use keras.ops or tf"
            )
    kept = {id(copy) for variable in known for copy in _copies(variable.value)}
    changed = {id(op.inputs[0]) for op in graph.get_operations() if op.type.startswith("Assign")}
    changed = {id(outer) for outer, inner in graph.captures if id(inner) in changed}
    for variable in graph.variables:
        if id(variable) in kept:
            continue
        label = variable.name.split(":")[0]
        if "seed_generator_state" in label:
            raise UserError(f"{what} draws random numbers without a seed, which no checkpoint holds: {instead}")
        if variable.trainable or id(variable.handle) in changed:
            raise UserError(
                f"{what} uses the variable {label!r}, which Keras does not know: neither trained nor saved; "
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


def _copies(value: Any) -> tuple[Any, ...]:
    """Of a variable on each device."""
    return getattr(value, "values", (value,))
