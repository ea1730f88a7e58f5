"""The goals of a training run together: all that the loop knows of what is learned, and which number decides."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from beamfeed.contract.config import task as sections
from beamfeed.contract.config.task import Goal, Several, goals_of
from beamfeed.contract.config.train import Train, Watch
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.goals import check_task, inputs_of, keyed_goals
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.result import Watched
from beamfeed.contract.errors import UserError, near_miss
from beamfeed.trainer.decode import preparation_of
from beamfeed.trainer.decode.preparation import OTHER, SHARE, Preparation
from beamfeed.trainer.models.signature import Input, Signature, one_or_all
from beamfeed.trainer.tasks.base import Fields, Restore, Task
from beamfeed.trainer.tasks.classify import Classify
from beamfeed.trainer.tasks.forecast import Forecast
from beamfeed.trainer.tasks.named import Measure
from beamfeed.trainer.tasks.reconstruct import Reconstruct
from beamfeed.trainer.tasks.regress import Regress

# The one look-up of tasks: the section of the job -> what it does.
TASKS: dict[type[Goal], type[Task]] = {
    sections.Reconstruct: Reconstruct,
    sections.Classify: Classify,
    sections.Regress: Regress,
    sections.Forecast: Forecast,
}
LOSS = "loss"
# Of metrics.jsonl, beside what a task measures.
TAKEN = ("epoch", "step", "learning_rate", "gradient_norm", "seconds", "windows_per_second", "waiting", "windows")

Sums = dict[str, Any]  # by name; what adds up over windows, steps, replicas and workers


class Mixed(NamedTuple):
    """What is wanted of the windows that those of a batch are mixed with.

    Attributes:
      share: of each window itself, float32 `[batch]`.
      truth, weights: of the other one, as those of `Examples`.
    """

    share: tf.Tensor
    truth: dict[str, tf.Tensor]
    weights: dict[str, tf.Tensor]


class Examples(NamedTuple):
    """A batch, as a model and its losses take it.

    Attributes:
      x: the model's input; a dict by name where there are several.
      truth: what each output is compared with, by the output's name.
      weights: how much each window counts, `[batch]`, by the output's name, where not all count alike.
      mixed: where windows are mixed with each other.
    """

    x: Any
    truth: dict[str, tf.Tensor]
    weights: dict[str, tf.Tensor]
    mixed: Mixed | None = None


class Objective:
    """What a job's task makes of a dataset.

    Args:
      section: `train.task` of the job.
      manifest: of the dataset.
      preparation: what is made of its fields before a model gets them.

    Attributes:
      tasks: the goals by the names of their outputs.
      signature: what is asked of the model.
      preparation: the same, for the feed; None where fields stay as they are stored.

    Raises:
      UserError: if the dataset has not what the task asks for, or a loss or metric cannot be had.
    """

    def __init__(self, section: Goal | Several, manifest: Manifest, preparation: Preparation | None = None):
        check_task(section, manifest)
        inputs = {field.name: input_of(field, manifest) for field in inputs_of(manifest)}
        if preparation is not None:
            inputs |= {name: decoder.input for name, decoder in preparation.decoders.items()}
        goals = zip(goals_of(section).items(), keyed_goals(section), strict=True)
        self.tasks = {name: TASKS[type(goal)](goal, key, manifest, inputs) for (name, goal), key in goals}
        self.signature = Signature(inputs, {name: task.output for name, task in self.tasks.items()})
        self._measures: dict[str, tuple[str, Measure]] = {}
        taken = [*TAKEN, *(f"{prefix}{loss}" for loss in (LOSS, *self._output_losses()) for prefix in ("", "eval_"))]
        for name, task in self.tasks.items():
            for measure in task.measures:
                metric = self.prefix(name) + measure.name
                taken += [metric, f"eval_{metric}"]
                self._measures[metric] = name, measure
        if twice := [name for name in taken if taken.count(name) > 1]:
            raise UserError(
                f"train.task: metrics.jsonl would have two numbers called {twice[0]!r}; give the output or the metric "
                "another name"
            )
        targets = [name for name in self.fields() if name not in inputs]
        self.preparation = preparation and replace(preparation, targets=targets)

    @classmethod
    def of(cls, train: Train, manifest: Manifest) -> "Objective":
        """That of a job, which also says how fields are decoded.

        Raises:
          UserError: likewise.
        """
        return cls(train.task, manifest, preparation_of(train, manifest))

    @property
    def once(self) -> Preparation | None:
        """The preparation where windows are read one time, for a look."""
        return self.preparation and self.preparation.once

    @property
    def several(self) -> bool:
        """Whether the model has several outputs."""
        return len(self.tasks) > 1

    @property
    def loss_name(self) -> str:
        """What the loss is, for the report."""
        return LOSS if self.several else next(iter(self.tasks.values())).loss_name

    def prefix(self, output: str) -> str:
        """What the names of an output's numbers begin with."""
        return f"{output}_" if self.several else ""

    def names(self) -> list[str]:
        """Of all that is measured: `loss`, those of the outputs where there are several, metrics."""
        return [LOSS, *self._output_losses(), *self._measures]

    def direction(self, name: str) -> str | None:
        """Which values of one of the names are good, `min` or `max`; None if the metric does not tell."""
        return self._measures[name][1].direction if name in self._measures else "min"

    def fields(self) -> list[str]:
        """The fields of the dataset that are needed."""
        names = [name for task in self.tasks.values() for name in task.needs()]
        return list(dict.fromkeys([*self.signature.inputs, *names]))

    def inputs(self, fields: Fields) -> Any:
        """What a model gets of a batch: a tensor, or a dict by name where there are several inputs.

        Values of any length are filled up with 0 to the longest of the batch, and at least to one: few layers of Keras
        take them ragged.
        """
        return one_or_all({name: _filled_up(fields[name]) for name in self.signature.inputs})

    def outputs(self, output: Any) -> dict[str, tf.Tensor]:
        """What a model gives, by the names of the outputs."""
        return {name: output[name] if self.several else output for name in self.tasks}

    def examples(self, fields: Fields) -> Examples:
        """A batch of the dataset's fields -> what is learned from it."""
        truth, weights = self._truth(fields)
        mixed = None
        if SHARE in fields:
            of_partners = {name.removeprefix(OTHER): value for name, value in fields.items() if name.startswith(OTHER)}
            mixed = Mixed(fields[SHARE], *self._truth({**fields, **of_partners}))
        return Examples(self.inputs(fields), truth, weights, mixed)

    def _truth(self, fields: Fields) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """What is wanted, and how much each window counts, by the name of the output."""
        truth = {name: task.truth(fields) for name, task in self.tasks.items()}
        weights = {name: task.weights(fields, truth[name]) for name, task in self.tasks.items()}
        return truth, {name: weight for name, weight in weights.items() if weight is not None}

    def losses(self, examples: Examples, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Of each window, float32 `[batch]`: `loss`, the weighted sum, and where there are several, each output's.

        Of windows that are mixed, the losses of both are mixed: for cross-entropy, that is the loss of mixed targets.
        """
        by_output = self._of_outputs(outputs, examples.truth, examples.weights)
        mixed = examples.mixed
        if mixed is not None:
            others = self._of_outputs(outputs, mixed.truth, mixed.weights)
            by_output = {
                name: mixed.share * loss + (1 - mixed.share) * others[name] for name, loss in by_output.items()
            }
        parts = [
            losses if self.tasks[name].goal.weight == 1 else self.tasks[name].goal.weight * losses
            for name, losses in by_output.items()
        ]
        total = parts[0] if len(parts) == 1 else tf.add_n(parts)
        return {LOSS: total, **dict(zip(self._output_losses(), by_output.values(), strict=False))}

    def losses_of_members(self, examples: Examples, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Of each window the mean of its members' losses, as `losses`; outputs are `[batch, members, units]`."""
        members = next(iter(outputs.values())).shape[1]

        def repeat(values: tf.Tensor | None) -> tf.Tensor | None:
            return None if values is None else tf.repeat(values, members, axis=0)

        repeated = tf.nest.map_structure(repeat, examples._replace(x=()))
        each = {name: tf.reshape(output, [-1, output.shape[2]]) for name, output in outputs.items()}
        losses = self.losses(repeated, each)
        return {name: tf.reduce_mean(tf.reshape(values, [-1, members]), axis=1) for name, values in losses.items()}

    def _of_outputs(
        self, outputs: Mapping[str, tf.Tensor], truth: dict[str, tf.Tensor], weights: dict[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """The losses of each output, with their weights."""
        by_output = {name: task.losses(truth[name], outputs[name]) for name, task in self.tasks.items()}
        return {name: losses * weights[name] if name in weights else losses for name, losses in by_output.items()}

    def measure(self, examples: Examples, outputs: Mapping[str, tf.Tensor], present: tf.Tensor | None = None) -> Sums:
        """The sums of all metrics over a batch, float32; `present`, `[batch]`, is 0 for windows that do not count."""
        sums = {}
        scored = {name: task.scored(outputs[name]) for name, task in self.tasks.items() if task.measures}
        for metric, (name, measure) in self._measures.items():
            pair = self.tasks[name].compared(measure, examples.truth[name], scored[name])
            sums.update(_keyed(metric, measure, measure.sums(*pair, present)))
        return sums

    def settle(self, measured: Mapping[str, float | None]) -> None:
        """Takes from the metrics of the best weights what is decided by them, such as a threshold."""
        for name, task in self.tasks.items():
            prefix = self.prefix(name)
            task.settle({key.removeprefix(prefix): value for key, value in measured.items() if key.startswith(prefix)})

    def fit(self, windows: Callable[[], Iterable[Fields]], latent: int | None) -> None:
        """Fits what is exported beside the model. After training.

        Args:
          windows: fields of some windows of training, a batch at a time.
          latent: see `Task.fit`.
        """
        for task in self.tasks.values():
            task.fit(partial(self.pairs, task, windows), latent)

    def pairs(self, task: Task, windows: Callable[[], Iterable[Fields]]) -> Iterator[tuple[Any, np.ndarray]]:
        """Of windows as `fit` takes them, the model's input and what a task wants of it, a batch at a time."""
        return ((self.inputs(fields), task.truth(fields).numpy()) for fields in windows())

    def zero(self) -> Sums:
        """The sums over nothing: of losses, scalars, and of metrics; float64."""
        losses = {name: np.zeros([]) for name in (LOSS, *self._output_losses())}
        sums = [_keyed(metric, measure, measure.zero()) for metric, (_, measure) in self._measures.items()]
        return {**losses, **{name: zero for zeros in sums for name, zero in zeros.items()}}

    def least_loss(self, windows: int) -> float | None:
        """A mean loss of so many windows that a lower one does not beat; None: any lower one does."""
        least = [(task.goal.weight, task.least_loss(windows)) for task in self.tasks.values()]
        return None if any(loss is None for _, loss in least) else sum(weight * (loss or 0) for weight, loss in least)

    def values(self, sums: Mapping[str, Any], count: float) -> dict[str, float | None]:
        """The losses, per `count`, and the metrics; None where a metric is no number, as of no window at all."""
        losses = {name: float(sums[name]) / count for name in (LOSS, *self._output_losses())}
        metrics = {
            name: measure.value([sums[key] for key in _keyed(name, measure, measure.zero())])
            for name, (_, measure) in self._measures.items()
        }
        return {name: value if np.isfinite(value) else None for name, value in {**losses, **metrics}.items()}

    def serve(self, x: tf.Tensor, outputs: Mapping[str, tf.Tensor], restore: Restore | None) -> dict[str, tf.Tensor]:
        """What a SavedModel returns, by name."""
        by_output = {name: task.serve(x, outputs[name], restore) for name, task in self.tasks.items()}
        return self._prefixed(by_output)

    def constants(self) -> dict[str, tf.Tensor]:
        """What a SavedModel tells of the tasks, by name."""
        return self._prefixed({name: task.constants() for name, task in self.tasks.items()})

    def _prefixed(self, by_output: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        return {self.prefix(name) + key: value for name, values in by_output.items() for key, value in values.items()}

    def _output_losses(self) -> list[str]:
        return [f"{name}_{LOSS}" for name in self.tasks] if self.several else []


def input_of(field: Field, manifest: Manifest) -> Input:
    """What a model gets of a field: windows of rows have time first, `[time, ...]`; single rows have not."""
    begin, end = field.rows_of(manifest.windows.length)
    in_rows = field.per == "row" and manifest.windows.length > 1
    time = (end - begin,) if in_rows else ()
    dtype = "string" if field.dtype == "bytes" else field.dtype
    return Input((*time, *field.shape), dtype, in_rows, tuple(field.columns), tuple(field.sizes))


def _filled_up(values: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
    if not isinstance(values, tf.RaggedTensor):
        return values
    shape = tf.maximum(values.bounding_shape(), 1)  # recurrent layers of Keras fail without a step
    dense = values.to_tensor(shape=tf.concat([[-1], shape[1:]], 0))
    return tf.ensure_shape(dense, [None, None, *values.flat_values.shape[1:]])


def _keyed(metric: str, measure: Measure, sums: list[Any]) -> Sums:
    """Sums by their names in checkpoints: those of a metric of the user's own are not those of another of this name."""
    key = f"{metric}/{measure.label}" if measure.is_own else metric
    return {f"{key}/{number}": value for number, value in enumerate(sums)}


def find_watched(section: Watch, objective: Objective) -> Watched:
    """What the job wants to be watched.

    Raises:
      UserError: if it is not measured, or cannot tell which values are good.
    """
    names = objective.names()
    if section.metric not in names:
        hint = near_miss(section.metric, names)
        raise UserError(f"train.watch.metric: {section.metric!r} is not measured{hint} (there is: {', '.join(names)})")
    mode = objective.direction(section.metric) if section.mode == "auto" else section.mode
    if mode is None:
        raise UserError(
            f"train.watch.mode: auto cannot tell whether high or low values of {section.metric!r} are better; "
            "give min or max"
        )
    return Watched(section.metric, mode == "max")
