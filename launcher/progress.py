"""Shows how far preprocessing has come.

Its workers append JSON lines to files of their own in one folder:
{"stage": "write", "assets": 1, "rows": 20000} for what was done since the last
line, {"stage": "write", "total_assets": 12, "total_rows": 240000} when known.
A thread here reads what is new and draws it.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

SUFFIX = ".jsonl"
POLL_SECONDS = 0.3
KEYS = ("assets", "rows", "total_assets", "total_rows")
COUNTED = {"scan": "files", "verify": "shards"}  # what "assets" counts in steps that handle something else


class ProgressReader:
    """Reads the lines that were added to a folder's progress files since the last time."""

    def __init__(self, folder: str):
        self._folder = folder
        self._read: dict[str, int] = {}  # bytes of each file

    def read(self) -> list[dict[str, Any]]:
        """The new events. A line still being written is left for the next time."""
        events = []
        for name in sorted(os.listdir(self._folder)):
            if name.endswith(SUFFIX):
                events += [event for line in self._new_lines(name) if (event := parse_event(line))]
        return events

    def _new_lines(self, name: str) -> list[bytes]:
        with open(os.path.join(self._folder, name), "rb") as file:
            file.seek(self._read.get(name, 0))
            whole = file.read().rpartition(b"\n")
        self._read[name] = self._read.get(name, 0) + len(whole[0]) + len(whole[1])
        return whole[0].splitlines()


def parse_event(line: bytes) -> dict[str, Any] | None:
    """One line as an event; None for what is none: a drawing is not worth a failure."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    if not isinstance(event, dict) or not isinstance(event.get("stage"), str):
        return None
    return event if all(isinstance(event.get(key, 0), int) for key in KEYS) else None


@dataclass
class Step:
    """What is known of one step of the preprocessing (scan, validate, write, verify)."""

    name: str
    assets: int = 0
    rows: int = 0
    total_assets: int | None = None
    total_rows: int | None = None
    started: float = 0.0
    ended: float | None = None

    @property
    def counted(self) -> str:
        return COUNTED.get(self.name, "assets")

    def add(self, event: dict[str, Any], now: float) -> None:
        self.total_assets = event.get("total_assets") or self.total_assets  # 0: not known
        self.total_rows = event.get("total_rows") or self.total_rows
        self.assets += event.get("assets", 0)
        self.rows += event.get("rows", 0)
        if self.done() and self.ended is None:
            self.ended = now

    def done(self) -> bool:
        """Whether all that was announced has been done. A worker that tried twice may have counted more."""
        totals = [(self.assets, self.total_assets), (self.rows, self.total_rows)]
        known = [(count, total) for count, total in totals if total is not None]
        return bool(known) and all(count >= total for count, total in known)

    def measure(self) -> tuple[int, int | None, str]:
        """What a bar shows: how much, of how much, of what. Rows where they are counted, else assets."""
        if self.total_rows is not None or (self.rows and self.total_assets is None):
            return _at_most(self.rows, self.total_rows), self.total_rows, "rows"
        return _at_most(self.assets, self.total_assets), self.total_assets, self.counted

    def summary(self) -> str:
        """The step in one line, such as 'write: 12 assets, 240,000 rows in 3.1 s (77,419 rows/s)'."""
        counts = [f"{_at_most(self.assets, self.total_assets):,} {self.counted}"]
        if self.rows:
            counts.append(f"{_at_most(self.rows, self.total_rows):,} rows")
        seconds = (self.ended or self.started) - self.started
        rate = f" ({self.rows / seconds:,.0f} rows/s)" if self.rows and seconds >= 0.1 else ""
        return f"{self.name}: {', '.join(counts)} in {seconds:.1f} s{rate}"


def _at_most(count: int, total: int | None) -> int:
    return count if total is None else min(count, total)


class Display(Protocol):
    """Where progress is drawn."""

    def show(self, steps: Sequence[Step]) -> None:
        """Draws the steps as they are now."""

    def close(self, steps: Sequence[Step]) -> None:
        """Draws them for the last time."""


class Bars:
    """A bar for each step, on a terminal."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._bars: dict[str, Any] = {}

    def show(self, steps: Sequence[Step]) -> None:
        for step in steps:
            count, total, unit = step.measure()
            bar = self._bars.get(step.name) or self._new_bar(step.name)
            if bar.disable:  # closed: it stays as it was drawn last
                continue
            bar.n, bar.total, bar.unit, bar.unit_scale = count, total, f" {unit}", unit == "rows"
            if unit == "rows" and (step.assets or step.total_assets):
                of = "" if step.total_assets is None else f"/{step.total_assets}"
                bar.set_postfix_str(f"{_at_most(step.assets, step.total_assets)}{of} {step.counted}", refresh=False)
            bar.refresh()
            if step.ended is not None:
                bar.close()

    def close(self, steps: Sequence[Step]) -> None:
        self.show(steps)
        for bar in self._bars.values():
            bar.close()

    def _new_bar(self, name: str) -> Any:
        from tqdm import tqdm

        self._bars[name] = tqdm(
            desc=f"{name:<8}",
            file=self._stream,
            dynamic_ncols=True,
            delay=0.001,  # nothing is drawn before there is something to show
        )
        return self._bars[name]


class Lines:
    """A plain line for each step when it has ended: for logs."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._told: set[str] = set()

    def show(self, steps: Sequence[Step]) -> None:
        self._tell(step for step in steps if step.ended is not None)

    def close(self, steps: Sequence[Step]) -> None:
        self._tell(steps)

    def _tell(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if step.name not in self._told:
                self._told.add(step.name)
                print(step.summary(), file=self._stream, flush=True)


@contextmanager
def watching(folder: str, stream: TextIO | None = None) -> Iterator[None]:
    """Shows what arrives in `folder` while the block runs."""
    stream = stream or sys.stderr
    display: Display = Bars(stream) if stream.isatty() else Lines(stream)
    stop = threading.Event()
    thread = threading.Thread(target=_follow, args=(ProgressReader(folder), display, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _follow(reader: ProgressReader, display: Display, stop: threading.Event) -> None:
    steps: dict[str, Step] = {}
    stopping = False
    while not stopping:
        stopping = stop.wait(POLL_SECONDS)  # read once more after the end
        now = time.monotonic()
        for event in reader.read():
            step = steps.setdefault(event["stage"], Step(event["stage"], started=now))
            step.add(event, now)
        if stopping:
            for step in steps.values():
                step.ended = step.ended or now
        display.show(list(steps.values()))
    display.close(list(steps.values()))
