"""What the commands of `beamfeed` do."""

import argparse
import contextlib
import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from beamfeed.contract import options
from beamfeed.contract.arguments import flat
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.train import Train
from beamfeed.contract.dataset.facts import read_facts
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.manifest import find_manifest
from beamfeed.contract.dataset.result import read_result
from beamfeed.contract.dataset.review import read_review
from beamfeed.contract.errors import UserError
from beamfeed.contract.events import emit_event
from beamfeed.contract.program import LOUDNESS, Program
from beamfeed.contract.verbosity import note
from beamfeed.launcher import verbs
from beamfeed.launcher.backends.base import Submission
from beamfeed.launcher.completion import completion_script
from beamfeed.launcher.display import Display, choose
from beamfeed.launcher.estimate import read_prices
from beamfeed.launcher.parser import COMMANDS, build_parser
from beamfeed.launcher.plan import Plan, check_backends, load_for_plan, make_plan
from beamfeed.launcher.processes import Held, Process, run_together
from beamfeed.launcher.run import cancel_job, describe_plan, estimates, is_billed, plan_values, run_plan
from beamfeed.launcher.runs.find import Run, find_run
from beamfeed.launcher.runs.record import StageRecord
from beamfeed.launcher.schema import job_schema
from beamfeed.launcher.stage import PREPROCESS, TRAIN
from beamfeed.launcher.summary import summary, to_json

# Options that say how stages are run.
HOW = ("replace", "refit", "restart", "from_step", "once", "profile_steps", "data")


def start(program: Program, values: Mapping[str, Any], beam_options: Sequence[str] = ()) -> Process:
    """The process of a program that gets these values, by the keys of its options."""
    command = (sys.executable, "-m", program.module, *program.arguments(values, beam_options))
    return Process(command, {LOUDNESS: "2"})


def init(args: argparse.Namespace) -> int:
    """Writes a first job file, in a fresh process: it reads files as preprocessing does."""
    return run_together("init", [start(options.INIT, vars(args))])


def adopt(args: argparse.Namespace) -> int:
    """Makes a dataset of TFRecords that are there, in a fresh process: it reads them with Beam."""
    return run_together("adopt", [start(options.ADOPT, vars(args), args.beam_options)])


