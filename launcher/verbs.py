"""What `beamfeed` says of runs and does with them, alike on every backend."""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice

from beamfeed.contract import storage, text
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.manifest import find_manifest
from beamfeed.contract.dataset.published import read_complete
from beamfeed.contract.dataset.result import read_result
from beamfeed.contract.errors import BeamfeedError, Unanswered, UserError
from beamfeed.launcher.backends import backends
from beamfeed.launcher.backends.base import Submission
from beamfeed.launcher.display import Display
from beamfeed.launcher.display.words import clock
from beamfeed.launcher.plan import Plan, make_plan
from beamfeed.launcher.progress import StageProgress
from beamfeed.launcher.run import follow
from beamfeed.launcher.runs.find import Run, find_runs, job_of, known_runs, places_of, runs_in
from beamfeed.launcher.runs.record import RunRecord, StageRecord, read_record
from beamfeed.launcher.runs.recorder import going_on
from beamfeed.launcher.stage import PREPROCESS, TRAIN

LOOK_SECONDS, REMOTE_LOOK_SECONDS = 1.0, 5.0
CANCEL_SECONDS = 120.0  # for a launcher, to end what it runs
LISTED = 20
TAIL = 2000  # bytes of its log that are shown of a run that goes on


def list_runs(named: str | None, everything: bool = False) -> list[Run]:
    """The newest runs of a job file or a folder; without one, those that were started on this machine."""
    runs = known_runs() if named is None else find_runs(named)
    return list(runs if everything else islice(runs, LISTED))


def table(runs: Iterable[Run]) -> str:
    """A line for each run, under a heading."""
    rows = [("RUN", "JOB", "BEGAN (UTC)", "TOOK", "STATE", "STAGE", "FOLDER")]
    for run in runs:
        record, stage = run.record, run.record.current()
        began = f"{record.attempts[0].began:%Y-%m-%d %H:%M}"
        at = f"{stage.name} on {stage.backend}"
        rows.append((record.id, record.job, began, clock(record.seconds), record.state(), at, run.layout.place))
    return "\n".join(text.table(rows, left=len(rows[0])))


def state_of(run: Run) -> tuple[str, str]:
    """How a run is by now, in a word and in a line; work that outlives its launcher is looked at where it runs."""
    record, stage = run.record, run.record.current()
    state = record.state()
    if state == "running":
        return state, stage.progress
    if state not in ("left", "lost"):
        return state, record.why
    if not record.anew and not _left(run):
        return "done", ""
    silence = (datetime.now(UTC) - record.attempt.seen).total_seconds()
    lost = f"its launcher, {record.attempt.launcher}, was last seen {clock(silence)} ago"
    try:
        work = find_work(run)
        if work is not None:
            return "running", f"{work[1].state()}; nobody follows it"
    except (UserError, Unanswered) as error:
        return state, f"{lost if state == 'lost' else f'nobody follows {stage.handle}'}; {error}"
    left = _left(run)
    if not left:
        return "done", ""
    if left[0] is not stage:
        return "stopped", f"{stage.name} is done; resume the run to go on"
    if state == "lost":
        return state, lost
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
        f"  by         {last.command} ({last.launcher}, in {record.folder})",
        f"  folder     {run.layout.place}",
    ]
    for stage in record.stages:
        how = state if state == "lost" and stage is record.current() else stage.state
        workers = f", {stage.workers} workers" if stage.workers > 1 else ""
        about = stage.handle or (stage.reason if stage.state in ("complete", "waiting") else "")
        took = f" after {clock(stage.seconds)}" if stage.seconds else ""
        lines.append(f"  {stage.name:<10} {how}{took}, on {stage.backend}{workers}" + (f": {about}" if about else ""))
    hours = sum(stage.seconds * stage.workers for stage in record.stages) / 3600
    lines.append(f"  used       {hours:,.3f} worker hours" + (" over all attempts" if len(record.attempts) > 1 else ""))
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
    place = run.record.log_dropped if tail is None else _start(run, tail)
    while True:
        record = _now(run) or run.record
        state = record.state()  # asked before the log is read: then nothing of it is missed
        place = _print_from(run.layout.log, place, record.log_dropped)
        if not follow or state != "running":
            break
        time.sleep(REMOTE_LOOK_SECONDS if storage.is_remote(run.layout.log) else LOOK_SECONDS)
    for stage in record.stages:
        if stage.log_file is not None and os.path.exists(stage.log_file):
            print(f"==> {stage.log_file} <==")
            _print_from(stage.log_file, 0)
    return record.code if record.code is not None else int(state in ("left", "lost"))


