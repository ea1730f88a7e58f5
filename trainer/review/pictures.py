"""What the tasks draw of some windows, while a model is being trained and at the end."""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.batches import windows_in
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer import figures
from beamfeed.trainer.review.inputs_seen import BATCH_PICTURE, TrainingInputs, draw_inputs, training_inputs
from beamfeed.trainer.review.reading import open_split
from beamfeed.trainer.tasks.base import Sample, Sampling
from beamfeed.trainer.tasks.objective import Objective

SAMPLE_BYTES = 64 << 20  # of inputs, at most
BATCH = 256  # windows that a model gets at a time

Fields = dict[str, Any]


class Pictures:
    """Draws what a model makes of some windows of the eval split, or of the train split where that is empty.

    The windows are read once. The first time, inputs that are images are drawn too, as training gets them.

    Args:
      job: the job; `output.path` is where the dataset is.
      manifest: the dataset's manifest.
      objective: what is learned.
    """

    def __init__(self, job: TrainingJob, manifest: Manifest, objective: Objective):
        self._job, self._manifest, self._objective = job, manifest, objective
        self._read: dict[Sampling, Fields] = {}
        self._inputs: TrainingInputs | None = None

    def samples(self, model: keras.Model) -> dict[str, Sample]:
        """For each output, by its name, some windows and what the model makes of them."""
        by_output = {}
        columns = self._manifest.features
        for name, task in self._objective.tasks.items():
            fields = self._fields(task.sampling)
            examples = self._objective.examples(fields)
            count = len(examples.truth[name])
            parts = [
                self._objective.outputs(model(_batch_from(examples.x, first), training=False))[name]
                for first in range(0, count, BATCH)
            ]
            output = tf.cast(tf.concat(parts, 0), tf.float32).numpy()
            x = examples.x.numpy() if isinstance(examples.x, tf.Tensor) else None
            by_output[name] = Sample(examples.truth[name].numpy(), output, columns, x)
        return by_output

    def draw(self, model: keras.Model) -> dict[str, bytes]:
        """A PNG for each output, by the name of what it shows."""
        pngs = {}
        for name, sample in self.samples(model).items():
            figure = figures.figure(6, 4)
            task = self._objective.tasks[name]
            task.draw(figure, sample)
            pngs[self._objective.prefix(name) + task.picture] = figures.png(figure)
        if self._inputs is None:
            self._inputs = training_inputs(self._job, self._manifest, self._objective)
            if self._inputs.images:
                figure = figures.figure(6, 6)
                draw_inputs(figure, self._inputs)
                pngs[BATCH_PICTURE] = figures.png(figure)
        return pngs

    def _fields(self, sampling: Sampling) -> Fields:
        if sampling not in self._read:
            self._read[sampling] = self._load(sampling)
        return self._read[sampling]

    def _load(self, sampling: Sampling) -> Fields:
        split: SplitName = "eval" if windows_in(self._manifest, "eval") else "train"
        numbers = sum(field.numbers for field in self._objective.signature.inputs.values())
        count = min(sampling.windows, windows_in(self._manifest, split), max(1, SAMPLE_BYTES // (4 * numbers)))
        batches = open_split(
            self._job, self._manifest, split, 1, batch_size=count, fields=self._objective.fields(),
            shuffle=count if sampling.mixed else 0,
            preparation=self._objective.preparation and self._objective.preparation.once,
        )  # fmt: skip
        return next(iter(batches))  # as there are so many windows, nothing is left over in it or filled in


def _batch_from(x: Any, first: int) -> Any:
    return {name: values[first : first + BATCH] for name, values in x.items()} if isinstance(x, Mapping) else (
        x[first : first + BATCH])  # fmt: skip
