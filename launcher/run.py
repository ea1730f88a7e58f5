"""Runs the stages of a plan, one after the other, each on its backend."""

import shlex
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.launch import StageLaunch
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.result import read_result
from beamfeed.contract.errors import UserError, redacted
from beamfeed.launcher.backends import backends
from beamfeed.launcher.backends.base import Submission
from beamfeed.launcher.display import Display, Lines
from beamfeed.launcher.estimate import Estimate, estimate_preprocess, estimate_train
from beamfeed.launcher.plan import Plan, steps_left
from beamfeed.launcher.progress import StageProgress
from beamfeed.launcher.runs.recorder import Recorder, recording
from beamfeed.launcher.stage import FLOOR, PREPROCESS, TRAIN, Stage, launch_key


def run_plan(plan: Plan, display: Display) -> tuple[int, dict[str, float]]:
    """Runs the stages that are not complete.

    Args:
      plan: the stages.
      display: shows how far they are; entered by the caller.

    Returns:
      the exit code of the first stage that failed, or 0; and the seconds that each stage took.

    Raises:
      UserError: if a backend cannot take a stage on.
    """
    seconds: dict[str, float] = {}
    to_do = [stage for stage in plan.stages if not stage.complete]
    with recording(plan, display) as recorder:
        display = recorder.display
        for stage in plan.stages:
            if stage.complete:
                display.skipped(stage.name, stage.reason)
                continue
            number = to_do.index(stage) + 1
            progress = StageProgress(stage.name, time.monotonic(), number, len(to_do))
            display.begins(progress, stage.reason)
            later = [other for other in to_do[number:] if other.backend == stage.backend]
            code = run_stage(stage, recorder, progress, later)
            took = time.monotonic() - progress.started
            display.ends(progress, code, took)
            if code and stage.name == FLOOR:
                display.say(f"{stage.name}: ended with exit code {code}; the model is trained without it")
                continue
            if code:
                return code, seconds
            seconds[stage.name] = took
    return 0, seconds


def run_stage(
    stage: Stage,
    recorder: Recorder | None = None,
    progress: StageProgress | None = None,
    later: Sequence[Stage] = (),
) -> int:
    """Runs a stage to its end, tells the recorder, and returns its exit code.

    Those that come `later` on the same backend begin there by themselves, where they can; so no launcher need wait.
    """
    recorder, progress = recorder or Recorder(Lines()), progress or StageProgress(stage.name, time.monotonic())
    backend, shown = backends()[stage.backend], recorder.display

    def take_on() -> Submission:
        taken = last = backend.submit(stage, shown)
        try:
            for next_stage in later:
                if (chained := backend.chain(next_stage, last, shown)) is None:
                    break
                recorder.is_chained(next_stage, chained)
                last = chained
        except UserError as error:  # the stage that was taken on is followed all the same
            shown.say(f"{error}; it is handed in again later")
        return taken

    return follow(stage, take_on, recorder, progress)


def follow(stage: Stage, take_on: Callable[[], Submission], recorder: Recorder, progress: StageProgress) -> int:
    """Follows a stage to its end, once a backend has taken it on; tells the recorder, and returns the exit code."""
    submission: Submission | None = None
    recorder.begins(stage)
    try:
        submission = take_on()
        recorder.follows(submission)
        code = submission.follow(progress, recorder.display)
    except BaseException as error:
        if submission is None and not isinstance(error, UserError):
            with suppress(Exception):  # it may have been handed in by then
                submission = backends()[stage.backend].find(stage)
        if submission is not None:
            recorder.follows(submission)
            _let_go(submission, recorder)
        raise
    recorder.ends(code, time.monotonic() - progress.started)
    return code


def _let_go(submission: Submission, recorder: Recorder) -> None:
    """The launcher ends before the work does."""
    recorder.still_runs = True  # also where the end of it is not heard of, or is not waited for
    if recorder.is_cancelled:
        submission.cancel()
        recorder.still_runs = False
        return
    try:
        submission.leave()
    except UserError as error:  # why the launcher ends is told by another
        recorder.display.say(str(error))
    else:
        recorder.still_runs = submission.goes_on


