"""Runs the stages on this machine: one process to preprocess, one for each worker to train."""

import os
import shlex
import socket
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from beamfeed.contract import storage
from beamfeed.contract.cluster.environment import read_worker_info
from beamfeed.contract.cluster.tf_config import tf_config
from beamfeed.contract.cluster.worker_info import SHARE, WorkerInfo
from beamfeed.contract.config.job import Job
from beamfeed.contract.cores import available_cores
from beamfeed.contract.dataset.checkpoints import find_checkpoints, find_progress
from beamfeed.contract.dataset.initial import check_init
from beamfeed.contract.dataset.manifest import find_manifest
from beamfeed.contract.errors import BeamfeedError, UserError
from beamfeed.contract.tracking import check_writers
from beamfeed.launcher.backends.base import PROGRAMS, Backend, Submission, count_once
from beamfeed.launcher.display import Display
from beamfeed.launcher.processes import Process, run_together
from beamfeed.launcher.progress import StageProgress, watching
from beamfeed.launcher.stage import PREPROCESS, TRAIN, Stage

HOST = "127.0.0.1"
THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")  # in an operation; for operations side by side
ENDED_BY_SIGNAL = 128  # exit codes from here on: the process did not fail, something ended it


class LocalBackend(Backend):
    """Every worker is a process here; they find each other on free ports."""

    stages = (PREPROCESS, TRAIN)
    section = None

    def check(self, job: Job, name: str) -> None:
        """Raises UserError where the environment lacks what the job needs, or says otherwise who trains together."""
        if name == TRAIN and job.train is not None and this_worker(strict=False).is_chief:
            check_writers(job.train.writers, os.environ)
            check_init(job.train)
        if name == TRAIN and job.launch.train.workers > 1 and (peers := workers_of_environment()):
            raise UserError(
                f"launch.train.workers: is {job.launch.train.workers}, but {peers}; set it to 1, and the process that "
                "is started here is that worker"
            )

    def command(self, name: str, job: Job, arguments: Sequence[str]) -> tuple[str, ...]:
        return (sys.executable, "-m", PROGRAMS[name].module, *arguments)

    def describe(self, stage: Stage) -> list[str]:
        return [shell_command(process) for process in worker_processes(stage)]

    def submit(self, stage: Stage, display: Display) -> "LocalRun":
        cluster = workers_of_environment(strict=stage.name != PREPROCESS)
        if cluster and stage.name == PREPROCESS:
            raise UserError(
                f"{stage.output}: is not preprocessed, and {cluster}, each of which would do it; "
                "run 'beamfeed preprocess' once before, where these variables are not set"
            )
        if cluster and stage.starts_anew and not stage.once:
            raise UserError(
                f"--restart and --from-step: {cluster}, and each would do it whenever it is started again; "
                "name this start, the same on all: --once NAME"
            )
        return LocalRun(stage)

    def find(self, stage: Stage) -> None:
        """None: a stage ends with its launcher."""


class LocalRun(Submission):
    """The processes of a stage. They live only while they are followed: however that ends, nothing is left running.

    Args:
      stage: what to run.
    """

    def __init__(self, stage: Stage):
        self._stage = stage

    def follow(self, progress: StageProgress, display: Display) -> int:
        stage = self._stage
        with ExitStack() as stack:
            if storage.is_remote(stage.logs):
                stage = replace(stage, logs=tempfile.mkdtemp(prefix="beamfeed-logs-"))  # kept: a failure points there
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="beamfeed-progress-", ignore_cleanup_errors=True)
            )
            stage = replace(stage, command=(*stage.command, *count_once(stage), "--progress-dir", folder))
            restarts, reached = 0, newest(stage)
            while True:
                watch = watching(folder, progress, display.show)
                try:
                    code = run_together(stage.name, worker_processes(stage), watch, stage.grace, display.output())
                except KeyboardInterrupt:
                    raise KeyboardInterrupt(what_is_left(stage)) from None
                if code < ENDED_BY_SIGNAL:
                    return code
                if (step := newest(stage)) not in (None, reached):  # over weeks, workers are lost more often than that
                    restarts, reached = 0, step
                if restarts == stage.restarts:
                    return code
                restarts += 1
                display.say(f"{stage.name}: starts again from its last checkpoint ({restarts} of {stage.restarts})")

    def leave(self) -> None:
        """Nothing is left to do: the processes ended with `follow`."""

    def cancel(self) -> None:
        """As `leave`."""


def this_worker(strict: bool = True) -> WorkerInfo:
    """This process among the workers that its environment names.

    Raises:
      UserError: if that is not understood; if not `strict`, this one is alone then.
    """
    try:
        return read_worker_info(os.environ)
    except UserError:
        if strict:
            raise
        return WorkerInfo()


def workers_of_environment(strict: bool = True) -> str:
    """What the environment says about workers that train together; empty if there is one. See `this_worker`."""
    worker = this_worker(strict)
    return f"{worker.source} says that this is worker {worker.index} of {worker.count}" if worker.count > 1 else ""


def newest(stage: Stage) -> int | None:
    """The step of the newest checkpoint, 0 without one; None where the storage does not answer."""
    try:
        return max(find_checkpoints(stage.checkpoints), default=0) if stage.checkpoints else 0
    except (OSError, BeamfeedError):
        return None


def what_is_left(stage: Stage) -> str:
    """What an interrupted stage leaves behind, in words."""
    if storage.is_remote(stage.checkpoints):  # it may not answer, and nobody who interrupts a run waits for it
        return "the same command continues from its last checkpoint"
    if stage.checkpoints:
        progress = find_progress(stage.checkpoints)
        return f"the same command continues from {f'step {progress[0]:,}' if progress else 'the start'}"
    try:
        manifest = find_manifest(stage.output)
    except (OSError, UserError):
        manifest = None
    if manifest is None:
        return "nothing published"
    if manifest.fingerprint == stage.fingerprint:
        return "the dataset is published"
    return "nothing published, the earlier dataset is unchanged"


def worker_processes(stage: Stage) -> list[Process]:
    """The processes of a stage, the chief first; each learns from TF_CONFIG where the others listen."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2")}
    if stage.workers == 1:
        return [Process(stage.command, quiet)]
    addresses = [f"{HOST}:{port}" for port in free_ports(stage.workers)]
    threads = share_cores(stage.workers)
    return [
        Process(
            stage.command,
            {
                "TF_CONFIG": tf_config(addresses, index),
                SHARE: share_within(os.environ.get(SHARE), index, stage.workers),
                **threads,
                **quiet,
            },
            log=os.path.join(stage.logs, f"worker-{index}.log") if index else None,
        )
        for index in range(stage.workers)
    ]


def share_within(outer: str | None, index: int, count: int) -> str:
    """A share of a share: the second of two in `1/2`, which is the second of two, is `3/4`."""
    place, places = map(int, (outer or "0/1").split("/"))
    return f"{place * count + index}/{places * count}"


def share_cores(workers: int) -> dict[str, str]:
    """The variables by which TensorFlow starts as many threads in each of so many processes as it has cores for.

    By itself each would start threads for all cores of the machine, which get in each other's way. A variable that
    is set already stays.
    """
    share = str(-(-available_cores() // workers))  # rounded up: no core is idle
    return {name: os.environ.get(name, share) for name in THREADS}


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now. All are held until the last is found, so they differ."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for socket_ in sockets:
            socket_.bind((HOST, 0))
        return [socket_.getsockname()[1] for socket_ in sockets]


def shell_command(process: Process) -> str:
    """The process as one line for a shell."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in process.env.items()]
    return " ".join([*variables, shlex.join(process.command)])