def _now(run: Run) -> RunRecord | None:
    """The record as it is by now; None where it is not there, or its bucket does not answer this time."""
    with suppress(Unanswered):
        return read_record(run.layout)
    return None


def _start(run: Run, tail: int) -> int:
    """Where the last lines of a log begin, in bytes from the beginning of all that it ever held."""
    printed = b""
    with suppress(OSError, Unanswered):
        printed = storage.read_bytes(run.layout.log)
    start = printed.find(b"\n", len(printed) - tail - 1) + 1 if len(printed) > tail else 0
    return run.record.log_dropped + start


def _print_from(path: str, place: int, dropped: int = 0) -> int:
    """Prints a file, of which so many bytes are gone, from a byte on; returns where it ends."""
    try:
        if storage.is_remote(path):
            data = storage.read_bytes(path)
            _write(data[max(0, place - dropped) :])
            return dropped + len(data)
        with open(path, "rb") as file:
            file.seek(max(0, place - dropped))
            while piece := file.read(1 << 20):
                _write(piece)
            return dropped + file.tell()
    except (OSError, Unanswered):  # it is not there yet; or it is the next time
        return place


def _write(data: bytes) -> None:
    sys.stdout.write(data.decode("utf-8", "replace"))
    sys.stdout.flush()


def follow_on(run: Run, stage: StageRecord, work: Submission, display: Display) -> int:
    """Follows the work of a run that nobody follows to its end, as `run_plan` does; returns the exit code."""
    for before in run.record.stages[: run.record.stages.index(stage)]:
        if before.state != "complete":
            before.state = "done"
    progress = StageProgress(stage.name, time.monotonic())
    with going_on(run, display) as recorder:
        recorder.display.begins(progress, f"following {work.title}")
        code = follow(stage.stage(job_of(run)), lambda: work, recorder, progress)
        recorder.display.ends(progress, code, time.monotonic() - progress.started)
    return code


def plan_again(run: Run, overrides: Sequence[str], *, as_kept: bool = False) -> Plan:
    """The plan that goes on with a run.

    Args:
      run: that has stopped.
      overrides: that were given anew.
      as_kept: whether its job is as it was then; else that of its job file, where this is still there.

    Raises:
      UserError: if the job is wrong.
    """
    record = run.record
    has_secrets = any("${" in override for override in record.overrides)  # which stood there, and are not kept
    if as_kept or has_secrets or not _has_job(run):
        settings, path, max_assets = list(overrides), run.layout.job, None
    else:
        settings, path, max_assets = [*record.overrides, *overrides], record.job_path, record.max_assets
    # What a run that is done, or at another place, has replaced is not what stands here now.
    same = record.outcome != "done" and not any(override.startswith("output") for override in overrides)
    return make_plan(
        path, settings, tuple(record.asked), max_assets, beam_options=record.beam_options,
        replace=record.replace and same, refit=record.refit and same,
    )  # fmt: skip


def plan_of_done(run: Run) -> Plan | None:
    """The plan of a run that was followed to its end, by which it is summed up; None where nothing was trained.

    It looks at no input, which may have changed since.
    """
    manifest = find_manifest(job_of(run).output.path)
    if TRAIN not in run.record.asked or manifest is None:
        return None
    plan = make_plan(run.layout.job, (), (TRAIN,), data=manifest.fingerprint)
    return plan if all(stage.complete for stage in plan.stages) else None


def check_goes_on(run: Run, work: Submission) -> None:
    """Raises UserError where work of a launcher that is gone can only be waited for or cancelled."""
    if not work.goes_on:
        id_ = run.record.id
        raise UserError(
            f"run {id_}: {work.title} still works on it, and only its launcher could follow it, which is gone; "
            f"wait, or end it with `beamfeed cancel {id_}`"
        )