def cancel_job(job: Job, cancelled: Collection[str]) -> int:
    """Cancels what a job runs without a launcher, whatever its input is by now; returns how many runs that were.

    Args:
      job: whose work it is.
      cancelled: titles of work that is told to end already.

    Raises:
      UserError: if a backend does not answer; the others were asked all the same.
    """
    places = {PREPROCESS: job.output.path}
    if job.train is not None:
        places |= {FLOOR: RunLayout(job.train.workdir).floor} if job.train.floor else {}
        places[TRAIN] = job.train.workdir
    running, failed = 0, None
    for name, place in places.items():
        key = launch_key(name)
        launch: StageLaunch = getattr(job.launch, key)
        backend = backends()[launch.backend]
        command = backend.command(key, job, ())
        section = launch.section(launch.backend)
        stage = Stage(name, command, launch.backend, 1, "", False, "", output=place, section=section)
        try:
            submission = backend.find(stage)
            if submission is not None and submission.title not in cancelled:
                submission.cancel()
                running += 1
        except UserError as error:
            failed = error
    if failed is not None:
        raise failed
    return running


def estimates(plan: Plan, prices: Mapping[str, Any]) -> dict[str, Estimate]:
    """What the stages that are to do will take, by their names."""
    by_stage: dict[str, Estimate] = {}
    for stage in plan.stages:
        if stage.complete:
            continue
        if stage.name == PREPROCESS:
            by_stage[stage.name] = estimate_preprocess(stage, plan.files, prices)
        elif stage.name == TRAIN and plan.job.train is not None:
            earlier = read_result(stage.output)
            seconds = earlier.seconds / earlier.steps if earlier is not None and earlier.steps else None
            by_stage[stage.name] = estimate_train(stage, steps_left(plan, stage), seconds, prices)
    return by_stage


def ask_for_bill(plan: Plan, prices: Mapping[str, Any]) -> None:
    """Asks at a terminal before work begins that somebody sends a bill for.

    Raises:
      UserError: if the answer is no.
    """
    is_billed = any(not stage.complete and backends()[stage.backend].is_billed for stage in plan.stages)
    if not is_billed or not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        return
    for name, takes in estimates(plan, prices).items():
        print(f"{name}: {takes.words() or 'what it takes is not known yet'}", file=sys.stderr)
    print("go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UserError("nothing was started")


def plan_values(plan: Plan, prices: Mapping[str, Any]) -> dict[str, Any]:
    """What `--dry-run --json` tells."""
    takes = estimates(plan, prices)
    stages = [
        {
            "stage": stage.name,
            "complete": stage.complete,
            "reason": stage.reason,
            "commands": [redacted(command) for command in backends()[stage.backend].describe(stage)],
            "takes": asdict(takes[stage.name]) if stage.name in takes else None,
        }
        for stage in plan.stages
    ]
    return {"job": plan.job.name, "path": plan.job_path, "stages": stages}


def describe_plan(plan: Plan, prices: Mapping[str, Any]) -> str:
    """What `--dry-run` prints: each stage, whether it is complete and why, what it takes, and its commands."""
    lines = [f"job {plan.job.name} ({plan.job_path})"]
    if any(stage.name == PREPROCESS and not stage.complete for stage in plan.stages):
        check = f"beamfeed check {shlex.quote(plan.job_path)}"
        lines.append(f"no file of the input was opened; '{check}' looks into them")
    takes = estimates(plan, prices)
    for stage in plan.stages:
        state = "complete" if stage.complete else "to do"
        lines += ["", f"{stage.name}: {state}: {stage.reason}"]
        if stage.name in takes and (words := takes[stage.name].words()):
            lines.append(f"  takes {words}")
        lines += [f"  {redacted(command)}" for command in backends()[stage.backend].describe(stage)]
    return "\n".join(lines)
