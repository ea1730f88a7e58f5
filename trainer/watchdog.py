"""Ends a process that waits for others without end, and says whom it waited for.

A worker that waits for another one is blocked in C++ and acts on nothing. So two
threads watch: one that the training goes on, one for SIGTERM, which asks to stop.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

# Exit codes that say: start me again. 128 and more, as launchers expect of what a signal ended.
LOST = 138  # another worker is gone; Kubeflow keeps it for programs that want to be started again
PREEMPTED = 143  # 128 + SIGTERM

PROBE_SECONDS = 2.0
GRACE_SECONDS = 20.0  # from SIGTERM to the end; clusters kill after 30 s


class Lost(Exception):
    """Another worker has gone; the message says which."""


class Preempted(Exception):
    """This worker or another one was asked to stop; a checkpoint is written."""


class Watchdog:
    """Watches one worker.

    Args:
      addresses: host:port of all workers, in order; empty if this one is alone.
      worker: this worker's number.
      seconds: without a sign of life after which the process ends.
      end: what ends it, given the exit code.
    """

    def __init__(self, addresses: Sequence[str], worker: int, seconds: float, end: Callable[[int], None] = os._exit):
        self._addresses, self._worker, self._seconds, self._end = tuple(addresses), worker, seconds, end
        self._last, self._what = time.monotonic(), "start"
        self._done = threading.Event()
        self.stop_asked = False

    def alive(self, what: str) -> None:
        """A sign of life; from here on the process is busy with `what`."""
        self._what, self._last = what, time.monotonic()

    @contextlib.contextmanager
    def watching(self) -> Iterator["Watchdog"]:
        """Watches until the block ends. SIGTERM must be blocked in all threads, see `block_sigterm`."""
        threads = [threading.Thread(target=self._wait_for_sigterm, daemon=True)]
        if len(self._addresses) > 1:
            threads.append(threading.Thread(target=self._watch, daemon=True))
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._done.set()

    def _watch(self) -> None:
        while not self._done.wait(min(1.0, self._seconds / 4)):
            if time.monotonic() - self._last > self._seconds:
                self._leave(
                    LOST,
                    f"waited {self._seconds:g} s for the other workers ({self._what}): "
                    f"{self.describe_others()}; started again, all go on from the last checkpoint",
                )

    def _wait_for_sigterm(self) -> None:
        while not self._done.is_set():
            if signal.sigtimedwait({signal.SIGTERM}, 0.5) is None:
                continue
            self.stop_asked = True
            waited = 0.0
            # A worker that is not training yet has nothing to save.
            while self._what == "training" and waited < GRACE_SECONDS and not self._done.wait(0.1):
                waited += 0.1
            if not self._done.is_set():
                self._leave(PREEMPTED, f"asked to stop by SIGTERM ({self._what})")
            return

    def _leave(self, code: int, why: str) -> None:
        print(f"worker {self._worker}: {why}", file=sys.stderr, flush=True)
        self._end(code)

    def describe_others(self) -> str:
        """Which workers do not answer."""
        silent = [
            f"worker {i} ({address})"
            for i, address in enumerate(self._addresses)
            if i != self._worker and not answers(address)
        ]
        if not silent:
            return "all answer, but one of them does not go on"
        return f"{', '.join(silent)} {'does' if len(silent) == 1 else 'do'} not answer"


def answers(address: str) -> bool:
    """Whether something listens at host:port."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), PROBE_SECONDS):
            return True
    except (OSError, ValueError):
        return False


def block_sigterm() -> None:
    """To be called before the first thread starts: all inherit it, and only the watchdog receives the signal."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
