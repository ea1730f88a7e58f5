"""Runs a group of local processes that stand and fall together.

One that fails ends all the others, and none outlives the launcher: every way
out of `run_together` ends whatever is still running.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import IO

from beamfeed.contract import text
from beamfeed.contract.errors import DRIFT, JOB_FAILED, USER_MISTAKE

POLL_SECONDS = 0.05
SETTLE_SECONDS = 1.0  # from the first failure: a worker may fail because of another that is slower to end
GRACE_SECONDS = 3.0  # from SIGTERM to SIGKILL, of those whose group has failed
TAIL_BYTES = 64 * 1024
DRAIN_SECONDS = 5.0  # for what a process wrote last: one that it has left behind may hold the pipe for ever


@dataclass(frozen=True)
class Process:
    """A process to start: its command, what it adds to the environment, and where its output goes."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    log: str | None = None  # None: to the terminal


class Output:
    """Where the chief of a group writes what belongs on the terminal: this process's own stdout and stderr.

    Attributes:
      stdout: the descriptor; None for that of this process.
      stderr: likewise.
    """

    stdout: int | None = None
    stderr: int | None = None

    def finish(self) -> None:
        """All who write there have ended: what they wrote is shown when this returns."""


class Piped(Output):
    """Takes what is written from pipes."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def pipe(self, read: Callable[..., None], *more: object) -> int:
        """The end to write to of a new pipe, of which `read` gets the other end, in a thread of its own, and `more`."""
        reader, writer = os.pipe()
        thread = threading.Thread(target=read, args=(reader, *more), daemon=True)
        thread.start()
        self._threads.append(thread)
        return writer

    def finish(self) -> None:
        for descriptor in {self.stdout, self.stderr}:
            if descriptor is not None:
                os.close(descriptor)
        self.stdout = self.stderr = None
        while self._threads:
            self._threads.pop().join(DRAIN_SECONDS)


class Held(Output):
    """Keeps what is written until all have ended, and then writes it, unless it was dropped."""

    def __init__(self) -> None:
        self._files = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - finish closes them
        self.stdout, self.stderr = (file.fileno() for file in self._files)

    def drop(self) -> None:
        """What is written is not wanted."""
        for file in self._files:
            file.close()

    def finish(self) -> None:
        for file, stream in zip(self._files, (sys.stdout, sys.stderr), strict=True):
            if not file.closed:
                file.seek(0)
                stream.write(file.read().decode("utf-8", errors="replace"))
                stream.flush()
                file.close()


class Running:
    """A started process in a group of its own."""

    def __init__(self, title: str, process: Process, popen: subprocess.Popen[bytes], log: IO[bytes] | None):
        self.title = title
        self.process = process
        self.log = log
        self.code: int | None = None  # as a shell gives it: 128 + the signal that ended it
        self.signal: int | None = None  # that ended it
        self._popen = popen

    def ended(self) -> bool:
        if self.code is None and self._popen.poll() is not None:
            # At once: later its number may be another group's.
            self._kill_group()  # what it left behind
            code = self._popen.returncode
            self.code, self.signal = (128 - code, -code) if code < 0 else (code, None)
        return self.code is not None

    def terminate(self) -> None:
        """Asks the process to end; what it started is left to it for now."""
        if not self.ended():
            self._popen.terminate()

    def kill(self) -> None:
        if not self.ended():
            self._kill_group()
            self._popen.wait()
            self.ended()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses where the group has ended
            os.killpg(self._popen.pid, signal.SIGKILL)


def run_together(
    name: str,
    processes: Sequence[Process],
    watch: AbstractContextManager[None] | None = None,
    grace: float = GRACE_SECONDS,
    output: Output | None = None,
) -> int:
    """Runs all processes to their end and returns the exit code of the first that failed, or 0.

    The first process is the chief: its output goes to the terminal, or to `output`. Of another
    one that fails, the last line of its log is shown on stderr, and where the log is. `watch` is
    entered while they run. Whoever ends this by an exception, such as that of Ctrl-C, gives
    them `grace` seconds to end by themselves.
    """
    output = output or Output()
    with _started(name, processes, grace, output) as running:
        with watch or contextlib.nullcontext():
            first = _wait(running)
        return 0 if first is None else _settle(running, first, output)


def _settle(running: Sequence[Running], first: Running, output: Output) -> int:
    """Ends a group of which `first` has failed, tells what failed, and returns the exit code."""
    _wait_for_all(running, SETTLE_SECONDS)
    failed = [first, *(process for process in running if process.code and process is not first)]
    end_all(running)
    output.finish()  # the chief's own words come first
    # All workers find a mistake of the user's; the chief has told it on the terminal.
    mistaken = [process for process in running if process in failed and process.code == USER_MISTAKE]
    if mistaken:
        _show(last_line(mistaken[0]))
        return USER_MISTAKE
    # With these codes, the chief has told why.
    named = [process for process in failed if process.log or process.code not in (JOB_FAILED, DRIFT)]
    if named:
        _show(f"beamfeed: {_describe(named[0])}", last_line(named[0]))
    if rest := named[1:]:
        more = f", and {len(rest) - 1} more" if len(rest) > 1 else ""
        _show(f"beamfeed: {_describe(rest[0])}{more}")
    # A job that failed takes its workers with it, which then miss each other.
    return JOB_FAILED if any(process.code == JOB_FAILED for process in failed) else first.code or 0


def end_all(running: Sequence[Running], grace: float = GRACE_SECONDS) -> None:
    """Ends the processes and what they started: SIGTERM, and SIGKILL for those still there after `grace`.

    A TensorFlow worker that waits for the others does not act on SIGTERM. A
    second Ctrl-C cuts the wait short.
    """
    try:
        for process in running:
            process.terminate()
        _wait_for_all(running, grace)
    finally:
        for process in running:
            process.kill()


@contextlib.contextmanager
def _started(name: str, processes: Sequence[Process], grace: float, output: Output) -> Iterator[list[Running]]:
    """Starts the processes; whatever is left of them at the end is ended, with `grace` to do so by themselves."""
    running: list[Running] = []
    try:
        for index, process in enumerate(processes):
            title = name if len(processes) == 1 else f"{name} worker {index} of {len(processes)}"
            running.append(start_process(title, process, output))
        yield running
    finally:
        try:
            end_all(running, grace)
        finally:
            output.finish()
            for started in running:
                if started.log:
                    started.log.close()


def start_process(title: str, process: Process, output: Output | None = None) -> Running:
    """Starts a process, which the caller must end; the kernel does where this one is killed. Closes no log."""
    output = output or Output()
    log = _open_log(process.log)
    try:
        popen = subprocess.Popen(
            process.command,
            env={**os.environ, **process.env},
            stdin=subprocess.DEVNULL,
            stdout=log or output.stdout,
            stderr=subprocess.STDOUT if log else output.stderr,
            start_new_session=True,  # Ctrl-C reaches the launcher alone, which ends its children in order
            preexec_fn=_death_signal(),
        )
    except BaseException:
        if log:
            log.close()
        raise
    return Running(title, process, popen, log)


def _open_log(path: str | None) -> IO[bytes] | None:
    if path is None:
        return None
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return open(path, "w+b")  # read through the same handle: a restarted training may clear the folder under it


def _death_signal() -> Callable[[], None] | None:
    """What a child calls before its command so that the kernel ends it if the launcher is killed."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up here: all that is left to do in the child is the call
    set_death_signal = 1

    def before_exec() -> None:
        prctl(set_death_signal, int(signal.SIGKILL))

    return before_exec


