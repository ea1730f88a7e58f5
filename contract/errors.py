"""Errors that are told in one line, and how they are found again in what a runner says of its workers."""

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

JOB_FAILED, USER_MISTAKE = 1, 2  # exit codes


class UserError(Exception):
    """A mistake in a job file, a path or the environment, told in one line.

    Commands print the message without a traceback and exit with code 2. The
    message says what was found, where, and what is allowed.
    """

    CODE: ClassVar[int] = USER_MISTAKE

    def __init__(self, message: str):
        super().__init__(_printable(message))


class JobFailed(Exception):
    """The job ran and found that it must not publish, such as too many rejected assets.

    Commands print the message without a traceback and exit with code 1.
    """

    CODE: ClassVar[int] = JOB_FAILED
    MARK: ClassVar[str] = "job failed:"

    def __init__(self, message: str):
        super().__init__(_printable(message if message.startswith(self.MARK) else f"{self.MARK} {message}"))


def near_miss(found: object, allowed: Sequence[str]) -> str:
    """The end of a message: `; did you mean 'x'?`, or nothing."""
    near = difflib.get_close_matches(str(found), allowed, n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


class Failure(NamedTuple):
    """Why a command ends.

    Attributes:
      message: one line; of several mistakes in a job file, a line each.
      code: the exit code.
    """

    message: str
    code: int


_TRACEBACK = "Traceback (most recent call last):"
_STEP = " [while running '"  # Beam adds the step to a message
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_JAVA = re.compile(r"\s+at [\w.$/]+\(|\s*\.\.\. \d+ more$|Caused by: ")
_RAISED = re.compile(r"\s*[\w.]*(Error|Exception|Failed|Interrupt|Warning|Exit)\b")


def failure_of(error: BaseException) -> Failure:
    """What to tell of any exception that ends a command: of one that was raised here, or in a worker of a runner."""
    if isinstance(error, UserError | JobFailed):
        told = _without_step(str(error))  # a worker that is a part of this process raises the error itself
        return Failure(str(error) if told is None else _one_line(told), error.CODE)
    return find_failure(str(error)) or Failure(f"{JobFailed.MARK} {_last_words(error)}", JOB_FAILED)


def find_failure(text: str) -> Failure | None:
    """The UserError or JobFailed of which a runner's text tells, or None.

    A runner hands an error of a worker back as text, mostly a traceback inside of other
    text. The type is lost, so the name of the class has to be found where a traceback
    has it: as the first such line after the last frames.
    """
    unquoted = text.strip().rstrip("'\")").replace("\\n", "\n")  # some runners quote it
    for lines in (text.split("\n"), unquoted.split("\n")):
        if (at := _find_header(lines)) is not None:
            name = at[1]
            return Failure(_one_line("\n".join(_message(lines[at[0] :], name))), _codes()[name])
    return None


def _codes() -> dict[str, int]:
    """The exit code of each class, by the name that a traceback gives it."""

    def every(base: type[UserError] | type[JobFailed]) -> Iterator[tuple[str, int]]:
        yield f"{base.__module__}.{base.__qualname__}", base.CODE
        for derived in base.__subclasses__():
            yield from every(derived)

    return dict([*every(UserError), *every(JobFailed)])


def _find_header(lines: list[str]) -> tuple[int, str] | None:
    """The line at which an exception of ours is named, and its class."""
    names = "|".join(map(re.escape, _codes()))
    header = re.compile(rf"\s*(?:[\w.$]+: )*?({names})(?=: |:$|$| \[while running )")
    starts = [number for number, line in enumerate(lines) if line.rstrip().endswith(_TRACEBACK)]
    # A message may itself hold a traceback, in which nothing of ours is raised: then it is one section further up.
    for start in (*reversed(starts), 0):
        for number in range(start, len(lines)):
            if found := header.match(lines[number]):
                return number, found[1]
    return None


def _message(lines: list[str], name: str) -> list[str]:
    """The lines of the message that begins on the first of these."""
    lines = [lines[0].partition(name)[2].removeprefix(":").removeprefix(" "), *lines[1:]]
    chained = next((number for number, line in enumerate(lines) if line.strip() in _CHAINED), len(lines))
    for number in reversed(range(chained)):  # an earlier one was in the message
        if (told := _without_step(lines[number].rstrip())) is not None:
            return [*lines[:number], told]
    ends = (number for number, line in enumerate(lines) if line.endswith(_TRACEBACK) or _JAVA.match(line))
    return lines[: min(chained, next(ends, len(lines)))]


def _without_step(message: str) -> str | None:
    """The message before Beam added the step to it; None if it did not."""
    own, added, step = message.rpartition(_STEP)  # others before the last were in the message
    return own if added and step.endswith("']") and "\n" not in step else None


def _last_words(error: BaseException) -> str:
    """The exception at the end of a text with a traceback; of one without, its first line."""
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    if any(_TRACEBACK in line for line in lines):
        # The notes of a runner may follow.
        line = [line for line in lines if _RAISED.match(line)][-1:] or lines[-1:]
        return _without_step(line[0]) or line[0]
    return ": ".join([type(error).__name__, *_first_that_tells(lines)])


def _first_that_tells(lines: list[str]) -> list[str]:
    """The first line of a message; of one that only leads up to the reason, as TensorFlow's do, the last but names."""
    if lines and lines[0].endswith(":"):
        return [line for line in lines if not line.startswith(("[[", "File ", "Detected at", "Function call"))][-1:]
    return lines[:1]


_SECRETS: dict[str, str] = {}  # values that no message of this process tells, and what stands in their place


def never_tell(name: str, value: str) -> None:
    """Says that messages of this process have `${NAME}` in the place of this value, a secret."""
    if value:
        _SECRETS[value] = f"${{{name}}}"


def _printable(message: str) -> str:
    """A name of a file need not be text, but Beam's messages must be: a worker that cannot tell its error hangs."""
    for value in sorted(_SECRETS, key=len, reverse=True):
        message = message.replace(value, _SECRETS[value])
    return message.encode("utf-8", "backslashreplace").decode()


def _one_line(text: str) -> str:
    return " ".join(part for line in text.splitlines() if (part := line.strip()))
