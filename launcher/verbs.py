"""What `beamfeed` says of runs and does with them, alike on every backend."""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice

from beamfeed.contract import storage
from beamfeed.contract.dataset.published import read_complete
from beamfeed.contract.dataset.result import read_result
from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends import backends
from beamfeed.launcher.backends.base import Submission
from beamfeed.launcher.display.words import clock
from beamfeed.launcher.job import load_job
from beamfeed.launcher.plan import Plan, load_for_plan, make_plan
from beamfeed.launcher.runs.find import Run, find_runs, known_runs, places_of, runs_in
from beamfeed.launcher.runs.record import read_record
from beamfeed.launcher.stage import PREPROCESS

LOOK_SECONDS = 1.0
CANCEL_SECONDS = 120.0  # for a launcher, to end what it runs
LISTED = 20
TAIL = 2000  # bytes of its log that are shown of a run that goes on


def list_runs(named: str | None, everything: bool = False) -> list[Run]:
    """The newest runs of a job file or a folder; without one, those that were started on this machine."""
    found = known_runs() if named is None else find_runs(named)
    return list(found if everything else islice(found, LISTED))


def table(runs: Iterable[Run]) -> str:
    """A line for each run, under a heading."""
    rows = [("RUN", "JOB", "BEGAN (UTC)", "TOOK", "STATE", "STAGE", "FOLDER")]
    for run in runs:
        record, stage = run.record, run.record.current()
        began = f"{record.attempts[0].began:%Y-%m-%d %H:%M}"
        at = f"{stage.name} on {stage.backend}"
        rows.append((record.id, record.job, began, clock(record.seconds), record.state(), at, run.layout.place))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def state_of(run: Run) -> tuple[str, str]:
    """How a run is by now, in a word and in a line; work that outlives its launcher is looked at where it runs.

    Raises:
      UserError: if that does not answer.
    """
    record, stage = run.record, run.record.current()
    state = record.state()
    if state == "running":
        return state, stage.progress
    if state not in ("left", "lost"):
        return state, record.why
    submission = _submission(run)
    if submission is not None:
        return "running", f"{submission.state()}; nobody follows it"
    if _is_made(run):
        is_last = stage is record.stages[-1]
        return ("done" if is_last else "stopped"), f"{stage.name} is done" + (
            "" if is_last else "; resume the run to go on"
        )
    seen = (datetime.now(UTC) - record.attempt.seen).total_seconds()
    if state == "lost":
        return state, f"its launcher, {record.attempt.who}, was last seen {clock(seen)} ago"
    return "stopped", f"{stage.handle or stage.name} is not there any more; resume the run to go on"


def describe(run: Run) -> str:
    """What `status` prints."""
    record, (state, words) = run.record, state_of(run)
    first, last = record.attempts[0], record.attempt
    until = f", until {last.ended:%H:%M:%S}" if last.ended else ""
    lines = [
        f"run {record.id} of job {record.job}: {state}" + (f": {words}" if words else ""),
        f"  began      {first.began:%Y-%m-%d %H:%M:%S} UTC{until}"
        + (f", {len(record.attempts)} attempts" * (len(record.attempts) > 1)),
        f"  by         {last.command} ({last.who}, in {record.folder})",
        f"  folder     {run.layout.place}",
    ]
    for stage in record.stages:
        how = state if state == "lost" and stage is record.current() else stage.state
        workers = f", {stage.workers} workers" if stage.workers > 1 else ""
        told = stage.handle or (stage.reason if stage.state in ("complete", "waiting") else "")
        took = f" after {clock(stage.seconds)}" if stage.seconds else ""
        lines.append(f"  {stage.name:<10} {how}{took}, on {stage.backend}{workers}" + (f": {told}" if told else ""))
    lines.append(f"  log        {run.layout.log}")
    return "\n".join(lines)


def print_log(run: Run, follow: bool, tail: int | None = None) -> int:
    """Writes what a run printed to stdout.

    Args:
      run: whose log it is.
      follow: whether to go on until the run ends.
      tail: bytes to begin with; None for all.

    Returns:
      the exit code of the run; 0 where it goes on.
    """
    place = _start(run.layout.log, tail)
    while True:
        record = read_record(run.layout) or run.record
        goes_on = record.state() == "running"  # asked before the log is read: then nothing of it is missed
        with suppress(FileNotFoundError):
            place = _print_from(run.layout.log, place)
        if not (goes_on and follow):
            break
        time.sleep(LOOK_SECONDS)
    for stage in record.stages:
        if stage.log_file is not None and os.path.exists(stage.log_file):
            print(f"==> {stage.log_file} <==")
            _print_from(stage.log_file, 0)
    return record.code or 0


def _start(path: str, tail: int | None) -> int:
    """The byte where the last lines of a file begin."""
    try:
        text = storage.read_bytes(path) if tail is not None else b""
    except OSError:
        text = b""
    return text.find(b"\n", len(text) - tail - 1) + 1 if tail is not None and len(text) > tail else 0


