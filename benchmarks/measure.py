"""Runs a command and measures its whole process tree: wall time, CPU time and peak memory."""

import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

SAMPLE_SECONDS = 0.05


class CommandFailed(Exception):
    """The command's exit code and the end of what it said."""


@dataclass(frozen=True)
class Measured:
    """
    Attributes:
      cpu_seconds: user and system, of the process and the descendants that it waited for.
      peak_rss_mb: the highest sum of the resident memory of all processes of the tree.
        Pages that they share count once for each.
    """

    seconds: float
    cpu_seconds: float
    peak_rss_mb: float


def median(runs: Sequence[Measured]) -> Measured:
    """Each column's own median: the run in the middle by time need not be so by memory."""
    columns = zip(*((run.seconds, run.cpu_seconds, run.peak_rss_mb) for run in runs), strict=True)
    return Measured(*(statistics.median(column) for column in columns))


def tree_rss(pid: int) -> int:
    """Bytes of resident memory of a process and all its descendants; 0 if it is gone."""
    try:
        root = psutil.Process(pid)
        processes = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0
    total = 0
    for process in processes:
        try:
            total += process.memory_info().rss
        except psutil.Error:  # it ended meanwhile
            continue
    return total


def measure(command: Sequence[str], log: str) -> Measured:
    """Runs a command to its end; what it prints goes to the file `log`.

    Raises:
      CommandFailed: if it does not exit with 0.
    """
    with open(log, "wb") as output:
        started = time.monotonic()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        peak, ended = 0, threading.Event()

        def sample() -> None:
            nonlocal peak
            while not ended.wait(SAMPLE_SECONDS):
                peak = max(peak, tree_rss(process.pid))

        sampler = threading.Thread(target=sample, daemon=True)
        sampler.start()
        # wait4 gives the kernel's own account of CPU time. Its peak memory is of no use: it starts at this process's.
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        ended.set()
        sampler.join()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # workers that it left behind
    if process.returncode:
        with open(log, encoding="utf-8", errors="replace") as output:
            last = output.read()[-500:].strip()
        raise CommandFailed(f"exit code {process.returncode}: {last}")
    return Measured(seconds, usage.ru_utime + usage.ru_stime, peak / 2**20)


def measure_writing(command: Sequence[str], output: Path, log: Path) -> Measured:
    """Measures a command that writes a folder; what an earlier one wrote is gone from it, and from the page cache."""
    shutil.rmtree(output, ignore_errors=True)
    os.sync()
    return measure(command, str(log))


def without_start_up(run: Callable[[int], Measured], small: int, large: int, unit: str) -> dict[str, float]:
    """What each of many rows or images takes beyond the start-up.

    Args:
      run: on so many of them.
      small: so many that they are next to none.
      unit: their name, such as `rows`.
    """
    start_up, total, more = run(small), run(large), large - small
    return {
        "start_up": start_up.seconds,
        "whole": total.seconds,
        f"{unit}_per_second": more / (total.seconds - start_up.seconds),
        "cpu_ms": 1e3 * (total.cpu_seconds - start_up.cpu_seconds) / more,
        "peak_rss_mb": total.peak_rss_mb,
    }
