"""Whether a job can train on a dataset, and how many batches a split gives. Pure; no TensorFlow."""

import math

from beamfeed.contract.config.job import AnyJob, Job
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.config.train import Train
from beamfeed.contract.dataset.goals import check_task
from beamfeed.contract.dataset.inputs import check_inputs
from beamfeed.contract.dataset.manifest import Manifest, SplitInfo
from beamfeed.contract.errors import UserError
from beamfeed.contract.text import counted

BATCH, SMALL_BATCH = 256, 32  # of a first job
STEPS = 50  # of an epoch that learns something


def windows_in(manifest: Manifest, split: SplitName) -> int:
    """Windows of a split; 0 where the dataset does not have it."""
    info = manifest.splits.get(split)
    return info.windows if info else 0


def train_steps(windows: int, batch_size: int) -> int:
    """Full batches in an epoch; the windows that are left over are other ones in each epoch."""
    return windows // batch_size


def run_steps(train: Train, windows: int) -> int:
    """Steps of a training run on so many windows that early stopping does not end."""
    steps = train.epochs * train_steps(windows, train.feed.batch_size)
    return min(steps, train.max_steps or steps)


def eval_steps(windows: int, batch_size: int) -> int:
    """Batches that hold every window once; the last one is padded."""
    return math.ceil(windows / batch_size)


def check_split(manifest: Manifest, split: SplitName, batch_size: int, full_batch: bool) -> SplitInfo:
    """The split, if it has windows, or with `full_batch` at least one full batch.

    Raises:
      UserError: if it has not.
    """
    windows, noun = windows_in(manifest, split), manifest.noun
    if windows == 0:
        raise UserError(f"dataset {manifest.name}: the split {split} holds no {noun}")
    if full_batch and windows < batch_size:
        raise UserError(
            f"dataset {manifest.name}: the split {split} holds {windows} {noun}{'s' * (windows > 1)}, "
            f"fewer than one batch of {batch_size}; "
            f"set the batch size (train.feed.batch_size) to {windows} or less, or add data"
        )
    return manifest.splits[split]


def fit_batch(job: AnyJob, manifest: Manifest) -> AnyJob:
    """The job as it trains on the dataset: in a smoke test a batch is no larger than the train split.

    Where `source.max_assets` is not given, a split that holds no full batch is the user's to know, and nothing changes.

    Args:
      job: with a section `train`.
      manifest: of the windows that it trains on.
    """
    windows, train = windows_in(manifest, "train"), job.train
    if train is None or job.source.max_assets is None or not 0 < windows < train.feed.batch_size:
        return job
    feed = train.feed.model_copy(update={"batch_size": windows})
    return job.model_copy(update={"train": train.model_copy(update={"feed": feed})})


def fit_training(job: AnyJob, manifest: Manifest) -> AnyJob:
    """The job as it trains on the dataset, see `fit_batch`, once it is sure that it can.

    Raises:
      UserError: for the first thing that the job asks for and the dataset does not have.
    """
    assert job.train is not None
    check_task(job.train.task, manifest)
    check_inputs(job.train.inputs, manifest)
    fitted = fit_batch(job, manifest)
    assert fitted.train is not None
    check_split(manifest, "train", fitted.train.feed.batch_size, full_batch=True)
    return fitted


def describe_batch(job: Job, original: Job) -> str:
    """What `fit_batch` changed, in words.

    Args:
      job: as it trains.
      original: the job as it is written.
    """
    assert job.train is not None
    assert original.train is not None
    size, before = job.train.feed.batch_size, original.train.feed.batch_size
    text = f"a batch is of {counted(size, job.source.noun)}, not of {before:,} (train.feed.batch_size)"
    return f"{text}, as the train split has no more"


def choose_batch(examples: float) -> int:
    """A batch size for so many windows, or rows: small enough for many steps, and for four of them in any case."""
    batch = BATCH
    while batch > 1 and (4 * batch > examples or (batch > SMALL_BATCH and STEPS * batch > examples)):
        batch //= 2
    return batch