def _wait(running: Sequence[Running]) -> Running | None:
    """Returns the first process seen to fail, or None when all have ended well."""
    while True:
        ended = [process.ended() for process in running]
        # From the last: of two that failed at once, the chief is the one whose reason is on the terminal already.
        for process in reversed(running):
            if process.code:
                return process
        if all(ended):
            return None
        time.sleep(POLL_SECONDS)


def _wait_for_all(running: Sequence[Running], seconds: float) -> None:
    end = time.monotonic() + seconds
    while True:
        ended = [process.ended() for process in running]
        if all(ended) or time.monotonic() >= end:
            return
        time.sleep(POLL_SECONDS)


def _describe(running: Running) -> str:
    ending = (
        f"was ended by {signal.Signals(running.signal).name}"
        if running.signal
        else f"ended with exit code {running.code}"
    )
    if running.signal == signal.SIGKILL:
        ending += ", as a system does that runs out of memory"
    return f"{running.title} {ending}" + (f"; its log is {running.process.log}" if running.log else "")


def _show(*lines: str) -> None:
    for line in filter(None, lines):
        print(line, file=sys.stderr, flush=True)


def last_line(process: Running) -> str:
    """The last line of a process's log that is not empty; empty where the terminal has shown it."""
    if process.log is None:
        return ""
    process.log.seek(max(0, process.log.seek(0, os.SEEK_END) - TAIL_BYTES))
    return text.last_line(process.log.read())
