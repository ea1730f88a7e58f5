"""Runs the stages of a plan, one after the other, each on its backend."""

import sys
import time
from collections.abc import Sequence

from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends import backends
from beamfeed.launcher.plan import Plan, load_for_plan
from beamfeed.launcher.stage import FLOOR, PREPROCESS, TRAIN, Stage


def run_plan(plan: Plan) -> tuple[int, dict[str, float]]:
    """Runs the stages that are not complete.

    Returns:
      the exit code of the first stage that failed, or 0; and the seconds that each stage took.

    Raises:
      UserError: if a backend cannot take a stage on.
    """
    seconds: dict[str, float] = {}
    for stage in plan.stages:
        if stage.complete:
            _say(f"{stage.name}: complete, nothing to do: {stage.reason}")
            continue
        _say(f"{stage.name}: {stage.reason}")
        began = time.monotonic()
        code = run_stage(stage)
        if code and stage.name == FLOOR:
            _say(f"{stage.name}: ended with exit code {code}; the model is trained without it")
            continue
        if code:
            return code, seconds
        seconds[stage.name] = time.monotonic() - began
    return 0, seconds


def run_stage(stage: Stage) -> int:
    """Runs a stage to its end and returns its exit code."""
    submission = backends()[stage.backend].submit(stage)
    try:
        return submission.follow()
    except (KeyboardInterrupt, SystemExit, UserError):
        submission.leave()
        raise


def cancel_job(job_path: str, overrides: Sequence[str] = (), max_assets: int | None = None) -> int:
    """Cancels what a job runs without a launcher, whatever its input is by now; returns how many runs that were.

    Raises:
      UserError: if the job file is wrong, or a backend does not answer.
    """
    job, _ = load_for_plan(job_path, overrides, max_assets)
    found = []
    for name, launch in ((PREPROCESS, job.launch.preprocess), (TRAIN, job.launch.train)):
        backend = backends()[launch.backend]
        command = backend.command(name, job, (), fingerprint="")
        found.append(backend.find(Stage(name, command, launch.backend, 1, "", False, "")))
    running = [submission for submission in found if submission is not None]
    for submission in running:
        submission.cancel()
    return len(running)


def describe_plan(plan: Plan) -> str:
    """What `--dry-run` prints: each stage, whether it is complete and why, and its commands."""
    lines = [f"job {plan.job.name} ({plan.job_path})"]
    if any(stage.name == PREPROCESS and not stage.complete for stage in plan.stages):
        lines.append(f"no file of the input was opened; 'beamfeed check {plan.job_path}' looks into them")
    for stage in plan.stages:
        state = "complete" if stage.complete else "to do"
        lines += ["", f"{stage.name}: {state}: {stage.reason}"]
        lines += [f"  {command}" for command in backends()[stage.backend].describe(stage)]
    return "\n".join(lines)


def _say(line: str) -> None:
    print(f"beamfeed: {line}", file=sys.stderr, flush=True)
