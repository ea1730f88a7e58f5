"""What a program says while it runs: kept in a file where it fails, and nowhere else; and how a failure is told."""

import io
import logging
import os
import sys
import tempfile
import threading
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress

from beamfeed.contract.errors import USER_MISTAKE, JobFailed, failure_of
from beamfeed.contract.events import emit_error
from beamfeed.contract.verbosity import log_handlers, log_level

MOST = 4 << 20  # characters that are kept: the last ones
ITS_END = 4000  # bytes


class FailureLog(io.TextIOBase):
    """Takes the place of stderr, and never fails: a worker that cannot print its traceback hangs for ever.

    Attributes:
      folders: where a file may go, before the system's folder for temporary files.
    """

    def __init__(self) -> None:
        super().__init__()
        self._parts: deque[str] = deque()
        self._size = 0
        self._lock = threading.RLock()
        self.folders: tuple[str, ...] = ()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            self._parts.append(text[-MOST:])
            self._size += len(self._parts[-1])
            while self._size > MOST:
                self._size -= len(self._parts.popleft())
        return len(text)

    def clear(self) -> None:
        """Forgets it all."""
        with self._lock:
            self._parts.clear()
            self._size = 0

    def __bool__(self) -> bool:
        """Whether anything was said."""
        return self._size > 0

    @contextmanager
    def listening(self, level: int) -> Iterator[None]:
        """Takes what is printed to stderr, and logged from a level on, while the block runs, from whatever thread."""
        root = logging.getLogger()
        before = root.level, root.handlers
        shown = log_handlers()  # to the stderr that there is now
        root.setLevel(min(level, log_level()))
        root.handlers = [logging.StreamHandler(self), *shown]
        try:
            with redirect_stderr(self):
                yield
        finally:
            root.setLevel(before[0])
            root.handlers = before[1]

    def keep(self) -> str | None:
        """Writes it to a file that only its owner may read; returns the path, None where no folder takes it."""
        with self._lock:
            data = "".join(self._parts).encode("utf-8", "backslashreplace")
        # Where the disk is nearly full, the end of it is worth more than nothing.
        for part in (data, data[-ITS_END:]):
            for folder in (*self.folders, None):
                with suppress(OSError):
                    return _write(folder, part)
        return None


def _write(folder: str | None, data: bytes) -> str:
    if folder is not None:
        os.makedirs(folder, exist_ok=True)
    descriptor, path = tempfile.mkstemp(prefix="beamfeed-failure-", suffix=".log", dir=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
    except OSError:
        os.unlink(path)
        raise
    return path


def print_failure(line: str, log: FailureLog) -> None:
    """Prints why a job failed, in one line, with where the rest stands if there is more to say."""
    path = log.keep() if log else None
    print(f"{line}; log: {path}" if path else line, file=sys.stderr)


def complain(error: Exception, log: FailureLog, before: str = "", *, as_json: bool = False) -> int:
    """Tells why a program ended, in one line, and returns the exit code.

    A mistake of the user's is told whole, a line for each. Of what nobody foresaw, the traceback goes into the log.

    Args:
      error: what ended it.
      log: what was said until then.
      before: what each line begins with, such as the name of the program.
      as_json: whether it is told on stdout as well, to programs.
    """
    failure = failure_of(error)
    if as_json:
        emit_error(failure.message, failure.code)
    if failure.code == USER_MISTAKE:
        log.clear()
        for line in failure.message.splitlines():
            print_failure(before + line, log)
        return failure.code
    tells_all = isinstance(error, JobFailed) or (isinstance(error, OSError) and error.filename is not None)
    if log or not tells_all:
        log.write("".join(traceback.format_exception(error)))
    print_failure(before + " ".join(failure.message.split("\n")), log)
    return failure.code