def run(args: argparse.Namespace) -> int:
    """Runs the stages of a job that are not complete, in order."""
    stages = COMMANDS[args.command].stages
    settings = {key: value for key, value in vars(args).items() if key in HOW}
    plan = make_plan(args.job, args.set, stages, args.max_assets, beam_options=args.beam_options, **settings)
    prices = read_prices(args.prices)
    if args.dry_run:
        if args.json:
            emit_event("plan", **plan_values(plan, prices))
        else:
            print(describe_plan(plan, prices))
        return 0
    if is_billed(plan) and not args.yes and sys.stdin.isatty() and sys.stderr.isatty():
        for name, takes in estimates(plan, prices).items():
            print(f"{name}: {takes.words() or 'what it takes is not known yet'}", file=sys.stderr)
        print("go on? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise UserError("nothing was started")
    return _carry_out(args, plan, named_again(args))


def _carry_out(args: argparse.Namespace, plan: Plan, again: str) -> int:
    """Runs a plan and tells what came of it; `again` names the job, with its overrides, on a command line."""
    with choose(args.quiet, args.json) as display:
        code, seconds = run_plan(plan, display)
        if code == 0:
            _summarize(plan, again, seconds, display)
    return code or _follow_up(args, plan)


def _follow_up(args: argparse.Namespace, plan: Plan) -> int:
    """What the job asks for when its model is trained."""
    train = plan.job.train
    if train is None or TRAIN not in plan.requested or read_result(train.workdir) is None:
        return 0
    for name in plan.job.after:
        program = {"predict": options.PREDICT, "score": options.SCORE, "report": options.REPORT}[name]
        named = {"job": plan.job_path, "set": list(plan.overrides), "dataset": plan.job.output.path}
        code = run_together(name, [start(program, {**named, "json": args.json, "force": True})])
        if code:
            return code
    return 0


def train(args: argparse.Namespace) -> int:
    """As `run`, of a job's training; or what is of use before."""
    if args.list_checkpoints:
        return list_checkpoints(args)
    return find_learning_rate(args) if args.find_lr else run(args)


def _summarize(plan: Plan, again: str, seconds: dict[str, float], display: Display) -> None:
    job = plan.job
    manifest = find_manifest(job.output.path) if PREPROCESS in plan.requested else None
    train = job.train if TRAIN in plan.requested else None
    result = read_result(train.workdir) if train else None
    floor = read_result(RunLayout(train.workdir).floor) if train and train.floor else None
    review = read_review(train.workdir, result.fingerprint) if train and result else None
    facts = read_facts(job.output.path, manifest) if manifest else None
    table = summary(job, manifest, result, seconds, floor, review, facts, again)
    display.summary(table, to_json(job, manifest, result, seconds))


def check(args: argparse.Namespace) -> int:
    """Says what a job would do, in a fresh process: it reads the files as preprocessing does."""
    if args.max_assets is not None:
        return run_together("check", [start(options.CHECK, {**vars(args), "set": _load_for_check(args)})])
    # What only the launcher knows of the job is checked while the process starts: both load it for half a second.
    output = Held()
    return run_together("check", [start(options.CHECK, vars(args))], watch=_loaded(args, output), output=output)


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
    again = (options.JOB, options.SET, options.MAX_ASSETS)
    return shlex.join(part for option in again for part in option.write(getattr(args, option.key)))


def _load_training(args: argparse.Namespace) -> tuple[Job, Train, list[str]]:
    """The job, its section `train`, and all overrides that make it."""
    job, overrides = load_for_plan(args.job, args.set, args.max_assets, sourced=False)
    if job.train is None:
        raise UserError(f"{args.job}: train: is missing, it must be a mapping, such as {Train.example}")
    return job, job.train, overrides


def list_checkpoints(args: argparse.Namespace) -> int:
    """Shows what a training run can go back to, in a fresh process: it needs TensorFlow."""
    _, train, _ = _load_training(args)
    return run_together("list", [start(options.CHECKPOINTS, {**vars(args), "workdir": train.workdir})])


def find_learning_rate(args: argparse.Namespace) -> int:
    """Tries learning rates, in a fresh process: it needs TensorFlow."""
    job, _, overrides = _load_training(args)
    for option in flat(options.TRAIN.options):
        if getattr(args, option.key):
            raise UserError(f"{option.name}: does not go with --find-lr, which trains nothing that is kept")
    process = start(options.FIND_RATE, {**vars(args), "set": overrides})
    if not args.dry_run:
        return run_together("find-lr", [process])
    command = shlex.join(process.command)
    if args.json:
        emit_event("plan", job=job.name, path=args.job, commands=[command])
    else:
        print(command)
    return 0


def runs(args: argparse.Namespace) -> int:
    """Lists runs."""
    listed = verbs.list_runs(args.where, args.all)
    if args.json:
        for listed_run in listed:
            emit_event(
                "run",
                state=listed_run.record.state(),
                path=listed_run.layout.record,
                **listed_run.record.model_dump(mode="json"),
            )
    elif listed:
        print(verbs.table(listed))
    else:
        note(f"beamfeed: no run is recorded {f'for {args.where}' if args.where else 'on this machine'}")
    return 0


def status(args: argparse.Namespace) -> int:
    """Tells how a run is."""
    run = find_run(args.run)
    with verbs.in_its_folder(run):
        if args.json:
            state, words = verbs.state_of(run)
            emit_event("run", state=state, detail=words, path=run.layout.record, **run.record.model_dump(mode="json"))
        else:
            print(verbs.describe(run))
    return 0


def logs(args: argparse.Namespace) -> int:
    """Prints what a run printed."""
    run = find_run(args.run)
    verbs.print_log(run, args.follow)
    return 0


def attach(args: argparse.Namespace) -> int:
    """Follows a run that goes on: its launcher's log, or, where it has none, what it runs elsewhere."""
    run = find_run(args.run)
    if run.record.state() == "running":
        try:
            return verbs.print_log(run, follow=True, tail=verbs.TAIL)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"run {run.record.id} goes on") from None
    with verbs.in_its_folder(run):
        return _follow_on(args, run, *verbs.check_goes_on(run))


