"""What a backend must be able to do, and what is so for most. Each is a folder here, and a line in `backends()`."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Protocol

from beamfeed.contract import options
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.section import Section
from beamfeed.launcher.display import Display
from beamfeed.launcher.progress import StageProgress
from beamfeed.launcher.stage import PREPROCESS, TRAIN, Stage

PROGRAMS = {PREPROCESS: options.PREPROCESS, TRAIN: options.TRAIN}


def count_once(stage: Stage) -> list[str]:
    """Arguments by which a start from elsewhere than the last checkpoint counts once, also where it is started again.

    None where the stage does not start so, or its start has a name already.
    """
    return options.ONCE.write(uuid.uuid4().hex) if stage.starts_anew and not stage.once else []


class Submission(Protocol):
    """A stage that a backend has taken on.

    Attributes:
      title: what the work is called where it runs, such as `job 12 of Slurm`; empty of processes of the launcher's.
      log_file: the file that the work itself writes to, where that is none of the launcher's.
      goes_on: whether the work outlives its launcher.
    """

    title: str = ""
    log_file: str | None = None
    goes_on: bool = False

    def follow(self, progress: StageProgress, display: Display) -> int:
        """Waits for the end, tells what happens, puts what is known of it into `progress`, and returns the exit code.

        0 done, 1 failed, 2 a mistake of the user's. The display shows `progress`, and gives the place where processes
        write.

        When this returns, nothing of the stage is left running. When it raises, the
        caller calls `leave`.
        """

    def leave(self) -> None:
        """The launcher was interrupted: what runs on this machine is ended, a job in a cloud goes on without it."""

    def cancel(self) -> None:
        """Ends the work, wherever it is."""

    def state(self) -> str:
        """How far work is that outlives its launcher, in a few words.

        Raises:
          UserError: if that does not answer.
        """
        return ""


class Backend(Protocol):
    """Where a stage can run.

    Attributes:
      stages: the stages that it can run.
      section: what it wants to know of its own, as `launch.STAGE.NAME` of the job file; None if nothing.
      is_billed: whether somebody sends a bill for each run.
      reads_job_file: whether the work reads the file of the job, also when the launcher is gone.
    """

    stages: tuple[str, ...]
    section: type[Section] | None
    is_billed: bool = False
    reads_job_file: bool = False

    def check(self, job: Job, name: str) -> None:
        """Raises UserError for what can be seen to be wrong before anything is listed or started."""

    def command(self, name: str, job: Job, arguments: Sequence[str]) -> tuple[str, ...]:
        """The command of a stage's process.

        Args:
          name: of the stage.
          job: the job.
          arguments: that every program of a stage takes: --job and --set.
        """

    def describe(self, stage: Stage) -> list[str]:
        """The shell commands that `submit` would start, without starting them."""

    def resources(self, stage: Stage) -> Mapping[str, float]:
        """What one core of preprocessing, or one worker of training, uses: core, gb, gpu, or a type of machine.

        Empty where nobody could tell what an hour costs.
        """
        return {}

    def submit(self, stage: Stage, display: Display) -> Submission:
        """Takes the stage on: starts it, finds it running, or starts it when it is followed.

        Args:
          stage: what to run.
          display: is told of it.
        """

    def chain(self, stage: Stage, before: Submission, display: Display) -> Submission | None:
        """Hands in a stage that begins by itself once the one before is done; `submit` then finds it.

        None where it cannot wait there; then it is submitted after that.
        """
        return None

    def find(self, stage: Stage) -> Submission | None:
        """The run that writes to the place of this stage, if it outlives its launcher; else None."""
