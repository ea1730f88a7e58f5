"""Runs stages as jobs of Slurm: submits one, or finds it in the queue, and follows it to its end."""

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.dataset.result import read_result
from beamfeed.contract.errors import USER_MISTAKE
from beamfeed.contract.text import last_line
from beamfeed.launcher.backends import remote
from beamfeed.launcher.backends.base import PROGRAMS, Backend, Submission, count_once
from beamfeed.launcher.backends.slurm import queue
from beamfeed.launcher.backends.slurm.script import script
from beamfeed.launcher.backends.slurm.section import SlurmSection
from beamfeed.launcher.display import Display
from beamfeed.launcher.progress import StageProgress, watching
from beamfeed.launcher.stage import FLOOR, PREPROCESS, TRAIN, Stage, launch_key

TAIL_BYTES = 64 * 1024
ADVICE = {
    "TIMEOUT": "; raise launch.{stage}.slurm.time",
    "OUT_OF_MEMORY": "; raise launch.{stage}.slurm.memory, or start more workers",
    "DEADLINE": "; its deadline came first",
}


class SlurmBackend(Backend):
    """Each worker is a task on a node of its own. The same command finds a job that runs by its name."""

    stages = (PREPROCESS, TRAIN)
    section = SlurmSection
    reads_job_file = True

    def check(self, job: Job, name: str) -> None:
        """Raises UserError where there is no Slurm."""
        queue.check_installed()

    def command(self, name: str, job: Job, arguments: Sequence[str]) -> tuple[str, ...]:
        python = (getattr(job.launch, name).section("slurm") or SlurmSection()).python or sys.executable
        return (python, "-m", PROGRAMS[name].module, *arguments)

    def describe(self, stage: Stage) -> list[str]:
        return [f"sbatch <<'END'\n{_script(stage, ())}END"]

    def resources(self, stage: Stage) -> Mapping[str, float]:
        return remote.node_resources(stage, stage.section or SlurmSection())

    def submit(self, stage: Stage, display: Display) -> "SlurmRun":
        run = self.find(stage)
        if run is None:
            return self._hand_in(stage, display, None)
        with remote.answered("Slurm"):
            known = queue.job_state(run.job_id)
        remote.check_same_work(stage, run.title, known is None or known.comment == remote.work_of(stage))
        display.say(f"{stage.name}: job {run.job_id} is in the queue already; following it")
        return run

    def _hand_in(self, stage: Stage, display: Display, after: str | None) -> "SlurmRun":
        folder, more = _progress_folder(stage), []
        if folder:
            shutil.rmtree(folder, ignore_errors=True)  # of a job that nobody followed to its end
            more += ["--progress-dir", folder]
        more += count_once(stage)
        os.makedirs(os.path.dirname(_log(stage, "0")), exist_ok=True)
        job_id = queue.submit(_script(stage, more, after))
        waits = f", which waits for {after}" if after else ""
        display.say(f"{stage.name}: job {job_id} of Slurm{waits}; its log is {_log(stage, job_id)}")
        return SlurmRun(stage, job_id)

    def chain(self, stage: Stage, before: Submission, display: Display) -> "SlurmRun | None":
        # The floor may fail, or never begin; the model is trained in the first case alone: a launcher must see which.
        if stage.starts_anew or not isinstance(before, SlurmRun) or before.stage_name == FLOOR or self.find(stage):
            return None
        section = stage.section or SlurmSection()
        if "?" in str(section.options.get("dependency")):  # any of several, beside which Slurm takes no other
            return None
        return self._hand_in(stage, display, f"afterok:{before.job_id}")

    def find(self, stage: Stage) -> "SlurmRun | None":
        with remote.answered("Slurm"):
            active = queue.active_jobs(_name(stage))
        return SlurmRun(stage, active[0]) if active else None


def _name(stage: Stage) -> str:
    """The name of the job that writes to the place of a stage."""
    return remote.job_name(storage.absolute(stage.output))


def _log(stage: Stage, job_id: str) -> str:
    """The file for what the processes print."""
    if stage.logs and not storage.is_remote(stage.logs):
        return os.path.abspath(os.path.join(stage.logs, f"slurm-{job_id}.log"))
    if storage.is_remote(stage.output):
        return os.path.abspath(f"slurm-{job_id}.log")
    return f"{storage.absolute(stage.output)}.slurm-{job_id}.log"  # nothing else may be in the folder of a dataset


