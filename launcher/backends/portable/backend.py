"""Preprocesses on Flink, Spark or Prism: a process here submits the job, and waits for its end."""

import os
import shlex
import socket
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress

from beamfeed.contract import options, storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.errors import USER_MISTAKE, UserError
from beamfeed.launcher.backends.base import Backend
from beamfeed.launcher.backends.portable.flink_rest import FlinkRest
from beamfeed.launcher.backends.portable.section import ClusterSection, FlinkSection, PortableSection, PrismSection
from beamfeed.launcher.backends.remote import RemoteRun, check_paths, flags, job_name, option
from beamfeed.launcher.display import Display
from beamfeed.launcher.processes import Process, run_together
from beamfeed.launcher.progress import StageProgress, watching
from beamfeed.launcher.stage import PREPROCESS, Stage

ANSWER_SECONDS = 5.0
LATE_SECONDS = 10.0
CANCEL_SECONDS = 30.0  # for the process that waits, to cancel the job


def beam_options(section: PortableSection) -> list[str]:
    """The options of a submission; what is left out of the job file is left to Beam and the cluster."""
    if isinstance(section, PrismSection):
        return ["--runner=PrismRunner", f"--prism_location={section.binary}", *flags(section.options)]
    assert isinstance(section, ClusterSection)
    own = {
        "runner": "PortableRunner",
        "job_endpoint": section.job_server,
        "environment_type": "EXTERNAL" if section.worker_pool else "DOCKER" if section.image else "LOOPBACK",
        "environment_config": section.worker_pool or section.image,
        "parallelism": section.parallelism if isinstance(section, FlinkSection) else None,
    }
    return [*flags(own), *flags(section.options)]


class PortableBackend(Backend):
    """The job runs where the job server puts it; the process that submits it waits, and cancels it if it is ended.

    Args:
      name: of the engine, in job files.
      section: of that name.
    """

    stages = (PREPROCESS,)

    def __init__(self, name: str, section: type[PortableSection]):
        self.name, self.section = name, section

    def check(self, job: Job, name: str) -> None:
        """Raises UserError if the workers could not see the input or the output, or a program is not there."""
        section, key = job.launch.preprocess.section(self.name), f"launch.preprocess.{self.name}"
        if isinstance(section, PrismSection) and not os.access(section.binary, os.X_OK):
            raise UserError(
                f"{key}.binary: {section.binary} is no program; build it with "
                "`go install github.com/apache/beam/sdks/v2/go/cmd/prism@v2.77.0`"
            )
        if isinstance(section, ClusterSection) and section.image:
            check_paths(job, "workers in containers")
        if isinstance(section, ClusterSection) and section.worker_pool:
            check_paths(job, "workers of a pool", shared=True)

    def command(self, name: str, job: Job, arguments: Sequence[str]) -> tuple[str, ...]:
        section = job.launch.preprocess.section(self.name)
        of_beam = [*beam_options(section), f"--job_name={job_name(storage.absolute(job.output.path))}"]
        return (sys.executable, "-m", options.PREPROCESS.module, *arguments, *of_beam)

    def describe(self, stage: Stage) -> list[str]:
        return [shlex.join(stage.command)]

    def submit(self, stage: Stage, display: Display) -> "PortableRun":
        server = option(stage.command, "job_endpoint")
        if server is not None:
            check_answers(server, f"launch.preprocess.{self.name}.job_server")
        run = PortableRun(stage, self.name)
        if job := run.active_job():
            raise UserError(
                f"output.path: job {job} of Flink is preprocessing into {stage.output} already; wait for it, choose "
                "another folder, or stop it with `beamfeed cancel`"
            )
        return run

    def find(self, stage: Stage) -> "PortableRun | None":
        """The job of a cluster of Flink whose launcher was killed; others end with the process that waits for them."""
        run = PortableRun(stage, self.name)
        return run if run.active_job() else None


class PortableRun(RemoteRun):
    """A job that lives while it is followed; Flink must be told to end it.

    Args:
      stage: what it makes.
      engine: that it runs on.
    """

    goes_on = False

    def __init__(self, stage: Stage, engine: str):
        super().__init__(stage)
        self._engine = engine
        self.title = f"{option(stage.command, 'job_name')} on {engine.capitalize()}"
        master = stage.section.master if isinstance(stage.section, FlinkSection) else None
        self._flink = FlinkRest(master) if master else None

    def active_job(self) -> str | None:
        """The id of the job of Flink that writes to the place of this stage; None where none can be asked for."""
        return self._flink.active_job(option(self._stage.command, "job_name") or "") if self._flink else None

    def follow(self, progress: StageProgress, display: Display) -> int:
        stage, watch = self._stage, None
        progress.phase = f"running on {self._engine.capitalize()}"
        command = stage.command
        if not storage.is_remote(stage.output):  # all workers see it, so there they can tell how far they are
            temporary = DataLayout.of(stage.output, stage.fingerprint).temporary
            folder = os.path.join(temporary, f"progress-{uuid.uuid4().hex}")
            command = (*command, "--progress-dir", os.path.abspath(folder))
            watch = watching(folder, progress, display.show)
        process = Process(command, {"TF_CPP_MIN_LOG_LEVEL": "2"})
        code = run_together(stage.name, [process], watch, CANCEL_SECONDS, display.output())
        if code not in (0, USER_MISTAKE):  # killed, or without the job server; what another launcher runs is refused
            with suppress(UserError):
                self.cancel()
        return code

    def state(self) -> str:
        return f"{self.title} is running"

    def leave(self) -> None:
        if self._flink:
            self._say("stopping the job of Flink")
        end = time.monotonic() + LATE_SECONDS  # a job that was handed in a moment ago is not there yet
        while self._flink and not self.active_job() and time.monotonic() < end:
            time.sleep(0.5)
        self.cancel()

    def cancel(self) -> None:
        if self._flink and (job := self.active_job()):
            ended = self._flink.cancel(job)
            state = "is cancelled" if ended else "was asked to stop, and has not yet"
            self._say(f"job {job} of Flink {state}")


def check_answers(server: str, key: str) -> None:
    """Raises UserError if nothing listens at `host:port`."""
    host, _, port = server.rpartition(":")
    try:
        socket.create_connection((host, int(port)), ANSWER_SECONDS).close()
    except OSError as error:
        raise UserError(
            f"{key}: nothing answers at {server} ({error.strerror or error}); is Beam's job server running there?"
        ) from None