def resume(args: argparse.Namespace) -> int:
    """Goes on with a run that has stopped."""
    run = find_run(args.run)
    id_ = run.record.id
    if run.record.state() == "running":
        raise UserError(f"run {id_}: goes on; `beamfeed attach {id_}` shows it")
    with verbs.in_its_folder(run, strictly=True):
        try:
            work = verbs.find_work(run)
        except UserError as error:  # where it ran is gone, maybe: what is there is locked while it works
            note(f"beamfeed: {error}; going on without it")
            work = None
        if work is None:
            return _go_on(args, run, args.set)
        if args.set:
            raise UserError(
                f"run {id_}: {work[1].title} still works on it; `beamfeed attach {id_}` follows it, "
                f"`beamfeed cancel {id_}` ends it"
            )
        return _follow_on(args, run, *work)


def _follow_on(args: argparse.Namespace, run: Run, stage: StageRecord, work: Submission) -> int:
    with choose(args.quiet, args.json) as display:
        code = verbs.follow_on(run, stage, work, display)
    if code or all(stage.state != "waiting" for stage in run.record.stages):
        return code
    return _go_on(args, run, (), as_kept=True)


def _go_on(args: argparse.Namespace, run: Run, overrides: Sequence[str], *, as_kept: bool = False) -> int:
    plan = verbs.plan_again(run, overrides, as_kept=as_kept)
    sets = (part for override in plan.overrides for part in options.SET.write([override]))
    return _carry_out(args, plan, shlex.join([plan.job_path, *sets]))


def cancel(args: argparse.Namespace) -> int:
    """Stops a run; of a job file, also what it runs elsewhere without a record."""
    is_job = args.run.endswith((".yaml", ".yml"))
    if not is_job and (args.set or args.max_assets is not None):
        raise UserError(f"{args.run}: is no job file, whose keys --set and --max-assets could change")
    ended: list[str] = []
    failed: UserError | None = None
    for unfinished in verbs.unfinished(args.run, args.set, args.max_assets) if is_job else [find_run(args.run)]:
        try:
            with verbs.in_its_folder(unfinished):
                ended += verbs.cancel(unfinished)
        except UserError as error:  # the others can be ended all the same
            failed = error
    stopped = len(ended) + (cancel_job(args.run, args.set, args.max_assets) if is_job else 0)
    for line in ended:
        note(f"beamfeed: {line}")
    if failed is not None:
        raise failed
    if args.json:
        emit_event("cancel", runs=stopped)
    elif not stopped:
        note(f"beamfeed: {args.run}: nothing of it is running")
    return 0


def find_dataset(path: str, overrides: Sequence[str]) -> tuple[str, str | None]:
    """The folder of the dataset that a command line names, and the job file, where it names one that trains.

    Raises:
      UserError: if there are overrides without a job file, or the job file is wrong.
    """
    if not path.endswith((".yaml", ".yml")):
        if overrides:
            raise UserError(f"--set {overrides[0]}: replaces a key of a job file, and {path} is not a job file")
        return path, None
    job, _ = load_for_plan(path, overrides, None, sourced=False)
    return job.output.path, path if job.train else None


def inspect(args: argparse.Namespace) -> int:
    """Shows a dataset, in a fresh process: it needs TensorFlow."""
    dataset, _ = find_dataset(args.dataset, args.set)
    return run_together("inspect", [start(options.INSPECT, {**vars(args), "dataset": dataset})])


