"""Errors that are told in one line, and how they are found again in what a runner says of its workers."""

import difflib
import re
from collections.abc import Sequence
from typing import ClassVar, NamedTuple
from urllib.parse import quote, unquote

JOB_FAILED, USER_MISTAKE = 1, 2  # exit codes
DRIFT = 3  # likewise, of a comparison that found some


class BeamfeedError(Exception):
    """An error that is told in one line, without a traceback.

    Args:
      message: to tell.
      reason: of a copy with more words in its message, as a worker of Beam makes one, the message before. The
        traceback of a copy ends with a note for `find_failure`, as another process reads it.
    """

    CODE: ClassVar[int]
    MARK: ClassVar[str] = ""  # what the line begins with

    def __init__(self, message: str, reason: str | None = None):
        message = printable(message.removeprefix(self.MARK))
        super().__init__(message, message if reason is None else reason)
        if message != self.reason:
            self.add_note(f"[beamfeed {self.CODE}: {quote(self.MARK + self.reason, _PLAIN)}]")

    def __str__(self) -> str:
        return f"{self.MARK}{self.args[0]}"

    @property
    def reason(self) -> str:
        """The message without the mark, and without what was added in a worker."""
        return str(self.args[1])


class UserError(BeamfeedError):
    """A mistake in a job file, a path or the environment, told in one line.

    Commands print the message without a traceback and exit with code 2. The
    message says what was found, where, and what is allowed.
    """

    CODE = USER_MISTAKE


# What an installation of some extras of setup.py lacks, by the names of modules.
PARTS = {
    "PIL": "Pillow",
    "apache_beam": "Apache Beam",
    "farmhash": "cityhash",
    "fastavro": "fastavro",
    "keras": "Keras",
    "matplotlib": "Matplotlib",
    "sklearn": "scikit-learn",
    "tensorflow": "TensorFlow",
    "tensorflow_metadata": "TensorFlow Metadata",
    "tensorflow_transform": "TensorFlow Transform",
    "tfx_bsl": "tfx-bsl",
}


def not_installed(module: str) -> UserError:
    """The error where one of PARTS is not installed."""
    return UserError(f"{PARTS[module]} is not installed; pip install 'beamfeed[all]' installs what is missing")


class JobFailed(BeamfeedError):
    """The job ran and found that it must not publish, such as too many rejected assets.

    Commands print the message without a traceback and exit with code 1.
    """

    CODE = JOB_FAILED
    MARK = "job failed: "


class Unanswered(JobFailed):
    """A bucket did not answer, which says nothing of what is in it: later it may.

    What is only shown can do without; what decides something must not take it for an answer.
    """


def near_miss(value: object, allowed: Sequence[str]) -> str:
    """The end of a message: `; did you mean 'x'?`, or nothing."""
    near = difflib.get_close_matches(str(value), allowed, n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def first_line(error: BaseException) -> str:
    """The first line of an exception's message; of one without, its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class Failure(NamedTuple):
    """Why a command ends.

    Attributes:
      message: one line; of several mistakes in a job file, a line each.
      code: the exit code.
    """

    message: str
    code: int


# Text may be quoted, and set into other text, on its way from a worker: the note has no character that this changes.
_PLAIN = " !#$&()*+,-./:;<=>?@^_`{|}~"
_NOTE = re.compile(r"\[beamfeed (\d): ([^\[\]]*)\]")
_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"\s*[\w.]*(Error|Exception|Failed|Interrupt|Warning|Exit)\b")


def failure_of(error: BaseException) -> Failure:
    """What to tell of any exception that ends a command: of one that was raised here, or in a worker of a runner."""
    if isinstance(error, BeamfeedError):
        added = error.args[0] != error.reason  # by a worker that is a part of this process
        return Failure(_one_line(error.MARK + error.reason) if added else str(error), error.CODE)
    if isinstance(error, ModuleNotFoundError) and error.name in PARTS:
        return failure_of(not_installed(error.name))
    text = str(error)
    message = printable(last_raised(text) or _words(error))
    return find_failure(text) or Failure(JobFailed.MARK + message, JOB_FAILED)


def find_failure(text: str) -> Failure | None:
    """The last UserError or JobFailed of which a text with tracebacks of workers tells, or None."""
    if notes := _NOTE.findall(text):
        return Failure(_one_line(unquote(notes[-1][1])), int(notes[-1][0]))
    raised = last_raised(text) or ""  # outside of a step, where nobody adds to it
    for kind in (UserError, JobFailed, Unanswered):
        if raised.startswith(name := f"{kind.__module__}.{kind.__name__}: "):
            return Failure(raised.removeprefix(name), kind.CODE)
    return None


def last_raised(text: str) -> str | None:
    """The exception at the end of a text with a traceback, after which notes may follow; None of one without."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not any(_TRACEBACK in line for line in lines):
        return None
    return next(filter(_RAISED.match, reversed(lines)), lines[-1])


def _words(error: BaseException) -> str:
    """The type of an exception, and the first line of its message.

    Of one that only leads up to the reason, as TensorFlow's do, it is the last but names.
    """
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    message = lines[:1]
    if lines and lines[0].endswith(":"):
        message = [line for line in lines if not line.startswith(("[[", "File ", "Detected at", "Function call"))][-1:]
    return ": ".join([type(error).__name__, *message])


_SECRETS: dict[str, str] = {}  # values that no message of this process tells, and what stands in their place


def redact(name: str, value: str) -> None:
    """Says that messages of this process have `${NAME}` in the place of this value, a secret."""
    if value:
        _SECRETS[value] = f"${{{name}}}"


def redacted(text: str, *, escaped: bool = False) -> str:
    """The text without the secrets that this process knows of.

    Args:
      text: to be told, or kept.
      escaped: whether it is of a job file, where `$$` is a `$`.
    """
    for value in sorted(_SECRETS, key=len, reverse=True):
        text = text.replace(value.replace("$", "$$") if escaped else value, _SECRETS[value])
    return text


def printable(message: str) -> str:
    """The text as it can be told: without secrets, its lines `visible` and in UTF-8, which a file's name need not be.

    Beam's messages must be: a worker that cannot tell its error hangs.
    """
    return "\n".join(map(visible, redacted(message).split("\n")))


# Control characters but the tab, ends of lines, marks that turn the direction of letters, and what is no text.
_HIDDEN = re.compile(
    "[\0-\x08\n-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """What a file holds, such as a name, as a terminal can have it: what is not seen there is as Python writes it.

    Terminals obey some of these characters: others' files could set the clipboard, or tell of what is not so.
    """
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _one_line(text: str) -> str:
    return " ".join(part for line in text.splitlines() if (part := line.strip()))
