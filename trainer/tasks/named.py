"""Losses and metrics that a job names: Keras's by their names, the user's own as `module:Name`.

Each is tried once on a few windows, in a graph as training has it, so that what does
not fit is one line before training, and not a traceback after the first steps.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from beamfeed.contract.config.task import metric_name, snake_case
from beamfeed.contract.errors import UserError, near_miss
from beamfeed.contract.own_code import import_own, one_line
from beamfeed.trainer.models.own_training import check_function
from beamfeed.trainer.tasks.ranking import RANKING, find_ranking

TRIED = 3  # windows, at a time
# Metrics of what is predicted, beside those that compare one probability with a threshold.
DECISIONS = frozenset((
    "sparse_categorical_accuracy", "categorical_accuracy", "binary_accuracy", "one_hot_mean_iou", "one_hot_iou",
    "f1_score", "f_beta_score",
))  # fmt: skip
OWN = "; your own is module:Name"
ALIASES = {  # of losses and metrics, as Keras has them
    "bce": "binary_crossentropy",
    "kld": "kl_divergence",
    "mae": "mean_absolute_error",
    "mape": "mean_absolute_percentage_error",
    "mse": "mean_squared_error",
    "msle": "mean_squared_logarithmic_error",
}


class Loss(NamedTuple):
    """A function (truth, output) -> numbers, batch first.

    Attributes:
      name: as Keras has it, in snake case.
      is_own: whether it is of the user's own, and gets the target as the dataset has it.
      takes_logits: whether it can be of logits or of probabilities; it is of logits then.
      function: of two tensors.
    """

    name: str
    is_own: bool
    takes_logits: bool
    function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]

    def __call__(self, truth: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
        """The loss of each window: float32 `[batch]`, the mean over what else the function leaves."""
        losses = tf.cast(self.function(truth, output), tf.float32)
        return tf.reduce_mean(losses, axis=list(range(1, losses.shape.rank))) if losses.shape.rank > 1 else losses


def find_loss(name: str, key: str) -> Loss:
    """The loss that the job names at `key`; one that takes logits or probabilities takes logits.

    Raises:
      UserError: if there is none.
    """
    if ":" in name:
        return Loss(name, True, False, import_own(name, key))
    functions = {
        snake_case(name): function
        for name, function in vars(keras.losses).items()
        if inspect.isfunction(function) and name not in ("get", "serialize", "deserialize")
    }
    keras_name = ALIASES.get(snake_case(name), snake_case(name))
    if keras_name not in functions:
        raise UserError(f"{key}: {name!r} is not a Keras loss{near_miss(keras_name, list(functions))}{OWN}")
    function = functions[keras_name]
    if "from_logits" in inspect.signature(function).parameters:
        return Loss(keras_name, False, True, lambda y, output: function(y, output, from_logits=True))
    return Loss(keras_name, False, False, function)


class Trial(NamedTuple):
    """Windows that losses and metrics are tried on: twice `TRIED` of them.

    Attributes:
      truth: as a task compares it with its output.
      right: an output that is just what is wanted.
      wrong: one that is not.
    """

    truth: tf.Tensor
    right: tf.Tensor
    wrong: tf.Tensor


def try_loss(losses: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], trial: Trial, name: str, key: str) -> None:
    """Calls a loss on some windows, in a graph. One of Keras must also tell wrong outputs from right ones.

    Args:
      losses: of each window.
      trial: the windows.
      name: of the loss, as the job has it.
      key: where the job has it.

    Raises:
      UserError: if it fails, does not give a number for each, has no gradient, or draws random numbers.
    """

    @tf.function(autograph=False)
    def tried(truth: tf.Tensor, output: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor | None]:
        with tf.GradientTape() as tape:
            tape.watch(output)
            losses_given = losses(truth, output)
        return losses_given, tape.gradient(losses_given, output)

    truth, right, wrong = (part[:TRIED] for part in trial)
    try:
        losses_given, gradient = tried(truth, wrong)
        of_right, _ = tried(truth, right)
    except Exception as error:
        raise UserError(f"{key}: {name!r} does not fit the task: {one_line(error)}") from error
    if tuple(losses_given.shape) != (TRIED,):
        raise UserError(
            f"{key}: {name!r} gives {list(losses_given.shape)} for {TRIED} windows, it must give a number for each"
        )
    if gradient is None:
        raise UserError(f"{key}: {name!r} has no gradient, so nothing can be learned")
    if ":" in name:
        subject, instead = f"{key}: {name!r}", "a loss must be the same each time"
        check_function(lambda pair: losses(*pair), (truth, wrong), list, subject, instead)
        return
    # What is left of a gradient that is 0 but for rounding, of numbers of this size.
    is_flat = np.all(np.abs(gradient * wrong) <= 1e-6 * np.max(np.abs(losses_given)))
    if is_flat or np.allclose(losses_given, of_right, rtol=1e-6, atol=0):
        raise UserError(f"{key}: {name!r} is the same for every prediction of this task, so nothing can be learned")


class Measure:
    """A metric of Keras, whose state is a list of sums: they add up over replicas, steps and workers.

    Attributes:
      label: as the job names it.
      metric: the object of Keras; its variables are never used.
      name: in metrics.jsonl.
      keras_name: in snake case, without the aliases.
      is_own: whether it is of the user's own.
    """

    def __init__(self, label: str, metric: keras.metrics.Metric):
        self.label, self.metric = label, metric
        self.name, self.keras_name, self.is_own = metric_name(label), snake_case(type(metric).__name__), ":" in label

    @property
    def direction(self) -> str | None:
        """Which values are good, `min` or `max`; None if the metric does not tell."""
        return {"up": "max", "down": "min"}.get(getattr(self.metric, "_direction", None) or "")

    @property
    def must_vary(self) -> bool:
        """Whether it is a mistake if it says the same of right and wrong outputs."""
        return not self.is_own and getattr(self.metric, "tells_few_apart", True)

    @property
    def is_yes_no(self) -> bool:
        """Whether it is of one probability, which it compares with thresholds."""
        return not {"thresholds", "num_thresholds"}.isdisjoint(inspect.signature(type(self.metric)).parameters)

    @property
    def is_of_decisions(self) -> bool:
        """Whether it counts which class is predicted, however sure the model is of it."""
        parameters = inspect.signature(type(self.metric)).parameters
        counts_errors = "thresholds" in parameters and "num_thresholds" not in parameters
        return not self.is_own and (counts_errors or self.keras_name in DECISIONS)

    def zero(self) -> list[np.ndarray]:
        """The sums over nothing, float64."""
        return [np.zeros(tuple(variable.shape)) for variable in self.metric.variables]

    def sums(self, truth: tf.Tensor, output: tf.Tensor, present: tf.Tensor | None) -> list[tf.Tensor]:
        """Over a batch, float32; `present`, `[batch]`, is 0 for windows that do not count."""
        zeros = [tf.zeros(variable.shape, variable.dtype) for variable in self.metric.variables]
        state = self.metric.stateless_update_state(zeros, truth, output, sample_weight=present)
        return [tf.cast(tf.reshape(value, zero.shape), tf.float32) for value, zero in zip(state, zeros, strict=True)]

    def value(self, sums: Sequence[Any]) -> float:
        """The metric, from its sums."""
        state = [
            tf.cast(tf.constant(total), variable.dtype)
            for total, variable in zip(sums, self.metric.variables, strict=True)
        ]
        with keras.StatelessScope(state_mapping=list(zip(self.metric.variables, state, strict=True))):
            # In here: what is returned may be one of the variables, whose own value is 0.
            return float(keras.ops.convert_to_numpy(self.metric.result()))


def find_measures(names: Sequence[str], key: str, meaning: Mapping[str, str], **settings: Any) -> list[Measure]:
    """The metrics that the job names at `key`.

    Args:
      names: of Keras, or `module:Class`.
      key: of the job.
      meaning: which metrics of Keras short names stand for.
      settings: arguments of their constructors, each for the metrics that have it.

    Raises:
      UserError: if there is no such metric, it cannot be made, or two have one name.
    """
    measures = [_find_measure(name, key, {**ALIASES, **meaning}, settings) for name in names]
    names = [measure.name for measure in measures]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"{key}: two metrics have the name {twice[0]!r}")
    return measures


def try_measure(measure: Measure, compared: Callable[[tf.Tensor, tf.Tensor], Any], trial: Trial, key: str) -> None:
    """Updates a metric with some windows, also in a graph, and makes the variables that wait for the first ones.

    Args:
      measure: the metric.
      compared: makes of what is wanted and of the model's output what the metric compares.
      trial: the windows.
      key: where the job names the metric.

    Raises:
      UserError: if it fails, does not begin at zero, does not add up, or its value is no number.
    """
    metric, name = measure.metric, measure.label
    truth, right, wrong = trial
    first, last = slice(None, TRIED), slice(TRIED, None)

    batches = [tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype) for tensor in (truth, wrong)]

    @tf.function(input_signature=batches, autograph=False)
    def sums(truth: tf.Tensor, output: tf.Tensor) -> list[tf.Tensor]:
        target, actual = compared(truth, output)
        return measure.sums(target, actual, tf.ones(tf.shape(truth)[:1]))

    try:
        begun = [variable.numpy() for variable in metric.variables]
        metric.update_state(*compared(truth, wrong), sample_weight=tf.ones([2 * TRIED]))
        value = metric.result()
        metric.reset_state()
        parts = [sums(truth[half], wrong[half]) for half in (first, last)]
        total, of_right = sums(truth, wrong), sums(truth, right)
    except Exception as error:
        raise UserError(f"{key}: {name!r} does not fit the task: {one_line(error)}") from error
    if any(np.any(state) for state in (*begun, *(variable.numpy() for variable in metric.variables))):
        raise UserError(
            f"{key}: {name!r} does not begin at zero, so it cannot be summed over several workers; "
            "a metric must be made of sums"
        )
    if not hasattr(value, "shape") or tuple(value.shape):
        actual = list(value.shape) if hasattr(value, "shape") else f"a {type(value).__name__}"
        raise UserError(f"{key}: {name!r} gives {actual}, it must give one number")
    for sum_, left, right_ in zip(total, *parts, strict=True):
        if not np.allclose(sum_, left.numpy() + right_.numpy(), rtol=1e-3, atol=1e-6, equal_nan=True):
            raise UserError(
                f"{key}: {name!r} does not add up: its state after two batches is not the sum of its states after "
                "each; a metric must be made of sums"
            )
    if measure.must_vary and np.isclose(
        measure.value(total), measure.value(of_right), rtol=1e-6, atol=0, equal_nan=True
    ):
        raise UserError(f"{key}: {name!r} is the same for every prediction of this task")


def _find_measure(name: str, key: str, meaning: Mapping[str, str], settings: dict[str, Any]) -> Measure:
    if (ranking := find_ranking(name)) is not None:
        return Measure(name, ranking)
    if ":" in name:
        make = import_own(name, key)
    else:
        bases = (keras.metrics.Metric, keras.metrics.Mean, keras.metrics.MeanMetricWrapper, keras.metrics.Sum)
        classes = {
            snake_case(name): class_
            for name, class_ in vars(keras.metrics).items()
            if inspect.isclass(class_) and issubclass(class_, keras.metrics.Metric) and class_ not in bases
        }
        keras_name = meaning.get(snake_case(name), snake_case(name))
        if keras_name not in classes:
            raise UserError(f"{key}: {name!r} is not a Keras metric{near_miss(keras_name, [*classes, *RANKING])}{OWN}")
        make = classes[keras_name]
    try:
        takes = inspect.signature(make).parameters
        metric = make(**{key: value for key, value in settings.items() if key in takes})
    except Exception as error:
        raise UserError(f"{key}: {name!r} cannot be made: {one_line(error)}") from error
    if not isinstance(metric, keras.metrics.Metric):
        raise UserError(f"{key}: {name} makes a {type(metric).__name__}, it must be a keras.metrics.Metric")
    return Measure(name, metric)
