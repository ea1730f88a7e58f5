"""What the backends that run a stage elsewhere share: options on a command line, names, and paths that workers see."""

import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from pydantic import Field

from beamfeed.contract import options, storage
from beamfeed.contract.arguments import flat
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.section import InWords
from beamfeed.contract.dataset.published import read_complete
from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends.base import PROGRAMS, Submission
from beamfeed.launcher.stage import PREPROCESS, TRAIN, Stage

POLL_SECONDS = 2.0
PATIENCE_SECONDS = 900.0  # for a cluster that does not answer
LATE_SECONDS = 20.0  # files of a shared folder are seen here later than where they were written
LONGEST_NAME = 40  # of the part of a job's name that can be read; Dataflow allows 63 in all
Answer = TypeVar("Answer")
BeamOptions = Annotated[
    dict[str, bool | int | float | str | list[str]],
    Field(
        default={},
        description="Any other option of Beam, without dashes; true gives the bare flag, false leaves it out.",
    ),
]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"), InWords("the name of a variable, such as TZ")]


class Unreachable(Exception):
    """What runs stages elsewhere did not answer; the next time it may."""


@contextmanager
def answered(whose: str, then: str = "") -> Iterator[None]:
    """What is asked in the block is asked once.

    Args:
      whose: what may not answer, as the message begins.
      then: how the message ends.

    Raises:
      UserError: in the place of Unreachable.
    """
    try:
        yield
    except Unreachable as error:
        raise UserError(f"{whose} does not answer: {error}{then}") from None


class RemoteRun(Submission):
    """Work that outlives its launcher.

    Args:
      stage: what it makes.
    """

    goes_on = True

    def __init__(self, stage: Stage):
        self._stage = stage

    def leave(self) -> None:
        self._say(f"{self.title} goes on; run the same command again to follow it, or stop it with `beamfeed cancel`")

    def _check_published(self, hint: str) -> int:
        """The exit code of work that ended well, as far as its dataset is there where it makes one."""
        if is_published(self._stage):
            return 0
        self._say(f"the job ended, but {self._stage.output} holds no dataset of this job; {hint}")
        return 1

    def _say(self, line: str) -> None:
        print(f"{self._stage.name}: {line}", file=sys.stderr, flush=True)


def command_elsewhere(name: str, python: str, arguments: Sequence[str], job_path: str) -> tuple[str, ...]:
    """See `Backend.command`, where the job file is sent along: it is at `job_path` there, and holds what --set gave."""
    program = PROGRAMS[name]
    parsed = vars(program.parse(arguments or ("--job", "")))
    beam_options = parsed.pop("beam_options")
    return (python, "-m", program.module, *program.arguments({**parsed, "job": job_path, "set": []}, beam_options))


def check_same_work(stage: Stage, title: str, is_same: bool) -> None:
    """Raises UserError where what works in the folder of a stage, called `title`, is not to be followed."""
    if stage.starts_anew or not is_same:
        raise UserError(
            f"{stage.output}: {title} is writing there with other input, settings or options; "
            "wait for it, choose another folder, or stop it with `beamfeed cancel`"
        )


def node_resources(stage: Stage, section: Any) -> Mapping[str, float]:
    """See `Backend.resources`: what a section with `cpus` and `gpus` of a node asks for."""
    cores = 1 if stage.name == PREPROCESS else section.cpus or 1
    return {"core": cores, **({"gpu": section.gpus} if section.gpus else {})}


def ask_patiently(
    whose: str, question: Callable[[], Answer], say: Callable[[str], None], seconds: float = POLL_SECONDS
) -> Answer:
    """The answer of a cluster, as soon as there is one.

    Args:
      whose: what may not answer, as messages begin.
      question: raises Unreachable where there is no answer.
      say: tells a line.
      seconds: from one try to the next.

    Raises:
      UserError: if there is none for too long.
    """
    since: float | None = None
    while True:
        try:
            return question()
        except Unreachable as error:
            now = time.monotonic()
            if since is None:
                since = now
                say(f"{whose} does not answer ({error}); trying again")
            if now > since + PATIENCE_SECONDS:
                raise UserError(f"{whose} does not answer: {error}") from None
        time.sleep(seconds)


