"""Running a job from Python: the same stages, started as the `beamfeed` command starts them."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.load import job_text
from beamfeed.contract.dataset.manifest import Manifest, read_manifest
from beamfeed.contract.dataset.result import TrainResult, read_result
from beamfeed.contract.errors import USER_MISTAKE, JobFailed, UserError
from beamfeed.launcher.backends import backends
from beamfeed.launcher.display import choose
from beamfeed.launcher.plan import make_plan
from beamfeed.launcher.run import run_plan
from beamfeed.launcher.stage import PREPROCESS, TRAIN


@dataclass(frozen=True)
class RunResult:
    """What a job has made.

    Attributes:
      manifest: of the dataset.
      training: how the training run ended; None where it was not asked for.
    """

    manifest: Manifest
    training: TrainResult | None


def run(
    job: str | os.PathLike[str] | Job,
    overrides: Sequence[str] = (),
    *,
    max_assets: int | None = None,
    restart: bool = False,
    replace: bool = False,
) -> RunResult:
    """Preprocesses and trains; what is complete already is skipped.

    The stages run as processes of their own, on this machine or where the job's
    section `launch` says. What they print goes to this process's output.

    Args:
      job: the path of a job file, local or gs://, or a job from `load_job`.
      overrides: such as `windows.stride=4`.
      max_assets: a smoke test on so many assets, in folders of its own.
      restart: trains from the start, not from the last checkpoint.
      replace: replaces the dataset of another job at output.path.

    Returns:
      The manifest of the dataset and the result of the training run.

    Raises:
      UserError: for a mistake in the job.
      JobFailed: if a stage failed.

    Example:
      >>> result = beamfeed.run("job.yaml", max_assets=2)
      >>> result.training.epochs
      2
    """
    return _run(job, overrides, (PREPROCESS, TRAIN), max_assets, restart, replace)


def preprocess(
    job: str | os.PathLike[str] | Job,
    overrides: Sequence[str] = (),
    *,
    max_assets: int | None = None,
    replace: bool = False,
) -> Manifest:
    """Writes the dataset of a job, unless it is complete already. Arguments and errors as of `run`.

    Returns:
      The manifest of the dataset.

    Example:
      >>> manifest = beamfeed.preprocess("job.yaml")
      >>> {split: info.windows for split, info in manifest.splits.items()}
      {'train': 147, 'eval': 49, 'test': 98}
    """
    return _run(job, overrides, (PREPROCESS,), max_assets, replace=replace).manifest


def train(
    job: str | os.PathLike[str] | Job,
    overrides: Sequence[str] = (),
    *,
    max_assets: int | None = None,
    restart: bool = False,
) -> TrainResult:
    """Trains on the dataset of a job, which must be complete. Arguments and errors as of `run`.

    Returns:
      How the training run ended; losses and metrics are those of the job's task.

    Example:
      >>> result = beamfeed.train("job.yaml", ["train.epochs=1"])
      >>> result.best_loss > 0
      True
    """
    result = _run(job, overrides, (TRAIN,), max_assets, restart).training
    assert result is not None
    return result


def _run(
    job: str | os.PathLike[str] | Job,
    overrides: Sequence[str],
    stages: Sequence[str],
    max_assets: int | None,
    restart: bool = False,
    replace: bool = False,
) -> RunResult:
    with _job_file(job) as path:
        try:
            plan = make_plan(path, overrides, stages, max_assets, restart, replace=replace, in_python=True)
        except UserError as error:
            if isinstance(job, Job):  # a temporary file is not the caller's
                raise UserError(error.reason.replace(path, job.name)) from None
            raise
        for stage in plan.stages:
            if isinstance(job, Job) and not stage.complete and backends()[stage.backend].reads_job_file:
                raise UserError(
                    f"job {job.name}: {stage.backend} reads a job from its file; write it to one that all machines see "
                    "and give the path"
                )
        with choose() as display:
            code, _ = run_plan(plan, display)
    if code:
        text = f"job {plan.job.name} ended with exit code {code}; what went wrong was printed above"
        raise UserError(text) if code == USER_MISTAKE else JobFailed(text)
    workdir = plan.job.train.workdir if plan.job.train else ""
    return RunResult(read_manifest(plan.job.output.path), read_result(workdir) if TRAIN in stages else None)


@contextmanager
def _job_file(job: str | os.PathLike[str] | Job) -> Iterator[str]:
    """The path of a job file; a job from memory is written to a temporary one."""
    if not isinstance(job, Job):
        yield os.fspath(job)
        return
    with tempfile.TemporaryDirectory(prefix="beamfeed-job-") as folder:
        path = os.path.join(folder, f"{job.name}.yaml")
        with open(path, "w", encoding="utf-8") as file:
            data = job.model_dump(mode="json", by_alias=True, exclude_unset=True)
            file.write(job_text(data))
        yield path
