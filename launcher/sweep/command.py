"""`beamfeed sweep`: its dataset once, its trials, and what they come to."""

import argparse
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from beamfeed.contract import storage
from beamfeed.contract.config.document import read_text
from beamfeed.contract.config.load import JobFile
from beamfeed.contract.config.sources.none import NoSource
from beamfeed.contract.config.sweep import Sweep
from beamfeed.contract.dataset.manifest import read_manifest
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.contract.events import emit_event
from beamfeed.contract.storage.lock import Use, hold
from beamfeed.contract.text import counted, table
from beamfeed.launcher.display import Display, choose
from beamfeed.launcher.estimate import read_prices
from beamfeed.launcher.plan import Plan, check_backends, load_training, make_plan
from beamfeed.launcher.run import ask_for_bill, run_plan
from beamfeed.launcher.stage import PREPROCESS, TRAIN
from beamfeed.launcher.sweep.picture import draw
from beamfeed.launcher.sweep.results import (
    BEST,
    LEADERBOARD,
    PICTURE,
    Leaderboard,
    describe,
    read_leaderboard,
    short_names,
    shown,
    write_results,
)
from beamfeed.launcher.sweep.search import run_trials
from beamfeed.launcher.sweep.space import Search, grid_size, job_values, read_space
from beamfeed.launcher.sweep.study import (
    JOURNAL,
    STARTUP,
    current_trials,
    make_study,
    next_trial,
    open_study,
    require_optuna,
    retry_failed,
)

if TYPE_CHECKING:
    import optuna

EVERY_SECONDS = 30.0  # between lines on evaluations of a trial
LOCK = "lock.json"
TRIAL = re.compile(r"trial-\d{4,}")  # a folder of one
SWEEPING = Use("--out", "sweeping in")


def sweep(args: argparse.Namespace) -> int:
    """Tries values of a job's keys; returns the exit code."""
    plan, search = make_search(args)
    require_optuna()
    if args.dry_run:
        _tell_plan(args, plan, search)
        return 0
    if not args.yes:
        ask_for_bill(plan, read_prices(args.prices))
    with choose(args.quiet, args.json) as display:
        code, _ = run_plan(plan, display)  # of the dataset
        if code:
            return code
        with hold(storage.join(search.folder, LOCK), use=SWEEPING):
            if args.restart or is_half_forgotten(search.folder):
                forget(search.folder)
            search = replace(search, data=read_manifest(search.job.output.path).fingerprint)
            study = open_study(search)
            if args.retry_failed:
                retry_failed(study)
            board = _carry_out(args, search, study, display)
        display.summary(describe(search, board), _summary(search, board))
    if board.best is None:
        reasons = [place.reason for place in board.places if place.reason]
        why = f"; the first: {reasons[0]}; --retry-failed tries them again" if reasons else ""
        raise JobFailed(f"of {counted(len(board.places), 'trial')} none has ended well{why}")
    return 0


def make_search(args: argparse.Namespace) -> tuple[Plan, Search]:
    """The plan of the dataset, and what is to be tried.

    Raises:
      UserError: for a mistake in the job.
    """
    job, train, overrides = load_training(args.job, args.set, args.max_assets)
    if job.sweep is None:
        raise UserError(f"{args.job}: sweep: is missing, it must be a mapping, such as {Sweep.example}")
    if (backend := job.launch.train.backend) != "local":
        raise UserError(f"launch.train.backend: {backend}: trials run on this machine, where backend is local")
    folder = args.out or train.workdir.rstrip("/") + "-sweep"
    if storage.is_remote(folder):
        raise UserError(f"--out: {folder}: a sweep needs a folder on a disk of this machine")
    check_backends(job, (TRAIN,))
    check_folder(folder)
    file = JobFile(read_text(args.job), args.job, overrides)
    search = Search(file, job, job.sweep, read_space(file, job.sweep), folder, args.parallel)
    if isinstance(job.source, NoSource):
        plan = make_plan(args.job, overrides, (TRAIN,))
        return replace(plan, stages=()), search
    return make_plan(args.job, overrides, (PREPROCESS,)), search


def _carry_out(args: argparse.Namespace, search: Search, study: "optuna.Study", display: Display) -> Leaderboard:
    def ended() -> None:
        write_results(search, read_leaderboard(search, study))

    if (points := _points(search)) is not None and search.sweep.sampler != "grid" and points <= search.trials:
        display.say(
            f"the space has {counted(points, 'point')}; sampler: grid would try each once, this one may try some again"
        )
    try:
        run_trials(search, study, _teller(args, search, display), ended)
    except KeyboardInterrupt:
        done = sum(trial.state.is_finished() for trial in current_trials(study))
        raise KeyboardInterrupt(f"{done} of {search.trials} trials are over; the same command goes on") from None
    finally:  # however that comes
        board = read_leaderboard(search, study)
        if any(place.value is not None for place in board.places):
            storage.write_bytes(storage.join(search.folder, PICTURE), draw(board, search.dimensions))
    write_results(search, board)
    return board