def flags(options: Mapping[str, bool | int | float | str | list[str] | None]) -> list[str]:
    """The options of a section: true gives the bare flag, false and null leave it out, a list gives it repeatedly."""
    written: list[str] = []
    for key, value in options.items():
        if value is True:
            written.append(f"--{key}")
        elif value is not None and value is not False:
            written += [f"--{key}={item}" for item in (value if isinstance(value, list) else [value])]
    return written


def option(command: Sequence[str], name: str) -> str | None:
    """The value of `--name=value` or `--name value`, the last of several as Beam takes it."""
    value = None
    for at, flag in enumerate(command):
        if flag.startswith(f"--{name}="):
            value = flag.partition("=")[2]
        elif flag == f"--{name}" and at + 1 < len(command):
            value = command[at + 1]
    return value


def job_name(output: str, longest: int = LONGEST_NAME, where: str = "") -> str:
    """The name of a job that writes to this folder: by it a running job is found again.

    Dataflow and Kubernetes allow a name only one running job, so two launchers cannot both write to one output there.

    Args:
      output: the folder.
      longest: the letters of it that the name shows.
      where: which of the folders of this path it is, where that is not the same everywhere.
    """
    bucket_path = output.removeprefix("gs://").rstrip("/")
    words = re.sub(r"[^a-z0-9]+", "-", bucket_path.lower())[-longest:].strip("-")
    tag = hashlib.sha256((bucket_path + where).encode()).hexdigest()[:12]
    return "-".join(part for part in ("beamfeed", words, tag) if part)


def work_of(stage: Stage) -> str:
    """What a job makes, and with which options: another run of it does not follow a job that does something else."""
    arguments = list(stage.command[3:])
    for option_ in flat((*options.TRAIN_FROM, options.ONCE)):  # who follows a job does not say again how it began
        while option_.name in arguments:
            at = arguments.index(option_.name)
            del arguments[at : at + (1 if option_.name == options.TRAIN_FROM[0].name else 2)]
    digest = hashlib.sha256("\0".join(arguments).encode()).hexdigest()
    return f"beamfeed-{stage.fingerprint[:16]}-{digest[:8]}"


def is_published(stage: Stage) -> bool:
    """Whether the dataset of a stage that makes one is there; in a shared folder, also seconds after the job's end."""
    end = time.monotonic() + (0.0 if storage.is_remote(stage.output) else LATE_SECONDS)
    while stage.name == PREPROCESS and read_complete(stage.output, stage.fingerprint) is None:
        if time.monotonic() >= end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def paths_of(job: Job, name: str) -> list[tuple[str, str]]:
    """The paths that a stage reads and writes, each behind its key."""
    inputs = [(job.source.key_of(path), path) for path in job.source.patterns] if name == PREPROCESS else []
    workdir = [("train.workdir", job.train.workdir)] if name == TRAIN and job.train is not None else []
    return [*inputs, ("output.path", job.output.path), *workdir]


def check_paths(job: Job, whose: str, *, shared: bool = False) -> None:
    """Raises UserError if workers on other machines, `whose`, could not see the input or the output.

    Args:
      job: whose paths they are.
      whose: the workers, in words.
      shared: whether the machines may share folders; then paths must be absolute.
    """
    for key, path in paths_of(job, PREPROCESS):
        if storage.is_remote(path) or (shared and os.path.isabs(path)):
            continue
        if shared:
            raise UserError(
                f"{key}: {path} is relative to this folder, which {whose} do not know; give an absolute path that is "
                "the same on all machines, or gs://"
            )
        raise UserError(
            f"{key}: {path} is on this machine, where {whose} cannot reach it; "
            "give a gs:// path, or set launch.preprocess.backend=local"
        )
