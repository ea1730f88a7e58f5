"""The task reconstruct: the model gives back what it was given."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from beamfeed.trainer.models.components import VectorSums
from beamfeed.trainer.models.signature import Output
from beamfeed.trainer.tasks.base import Fields, Guess, Guesses, Restore, Sample, Sampling, Task, TrainingWindows
from beamfeed.trainer.tasks.named import Trial
from beamfeed.trainer.tasks.rows import WIDEST
from beamfeed.trainer.tasks.unusual import CENTERS, Unusual

SHOWN = 3  # features of the picture: those that vary most
FEW_ROWS = 65  # that each get a point


class Reconstruct(Task):
    """Loss: the mean squared error over a window, time and features."""

    picture = "reconstruction"
    sampling = Sampling(256, mixed=False)
    shows_windows = True
    default_loss = "mean_squared_error"
    _unusual: Unusual | None = None
    _unfit = ""  # why there is none

    @property
    def output(self) -> Output:
        """A tensor shaped as the windows."""
        (window,) = self.inputs.values()
        return Output((window.shape,), "shaped as the windows")

    def truth(self, fields: Fields) -> tf.Tensor:
        """The windows, `[batch, ...]`."""
        (name,) = self.inputs
        return fields[name]

    def losses(self, truth: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
        """The mean over all but the batch."""
        output = tf.cast(output, tf.float32)
        if self.goal.loss is None:
            return tf.reduce_mean(tf.square(output - truth), axis=list(range(1, output.shape.rank)))
        return self.loss(truth, output)

    def trial(self, rng: np.random.Generator, windows: int) -> Trial:
        """Numbers above 0."""
        shape = [windows, *(size or 1 for size in self.output.shapes[0])]
        truth, wrong = (tf.constant(rng.uniform(0.5, 1.5, shape), tf.float32) for _ in range(2))
        return Trial(truth, truth, wrong)

    def serve(self, truth: tf.Tensor, output: tf.Tensor, restore: Restore | None) -> dict[str, tf.Tensor]:
        """The reconstruction, the score (its loss), and the reconstruction in raw units where windows came in those.

        And how unusual the windows are, where that could be fitted.
        """
        output = tf.cast(output, tf.float32)
        raw = {} if restore is None else {"reconstruction_raw": restore(output)}
        unusual = {} if self._unusual is None else self._unusual.measure(truth)
        return {"reconstruction": output, "score": self.losses(truth, output), **unusual, **raw}

    def fit(self, windows: TrainingWindows, latent: int | None) -> None:
        """How unusual a window is among some of training."""
        (window,) = self.inputs.values()
        if window.numbers > WIDEST:
            self._unfit = f"k-means: windows are not numbers of one size, or more than {WIDEST:,}"
            return
        vectors = np.concatenate([truth.reshape(len(truth), -1) for _, truth in windows()])
        if len(vectors) <= CENTERS:
            self._unfit = f"k-means: {len(vectors)} training windows are not more than {CENTERS} centers"
            return
        self._unusual = Unusual(vectors, latent)

    def guesses(self, windows: TrainingWindows, latent: int | None) -> Guesses:
        """The mean of the training windows, each window's last row, and PCA with as many numbers as the model's."""
        (window,) = self.inputs.values()
        shape = [size or 1 for size in window.shape]  # all are known, see `beamfeed.contract.dataset.goals`
        sums = VectorSums(window.numbers)
        for _, batch in windows():
            sums.add(batch.reshape(-1, window.numbers))
        mean = sums.mean.reshape(shape)
        if window.in_rows:
            mean = np.broadcast_to(mean.mean(axis=0), shape)
        level = tf.constant(mean, tf.float32)
        by_name: dict[str, Guess] = {"the mean": lambda _, truth: tf.broadcast_to(level, tf.shape(truth))}
        if window.in_rows:
            by_name["the last row"] = lambda _, truth: tf.broadcast_to(truth[:, -1:], tf.shape(truth))
        if latent is None:
            return Guesses(by_name, ["PCA: the model has no encoder that says how many numbers it may keep"])
        if latent >= sums.most:
            return Guesses(by_name, [f"PCA: {latent} numbers are not fewer than {sums.most}"])
        return Guesses({**by_name, f"PCA, {latent} numbers": _projection(sums, latent)}, [])

    def baselines(self, windows: TrainingWindows) -> Guesses:
        """The nearest of some centers of training windows (k-means)."""
        unusual = self._unusual
        if unusual is None:
            return Guesses({}, [self._unfit] if self._unfit else [])

        def nearest(_: Any, truth: tf.Tensor) -> tf.Tensor:
            return tf.reshape(unusual.nearest(tf.reshape(truth, [-1, unusual.centers.shape[1]])), tf.shape(truth))

        return Guesses({f"k-means, {CENTERS} centers": nearest}, [])

    def draw(self, figure: Any, sample: Sample) -> None:
        """The window with the median error, and its reconstruction."""
        errors = np.square(sample.output - sample.truth).reshape(len(sample.truth), -1).mean(axis=1)
        self.draw_windows([figure], sample.median(errors), ["the window with the median error"])

    def draw_windows(self, figures: Sequence[Any], sample: Sample, titles: Sequence[str]) -> None:
        """Each sensor by itself, to one scale in all windows, and its reconstruction dashed."""
        windows = sample.truth.reshape(len(sample.truth), -1, sample.truth.shape[-1])
        outputs = sample.output.reshape(windows.shape)
        shown = np.argsort(-windows.var(axis=1).sum(axis=0), kind="stable")[:SHOWN]
        marker = "." if windows.shape[1] < FEW_ROWS else None
        for figure, window, reconstruction, title in zip(figures, windows, outputs, titles, strict=True):
            axes = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
            for axes_, i in zip(axes, shown, strict=True):
                axes_.plot(window[:, i], color="black", linewidth=1.2, label="is")
                axes_.plot(reconstruction[:, i], color="C1", linestyle="--", marker=marker, label="reconstruction")
                values = np.concatenate([windows[:, :, i], outputs[:, :, i]])
                margin = 0.05 * (np.ptp(values) or 1.0)
                axes_.set_ylim(values.min() - margin, values.max() + margin)
                axes_.set_ylabel(sample.columns[i] if sample.columns else str(i), fontsize="small")
            axes[0].set_title(title, fontsize="medium")
            if figure is figures[0]:
                axes[0].legend(fontsize="x-small")
            axes[-1].set_xlabel("row")


def _projection(sums: VectorSums, count: int) -> Guess:
    """Onto so many principal components and back."""
    mean = tf.constant(sums.mean, tf.float32)
    components = tf.constant(sums.components(count), tf.float32)

    def project(_: Any, truth: tf.Tensor) -> tf.Tensor:
        flat = tf.reshape(truth, [-1, len(mean)]) - mean
        return tf.reshape(flat @ components @ tf.transpose(components) + mean, tf.shape(truth))

    return project
