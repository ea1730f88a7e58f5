"""What the commands of `beamfeed` do."""

import argparse
import contextlib
import json
import shlex
import sys
from collections.abc import Iterator, Sequence

from beamfeed.contract.config.train import Train
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.manifest import find_manifest
from beamfeed.contract.dataset.result import read_result
from beamfeed.contract.dataset.review import read_review
from beamfeed.contract.errors import UserError
from beamfeed.contract.events import tell_event
from beamfeed.contract.verbosity import note
from beamfeed.launcher.completion import completion_script
from beamfeed.launcher.data_facts import read_facts
from beamfeed.launcher.display import Display, choose
from beamfeed.launcher.outcome import outcome
from beamfeed.launcher.plan import Plan, check_backends, load_for_plan, make_plan
from beamfeed.launcher.processes import Held, Process, run_together
from beamfeed.launcher.run import cancel_job, describe_plan, plan_values, run_plan
from beamfeed.launcher.schema import job_schema
from beamfeed.launcher.stage import ADOPT, CHECK, PREPROCESS, PROGRAMS, TRAIN
from beamfeed.launcher.summary import summary


def init(args: argparse.Namespace) -> int:
    """Writes a first job file, in a process of its own: it reads files as preprocessing does."""
    command = [sys.executable, "-m", "beamfeed.pipelines.suggest_job"]
    options = ("out", "label", "time", "asset", "kind")
    command += [f"--{name}={value}" for name in options if (value := getattr(args, name)) is not None]
    command += [f"--{name}" for name in ("force", "quiet", "json") if getattr(args, name, False)]
    return run_together("init", [Process((*command, "--", args.folder), {})])


def adopt(args: argparse.Namespace) -> int:
    """Makes a dataset of TFRecords that are there, in a process of its own: it reads them with Beam."""
    folder = f"./{args.folder}" if args.folder.startswith("-") else args.folder
    command = [sys.executable, "-m", PROGRAMS[ADOPT], folder]
    for name in ("target", "key", "input", "weight", "classes", "default", "shape", "split"):
        command += [f"--{name}={value}" for value in getattr(args, name)]
    for name in ("out", "name", "job"):
        command += [f"--{name}={value}"] if (value := getattr(args, name)) is not None else []
    command += [f"--{name}" for name in ("force", "quiet", "json") if getattr(args, name, False)]
    process = Process((*command, *args.beam_options), {"TF_CPP_MIN_LOG_LEVEL": "2"})
    return run_together("adopt", [process])


def run(args: argparse.Namespace) -> int:
    """Runs the stages of a job that are not complete, in order."""
    if getattr(args, "list_checkpoints", False):
        return list_checkpoints(args)
    if getattr(args, "find_lr", False):
        return find_learning_rate(args)
    plan = make_plan(
        args.job,
        args.set,
        names=args.stages,
        max_assets=args.max_assets,
        restart=getattr(args, "restart", False),
        beam_options=args.beam_options,
        from_step=getattr(args, "from_step", None),
        profile_steps=getattr(args, "profile_steps", None),
        once=getattr(args, "once", None),
        replace=getattr(args, "replace", False),
    )
    if args.dry_run:
        if args.json:
            tell_event("plan", **plan_values(plan))
        else:
            print(describe_plan(plan))
        return 0
    with choose(args.quiet, args.json) as display:
        code, seconds = run_plan(plan, display)
        if code == 0:
            _summarize(args, plan, seconds, display)
    return code


def _summarize(args: argparse.Namespace, plan: Plan, seconds: dict[str, float], display: Display) -> None:
    job = plan.job
    manifest = find_manifest(job.output.path) if PREPROCESS in args.stages else None
    train = job.train if TRAIN in args.stages else None
    result = read_result(train.workdir) if train else None
    floor = read_result(RunLayout(train.workdir).floor) if train and train.floor else None
    review = read_review(train.workdir, result.fingerprint) if train and result else None
    facts = read_facts(job.output.path, manifest) if manifest else None
    table = summary(job, manifest, result, seconds, floor, review, facts, named_again(args))
    display.summary(table, outcome(job, manifest, result, seconds))


def check(args: argparse.Namespace) -> int:
    """Says what a job would do, in a process of its own: it reads the files as preprocessing does."""
    if args.max_assets is not None:
        return run_together("check", [_check_process(args, _load_for_check(args))])
    # What only the launcher knows of the job is checked while the process starts: both load it for half a second.
    output = Held()
    return run_together("check", [_check_process(args, args.set)], watch=_loaded(args, output), output=output)


def _check_process(args: argparse.Namespace, overrides: Sequence[str]) -> Process:
    command = [sys.executable, "-m", PROGRAMS[CHECK], "--job", args.job]
    for override in overrides:
        command += ["--set", override]
    command += [f"--{name}" for name in ("full", "json") if getattr(args, name, False)]
    return Process(tuple(command), {"TF_CPP_MIN_LOG_LEVEL": "2"})


@contextlib.contextmanager
def _loaded(args: argparse.Namespace, output: Held) -> Iterator[None]:
    try:
        _load_for_check(args)
    except BaseException:
        output.drop()  # the process tells the same
        raise
    yield


def _load_for_check(args: argparse.Namespace) -> list[str]:
    """All overrides that make the job, of which both stages can run."""
    job, overrides = load_for_plan(args.job, args.set, args.max_assets)
    check_backends(job, (PREPROCESS, TRAIN) if job.train is not None else (PREPROCESS,))
    return overrides


