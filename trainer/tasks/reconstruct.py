"""The task reconstruct: the model gives back what it was given."""

from typing import Any

import numpy as np
import tensorflow as tf

from beamfeed.trainer.models.signature import Output
from beamfeed.trainer.tasks.base import Fields, Restore, Sample, Sampling, Task
from beamfeed.trainer.tasks.named import Trial

SHOWN = 3  # features of the picture: those that vary most


class Reconstruct(Task):
    """Loss: the mean squared error over a window, time and features."""

    picture = "reconstruction"
    sampling = Sampling(256, mixed=False)
    default_loss = "mean_squared_error"

    @property
    def output(self) -> Output:
        """A tensor shaped as the windows."""
        (window,) = self.inputs.values()
        return Output((window.shape,), "shaped as the windows")

    def wanted(self, fields: Fields) -> tf.Tensor:
        """The windows, `[batch, ...]`."""
        (name,) = self.inputs
        return fields[name]

    def losses(self, wanted: tf.Tensor, found: tf.Tensor) -> tf.Tensor:
        """The mean over all but the batch."""
        found = tf.cast(found, tf.float32)
        if self.goal.loss is None:
            return tf.reduce_mean(tf.square(found - wanted), axis=list(range(1, found.shape.rank)))
        return self.loss(wanted, found)

    def trial(self, rng: np.random.Generator, windows: int) -> Trial:
        """Numbers above 0."""
        shape = [windows, *(size or 1 for size in self.output.shapes[0])]
        wanted, wrong = (tf.constant(rng.uniform(0.5, 1.5, shape), tf.float32) for _ in range(2))
        return Trial(wanted, wanted, wrong)

    def serve(self, wanted: tf.Tensor, found: tf.Tensor, restore: Restore | None) -> dict[str, tf.Tensor]:
        """The reconstruction, the score (its loss), and the reconstruction in raw units where windows came in those."""
        found = tf.cast(found, tf.float32)
        raw = {} if restore is None else {"reconstruction_raw": restore(found)}
        return {"reconstruction": found, "score": self.losses(wanted, found), **raw}

    def draw(self, axes: Any, sample: Sample) -> None:
        """The window that varies most, and its reconstruction: a flat one shows nothing."""
        windows = sample.wanted.reshape(len(sample.wanted), -1, sample.wanted.shape[-1])
        found = sample.found.reshape(windows.shape)
        chosen = np.argmax(np.sum(np.var(windows, axis=1), axis=1))
        window, reconstruction = windows[chosen], found[chosen]
        for color, i in enumerate(np.argsort(-window.var(axis=0), kind="stable")[:SHOWN]):
            label = sample.columns[i] if sample.columns else str(i)
            axes.plot(window[:, i], color=f"C{color}", label=label)
            axes.plot(reconstruction[:, i], color=f"C{color}", linestyle="--")
        axes.set(title="a window and its reconstruction (dashed)", xlabel="row", ylabel="scaled value")
        axes.legend()
