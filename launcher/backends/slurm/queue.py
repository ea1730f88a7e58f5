"""The few commands of Slurm with which a job is submitted, found, watched and stopped."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends.remote import Unreachable

TIMEOUT_SECONDS = 60.0
ENDED = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
         "OUT_OF_MEMORY", "REVOKED")  # fmt: skip
# What the commands take from the environment in the place of what they are told: also of a job that this runs in.
TAKEN = ("SLURM_", "SBATCH_", "SQUEUE_", "SCANCEL_")
KEPT_VARIABLES = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT")


@dataclass(frozen=True)
class JobState:
    """A job as Slurm sees it.

    Attributes:
      state: such as PENDING, RUNNING, COMPLETED, FAILED, CANCELLED, TIMEOUT, OUT_OF_MEMORY.
      reason: why it waits or ended, such as Resources; None where there is none.
      restarts: how often it was queued again.
      comment: what it makes.
      code: the exit code of its script.
    """

    state: str
    reason: str | None
    restarts: int
    comment: str
    code: int

    @property
    def ended(self) -> bool:
        return self.state in ENDED


class _Late(Unreachable):
    """There was no answer in time; what was asked may have been done."""


def check_installed() -> None:
    """Raises UserError if this machine has no Slurm."""
    missing = [name for name in ("sbatch", "squeue", "scontrol", "scancel") if shutil.which(name) is None]
    if missing:
        raise UserError(
            f"backend: slurm: {missing[0]} is not on this machine's PATH; run on a machine that submits to the cluster"
        )


def submit(text: str) -> str:
    """Hands a script in and returns the job's id.

    Raises:
      UserError: if Slurm does not take it.
    """
    try:
        return _call(["sbatch", "--parsable"], text).strip().partition(";")[0]
    except _Late as error:
        raise UserError(
            f"{error}; the job may be in the queue: run the same command again, which follows it then"
        ) from None
    except Unreachable as error:
        raise UserError(f"Slurm does not take the job: {error}; nothing was submitted") from None


def active_jobs(name: str) -> list[str]:
    """The ids of the user's jobs of this name that have not ended, and are not about to."""
    shown = _call(["squeue", "--me", "--noheader", "--name", name, "--format", "%i %T"])
    return [job_id for job_id, state in map(str.split, shown.splitlines()) if state != "COMPLETING"]


def job_state(job_id: str) -> JobState | None:
    """What Slurm knows of a job; None where it has forgotten it, as it does some minutes after the end."""
    try:
        shown = _call(["scontrol", "show", "job", "--oneliner", job_id])
    except Unreachable as error:
        if "Invalid job id" in str(error):
            return None
        raise
    # Key=Value, with spaces between; a comment has none.
    values = dict(pair.split("=", 1) for pair in shown.split() if "=" in pair)
    reason = values.get("Reason", "None")
    return JobState(
        values.get("JobState", "UNKNOWN"),
        None if reason == "None" else reason,
        int(values.get("Restarts", 0)),
        values.get("Comment", ""),
        int(values.get("ExitCode", "0:0").partition(":")[0]),
    )


def cancel(job_id: str) -> None:
    """Asks Slurm to end a job: its processes get SIGTERM, save, and are killed after the cluster's KillWait."""
    _call(["scancel", job_id])


def _call(command: Sequence[str], text: str | None = None) -> str:
    environment = {
        key: value for key, value in os.environ.items() if key in KEPT_VARIABLES or not key.startswith(TAKEN)
    }
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, env=environment
        )
    except FileNotFoundError:
        check_installed()
        raise
    except subprocess.TimeoutExpired:
        raise _Late(f"{command[0]} does not answer") from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        reason = lines[-1].removeprefix(f"{command[0]}: ").removeprefix("error: ") if lines else ""
        raise Unreachable(reason or f"{command[0]} ended with exit code {done.returncode}")
    return done.stdout