def _progress_folder(stage: Stage) -> str | None:
    """Where the processes tell how far they are, also who follows them later; None where no folder is shared."""
    is_preprocessing = stage.name == PREPROCESS
    folder = DataLayout.of(stage.output, stage.fingerprint).temporary if is_preprocessing else stage.logs
    name = f"progress-{remote.work_of(stage)}"
    return None if storage.is_remote(folder) else os.path.abspath(os.path.join(folder, name))


def _script(stage: Stage, more: Sequence[str], after: str | None = None) -> str:
    command, log = (*stage.command, *more), _log(stage, "%j")
    restarts, section = stage.restarts if stage.checkpoints else None, stage.section or SlurmSection()
    return script(section, command, _name(stage), stage.workers, log, restarts, remote.work_of(stage), after)


class SlurmRun(remote.RemoteRun):
    """A job of Slurm.

    Args:
      stage: what it makes.
      job_id: its id.
    """

    def __init__(self, stage: Stage, job_id: str):
        super().__init__(stage)
        self.job_id, self.stage_name = job_id, stage.name
        self.title, self.log_file = f"job {job_id} of Slurm", _log(stage, job_id)

    def follow(self, progress: StageProgress, display: Display) -> int:
        folder = _progress_folder(self._stage)
        with watching(folder, progress, display.show) if folder else nullcontext():
            state = self._wait(progress, display)
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        return self._judge(state)

    def _wait(self, progress: StageProgress, display: Display) -> queue.JobState | None:
        """Tells changes of state until the job has ended; None where Slurm has forgotten it."""
        last_words, restarts = "", 0
        while True:
            state = remote.ask_patiently("Slurm", lambda: queue.job_state(self.job_id), self._say)
            if state is None or state.ended:
                return state
            if state.restarts > restarts:
                self._say("starts again from its last checkpoint" if self._stage.checkpoints else "starts again")
                restarts = state.restarts
            words = _words(state)
            if words != last_words:
                progress.phase = f"{self.title} is {words}"
                last_words = words
                if _progress_folder(self._stage) is None:  # else who watches it does that
                    display.show(progress)
            time.sleep(remote.POLL_SECONDS)

    def state(self) -> str:
        with remote.answered("Slurm"):
            known = queue.job_state(self.job_id)
        return f"{self.title} is {_words(known)}" if known else ""

    def _judge(self, state: queue.JobState | None) -> int:
        """The exit code of a job that has ended."""
        log = _log(self._stage, self.job_id)
        if state is None:
            self._say(f"Slurm has forgotten how job {self.job_id} ended; its log is {log}")
            result = read_result(self._stage.output) if self._stage.checkpoints else None
            trained = result is not None and result.fingerprint == self._stage.fingerprint
            return 0 if trained or (not self._stage.checkpoints and remote.is_published(self._stage)) else 1
        if state.state == "COMPLETED":
            return self._check_published(f"its log is {log}")
        if state.state == "FAILED":
            self._say(f"{_last_line(log) or 'the job failed'}; its log is {log}")
            return 2 if state.code == USER_MISTAKE else 1
        words = state.state.lower().replace("_", " ")
        advice = ADVICE.get(state.state, "").format(stage=launch_key(self.stage_name))
        self._say(f"the job ended as {words}{advice}; run the same command to go on; its log is {log}")
        return 1

    def leave(self) -> None:
        self._say(f"job {self.job_id} goes on; run the same command again to follow it, or stop it with")
        self._say(f"  scancel {self.job_id}")

    def cancel(self) -> None:
        with remote.answered("Slurm"):
            for job_id in queue.active_jobs(_name(self._stage)):
                queue.cancel(job_id)
                self._say(f"job {job_id} of Slurm is asked to stop")


def _words(state: queue.JobState) -> str:
    return state.state.lower() + (f" ({state.reason})" if state.state == "PENDING" and state.reason else "")


def _last_line(path: str) -> str:
    """The last line of a log that is not empty; empty where it cannot be read."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return ""
    return last_line(b"\n".join(line for line in lines if not line.startswith(b"srun: ")))