def _has_job(run: Run) -> bool:
    try:
        return storage.exists(run.record.job_path)
    except UserError:
        return False


def unfinished(job: Job) -> list[Run]:
    """The runs of a job that have not ended, as far as their records tell."""
    runs: list[Run] = []
    with suppress(OSError, BeamfeedError):  # what runs elsewhere can be ended all the same
        runs += (run for run in runs_in(places_of(job)) if run.record.outcome in ("running", "left"))
    return runs


def cancel(run: Run) -> list[str]:
    """Ends a run, wherever its launcher and its work are; returns what happened, a line or none.

    Raises:
      UserError: if what it runs on does not answer, or its launcher does not.
    """
    record = run.record
    if record.state() == "running":
        record = _end_launcher(run)
        if record.state() not in ("left", "lost"):
            return [f"run {record.id} is {record.state()}"]
    work = find_work(Run(run.layout, record))
    if work is None:
        return []
    work[1].cancel()
    record.outcome, work[0].state = "cancelled", "stopped"
    record.attempt.ended = record.attempt.ended or datetime.now(UTC)
    storage.write_text(run.layout.record, record.text())
    return [f"run {record.id} is cancelled"]


def _end_launcher(run: Run) -> RunRecord:
    """Asks the launcher of a run to end, and waits until it has; returns the record that it leaves.

    Raises:
      UserError: if it does not.
    """
    end = time.monotonic() + CANCEL_SECONDS
    try:
        while time.monotonic() < end:
            if not storage.exists(run.layout.cancel):  # one that takes over removes what was asked of another
                storage.write_text(run.layout.cancel, f"{datetime.now(UTC).isoformat()}\n")
            time.sleep(LOOK_SECONDS)
            now = _now(run)
            if now is not None and now.state() != "running":
                return now
    finally:
        with suppress(Unanswered):
            storage.remove_file(run.layout.cancel)  # else who follows the run another day would end it
    launcher = run.record.attempt.launcher
    raise UserError(f"run {run.record.id}: {launcher} was asked to end it, and has not yet")


def find_work(run: Run) -> tuple[StageRecord, Submission] | None:
    """The work of a run that nobody follows, where it runs, and its stage; None where there is none.

    Raises:
      UserError: if that does not answer.
    """
    record = run.record
    if record.outcome not in ("left", "running"):
        return None
    job = job_of(run)
    later = [other.record for other in runs_in([run.layout.place]) if other.record.id > record.id]
    of_later_runs = {stage.handle for later_record in later for stage in later_record.stages}
    for stage in record.from_current():
        work = backends()[stage.backend].find(stage.stage(job))
        if work is not None and stage.handle in ("", work.title) and work.title not in of_later_runs:
            return stage, work
        if not _is_made(stage):  # else one that waited for it may have begun
            return None
    return None


def _left(run: Run) -> list[StageRecord]:
    """The stages of a run that has not ended, from the first on whose work is not done; none if all of it is."""
    stages = run.record.from_current()
    while stages and _is_made(stages[0]):
        stages = stages[1:]
    return stages


def _is_made(stage: StageRecord) -> bool:
    """Whether what a stage makes is there."""
    if stage.name == PREPROCESS:
        return read_complete(stage.output, stage.fingerprint) is not None
    result = read_result(stage.output)
    return result is not None and result.fingerprint == stage.fingerprint


@contextmanager
def in_its_folder(run: Run, strictly: bool = False) -> Iterator[None]:
    """Works where the run was started: the paths of a job file may be below that.

    Raises:
      UserError: with `strictly`, if that folder is not here, and a path of the run is below it.
    """
    record, before = run.record, os.getcwd()
    relative = [stage.output for stage in record.stages if not os.path.isabs(stage.output)]
    relative = [path for path in relative if not storage.is_remote(path)]
    if os.path.isdir(record.folder):
        os.chdir(record.folder)
    elif relative and strictly:
        raise UserError(
            f"run {record.id}: {relative[0]} is below {record.folder} on {record.attempt.host}, which is not here"
        )
    try:
        yield
    finally:
        os.chdir(before)
