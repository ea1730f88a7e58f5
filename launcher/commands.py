"""What the commands of `beamfeed` do."""

import argparse
import json
import shlex
import sys

from beamfeed.contract.config.train import Train
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.manifest import find_manifest
from beamfeed.contract.dataset.result import read_result
from beamfeed.contract.errors import UserError
from beamfeed.launcher.job import job_model
from beamfeed.launcher.plan import load_for_plan, make_plan
from beamfeed.launcher.processes import Process, run_together
from beamfeed.launcher.run import cancel_job, describe_plan, run_plan
from beamfeed.launcher.stage import PREPROCESS, TRAIN
from beamfeed.launcher.summary import summary


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
    )
    if args.dry_run:
        print(describe_plan(plan))
        return 0
    code, seconds = run_plan(plan)
    if code:
        return code
    job = plan.job
    manifest = find_manifest(job.output.path) if PREPROCESS in args.stages else None
    train = job.train if TRAIN in args.stages else None
    result = read_result(train.workdir) if train else None
    floor = read_result(RunLayout(train.workdir).floor) if train and train.floor else None
    print(summary(job, manifest, result, seconds, floor))
    return 0


def list_checkpoints(args: argparse.Namespace) -> int:
    """Shows what a training run can go back to, in a process of its own: it needs TensorFlow."""
    job, _ = load_for_plan(args.job, args.set, args.max_assets)
    if job.train is None:
        raise UserError(f"{args.job}: train: is missing, it must be a mapping, such as {Train.example}")
    command = (sys.executable, "-m", "beamfeed.trainer.tools.list_checkpoints", job.train.workdir)
    return run_together("list", [Process(command, {"TF_CPP_MIN_LOG_LEVEL": "2"})])


def find_learning_rate(args: argparse.Namespace) -> int:
    """Tries learning rates, in a process of its own: it needs TensorFlow."""
    job, overrides = load_for_plan(args.job, args.set, args.max_assets)
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
    if args.dry_run:
        print(shlex.join(command))
        return 0
    return run_together("find-lr", [Process(tuple(command), {"TF_CPP_MIN_LOG_LEVEL": "2"})])


def cancel(args: argparse.Namespace) -> int:
    """Stops what a job runs in a cloud."""
    if not cancel_job(args.job, args.set, args.max_assets):
        print("beamfeed: no cloud job of this job file is running", file=sys.stderr)
    return 0


def inspect(args: argparse.Namespace) -> int:
    """Shows a dataset, in a process of its own: it needs TensorFlow."""
    command = [sys.executable, "-m", "beamfeed.trainer.tools.inspect_dataset", args.dataset]
    if args.windows is not None:
        command += ["--windows", str(args.windows)]
    if args.verify:
        command += ["--verify"]
    return run_together("inspect", [Process(tuple(command), {"TF_CPP_MIN_LOG_LEVEL": "2"})])


def profile(args: argparse.Namespace) -> int:
    """Measures the feeding of a dataset, in a process of its own: it needs TensorFlow."""
    command = [sys.executable, "-m", "beamfeed.trainer.tools.profile_dataset", args.dataset]
    for name in ("job", "batch", "shuffle", "seconds", "out"):
        value = getattr(args, name)
        if value is not None:
            command += [f"--{name}", str(value)]
    for override in args.set:
        command += ["--set", override]
    return run_together("profile", [Process(tuple(command), {"TF_CPP_MIN_LOG_LEVEL": "2"})])


def schema(args: argparse.Namespace) -> int:
    """Prints the JSON Schema of a job file."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    print(json.dumps({**dialect, **job_model().model_json_schema(by_alias=True)}, indent=2))
    return 0
