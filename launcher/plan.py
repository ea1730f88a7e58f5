"""A job file becomes a list of stages, each with its command and whether there is anything left to do.

Nothing here starts a process or writes a file. What is read is small: one
listing of the input, the manifest, and the result of an earlier training.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from beamfeed.contract import options, storage
from beamfeed.contract.arguments import Steps
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.sources.none import NoSource
from beamfeed.contract.config.train import Train
from beamfeed.contract.dataset.batches import fit_batch, run_steps, windows_in
from beamfeed.contract.dataset.checkpoints import check_step, find_progress
from beamfeed.contract.dataset.fingerprint import data_fingerprint, run_fingerprint
from beamfeed.contract.dataset.growth import fingerprint_of
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.limits import check_complete
from beamfeed.contract.dataset.manifest import Manifest, find_replaceable
from beamfeed.contract.dataset.published import check_owner, out_of_place, read_complete
from beamfeed.contract.dataset.recent import training_manifest
from beamfeed.contract.dataset.result import read_result, read_run
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat
from beamfeed.contract.text import counted
from beamfeed.launcher.backends import backends
from beamfeed.launcher.job import load_job
from beamfeed.launcher.stage import FLOOR, PREPROCESS, TRAIN, Stage

SAVE_SECONDS = 60.0  # for the step that is under way and a checkpoint; a second Ctrl-C does not wait


@dataclass(frozen=True)
class Plan:
    """A loaded job and its stages, in the order in which they run.

    Attributes:
      job: with all that was set.
      job_path: its file.
      stages: of it.
      overrides: that were given, as are those below.
      every: all that make the job, those of a smoke test as well.
      requested: the names of the stages.
      max_assets: of a smoke test.
      beam_options: for preprocessing.
      replace: whether another job's dataset may be replaced.
      refit: whether a dataset that grows is made anew.
      files: of the input.
      dataset: its manifest, where it is complete.
    """

    job: Job
    job_path: str
    stages: tuple[Stage, ...]
    overrides: tuple[str, ...] = ()
    every: tuple[str, ...] = ()
    requested: tuple[str, ...] = ()
    max_assets: int | None = None
    beam_options: tuple[str, ...] = ()
    replace: bool = False
    refit: bool = False
    files: tuple[FileStat, ...] = ()
    dataset: Manifest | None = None


def make_plan(
    job_path: str,
    overrides: Sequence[str] = (),
    names: Sequence[str] = (PREPROCESS, TRAIN),
    max_assets: int | None = None,
    restart: bool = False,
    beam_options: Sequence[str] = (),
    from_step: int | None = None,
    profile_steps: Steps | None = None,
    once: str | None = None,
    replace: bool = False,
    refit: bool = False,
    in_python: bool = False,
    data: str | None = None,
) -> Plan:
    """Reads the job file, looks at what is there already, and returns what is to be done.

    Args:
      job_path: the job file, local or gs://
      overrides: `key=value` as given to --set
      names: the stages wanted
      max_assets: run the whole job on so many assets, in folders of its own
      restart: train from the start even if there is a finished or a started training run
      beam_options: passed on to the preprocessing command
      from_step: train from the checkpoint of this step
      profile_steps: that training records for a profile
      once: names this start; one of this name that was done is not done again
      replace: preprocess also where another job's dataset is
      refit: preprocess all files of a dataset that grows, with statistics of all of them
      in_python: messages name functions as what helps, not commands
      data: train on the dataset of this fingerprint, without a look at the input, which may have changed since

    Raises:
      UserError: if the job file is wrong or nothing matches its input.
      JobFailed: if the dataset is complete, but not within the job's limits.
    """
    job, every = load_for_plan(job_path, overrides, max_assets, sourced=PREPROCESS in names)
    preprocess = "beamfeed.preprocess(job)" if in_python else f"'beamfeed preprocess {shlex.quote(job_path)}'"
    if TRAIN in names and job.train is None:
        raise UserError(f"{job_path}: train: is missing; {preprocess} needs none")
    if from_step is not None and once is None and job.train is not None:  # of a start with a name, it may be done
        check_step(RunLayout(job.train.workdir).checkpoints, from_step)
    check_backends(job, names)
    published, old = _find_replaceable(job)
    # Training needs only the dataset: its input may have gone, or be on another machine.
    if data is not None and (published is None or published.fingerprint != data):
        raise UserError(f"output.path: {job.output.path} does not hold the dataset {data[:16]}")
    files = [] if data else job.source.list_files(required=PREPROCESS in names or published is None)
    missing = not files or (PREPROCESS not in names and not all(map(storage.exists, job.source.beside.values())))
    if missing and published is not None:
        data = published.fingerprint
    else:
        data = data_fingerprint(job, files) if refit else fingerprint_of(job, files)
    complete = read_complete(job.output.path, data)
    if complete is not None and PREPROCESS in names:
        check_complete(job, complete)
    why = _why_preprocess(job, published, old, data)
    if PREPROCESS not in names and complete is None:
        raise UserError(f"output.path: {_why_no_training(job, job_path, published, why, preprocess)}")

    named = {"job": job_path, "set": every}
    stages = []
    if PREPROCESS in names:
        if complete is None and not replace:
            check_owner(job, published, "replace=True" if in_python else "--replace")
        arguments = options.PREPROCESS.arguments({**named, "replace": replace, "refit": refit})
        stages.append(preprocess_stage(job, arguments, complete, why, data, beam_options))
    if TRAIN in names and job.train is not None:
        values = {"restart": restart, "from_step": from_step, "once": once, "profile_steps": profile_steps}
        if job.train.floor:
            of_floor = [*every, *floor_overrides(job.train)]
            floor = load_job(job_path, of_floor, sourced=PREPROCESS in names)
            floor_values = {"job": job_path, "set": of_floor, "restart": restart, "once": once}
            stages.append(train_stage(floor, floor_values, data, complete, name=FLOOR))
        stages.append(train_stage(job, {**named, **values}, data, complete))
    return Plan(
        job=job,
        job_path=job_path,
        stages=tuple(stages),
        overrides=tuple(overrides),
        every=tuple(every),
        requested=tuple(names),
        max_assets=max_assets,
        beam_options=tuple(beam_options),
        replace=replace,
        refit=refit,
        files=tuple(files),
        dataset=complete,
    )


def check_backends(job: Job, names: Sequence[str]) -> None:
    """Raises UserError where what is to run a stage cannot."""
    for name in names:
        backends()[getattr(job.launch, name).backend].check(job, name)


def load_for_plan(
    job_path: str, overrides: Sequence[str], max_assets: int | None, *, sourced: bool = True
) -> tuple[Job, list[str]]:
    """The job, of a smoke test if so many assets are asked for, and all overrides that make it; see `load_job`."""
    job = load_job(job_path, overrides, sourced=sourced)
    if max_assets is None:
        return job, list(overrides)
    if isinstance(job.source, NoSource):
        raise UserError(f"--max-assets {max_assets}: of a source, and {job_path} has none")
    every = [*overrides, *smoke_test_overrides(job, max_assets)]
    return load_job(job_path, every, sourced=sourced), every


def load_training(job_path: str, overrides: Sequence[str], max_assets: int | None) -> tuple[Job, Train, list[str]]:
    """As `load_for_plan`, of a job that trains, with its section `train`; it needs no source."""
    job, every = load_for_plan(job_path, overrides, max_assets, sourced=False)
    if job.train is None:
        raise UserError(f"{job_path}: train: is missing, it must be a mapping, such as {Train.example}")
    return job, job.train, every


def smoke_test_overrides(job: Job, assets: int) -> list[str]:
    """Overrides for a run on a few assets, in folders of its own so that the real ones stay as they are."""
    overrides = [
        f"source.max_assets={assets}",
        *(["output.grow=false", "output.keep=null"] if job.output.grow else []),
        f"output.path={_as_yaml(job.output.path.rstrip('/') + f'-{assets}-assets')}",
    ]
    if job.train is not None:
        overrides.append(f"train.workdir={_as_yaml(job.train.workdir.rstrip('/') + f'-{assets}-assets')}")
        overrides += ["train.on=null"] if job.train.on is not None else []
    return overrides


def floor_overrides(train: Train) -> list[str]:
    """Overrides that make of a training run that of its linear floor."""
    workdir = _as_yaml(RunLayout(train.workdir).floor)
    return [
        "train.model={name: linear}",
        f"train.workdir={workdir}",
        "train.floor=false",
        "train.callbacks=[]",
        "train.init=null",
    ]


def preprocess_stage(
    job: Job,
    arguments: Sequence[str],
    complete: Manifest | None,
    why: str,
    fingerprint: str,
    beam_options: Sequence[str] = (),
) -> Stage:
    """The stage that writes the dataset: `why`; `complete` is its manifest if nothing is left to do."""
    if complete is not None:
        windows = sum(split.windows for split in complete.splits.values())
        why = f"{counted(windows, complete.noun)} in {job.output.path}"
    backend = job.launch.preprocess.backend
    return Stage(
        name=PREPROCESS,
        command=(*backends()[backend].command(PREPROCESS, job, arguments), *beam_options),
        backend=backend,
        workers=1,  # the runner of the pipeline starts its own
        logs="",
        complete=complete is not None,
        reason=why,
        output=job.output.path,
        fingerprint=fingerprint,
        section=job.launch.preprocess.section(backend),
        job=job,
    )


def train_stage(
    job: Job, values: Mapping[str, Any], data: str, complete: Manifest | None = None, name: str = TRAIN
) -> Stage:
    """The stage that trains on a dataset.

    Args:
      job: of which it is a stage.
      values: of the options of the trainer's program.
      data: the fingerprint of the dataset.
      complete: its manifest, if it is there.
      name: of the stage.
    """
    launch, train = job.launch.train, job.train
    assert train is not None
    # As the trainer will train it, by which it says what it finished.
    fitted = train if complete is None else fit_batch(job, training_manifest(train, complete)).train
    assert fitted is not None
    finished, reason = _training_state(fitted, data)
    start = [option.write(values.get(option.key)) for option in options.TRAIN_FROM]
    flag = next((" ".join(parts) for parts in start if parts), None)
    if flag:
        finished, reason = False, f"{flag} was given"
    return Stage(
        name=name,
        command=backends()[launch.backend].command(TRAIN, job, options.TRAIN.arguments(values)),
        backend=launch.backend,
        workers=launch.workers,
        restarts=launch.restarts,
        starts_anew=flag is not None,
        once=values.get("once") or "",
        checkpoints=RunLayout(train.workdir).checkpoints,
        logs=RunLayout(train.workdir).logs,
        complete=finished,
        reason=reason,
        output=train.workdir,
        fingerprint=run_fingerprint(train, data),  # the same before and after its dataset is there
        section=launch.section(launch.backend),
        job=job,
        grace=SAVE_SECONDS,
    )


def _training_state(train: Train, data: str) -> tuple[bool, str]:
    """Whether the training run is finished, and why or why not."""
    result, workdir = read_result(train.workdir), train.workdir
    if result is None and (latest := _begun(train, data)):
        step, epoch = latest
        return False, f"continuing {workdir} at step {step:,} (epoch {epoch:,} of {train.epochs:,})"
    if result is None:
        return False, f"no finished training run in {workdir}"
    if result.fingerprint != run_fingerprint(train, data):
        return False, f"the data or the job changed since the training run in {workdir}"
    epochs, early = result.epochs, train.early_stopping
    if epochs >= train.epochs:
        return True, f"{epochs} epochs in {workdir}"
    if train.max_steps is not None and result.steps >= train.max_steps:
        return True, f"{result.steps:,} steps in {workdir}"
    # By this job's patience: with more of it, a run that stopped early goes on.
    if early is not None and result.stale >= early.patience:
        return True, f"stopped early after {epochs} epochs in {workdir}"
    return False, f"{epochs} of {train.epochs} epochs in {workdir}"


def steps_left(plan: Plan, stage: Stage) -> int:
    """Steps that a training stage still has to take; 0 where its dataset is not there yet."""
    if plan.dataset is None or plan.job.train is None:
        return 0
    manifest = training_manifest(plan.job.train, plan.dataset)
    train = fit_batch(plan.job, manifest).train
    assert train is not None
    done, result = 0, read_result(train.workdir)
    if result is None:
        done, _ = _begun(train, plan.dataset.fingerprint) or (0, 0)
    elif result.fingerprint == run_fingerprint(train, plan.dataset.fingerprint):
        done = result.steps
    return max(0, run_steps(train, windows_in(manifest, "train")) - (0 if stage.starts_anew else done))


def _find_replaceable(job: Job) -> tuple[Manifest | None, str | None]:
    """As `find_replaceable`, of the job's dataset."""
    try:
        return find_replaceable(job.output.path)
    except UserError as error:
        raise UserError(f"output.path: {error}") from None