def _points(search: Search) -> int | None:
    """How many combinations there are; None where a value is drawn from a range without a step."""
    if any(dimension.range is not None and dimension.range.step is None for dimension in search.dimensions):
        return None
    return grid_size(search.dimensions)


def _teller(args: argparse.Namespace, search: Search, display: Display) -> Any:
    names = short_names([dimension.key for dimension in search.dimensions])
    last: dict[int, float] = {}  # when something was said of a trial

    def tell(event: str, number: int, more: Mapping[str, Any]) -> None:
        if args.json:
            kind, state = ("evaluation", {}) if event == "evaluation" else ("trial", {"state": event})
            emit_event(kind, trial=number, **state, **more)
        elif event != "evaluation" or time.monotonic() - last[number] >= EVERY_SECONDS:
            last[number] = time.monotonic()
            display.say(f"trial {number}: {_words(event, more, names)}")

    return tell


def _words(event: str, more: Mapping[str, Any], names: Mapping[str, str]) -> str:
    if event == "begins":
        return ", ".join(f"{names[key]} {shown(value)}" for key, value in more["params"].items())
    if event == "evaluation":
        value = "no number" if more["value"] is None else f"{more['value']:.6g}"
        return f"epoch {more['values']['epoch']:,}, {value}"
    if event == "done":
        return f"done, {more['value']:.6g} after {counted(more['epochs'], 'epoch')}, {more['seconds']:.1f} s"
    if event == "pruned":
        return f"pruned after {counted(more['evaluations'], 'evaluation')}, {more['seconds']:.1f} s"
    return f"failed: {more['reason']}"


def _summary(search: Search, board: Leaderboard) -> dict[str, Any]:
    best = board.best
    states = [place.state for place in board.places]
    return {
        "sweep": search.folder,
        "leaderboard": storage.join(search.folder, LEADERBOARD),
        "trials": {state: states.count(state) for state in ("done", "pruned", "failed")},
        "metric": board.metric,
        "best": None
        if best is None
        else {
            "trial": best.number,
            "value": best.value,
            "params": best.params,
            "job": storage.join(search.folder, BEST),
            "workdir": search.trial_folder(best.number),
        },
    }


def _tell_plan(args: argparse.Namespace, plan: Plan, search: Search) -> None:
    """What would be done: what the trials share, and the first of them, as far as they do not depend on others."""
    section = search.sweep
    known = search.trials if section.sampler != "tpe" else min(search.trials, STARTUP)
    study = make_study(search)
    trials = [job_values(search.dimensions, next_trial(study, search).params) for _ in range(known)]
    stage = next(iter(plan.stages), None)
    complete = stage is None or stage.complete
    reason = stage.reason if stage is not None else f"the dataset in {search.job.output.path}"
    if args.json:
        dataset = {"path": search.job.output.path, "complete": complete, "reason": reason}
        emit_event(
            "plan", job=search.job.name, path=args.job, sweep=search.folder, dataset=dataset, trials=search.trials,
            sampler=section.sampler, pruner=section.pruner, params=trials,
        )  # fmt: skip
        return
    assert search.job.train is not None
    names = short_names([dimension.key for dimension in search.dimensions])
    rows = [["trial", *names.values()], *([str(n), *map(shown, values.values())] for n, values in enumerate(trials))]
    print(
        f"job {search.job.name} ({args.job})\n"
        f"dataset: {'complete' if complete else 'to do'}: {reason}; all trials share it\n"
        f"sweep: {counted(search.trials, 'trial')} in {search.folder}, sampler {section.sampler}, "
        f"pruner {section.pruner}, by {search.job.train.watch.metric}\n"
    )
    print("\n".join(table(rows, left=0)))
    if known < search.trials:
        print(f"and {search.trials - known:,} more, chosen by what these come to")


def check_folder(folder: str) -> None:
    """Raises UserError where a folder holds something, and no sweep."""
    names = [name for name in storage.list_folder(folder) if name != LOCK]
    if names and JOURNAL not in names:
        raise UserError(f"--out: {folder} holds {min(names)}, and no sweep; choose a folder of its own")


def forget(folder: str) -> None:
    """Removes what an earlier sweep left: first what says which trials are done, last that there was one."""
    journal = storage.join(folder, JOURNAL)
    if storage.exists(journal):
        storage.write_text(journal, "")
    for name in (LEADERBOARD, BEST, PICTURE, *filter(TRIAL.fullmatch, storage.list_folder(folder))):
        storage.remove_tree(storage.join(folder, name))
    for path in (f"{journal}.lock", journal):
        storage.remove_file(path)


def is_half_forgotten(folder: str) -> bool:
    """Whether `forget` was cut off: there is an empty journal."""
    journal = storage.join(folder, JOURNAL)
    return storage.exists(journal) and storage.stat(journal).size == 0
