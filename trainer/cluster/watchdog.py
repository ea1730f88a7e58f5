"""Ends a process that waits for others without end, and says whom it waited for.

A worker that waits for another one is blocked in C++, sometimes with Python's lock,
and then no thread of its own can act. So a small process beside it watches. It is
told by a pipe that the worker goes on, and by Python's wake-up file of SIGTERM.
"""

import contextlib
import math
import os
import re
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

from beamfeed.trainer.cluster.rendezvous import split_address

# Exit codes that say: start me again. 128 and more, as launchers expect of what a signal ended.
LOST = 128 + signal.SIGUSR1  # another worker is gone; Kubeflow keeps 138 for programs that want to be started again
PREEMPTED = 128 + signal.SIGTERM

PROBE_SECONDS = 2.0
PROBES = 32  # at a time
GREETING_SECONDS = 5.0  # for the first bytes of a server; on a busy machine too it takes less than one
POLL_SECONDS = 0.2
GRACE_SECONDS = 20.0  # from SIGTERM to the end; clusters kill after 30 s
SIGN = re.compile(r"^([\d.e+]+|inf) ([01]) (.+)$", re.MULTILINE)  # of life; numbers of signals may stand between
LONGER = 10.0  # times the limit, for what is known to take long
LINGER_SECONDS = 1.0  # before a worker ends: others may still be fetching from it what it told them last


class Lost(Exception):
    """Another worker has gone; the message says which."""


class Preempted(Exception):
    """This worker or another one was asked to stop; the checkpoint of this step is written."""

    def __init__(self, step: int):
        super().__init__(f"asked to stop at step {step}")
        self.step = step


