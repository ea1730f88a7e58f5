"""Pictures: report.png with the losses and what the tasks draw, and the latter for TensorBoard."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.batches import windows_in
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.result import TrainResult
from beamfeed.trainer import figures
from beamfeed.trainer.feed.dataset import load_dataset
from beamfeed.trainer.loop.metrics import Epoch
from beamfeed.trainer.tasks.base import Sample, Sampling
from beamfeed.trainer.tasks.objective import LOSS, Objective

SAMPLE_BYTES = 64 << 20  # of inputs, at most
BATCH = 256  # windows that a model gets at a time

Fields = dict[str, Any]


class Pictures:
    """Draws what a model makes of some windows of the eval split, or of the train split where that is empty.

    The windows are read once.

    Args:
      job: the job; `output.path` is where the dataset is.
      manifest: the dataset's manifest.
      objective: what is learned.
    """

    def __init__(self, job: TrainingJob, manifest: Manifest, objective: Objective):
        self._job, self._manifest, self._objective = job, manifest, objective
        self._read: dict[Sampling, Fields] = {}

    def samples(self, model: keras.Model) -> dict[str, Sample]:
        """For each output, by its name, some windows and what the model makes of them."""
        found = {}
        columns = self._manifest.features
        for name, task in self._objective.tasks.items():
            fields = self._fields(task.sampling)
            examples = self._objective.examples(fields)
            count = len(examples.wanted[name])
            parts = [
                self._objective.outputs(model(_some(examples.x, first), training=False))[name]
                for first in range(0, count, BATCH)
            ]
            output = tf.cast(tf.concat(parts, 0), tf.float32).numpy()
            found[name] = Sample(examples.wanted[name].numpy(), output, columns)
        return found

    def draw(self, model: keras.Model) -> dict[str, bytes]:
        """A PNG for each output, by the name of what it shows."""
        pngs = {}
        for name, sample in self.samples(model).items():
            figure = figures.figure(6)
            task = self._objective.tasks[name]
            task.draw(figure.subplots(), sample)
            pngs[self._objective.prefix(name) + task.picture] = figures.png(figure)
        return pngs

    def write_report(
        self, path: str, epochs: Sequence[Epoch], watched: str, model: keras.Model, floor: TrainResult | None = None
    ) -> None:
        """Draws the report into a PNG file, local or gs://.

        Args:
          path: of the file.
          epochs: the lines of metrics.jsonl.
          watched: what decided which epoch was the best.
          model: with the best weights.
          floor: what a linear model reached on the same.
        """
        samples = self.samples(model)
        curves = {LOSS: self._objective.loss_name, **({} if watched == LOSS else {watched: watched.replace("_", " ")})}
        panels = len(curves) + len(samples)
        figure = figures.figure(5.5 * panels)
        axes = figure.subplots(1, panels)
        for one, (name, label) in zip(axes, curves.items(), strict=False):
            _draw_curve(one, epochs, name, label)
            reached = floor and {LOSS: floor.best_loss, **floor.metrics}.get(name)
            if reached is not None:
                one.axhline(reached, color="gray", linestyle="--", label="linear floor")
            one.legend()
        axes[0].set(title=self._job.name)
        for one, (name, sample) in zip(axes[len(curves) :], samples.items(), strict=True):
            self._objective.tasks[name].draw(one, sample)
            if self._objective.several:
                one.set(title=f"{name}: {one.get_title()}")
        with tf.io.gfile.GFile(path, "wb") as file:
            file.write(figures.png(figure))

    def _fields(self, sampling: Sampling) -> Fields:
        if sampling not in self._read:
            self._read[sampling] = self._load(sampling)
        return self._read[sampling]

    def _load(self, sampling: Sampling) -> Fields:
        split: SplitName = "eval" if windows_in(self._manifest, "eval") else "train"
        sizes = [int(np.prod([size or 1 for size in one.shape])) for one in self._objective.signature.inputs.values()]
        count = min(sampling.windows, windows_in(self._manifest, split), max(1, SAMPLE_BYTES // (4 * sum(sizes))))
        batches = load_dataset(
            self._job.output.path,
            split,
            batch_size=count,
            fields=self._objective.fields(),
            shuffle=count if sampling.mixed else 0,
            skip_corrupt=self._job.train.feed.skip_corrupt,
            manifest=self._manifest,
        )
        return next(iter(batches))  # as there are so many windows, nothing is left over in it or filled in


def _some(x: Any, first: int) -> Any:
    return {name: one[first : first + BATCH] for name, one in x.items()} if isinstance(x, Mapping) else (
        x[first : first + BATCH])  # fmt: skip


def _draw_curve(axes: Any, epochs: Sequence[Epoch], name: str, label: str) -> None:
    """One number over the epochs, of both splits; those that did not measure it are left out.

    Over the steps, where epochs were evaluated more often than once.
    """
    over = "epoch" if len({line["epoch"] for line in epochs}) == len(epochs) else "step"
    for key, split in ((name, "train"), (f"eval_{name}", "eval")):
        points = [(line[over], line[key]) for line in epochs if line.get(key) is not None]
        if points:
            axes.plot(*zip(*points, strict=True), marker=".", label=split)
    axes.set(xlabel=over, ylabel=label)
    axes.xaxis.get_major_locator().set_params(integer=True)