def profile(args: argparse.Namespace) -> int:
    """Measures the feeding of a dataset, in a fresh process: it needs TensorFlow."""
    dataset, job = find_dataset(args.dataset, () if args.job else args.set)
    job = args.job or job
    named = {"dataset": dataset, "job": job, "set": args.set if job else []}
    return run_together("profile", [start(options.PROFILE, {**vars(args), **named})])


def export(args: argparse.Namespace) -> int:
    """Exports a dataset, in a fresh process: it needs Beam."""
    dataset, _ = find_dataset(args.dataset, args.set)
    return run_together("export", [start(options.EXPORT, {**vars(args), "dataset": dataset}, args.beam_options)])


def predict(args: argparse.Namespace) -> int:
    """Predicts, in a fresh process: it needs Beam and TensorFlow."""
    load_for_plan(args.job, args.set, None, sourced=bool(args.files))
    return run_together("predict", [start(options.PREDICT, vars(args), args.beam_options)])


def compact(args: argparse.Namespace) -> int:
    """Compacts a dataset that has grown, in a fresh process: it needs Beam."""
    load_for_plan(args.job, args.set, None, sourced=False)
    return run_together("compact", [start(options.COMPACT, vars(args), args.beam_options)])


def train_each(args: argparse.Namespace) -> int:
    """Trains a model for each group, in a fresh process: it needs Beam."""
    load_for_plan(args.job, args.set, None, sourced=False)
    return run_together("train-each", [start(options.TRAIN_EACH, vars(args), args.beam_options)])


def score(args: argparse.Namespace) -> int:
    """Scores predictions, in a fresh process."""
    load_for_plan(args.job, args.set, None, sourced=False)
    return run_together("score", [start(options.SCORE, vars(args))])


def report(args: argparse.Namespace) -> int:
    """Reports on a dataset and its model, in a fresh process: it draws."""
    dataset, job = find_dataset(args.dataset, () if args.job else args.set)
    job = args.job or job
    named = {"dataset": dataset, "job": job, "set": args.set if job else []}
    return run_together("report", [start(options.REPORT, {**vars(args), **named})])


def compare(args: argparse.Namespace) -> int:
    """Compares data, in a fresh process: it needs Beam."""
    is_job = args.reference.endswith((".yaml", ".yml"))
    job = args.job or (args.reference if is_job else None)
    if args.set and job is None:
        raise UserError(f"--set {args.set[0]}: replaces a key of a job file; give one by --job")
    places = [find_dataset(args.reference, args.set if is_job else ())[0]]
    if args.current is not None:
        places.append(find_dataset(args.current, ())[0])
    named = {"reference": places[0], "current": places[1] if args.current is not None else None}
    if args.files:
        named["job"] = job
    values = {**vars(args), **named, "set": args.set if args.files else []}
    return run_together("compare", [start(options.COMPARE, values, args.beam_options)])


def sweep(args: argparse.Namespace) -> int:
    """Tries values of a job's keys."""
    from beamfeed.launcher.sweep.command import sweep

    return sweep(args)


def schema(args: argparse.Namespace) -> int:
    """Prints the JSON Schema of a job file."""
    print(json.dumps(job_schema(), indent=None if args.json else 2))
    return 0


def completion(args: argparse.Namespace) -> int:
    """Prints the completion script of a shell."""
    print(completion_script(build_parser(), args.shell))
    return 0


CALLS: dict[str, Callable[[argparse.Namespace], int]] = {
    "init": init, "adopt": adopt, "run": run, "preprocess": run, "train": train, "check": check,
    "runs": runs, "status": status, "logs": logs, "attach": attach, "resume": resume, "cancel": cancel,
    "inspect": inspect, "profile": profile, "compact": compact, "export": export, "predict": predict,
    "train-each": train_each, "score": score, "report": report, "compare": compare, "sweep": sweep, "schema": schema,
    "completion": completion,
}  # fmt: skip
