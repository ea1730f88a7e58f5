"""The task regress: the model gives a number, or several of one target, in the units of the target."""

from typing import Any

import numpy as np
import tensorflow as tf

from beamfeed.contract.config.task import Regress as Section
from beamfeed.contract.dataset.batches import windows_in
from beamfeed.contract.dataset.manifest import Target
from beamfeed.trainer.models.signature import Output
from beamfeed.trainer.tasks.base import Fields, Guesses, Restore, Sample, Sampling, Task, TrainingWindows
from beamfeed.trainer.tasks.baselines import fit_baselines
from beamfeed.trainer.tasks.named import Measure, Trial


class Regress(Task):
    """Loss: the squared error. Losses and metrics get `[batch, 1]`, those of the user's own `[batch]`.

    Of a target of k numbers all get `[batch, k]`.
    """

    picture = "predictions"
    sampling = Sampling(2048, mixed=True)
    default_loss = "mean_squared_error"
    default_metrics = ("mean_absolute_error", "root_mean_squared_error")
    goal: Section

    @property
    def output(self) -> Output:
        """`[batch, 1]` or `[batch]`, or `[batch, k]`; a head's mean and deviation are those of the training windows."""
        target, width = self._target, self._width
        shapes = ((1,), ()) if width is None else ((width,),)
        words = "a number" if width is None else f"{width} numbers"
        return Output(shapes, words, units=width or 1, scale=target.std or 1.0, offset=target.mean or 0.0)

    @property
    def _width(self) -> int | None:
        """Numbers of the target, where it is not a single one."""
        shape = self.manifest.field(self.goal.target).shape
        return shape[0] if shape else None

    def truth(self, fields: Fields) -> tf.Tensor:
        """Float32 `[batch]`, or `[batch, k]`."""
        return self._shaped(tf.cast(fields[self.goal.target], tf.float32))

    def losses(self, truth: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
        output = self.scored(output)
        return self.loss(truth, output) if self.loss.is_own else self.loss(_wide(truth), _wide(output))

    def scored(self, output: tf.Tensor) -> tf.Tensor:
        """Float32 `[batch]`, or `[batch, k]`."""
        return self._shaped(tf.cast(output, tf.float32))

    def _shaped(self, values: tf.Tensor) -> tf.Tensor:
        return tf.reshape(values, [-1] if self._width is None else [-1, self._width])

    def compared(self, measure: Measure, truth: tf.Tensor, scored: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        if measure.keras_name == "r2_score":  # of differences; far from 0, squares in float32 have little left of them
            truth, scored = (values - self.output.offset for values in (truth, scored))
        return (truth, scored) if measure.is_own else (_wide(truth), _wide(scored))

    def trial(self, rng: np.random.Generator, windows: int) -> Trial:
        """Numbers between the dataset's lowest and highest."""
        low, high = self._target.min, self._target.max
        if low is None or high is None or low == high:
            low, high = 0.5, 1.5
        shape = [windows] if self._width is None else [windows, self._width]
        truth, wrong = (tf.constant(rng.uniform(low, high, shape), tf.float32) for _ in range(2))
        return Trial(truth, _wide(truth), _wide(wrong))

    def serve(self, truth: tf.Tensor, output: tf.Tensor, restore: Restore | None) -> dict[str, tf.Tensor]:
        """The prediction, float32 `[batch]`, or `[batch, k]`."""
        return {"prediction": self.scored(output)}

    @property
    def _target(self) -> Target:
        """What the manifest says of the training windows."""
        return self.counted(self.goal.target) or Target()

    def guesses(self, windows: TrainingWindows, latent: int | None) -> Guesses:
        """The mean of the training windows' targets, of several numbers that of each."""
        mean = self._target.mean
        if mean is None:
            return Guesses({}, ["no baseline: the manifest does not have the mean of the target"])
        if self.takes_some or self._width is not None:  # the manifest has that of all numbers together
            mean = np.concatenate([truth for _, truth in windows()]).mean(axis=0, dtype=np.float64)
        level = tf.constant(mean, tf.float32)
        return Guesses({"the mean": lambda _, truth: tf.broadcast_to(level, tf.shape(_wide(truth)))}, [])

    def baselines(self, windows: TrainingWindows) -> Guesses:
        """A linear model and gradient boosting."""
        return fit_baselines(self.inputs, windows, windows_in(self.manifest, "train"))

    def draw(self, figure: Any, sample: Sample) -> None:
        """Each window's prediction against what is true."""
        axes = figure.subplots()
        output, truth = sample.output.reshape(-1), sample.truth.reshape(-1)
        lowest, highest = (float(edge(np.concatenate([truth, output]))) for edge in (np.min, np.max))
        axes.plot([lowest, highest], [lowest, highest], color="grey", linewidth=1)
        axes.scatter(truth, output, s=6, alpha=0.4)
        error = float(np.abs(output - truth).mean())
        axes.set(title=f"{len(sample.truth):,} windows, mean error {error:.4g}", xlabel=f"true {self.goal.target}",
                 ylabel="predicted")  # fmt: skip

    def say(self, sample: Sample) -> str:
        """The true number and the predicted one; of several numbers, the first."""
        return f"is {float(np.ravel(sample.truth)[0]):.4g}, said {float(np.ravel(sample.output)[0]):.4g}"


def _wide(values: tf.Tensor) -> tf.Tensor:
    """`[batch]` -> `[batch, 1]`; `[batch, k]` as it is."""
    return values if values.shape.rank == 2 else values[:, None]