class Watchdog:
    """Watches one worker.

    Args:
      addresses: host:port of all workers, in order; empty if this one is alone.
      worker: this worker's number.
      seconds: without a sign of life after which the process ends.

    Attributes:
      stop_asked: whether SIGTERM has come.
    """

    def __init__(self, addresses: Sequence[str] = (), worker: int = 0, seconds: float = 120.0):
        self._addresses, self._worker, self._seconds = tuple(addresses), worker, seconds
        self._pipe: int | None = None
        self.stop_asked = False

    def alive(self, activity: str, takes: float = 0.0) -> None:
        """A sign of life; from here on the process is busy with `activity`.

        Args:
          activity: is told if no other sign comes.
          takes: seconds, by what was seen; ten times that are allowed if it is more than the limit.
        """
        self._sign(max(self._seconds, LONGER * takes), False, activity)

    def joining(self, activity: str, limit: float) -> None:
        """From here on the process waits for others that may not be there yet, for so many seconds."""
        self._sign(limit, False, activity)

    def long(self, activity: str) -> None:
        """From here on the process, or another that it waits for, is busy with what may take long.

        It has ten times the limit. After each limit the others are looked for, and one that is gone ends the waiting.
        """
        self._sign(LONGER * self._seconds, True, activity)

    def alone(self, activity: str) -> None:
        """From here on the process is busy with `activity`, and waits for nobody."""
        self._sign(math.inf, False, activity)

    def _sign(self, limit: float, looks: bool, activity: str) -> None:
        if self._pipe is not None:
            with contextlib.suppress(BlockingIOError):  # it has more than enough of them
                os.write(self._pipe, f"{limit:g} {looks:d} {activity}\n".encode())

    @contextlib.contextmanager
    def watching(self) -> Iterator["Watchdog"]:
        """Watches until the block ends. To be called while the process has one thread."""
        if len(self._addresses) < 2:
            yield self
            return
        reader, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        # TensorFlow would take the signal, and do nothing about it while it waits for the others to come.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        parent = os.getpid()
        if os.fork() == 0:
            os.close(self._pipe)
            try:
                self._watch(reader, parent)
            finally:
                os._exit(0)
        os.close(reader)
        try:
            yield self
        finally:
            os.close(self._pipe)  # ends the other process
            self._pipe = None

    def save_on_sigterm(self) -> None:
        """From here on SIGTERM asks to stop, where it ended the process before. For the main thread."""

        def ask(number: int, frame: FrameType | None) -> None:
            self.stop_asked = True

        signal.signal(signal.SIGTERM, ask)
        if self._pipe is not None:
            signal.set_wakeup_fd(self._pipe, warn_on_full_buffer=False)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # one that has come arrives now

    def wait_for_chief(self) -> None:
        """Returns when the chief has ended: nothing listens any more where it did."""
        self.alone("waiting for the chief's export")
        while answers(self._addresses[0]):
            time.sleep(POLL_SECONDS)

    def silent(self) -> list[str]:
        """The other workers at whose addresses nothing listens."""
        return self._others(answers)

    def _others(self, is_well: Callable[[str], bool]) -> list[str]:
        """The other workers whose addresses fail a check."""
        others = [(i, address) for i, address in enumerate(self._addresses) if i != self._worker]
        with ThreadPoolExecutor(PROBES) as threads:  # each may take seconds to fail
            well = list(threads.map(is_well, [address for _, address in others]))
        return [f"worker {i} ({address})" for (i, address), good in zip(others, well, strict=True) if not good]

    def describe_others(self) -> str:
        """Which workers are frozen, and which do not answer."""
        silent = self.silent()
        frozen = [worker for worker in self._others(greets) if worker not in silent]
        parts = [f"{', '.join(frozen)} {'is' if len(frozen) == 1 else 'are'} frozen"] if frozen else []
        parts += [f"{', '.join(silent)} {'does' if len(silent) == 1 else 'do'} not answer"] if silent else []
        return "; ".join(parts) or "all answer, but one of them does not go on"

    def _watch(self, pipe: int, parent: int) -> None:
        """Reads signs of life until there are no more to come, or for too long none has come."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # meant for the other process
        began = time.monotonic()
        activity, end, look, stopping = "start", began + self._seconds, math.inf, False
        while (now := time.monotonic()) < end:
            if now > look:
                if self.silent():
                    break
                look = time.monotonic() + self._seconds
            ready, _, _ = select.select([pipe], [], [], min(1.0, end - now))
            if not stopping and is_pending(parent, signal.SIGTERM):
                self._end(parent, signal.SIGKILL, f"asked to stop ({activity})")
                return
            if not ready:
                continue
            received = os.read(pipe, 1 << 16)
            if not received:
                return
            if bytes([signal.SIGTERM]) in received:
                stopping, end, look = True, time.monotonic() + GRACE_SECONDS, math.inf
            signs = SIGN.findall(received.decode(errors="replace"))
            if signs and not stopping:
                limit, looks, activity = signs[-1]
                began = time.monotonic()
                end, look = began + float(limit), began + self._seconds if looks == "1" else math.inf
        if stopping:
            self._end(parent, signal.SIGKILL, f"asked to stop, and still not done after {GRACE_SECONDS:g} s")
        else:
            self._end(
                parent,
                signal.SIGUSR1,
                f"waited {time.monotonic() - began:.0f} s for the other workers ({activity}): "
                f"{self.describe_others()}; started again, all go on from the last checkpoint",
            )

    def _end(self, parent: int, number: int, why: str) -> None:
        print(f"worker {self._worker}: {why}", file=sys.stderr, flush=True)
        os.kill(parent, number)


def is_pending(process: int, number: int) -> bool:
    """Whether a signal waits until a process unblocks it; False where the system does not tell.

    One that is not blocked may be pending as well, for a moment on a busy machine: the process will take it.
    """
    try:
        with open(f"/proc/{process}/status", encoding="ascii") as file:
            masks = dict(line.split()[:2] for line in file if line.startswith(("ShdPnd:", "SigBlk:")))
        waiting = int(masks["ShdPnd:"], 16) & int(masks["SigBlk:"], 16)
    except (OSError, ValueError, KeyError):
        return False
    return bool(waiting >> (number - 1) & 1)


def answers(address: str) -> bool:
    """Whether something listens at host:port."""
    try:
        with socket.create_connection(split_address(address), PROBE_SECONDS):
            return True
    except (OSError, ValueError):
        return False


def greets(address: str) -> bool:
    """Whether the process at host:port says something to whoever connects.

    TensorFlow's server does at once, as each of HTTP/2, and from threads that wait for no Python. For a process that is
    stopped, the system takes connections, but nothing comes.
    """
    try:
        with socket.create_connection(split_address(address), PROBE_SECONDS) as connection:
            connection.settimeout(GREETING_SECONDS)
            connection.recv(1)  # one that closes the connection runs as well
            return True
    except TimeoutError:
        return False
    except (OSError, ValueError):
        return True
