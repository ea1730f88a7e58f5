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
from beamfeed.contract.dataset.facts import read_facts
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.manifest import find_manifest
from beamfeed.contract.dataset.result import read_result
from beamfeed.contract.dataset.review import read_review
from beamfeed.contract.errors import BeamfeedError, Unanswered, UserError
from beamfeed.contract.events import emit_event
from beamfeed.contract.program import LOUDNESS, Program
from beamfeed.contract.verbosity import note
from beamfeed.launcher import verbs
from beamfeed.launcher.backends.base import Submission
from beamfeed.launcher.display import Display, choose
from beamfeed.launcher.estimate import read_prices
from beamfeed.launcher.parser import COMMANDS, completion_script
from beamfeed.launcher.plan import Plan, check_backends, load_for_plan, load_training, make_plan
from beamfeed.launcher.processes import Held, Process, run_together
from beamfeed.launcher.run import ask_for_bill, cancel_job, describe_plan, plan_values, run_plan
from beamfeed.launcher.runs.find import Run, find_run, is_job_file
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


def start_program(args: argparse.Namespace, **changed: Any) -> int:
    """Runs the program of a command, with the options of the command, or what they are `changed` to.

    In a fresh process: it needs Beam or TensorFlow, which take seconds to load.
    """
    program = COMMANDS[args.command].program
    assert program is not None
    return run_together(args.command, [start(program, {**vars(args), **changed}, args.beam_options)])


def work_on_job(args: argparse.Namespace) -> int:
    """As `start_program`, of a job, which is checked first."""
    load_for_plan(args.job, args.set, None, sourced=bool(getattr(args, "files", None)))
    return start_program(args)


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
    if not args.yes:
        ask_for_bill(plan, prices)
    return _carry_out(args, plan, named_again(args))


def _carry_out(args: argparse.Namespace, plan: Plan, again: str) -> int:
    """Runs a plan and tells what came of it; `again` names the job, with its overrides, on a command line."""
    with choose(args.quiet, args.json) as display:
        code, seconds = run_plan(plan, display)
        if code == 0:
            try:
                _summarize(plan, again, seconds, display)
            except Unanswered as error:  # the run itself has ended well
                note(f"beamfeed: {error.reason}; the run is done, and not summed up")
    return code or _follow_up(args, plan)


def _follow_up(args: argparse.Namespace, plan: Plan) -> int:
    """What the job asks for when its model is trained."""
    train = plan.job.train
    if train is None or TRAIN not in plan.requested or not plan.job.after or read_result(train.workdir) is None:
        return 0
    for name in plan.job.after:
        named = {"job": plan.job_path, "set": list(plan.every), "dataset": plan.job.output.path}
        values = {**named, "json": args.json, "force": True}
        if code := start_program(argparse.Namespace(command=name, beam_options=[], **values)):
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
        return start_program(args, set=_load_for_check(args))
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


def list_checkpoints(args: argparse.Namespace) -> int:
    """Shows what a training run can go back to, in a fresh process: it needs TensorFlow."""
    _, train, _ = load_training(args.job, args.set, args.max_assets)
    return run_together("list", [start(options.CHECKPOINTS, {**vars(args), "workdir": train.workdir})])


def find_learning_rate(args: argparse.Namespace) -> int:
    """Tries learning rates, in a fresh process: it needs TensorFlow."""
    job, _, overrides = load_training(args.job, args.set, args.max_assets)
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
            _emit_run(listed_run, state=listed_run.record.state())
    elif listed:
        print(verbs.table(listed))
    else:
        note(f"beamfeed: no run is recorded {f'for {args.where}' if args.where else 'on this machine'}")
    return 0


def _emit_run(run: Run, **how: str) -> None:
    emit_event("run", **how, path=run.layout.record, **run.record.model_dump(mode="json"))


def status(args: argparse.Namespace) -> int:
    """Tells how a run is."""
    run = find_run(args.run)
    with verbs.in_its_folder(run):
        if args.json:
            state, words = verbs.state_of(run)
            _emit_run(run, state=state, detail=words)
        else:
            print(verbs.describe(run))
    return 0


def logs(args: argparse.Namespace) -> int:
    """Prints what a run printed."""
    verbs.print_log(find_run(args.run), args.follow)
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
        if (work := verbs.find_work(run)) is not None:
            verbs.check_goes_on(run, work[1])
            return _follow_on(args, run, *work)
        state, words = verbs.state_of(run)
    message = f"run {run.record.id}: is {state}" + (f": {words}" if words else "")
    raise UserError(message if state == "done" else f"{message}; `beamfeed resume {run.record.id}` goes on with it")


