"""Preprocesses on Flink, Spark or Prism: a process here submits the job, and waits for its end."""

import os
import shlex
import socket
import sys
from collections.abc import Sequence
from typing import ClassVar

from beamfeed.contract import options
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.section import Section
from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends.beam import check_paths, flags, option
from beamfeed.launcher.backends.portable.section import (
    ClusterSection,
    FlinkSection,
    PortableSection,
    PrismSection,
    SparkSection,
)
from beamfeed.launcher.display import Display
from beamfeed.launcher.processes import Process, run_together
from beamfeed.launcher.progress import StageProgress
from beamfeed.launcher.stage import PREPROCESS, Stage

ANSWER_SECONDS = 5.0
CANCEL_SECONDS = 30.0  # for the process that waits, to cancel the job


def beam_options(section: PortableSection) -> list[str]:
    """The options of a submission; what is left out of the job file is left to Beam and the cluster."""
    if isinstance(section, PrismSection):
        return ["--runner=PrismRunner", f"--prism_location={section.binary}", *flags(section.options)]
    assert isinstance(section, ClusterSection)
    written = ["--runner=PortableRunner", f"--job_endpoint={section.job_server}"]
    if section.worker_pool:
        written += ["--environment_type=EXTERNAL", f"--environment_config={section.worker_pool}"]
    elif section.image:
        written += ["--environment_type=DOCKER", f"--environment_config={section.image}"]
    else:
        written += ["--environment_type=LOOPBACK"]
    if isinstance(section, FlinkSection) and section.parallelism is not None:
        written.append(f"--parallelism={section.parallelism}")
    return [*written, *flags(section.options)]


class PortableBackend:
    """The job runs where the job server puts it; the process that submits it waits, and cancels it if it is ended."""

    name: ClassVar[str]
    stages: ClassVar[tuple[str, ...]] = (PREPROCESS,)
    section: ClassVar[type[Section] | None]

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

    def command(self, name: str, job: Job, arguments: Sequence[str], fingerprint: str) -> tuple[str, ...]:
        of_beam = beam_options(job.launch.preprocess.section(self.name))
        return (sys.executable, "-m", options.PREPROCESS.module, *arguments, *of_beam)

    def describe(self, stage: Stage) -> list[str]:
        return [shlex.join(stage.command)]

    def submit(self, stage: Stage, display: Display) -> "PortableRun":
        server = option(stage.command, "job_endpoint")
        if server is not None:
            check_answers(server, f"launch.preprocess.{self.name}.job_server")
        return PortableRun(stage, self.name, display)

    def find(self, stage: Stage) -> None:
        """None: a job is cancelled with the process that waits for it."""


class FlinkBackend(PortableBackend):
    """Flink."""

    name: ClassVar[str] = "flink"
    section: ClassVar[type[Section] | None] = FlinkSection


class SparkBackend(PortableBackend):
    """Spark."""

    name: ClassVar[str] = "spark"
    section: ClassVar[type[Section] | None] = SparkSection


class PrismBackend(PortableBackend):
    """Prism, on this machine."""

    name: ClassVar[str] = "prism"
    section: ClassVar[type[Section] | None] = PrismSection


class PortableRun:
    """A job that lives only while it is followed.

    Args:
      stage: what it makes.
      engine: that it runs on.
      display: shows it.
    """

    def __init__(self, stage: Stage, engine: str, display: Display):
        self._stage, self._engine, self._display = stage, engine, display

    def follow(self, progress: StageProgress) -> int:
        progress.phase = f"running on {self._engine.capitalize()}"
        process = Process(self._stage.command, {"TF_CPP_MIN_LOG_LEVEL": "2"})
        return run_together(self._stage.name, [process], grace=CANCEL_SECONDS, output=self._display.output())

    def leave(self) -> None:
        """Nothing is left to do: the process cancelled the job when it ended."""

    def cancel(self) -> None:
        """As `leave`."""


def check_answers(server: str, key: str) -> None:
    """Raises UserError if nothing listens at `host:port`."""
    host, _, port = server.rpartition(":")
    try:
        socket.create_connection((host, int(port)), ANSWER_SECONDS).close()
    except OSError as error:
        raise UserError(
            f"{key}: nothing answers at {server} ({error.strerror or error}); is Beam's job server running there?"
        ) from None
