"""What a run prints, kept in a file beside its record: what the launcher says, and what the processes write."""

import os
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from beamfeed.contract import storage
from beamfeed.contract.streams import Outlet
from beamfeed.contract.text import last_line
from beamfeed.launcher.display import Display
from beamfeed.launcher.display.lines import Telling
from beamfeed.launcher.processes import Output, Piped
from beamfeed.launcher.progress import StageProgress

MOST = 4 << 20  # bytes at the end of a log that are kept in a bucket, where a file is written whole each time
PIECE = 1 << 16
TAIL = 4096


class RunLog:
    """A file that is added to. One in a bucket is a file on this disk meanwhile, and put there whole by `save`.

    Args:
      path: local or gs://; what it holds stays.
      dropped: bytes that it held once before those.
      waits_for: a folder that somebody else is to make first; until then it is a file elsewhere on this disk, too.

    Attributes:
      dropped: as the argument, by now.

    Raises:
      OSError, UserError: if it cannot be written.
    """

    def __init__(self, path: str, dropped: int = 0, waits_for: str | None = None):
        self.dropped = dropped
        self._path, self._waits_for = path, waits_for
        self._is_put = waits_for is not None or storage.is_remote(path)
        self._changed = False
        self._start = 0  # of what was put there, in the file on this disk
        self._printed = b""  # the last of it
        self._lock = threading.Lock()
        if self._is_put:
            self._file = tempfile.TemporaryFile("w+b", buffering=0)  # noqa: SIM115 - close closes it
            with suppress(FileNotFoundError):
                self._file.write(storage.read_bytes(path))
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115

    def waits(self) -> bool:
        """Whether the folder in which it is to be is not there yet."""
        return self._waits_for is not None and not os.path.isdir(self._waits_for)

    def write(self, data: bytes) -> None:
        """Adds what was printed."""
        self._printed = (self._printed + data)[-TAIL:]
        self._add(data)

    def line(self, text: str) -> None:
        """Adds a line of the launcher, with the time."""
        self._add(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {text}\n".encode("utf-8", "backslashreplace"))

    def last_line(self) -> str:
        """The last line that was printed, as a failure is told; empty where there is none."""
        return last_line(self._printed)

    def _add(self, data: bytes) -> None:
        with self._lock, suppress(OSError, ValueError):  # a disk that is full does not end the run
            self._file.write(data)
            self._changed = True

    def save(self) -> None:
        """Puts it where it belongs.

        Raises:
          OSError, UserError: if that does not answer.
        """
        with self._lock:
            if not self._is_put or not self._changed or self._file.closed or self.waits():
                return
            end = self._file.seek(0, os.SEEK_END)
            start = max(0, end - MOST)
            self._file.seek(start)
            data = self._file.read()
            self._changed = False
        try:
            storage.write_bytes(self._path, data)
        except BaseException:
            self._changed = True
            raise
        self.dropped += start - self._start
        self._start = start

    def close(self) -> None:
        """Nothing is added any more."""
        with self._lock:
            self._file.close()


class Logged(Display):
    """Shows a run as another display does, and keeps what is told.

    Args:
      shown: that display.
      log: the file.

    Attributes:
      stage: what was shown last.
    """

    def __init__(self, shown: Display, log: RunLog):
        self._shown, self._log, self._lines = shown, log, Telling(log.line)
        self.stage: StageProgress | None = None

    def skipped(self, stage: str, reason: str) -> None:
        self._shown.skipped(stage, reason)
        self._lines.skipped(stage, reason)

    def begins(self, stage: StageProgress, reason: str) -> None:
        self.stage = stage
        self._shown.begins(stage, reason)
        self._lines.begins(stage, reason)

    def show(self, stage: StageProgress) -> None:
        self.stage = stage
        self._shown.show(stage)
        self._lines.show(stage)

    def ends(self, stage: StageProgress, code: int, seconds: float) -> None:
        self._shown.ends(stage, code, seconds)
        self._lines.ends(stage, code, seconds)

    def say(self, line: str) -> None:
        self._shown.say(line)
        self._lines.say(line)

    def summary(self, text: str, values: Mapping[str, Any]) -> None:
        self._shown.summary(text, values)

    def output(self) -> Output:
        return Copied(self._shown.output(), self._log)


class Copied(Piped):
    """Takes what a process writes, and hands it on to where it belongs and to the log.

    Args:
      to: where it belongs.
      log: keeps it.
    """

    def __init__(self, to: Output, log: RunLog):
        super().__init__()
        self._to, self._log = to, log
        stdout, stderr = 1 if to.stdout is None else to.stdout, 2 if to.stderr is None else to.stderr
        # Numbers of their own: those of the others may be other files' before all is read.
        self.stderr = self.pipe(self._read, os.dup(stderr))
        # One pipe where both go to one place: what is written stays in its order.
        self.stdout = self.stderr if _is_same(stdout, stderr) else self.pipe(self._read, os.dup(stdout))

    def _read(self, reader: int, descriptor: int) -> None:
        outlet = Outlet(descriptor)  # nobody may read any more; the process must not wait for that
        begun = b""  # a line without an end, into which no other stream shall write
        while piece := os.read(reader, PIECE):
            lines, end, rest = (begun + piece).rpartition(b"\n")
            begun = rest if len(rest) < PIECE else b""
            self._log.write(lines + end + (b"" if begun else rest))
            left = memoryview(piece)
            while left:
                left = left[outlet.write(left) :]
        self._log.write(begun)
        os.close(reader)
        os.close(descriptor)

    def finish(self) -> None:
        super().finish()
        self._to.finish()


def _is_same(one: int, other: int) -> bool:
    return os.path.samestat(os.fstat(one), os.fstat(other))
