"""What the tasks draw of some windows, while a model is being trained and at the end."""

import keras

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.batches import windows_in
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer import figures
from beamfeed.trainer.review.inputs_seen import BATCH_PICTURE, TrainingInputs, draw_inputs, training_inputs
from beamfeed.trainer.review.reading import Fields, open_split
from beamfeed.trainer.review.scores import samples_of
from beamfeed.trainer.tasks.base import Sampling
from beamfeed.trainer.tasks.objective import Objective

SAMPLE_BYTES = 64 << 20  # of inputs, at most


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

    def draw(self, model: keras.Model) -> dict[str, bytes]:
        """A PNG for each output, by the name of what it shows."""
        pngs = {}
        for name, task in self._objective.tasks.items():
            samples = samples_of(self._objective, model, self._fields(task.sampling), self._manifest.features)
            figure = figures.figure(6, 4)
            task.draw(figure, samples[name])
            pngs[self._objective.prefix(name) + task.picture] = figures.png(figure)
        if self._inputs is None:
            self._inputs = training_inputs(self._job, self._manifest, self._objective)
            if self._inputs.images:
                figure = figures.figure(6, 6)
                draw_inputs(figure, self._inputs)
                pngs[BATCH_PICTURE] = figures.png(figure)
        return pngs

    def _fields(self, sampling: Sampling) -> Fields:
        if sampling in self._read:
            return self._read[sampling]
        split: SplitName = "eval" if windows_in(self._manifest, "eval") else "train"
        numbers = sum(field.numbers for field in self._objective.signature.inputs.values())
        count = min(sampling.windows, windows_in(self._manifest, split), max(1, SAMPLE_BYTES // (4 * numbers)))
        batches = open_split(
            self._job, self._manifest, split, 1, batch_size=count, fields=self._objective.fields(),
            shuffle=count if sampling.mixed else 0, preparation=self._objective.once,
        )  # fmt: skip
        self._read[sampling] = next(iter(batches))  # as there are so many windows, none is left over or filled in
        return self._read[sampling]
