"""stdout and stderr of a program: a reader that has gone, or a disk that is full, must not end or hang its work."""

import errno
import io
import os
import select
import stat
import sys
from contextlib import suppress
from typing import Any, TextIO

GONE = (errno.EPIPE, errno.EIO, errno.EBADF)  # nobody reads any more: `| head`, a terminal that was closed


class Outlet(io.RawIOBase):
    """A descriptor that takes everything. When it fails, it becomes /dev/null, also for children and for C++.

    Attributes:
      error: why it failed.
    """

    def __init__(self, descriptor: int):
        super().__init__()
        self._descriptor = descriptor
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: Any) -> int:
        while True:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:  # another program that shares it has made it so
                select.select([], [self._descriptor], [], 1.0)
            except OSError as error:
                self.error = error
                _to_nowhere(self._descriptor)
                return len(data)


def take_over() -> None:
    """Makes stdout and stderr forgiving. To be called first, by programs; where a test has its own, they stay."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:  # closed: the next file to be opened would get what is printed
            _to_nowhere(descriptor)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(1, sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(2, sys.stderr)


def flushed(code: int) -> int:
    """Writes out what is buffered, at the end of a program.

    Returns:
      the exit code: `code`, or 1 where stdout could not be written though somebody wanted it.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    error = raw.error if isinstance(raw, Outlet) else None
    if code == 0 and error is not None and error.errno not in GONE:
        write_line(f"stdout: cannot be written: {error.strerror}")
        return 1
    return code


def write_line(line: str, descriptor: int = 2) -> None:
    """Writes a line to stderr past all buffers and locks, for who is about to end the process; waits for nobody."""
    with suppress(OSError, ValueError):
        if select.select([], [descriptor], [], 0.5)[1]:
            os.write(descriptor, f"{line}\n".encode("utf-8", "backslashreplace"))


def _to_nowhere(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere != descriptor:
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
    os.set_inheritable(descriptor, True)


def _text(descriptor: int, before: TextIO | None) -> TextIO:
    encoding = before.encoding if before is not None else "utf-8"
    outlet = Outlet(descriptor)
    is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)  # a program that reads it may show it line by line
    lines = descriptor == 2 or outlet.isatty() or is_pipe
    return io.TextIOWrapper(io.BufferedWriter(outlet), encoding, errors="backslashreplace", line_buffering=lines)