def _print_from(path: str, place: int) -> int:
    """Prints a file from a byte on; returns how many it has."""
    if storage.is_remote(path):
        data = storage.read_bytes(path)
        _write(data[place:])
        return len(data)
    with open(path, "rb") as file:
        file.seek(place)
        while piece := file.read(1 << 20):
            _write(piece)
        return file.tell()


def _write(data: bytes) -> None:
    sys.stdout.write(data.decode("utf-8", "replace"))
    sys.stdout.flush()


def check_goes_on(run: Run) -> None:
    """Raises UserError where nothing works on a run any more."""
    if _submission(run) is None:
        state, words = state_of(run)
        told = f"run {run.record.id}: is {state}" + (f": {words}" if words else "")
        raise UserError(told if state == "done" else f"{told}; `beamfeed resume {run.record.id}` goes on with it")


def plan_again(run: Run, overrides: Sequence[str]) -> Plan:
    """The plan that goes on with a run: of its job file, or, where that is gone, of what was kept of it.

    Raises:
      UserError: if it goes on, or the job is wrong.
    """
    record = run.record
    if record.state() == "running":
        raise UserError(f"run {record.id}: goes on; `beamfeed attach {record.id}` shows it")
    if overrides and (submission := _submission(run)):
        raise UserError(
            f"run {record.id}: {submission.title} still works on it; `beamfeed attach {record.id}` follows it, "
            f"`beamfeed cancel {record.id}` ends it"
        )
    if _has_job(run):
        path, given, max_assets = record.job_path, [*record.overrides, *overrides], record.max_assets
    else:
        path, given, max_assets = run.layout.job, list(overrides), None
    return make_plan(path, given, tuple(record.asked), max_assets, beam_options=record.beam_options)


def _has_job(run: Run) -> bool:
    try:
        return storage.exists(run.record.job_path)
    except UserError:
        return False


def going_on(job_path: str, overrides: Sequence[str], max_assets: int | None) -> list[Run]:
    """The runs of a job that have not ended, as far as their records tell.

    Raises:
      UserError: if the job file is wrong.
    """
    job, _ = load_for_plan(job_path, overrides, max_assets, sourced=False)
    found: list[Run] = []
    with suppress(OSError, UserError):  # what runs elsewhere can be ended all the same
        found += (run for run in runs_in(places_of(job)) if run.record.outcome in ("running", "left"))
    return found


def cancel(run: Run) -> list[str]:
    """Ends a run, wherever its launcher and its work are; returns what happened, a line or none.

    Raises:
      UserError: if what it runs on does not answer, or its launcher does not.
    """
    record = run.record
    if record.state() == "running":
        storage.write_text(run.layout.cancel, f"{datetime.now(UTC).isoformat()}\n")
        end = time.monotonic() + CANCEL_SECONDS
        while time.monotonic() < end:
            now = read_record(run.layout)
            if now is None or now.state() != "running":
                return [f"run {record.id} is {now.state() if now else 'gone'}"]
            time.sleep(LOOK_SECONDS)
        raise UserError(f"run {record.id}: {record.attempt.who} was asked to end it, and has not yet")
    submission = _submission(run)
    if submission is None:
        return []
    submission.cancel()
    record.outcome, record.current().state = "cancelled", "stopped"
    record.attempt.ended = record.attempt.ended or datetime.now(UTC)
    storage.write_text(run.layout.record, record.model_dump_json(indent=1) + "\n")
    return [f"run {record.id} is cancelled"]


def _submission(run: Run) -> Submission | None:
    """The work of a run that nobody follows, where it runs; None where there is none."""
    if run.record.outcome not in ("left", "running"):
        return None
    stage = run.record.current().stage(load_job(run.layout.job, sourced=False))
    return backends()[stage.backend].find(stage)


def _is_made(run: Run) -> bool:
    """Whether what the current stage makes is there."""
    stage = run.record.current()
    if stage.name == PREPROCESS:
        return read_complete(stage.output, stage.fingerprint) is not None
    result = read_result(stage.output)
    return result is not None and result.fingerprint == stage.fingerprint


@contextmanager
def in_its_folder(run: Run) -> Iterator[None]:
    """Works where the run was started: the paths of a job file may be below that.

    Raises:
      UserError: if that folder is not here, and a path of the run is below it.
    """
    record, before = run.record, os.getcwd()
    relative = [
        stage.output
        for stage in record.stages
        if not storage.is_remote(stage.output) and not os.path.isabs(stage.output)
    ]
    if os.path.isdir(record.folder):
        os.chdir(record.folder)
    elif relative:
        raise UserError(
            f"run {record.id}: {relative[0]} is below {record.folder} on {record.attempt.host}, which is not here"
        )
    try:
        yield
    finally:
        os.chdir(before)
