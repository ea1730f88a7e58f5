"""What the loop, the models and the export ask of a task: one goal, and one output of the model, each."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from beamfeed.contract.config.task import Goal
from beamfeed.contract.dataset.manifest import Manifest, Target
from beamfeed.trainer.models.signature import Input, Output
from beamfeed.trainer.tasks.named import TRIED, Loss, Measure, Trial, find_loss, find_measures, try_loss, try_measure

Fields = Mapping[str, tf.Tensor]  # of a batch, by the names of the dataset's fields
Restore = Callable[[tf.Tensor], tf.Tensor]  # preprocessed windows -> raw units
Guess = Callable[[Any, tf.Tensor], tf.Tensor]  # a model's input, and what is wanted -> an output as a model gives it
TrainingWindows = Callable[[], Iterator[tuple[Any, np.ndarray]]]  # the same of training windows, batch by batch


class Guesses(NamedTuple):
    """What a model should beat: outputs that cost nothing.

    Attributes:
      by_name: the guesses.
      skipped: what cannot be had, and why, a line each.
    """

    by_name: dict[str, Guess]
    skipped: list[str]


class Sampling(NamedTuple):
    """Which windows a picture is drawn from: at most so many, the first ones or from all over the split."""

    windows: int
    mixed: bool


class Sample(NamedTuple):
    """Some windows and what a model makes of them.

    Attributes:
      truth: the target, `[windows, ...]`.
      output: the output, `[windows, ...]`, float32.
      columns: names of the parts of the input's last axis.
      x: the model's input, where single windows are shown.
    """

    truth: np.ndarray
    output: np.ndarray
    columns: list[str]
    x: Any = None

    def median(self, errors: np.ndarray) -> "Sample":
        """The window with the median of the errors `[windows]` alone: neither the best nor the worst."""
        return self.only(int(np.argsort(errors, kind="stable")[len(errors) // 2]))

    def only(self, number: int) -> "Sample":
        """The window of this number alone."""
        x = None if self.x is None else self.x[[number]]
        return Sample(self.truth[[number]], self.output[[number]], self.columns, x)


class Task(ABC):
    """One goal of a training run.

    Args:
      goal: its section of the job.
      key: where that stands, such as `train.task`.
      manifest: of a dataset that has what the goal asks for, see `beamfeed.contract.dataset.goals`.
      inputs: of the model.

    Attributes:
      picture: the name of what it draws.
      sampling: of which windows.
      shows_windows: whether it can draw windows one by one.
      default_loss: where the job names none, and
      loss_text: in words.
      default_metrics: likewise.
      short_losses: short names of losses, and which ones of Keras they mean here.
      short_names: of metrics, likewise.
      measures: the metrics.

    Raises:
      UserError: if a loss or a metric cannot be had.
    """

    picture: ClassVar[str]
    sampling: ClassVar[Sampling]
    shows_windows: ClassVar[bool] = False
    default_loss: ClassVar[str]
    loss_text: ClassVar[str] = "mean squared error"
    default_metrics: ClassVar[tuple[str, ...]] = ()
    short_losses: ClassVar[Mapping[str, str]] = {}
    short_names: ClassVar[Mapping[str, str]] = {}

    def __init__(self, goal: Goal, key: str, manifest: Manifest, inputs: Mapping[str, Input]):
        self.goal, self.key, self.manifest, self.inputs = goal, key, manifest, inputs
        loss = goal.loss or self.default_loss
        self.loss: Loss = find_loss(self.short_losses.get(loss, loss), f"{key}.loss")
        names = [*(self.default_metrics if goal.metrics is None else goal.metrics), *self.needed_metrics()]
        self.measures: list[Measure] = self.named_measures(names)
        self._try_what_is_named()

    def _try_what_is_named(self) -> None:
        """What the job names is tried; what stands here by default is known to fit."""
        trial = self.trial(np.random.default_rng(0), 2 * TRIED)
        if self.goal.loss is not None:
            try_loss(self.losses, trial, self.goal.loss, f"{self.key}.loss")
        for measure in self.measures if self.goal.metrics is not None else ():

            def compared(truth: tf.Tensor, output: tf.Tensor, measure: Measure = measure) -> Any:
                return self.compared(measure, truth, self.scored(output))

            try_measure(measure, compared, trial, f"{self.key}.metrics")

    def named_measures(self, names: Sequence[str]) -> list[Measure]:
        """The metrics of these names.

        Raises:
          UserError: if one cannot be had.
        """
        return find_measures(names, f"{self.key}.metrics", self.short_names, **self.arguments())

    def needed_metrics(self) -> list[str]:
        """Names of metrics that the task itself needs, beside those of the job."""
        return []

    def settle(self, measured: Mapping[str, float | None]) -> None:  # noqa: B027 - most tasks decide nothing
        """Takes from the metrics of the best weights, by name, what is decided by them. After training."""

    def fit(self, windows: TrainingWindows, latent: int | None) -> None:  # noqa: B027 - of most tasks nothing is
        """Fits what is exported beside the model. After training.

        Args:
          windows: some of training.
          latent: how many numbers the model makes of a window, where it has an encoder.
        """

    @property
    def loss_name(self) -> str:
        """What the loss is, in words."""
        return (self.goal.loss or self.loss_text).rpartition(":")[2].replace("_", " ")

    @property
    @abstractmethod
    def output(self) -> Output:
        """What the model must give."""

    def needs(self) -> list[str]:
        """The names of the fields that it needs beside the inputs: its target and weights, where it has them."""
        names = (getattr(self.goal, "target", None), self.goal.sample_weight)
        return [name for name in names if name is not None]

    def counted(self, target: str) -> Target | None:
        """What the manifest says of a target in the training windows of the whole dataset."""
        train = self.manifest.splits.get("train")
        return train.targets.get(target) if train else None

    @property
    def takes_some(self) -> bool:
        """Whether only some of these windows are trained on, see `train.feed.where` and `train.on`."""
        train = self.manifest.splits.get("train")
        return train is not None and train.chosen is not None

    @abstractmethod
    def truth(self, fields: Fields) -> tf.Tensor:
        """What the output is compared with, batch first."""

    def weights(self, fields: Fields, truth: tf.Tensor) -> tf.Tensor | None:
        """How much each window counts in the loss, float32 `[batch]`; None if all count alike."""
        name = self.goal.sample_weight
        return None if name is None else tf.cast(tf.reshape(fields[name], [-1]), tf.float32)

    def least_loss(self, windows: int) -> float | None:
        """A mean loss of so many windows that a lower one does not beat; None: any lower one does."""
        return None

    @abstractmethod
    def losses(self, truth: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
        """The loss of each window without its weight: float32 `[batch]`, whatever the model computes in."""

    def scored(self, output: tf.Tensor) -> tf.Tensor:
        """The model's output as metrics take it, float32."""
        return tf.cast(output, tf.float32)

    def compared(self, measure: Measure, truth: tf.Tensor, scored: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """What a metric compares."""
        return truth, scored

    def arguments(self) -> dict[str, Any]:
        """Of the constructors of metrics, for those that take them."""
        return {}

    @abstractmethod
    def trial(self, rng: np.random.Generator, windows: int) -> Trial:
        """What is wanted of some windows, as the dataset could have it, and outputs that are right and wrong."""

    @abstractmethod
    def serve(self, truth: tf.Tensor, output: tf.Tensor, restore: Restore | None) -> dict[str, tf.Tensor]:
        """What a SavedModel returns, by name, batch first.

        Args:
          truth: the input's windows, for a task that gives them back.
          output: the model's output.
          restore: back to raw units, where windows came in those.
        """

    def constants(self) -> dict[str, tf.Tensor]:
        """What a SavedModel tells of the task, by name."""
        return {}

    @abstractmethod
    def guesses(self, windows: TrainingWindows, latent: int | None) -> Guesses:
        """What costs nothing; the first one is the simplest.

        Args:
          windows: some of training.
          latent: how many numbers the model makes of a window, where it has an encoder.
        """

    def baselines(self, windows: TrainingWindows) -> Guesses:
        """Simple models that are fitted to training windows, which takes some seconds.

        Args:
          windows: of training; more than those of `guesses`.
        """
        return Guesses({}, [])

    @abstractmethod
    def draw(self, figure: Any, sample: Sample) -> None:
        """Draws a sample into a figure or a part of one, which is empty."""

    def say(self, sample: Sample) -> str:
        """What is true of the first window of a sample, and what the model says; empty where no line can say it."""
        return ""

    def draw_windows(self, figures: Sequence[Any], sample: Sample, titles: Sequence[str]) -> None:
        """Draws each window of a sample into a part of a figure, with its title. Where `shows_windows`."""
        raise NotImplementedError