def named_again(args: argparse.Namespace) -> str:
    """The job of a command line, with its overrides, for a shell."""
    overrides = [part for override in args.set for part in ("--set", override)]
    pruned = [] if args.max_assets is None else ["--max-assets", str(args.max_assets)]
    return shlex.join([args.job, *overrides, *pruned])


def list_checkpoints(args: argparse.Namespace) -> int:
    """Shows what a training run can go back to, in a process of its own: it needs TensorFlow."""
    job, _ = load_for_plan(args.job, args.set, args.max_assets, sourced=False)
    if job.train is None:
        raise UserError(f"{args.job}: train: is missing, it must be a mapping, such as {Train.example}")
    more = ("--json",) if args.json else ()
    command = (sys.executable, "-m", "beamfeed.trainer.tools.list_checkpoints", job.train.workdir, *more)
    return run_together("list", [Process(command, {"TF_CPP_MIN_LOG_LEVEL": "2"})])


def find_learning_rate(args: argparse.Namespace) -> int:
    """Tries learning rates, in a process of its own: it needs TensorFlow."""
    job, overrides = load_for_plan(args.job, args.set, args.max_assets, sourced=False)
    if job.train is None:
        raise UserError(f"{args.job}: train: is missing, it must be a mapping, such as {Train.example}")
    for name in ("restart", "from_step", "profile_steps", "once"):
        if getattr(args, name):
            raise UserError(
                f"--{name.replace('_', '-')}: does not go with --find-lr, which trains nothing that is kept"
            )
    command = [sys.executable, "-m", "beamfeed.trainer.tools.find_rate", "--job", args.job]
    for override in overrides:
        command += ["--set", override]
    if args.json:
        command += ["--json"]
    if args.dry_run:
        if args.json:
            tell_event("plan", job=job.name, path=args.job, commands=[shlex.join(command)])
        else:
            print(shlex.join(command))
        return 0
    return run_together("find-lr", [Process(tuple(command), {"TF_CPP_MIN_LOG_LEVEL": "2"})])


def cancel(args: argparse.Namespace) -> int:
    """Stops what a job runs in a cloud."""
    runs = cancel_job(args.job, args.set, args.max_assets)
    if args.json:
        tell_event("cancel", runs=runs)
    elif not runs:
        note("beamfeed: no cloud job of this job file is running")
    return 0


def find_dataset(path: str, overrides: Sequence[str]) -> tuple[str, str | None]:
    """The folder of the dataset that a command line names, and the job file, where it names one that trains.

    Raises:
      UserError: if there are overrides without a job file, or the job file is wrong.
    """
    if not path.endswith((".yaml", ".yml")):
        if overrides:
            raise UserError(f"--set {overrides[0]}: replaces a key of a job file, and {path} is none")
        return path, None
    job, _ = load_for_plan(path, overrides, None, sourced=False)
    return job.output.path, path if job.train else None


def inspect(args: argparse.Namespace) -> int:
    """Shows a dataset, in a process of its own: it needs TensorFlow."""
    dataset, _ = find_dataset(args.dataset, args.set)
    command = [sys.executable, "-m", "beamfeed.trainer.tools.inspect_dataset", dataset]
    if args.windows is not None:
        command += ["--windows", str(args.windows)]
    if args.picture is not None:
        command += ["--picture", args.picture]
    if args.verify:
        command += ["--verify"]
    if args.json:
        command += ["--json"]
    return run_together("inspect", [Process(tuple(command), {"TF_CPP_MIN_LOG_LEVEL": "2"})])


def profile(args: argparse.Namespace) -> int:
    """Measures the feeding of a dataset, in a process of its own: it needs TensorFlow."""
    dataset, job = find_dataset(args.dataset, ()) if args.job else find_dataset(args.dataset, args.set)
    command = [sys.executable, "-m", "beamfeed.trainer.tools.profile_dataset", dataset]
    for name in ("job", "batch", "shuffle", "seconds", "out"):
        value = (args.job or job) if name == "job" else getattr(args, name)
        if value is not None:
            command += [f"--{name}", str(value)]
    for override in args.set if args.job or job else ():
        command += ["--set", override]
    if args.json:
        command += ["--json"]
    return run_together("profile", [Process(tuple(command), {"TF_CPP_MIN_LOG_LEVEL": "2"})])


def export(args: argparse.Namespace) -> int:
    """Exports a dataset, in a process of its own: it needs Beam."""
    dataset, _ = find_dataset(args.dataset, args.set)
    command = [sys.executable, "-m", "beamfeed.pipelines.export_dataset", f"--to={args.to}", f"--out={args.out}"]
    command += [f"--{name}={value}" for name in ("what", "fields") if (value := getattr(args, name)) is not None]
    command += [f"--split={split}" for split in args.split]
    command += [f"--{name}" for name in ("force", "json") if getattr(args, name)]
    beam = ["--", *args.beam_options] if args.beam_options else []
    return run_together("export", [Process((*command, dataset, *beam), {"TF_CPP_MIN_LOG_LEVEL": "2"})])


def schema(args: argparse.Namespace) -> int:
    """Prints the JSON Schema of a job file."""
    print(json.dumps(job_schema(), indent=None if args.json else 2))
    return 0


def completion(args: argparse.Namespace) -> int:
    """Prints the completion script of a shell."""
    print(completion_script(args.whole, args.shell))
    return 0