def _begun(train: Train, data: str) -> tuple[int, int] | None:
    """The step and the epoch of the newest checkpoint, where the folder holds this training run, unfinished."""
    names = RunLayout(train.workdir)
    same = read_run(train.workdir).get("fingerprint") == run_fingerprint(train, data)
    return find_progress(names.checkpoints) if same else None


def _why_preprocess(job: Job, published: Manifest | None, old: str | None, fingerprint: str) -> str:
    if published is None and old is not None:
        return f"the dataset in {job.output.path} is of an earlier version"
    if published is None:
        return f"no dataset in {job.output.path}"
    if published.fingerprint != fingerprint:
        return f"the job or its input changed since {job.output.path} was written"
    return f"shards of {job.output.path} are missing or damaged"


def _why_no_training(job: Job, job_path: str, published: Manifest | None, why: str, preprocess: str) -> str:
    """Why a job cannot train on its dataset, and what helps, such as to `preprocess`."""
    if published is not None and published.adopted is not None:
        output = job.output.path
        changed = next(out_of_place(output, published), None)
        problem = f"{changed} changed, or is gone, since the folder was adopted" if changed else why
        return f"{problem}; adopt it again: beamfeed adopt {shlex.quote(published.adopted or output)}"
    if isinstance(job.source, NoSource):
        return f"{why}, and {job_path} has no source to preprocess; 'beamfeed adopt' makes one of TFRecords"
    return f"{why}; run {preprocess} first"


def _as_yaml(text: str) -> str:
    """The text as --set reads it back: quoted only if YAML would take it for something else."""
    try:
        plain = yaml.safe_load(text) == text
    except yaml.YAMLError:
        plain = False
    return text if plain else json.dumps(text)
