"""How a training run is started: what is checked of its job before TensorFlow is loaded, and its command line."""

from dataclasses import dataclass, field
from typing import Any

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.dataset.batches import fit_training
from beamfeed.contract.dataset.manifest import Manifest, read_manifest
from beamfeed.contract.dataset.recent import training_manifest
from beamfeed.contract.progress import Progress


@dataclass(frozen=True)
class Start:
    """How a training run is started.

    Attributes:
      restart: whether what the working folder holds is removed first.
      from_step: go back to the checkpoint of this step.
      once: names this start; see `beamfeed.trainer.loop.workdir.was_done`.
      profile: the first and the last step that TensorFlow's profiler records.
      progress: where the chief reports how far it is.
      iterators: what is to live until the process ends is put into it; see `beamfeed.trainer.feed.distributed.Feed`.
    """

    restart: bool = False
    from_step: int | None = None
    once: str = ""
    profile: tuple[int, int] | None = None
    iterators: list[Any] = field(default_factory=list, repr=False)
    progress: Progress = field(default_factory=Progress)


def open_dataset(job: TrainingJob) -> tuple[TrainingJob, Manifest]:
    """The manifest of the job's dataset, and the job with batches that the dataset can fill.

    Raises:
      UserError: if there is no dataset, or the job does not fit it.
    """
    manifest = training_manifest(job.train, read_manifest(job.output.path))
    return fit_training(job, manifest), manifest