def resume(args: argparse.Namespace) -> int:
    """Goes on with a run that has stopped."""
    run = find_run(args.run)
    id_ = run.record.id
    if run.record.state() == "running":
        raise UserError(f"run {id_}: goes on; `beamfeed attach {id_}` shows it")
    with verbs.in_its_folder(run, strictly=True):
        try:
            work = verbs.find_work(run)
        except (UserError, Unanswered) as error:  # where it ran is gone, maybe: what is there is locked while it works
            note(f"beamfeed: {error}; going on without it")
            work = None
        if work is None:
            return _go_on(args, run, args.set)
        if args.set:
            raise UserError(
                f"run {id_}: {work[1].title} still works on it; `beamfeed attach {id_}` follows it, "
                f"`beamfeed cancel {id_}` ends it"
            )
        verbs.check_goes_on(run, work[1])
        return _follow_on(args, run, *work)


def _follow_on(args: argparse.Namespace, run: Run, stage: StageRecord, work: Submission) -> int:
    with choose(args.quiet, args.json) as display:
        code = verbs.follow_on(run, stage, work, display)
    if code:
        return code
    if all(stage.state != "waiting" for stage in run.record.stages):
        try:
            plan = verbs.plan_of_done(run)
        except (UserError, Unanswered) as error:  # the run itself has ended well
            note(f"beamfeed: {error}; it is not summed up, and nothing follows it")
            return 0
        return 0 if plan is None else _carry_out(args, plan, shlex.quote(plan.job_path))
    return _go_on(args, run, (), as_kept=True)


def _go_on(args: argparse.Namespace, run: Run, overrides: Sequence[str], *, as_kept: bool = False) -> int:
    plan = verbs.plan_again(run, overrides, as_kept=as_kept)
    if not as_kept and not args.yes:
        ask_for_bill(plan, read_prices(args.prices))
    sets = (part for override in plan.overrides for part in options.SET.write([override]))
    return _carry_out(args, plan, shlex.join([plan.job_path, *sets]))


def cancel(args: argparse.Namespace) -> int:
    """Stops a run; of a job file, also what it runs elsewhere without a record."""
    job = None
    if is_job_file(args.run):
        job, _ = load_for_plan(args.run, args.set, args.max_assets, sourced=False)
    elif args.set or args.max_assets is not None:
        raise UserError(f"{args.run}: is no job file, whose keys --set and --max-assets could change")
    ended: list[str] = []
    titles: list[str] = []  # of work that is cancelled
    failed: BeamfeedError | None = None
    for run in verbs.unfinished(job) if job else [find_run(args.run)]:
        try:
            with verbs.in_its_folder(run):
                lines = verbs.cancel(run)
            titles += (stage.handle for stage in run.record.stages if lines)
            ended += lines
        except (UserError, Unanswered) as error:  # the others can be ended all the same
            failed = error
    for line in ended:
        note(f"beamfeed: {line}")
    stopped = len(ended) + (cancel_job(job, titles) if job else 0)
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
    if not is_job_file(path):
        if overrides:
            raise UserError(f"--set {overrides[0]}: replaces a key of a job file, and {path} is not a job file")
        return path, None
    job, _ = load_for_plan(path, overrides, None, sourced=False)
    return job.output.path, path if job.train else None


def show_dataset(args: argparse.Namespace) -> int:
    """As `start_program`, of a dataset, which a job file may name."""
    dataset, _ = find_dataset(args.dataset, args.set)
    return start_program(args, dataset=dataset)


def show_dataset_and_job(args: argparse.Namespace) -> int:
    """As `show_dataset`, also of a job that trains on it, where one is named."""
    dataset, job = find_dataset(args.dataset, () if args.job else args.set)
    job = args.job or job
    return start_program(args, dataset=dataset, job=job, set=args.set if job else [])


def compare(args: argparse.Namespace) -> int:
    """Compares data."""
    is_job = is_job_file(args.reference)
    job = args.job or (args.reference if is_job else None)
    if args.set and job is None:
        raise UserError(f"--set {args.set[0]}: replaces a key of a job file; give one by --job")
    reference, _ = find_dataset(args.reference, args.set if is_job else ())
    current = None if args.current is None else find_dataset(args.current, ())[0]
    of_job: dict[str, Any] = {"job": job, "set": args.set} if args.files else {"set": []}
    return start_program(args, reference=reference, current=current, **of_job)


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
    print(completion_script(args.shell))
    return 0


CALLS: dict[str, Callable[[argparse.Namespace], int]] = {
    "init": start_program, "adopt": start_program, "run": run, "preprocess": run, "train": train, "check": check,
    "runs": runs, "status": status, "logs": logs, "attach": attach, "resume": resume, "cancel": cancel,
    "inspect": show_dataset, "profile": show_dataset_and_job, "compact": work_on_job, "export": show_dataset,
    "predict": work_on_job, "train-each": work_on_job, "score": work_on_job, "report": show_dataset_and_job,
    "compare": compare, "sweep": sweep, "schema": schema, "completion": completion,
}  # fmt: skip
