"""A job file becomes a list of stages, each with its command and whether there is anything left to do.

Nothing here starts a process or writes a file. What is read is small: one
listing of the input, the manifest, and the result of an earlier training.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from beamfeed.contract import storage
from beamfeed.contract.config.job import SUFFIXES, Job
from beamfeed.contract.config.load import load_job
from beamfeed.contract.dataset.fingerprint import data_fingerprint, run_fingerprint
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.manifest import Manifest, read_complete, read_manifest
from beamfeed.contract.dataset.result import TrainResult, read_result
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage.files import FileStat
from beamfeed.launcher.backends.dataflow import options as dataflow_options

PREPROCESS, TRAIN = "preprocess", "train"


@dataclass(frozen=True)
class Stage:
    """One step of a job, as a backend runs it."""

    name: str
    command: tuple[str, ...]  # of each of its processes
    backend: str
    workers: int  # processes that work together
    logs: str  # the folder for the output of all workers but the first
    complete: bool
    reason: str  # why there is, or is not, something to do
    reports_progress: bool = False  # whether the command knows --progress-dir
    restarts: int = 0  # how often it may be started again after a signal or a lost worker ended it
    output: str = ""  # the folder of the data set that it writes
    fingerprint: str = ""  # of that data set


@dataclass(frozen=True)
class Plan:
    """A loaded job and its stages, in the order in which they run."""

    job: Job
    job_path: str
    stages: tuple[Stage, ...]


def make_plan(
    job_path: str,
    overrides: Sequence[str] = (),
    names: Sequence[str] = (PREPROCESS, TRAIN),
    prune: int | None = None,
    restart: bool = False,
    beam_options: Sequence[str] = (),
) -> Plan:
    """Reads the job file, looks at what is there already, and returns what is to be done.

    Args:
      job_path: the job file, local or gs://
      overrides: `key=value` as given to --set
      names: the stages wanted
      prune: run the whole job on this many assets, in folders of its own
      restart: train from the start even if there is a finished or a started training
      beam_options: passed on to the preprocessing command

    Raises:
      UserError: if the job file is wrong or nothing matches its input.
    """
    job = load_job(job_path, overrides)
    if prune is not None:
        overrides = [*overrides, *prune_overrides(job, prune)]
        job = load_job(job_path, overrides)
    if PREPROCESS in names and job.launch.preprocess.backend == "dataflow":
        dataflow_options.check_paths(job)
    files = find_files(job)
    published = read_manifest(job.output.path)
    if not files and (PREPROCESS in names or published is None):
        raise UserError(f"source.files: no file matches {job.source.files} (suffixes: {', '.join(SUFFIXES)})")
    # Training needs only the data set: its input may have gone, or be on another machine.
    data = data_fingerprint(job, files) if files or published is None else published.fingerprint
    complete = read_complete(job.output.path, data)
    if PREPROCESS not in names and complete is None:
        why = _why_prepare(job, published, data)
        raise UserError(f"output.path: {why}; run 'beamfeed preprocess {job_path}' first")

    stages = []
    if PREPROCESS in names:
        stages.append(preprocess_stage(job, job_path, overrides, complete, published, data, beam_options))
    if TRAIN in names:
        result = read_result(job.train.workdir)
        stages.append(train_stage(job, job_path, overrides, result, run_fingerprint(job, data), restart))
    return Plan(job, job_path, tuple(stages))


def prune_overrides(job: Job, assets: int) -> list[str]:
    """Overrides for a run on a few assets, in folders of its own so that the real ones stay as they are."""
    return [
        f"source.prune={assets}",
        f"output.path={_as_yaml(job.output.path.rstrip('/') + f'-prune{assets}')}",
        f"train.workdir={_as_yaml(job.train.workdir.rstrip('/') + f'-prune{assets}')}",
    ]


def find_files(job: Job) -> list[FileStat]:
    """Lists the input files once.

    Raises:
      UserError: if the place cannot be listed.
    """
    try:
        return storage.match(job.source.files, SUFFIXES)
    except OSError as error:
        raise UserError(f"source.files: {job.source.files} cannot be listed: {_first_line(error)}") from None


def preprocess_stage(
    job: Job,
    job_path: str,
    overrides: Sequence[str],
    complete: Manifest | None,
    published: Manifest | None,
    fingerprint: str,
    beam_options: Sequence[str] = (),
) -> Stage:
    """The stage that writes the data set; `complete` is its manifest if nothing is left to do."""
    if complete is not None:
        windows = sum(split.windows for split in complete.splits.values())
        reason = f"{windows:,} windows in {job.output.path}"
    else:
        reason = _why_prepare(job, published, fingerprint)
    launch = job.launch.preprocess
    module = "beamfeed.pipelines.preprocess"
    if launch.backend == "dataflow" and launch.dataflow is not None:
        module = "beamfeed.pipelines.dataflow_template"
        name = dataflow_options.job_name(job.output.path)
        beam_options = [*dataflow_options.beam_options(launch.dataflow, name, fingerprint), *beam_options]
    return Stage(
        name=PREPROCESS,
        command=(*_command(module, job_path, overrides), *beam_options),
        backend=launch.backend,
        workers=1,  # the runner of the pipeline starts its own
        logs=RunLayout(job.train.workdir).logs,
        complete=complete is not None,
        reason=reason,
        reports_progress=launch.backend == "local",
        output=job.output.path,
        fingerprint=fingerprint,
    )


def train_stage(
    job: Job, job_path: str, overrides: Sequence[str], result: TrainResult | None, fingerprint: str, restart: bool
) -> Stage:
    """The stage that trains; `result` is what an earlier training left as its complete.json."""
    complete, reason = _training_state(job, result, fingerprint)
    command = _command("beamfeed.trainer.main", job_path, overrides)
    if restart:
        complete, reason, command = False, "--restart was given", (*command, "--restart")
    return Stage(
        name=TRAIN,
        command=command,
        backend=job.launch.train.backend,
        workers=job.launch.train.workers,
        restarts=job.launch.train.restarts,
        logs=RunLayout(job.train.workdir).logs,
        complete=complete,
        reason=reason,
    )


def _training_state(job: Job, result: TrainResult | None, fingerprint: str) -> tuple[bool, str]:
    if result is None:
        return False, f"no finished training in {job.train.workdir}"
    if result.fingerprint != fingerprint:
        return False, f"the data or the job changed since the training in {job.train.workdir}"
    epochs, early = result.epochs, job.train.early_stopping
    if epochs >= job.train.epochs:
        return True, f"{epochs} epochs in {job.train.workdir}"
    # By this job's patience: with more of it, a training that stopped early goes on.
    if early is not None and result.stale >= early.patience:
        return True, f"stopped early after {epochs} epochs in {job.train.workdir}"
    return False, f"{epochs} of {job.train.epochs} epochs in {job.train.workdir}"


def _why_prepare(job: Job, published: Manifest | None, fingerprint: str) -> str:
    if published is None:
        return f"no data set in {job.output.path}"
    if published.fingerprint != fingerprint:
        return f"the job or its input changed since {job.output.path} was written"
    return f"shards of {job.output.path} are missing or damaged"


def _command(module: str, job_path: str, overrides: Sequence[str]) -> tuple[str, ...]:
    sets = [part for override in overrides for part in ("--set", override)]
    return (sys.executable, "-m", module, "--job", job_path, *sets)


def _as_yaml(text: str) -> str:
    """The text as --set reads it back: quoted only if YAML would take it for something else."""
    try:
        plain = yaml.safe_load(text) == text
    except yaml.YAMLError:
        plain = False
    return text if plain else json.dumps(text)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
