"""How far a stage is: what its processes appended to files of a folder, see `beamfeed.contract.progress`."""

import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

SUFFIX = ".jsonl"
POLL_SECONDS = 0.1
RATE_SECONDS = 30.0  # a rate is that of so long a time
KEYS = {
    **dict.fromkeys(("assets", "rows", "total_assets", "total_rows", "done", "total"), int),
    **dict.fromkeys(("stage", "phase", "unit", "note"), str),
    "evaluation": dict,
}
KINDS = {"stage", "phase", "evaluation"}  # each event has one of these keys
COUNTED = {"scan": "files", "verify": "shards"}  # what "assets" counts in steps that handle something else
LAST = ("write", "train")  # steps after which little is left to do of their stage


class ProgressReader:
    """Reads the lines that were added to a folder's progress files since the last time."""

    def __init__(self, folder: str):
        self._folder = folder
        self._read: dict[str, int] = {}  # bytes of each file

    def read(self) -> list[dict[str, Any]]:
        """The new events. A line still being written is left for the next time; a folder may come late, and go."""
        events = []
        with suppress(FileNotFoundError):
            for name in sorted(os.listdir(self._folder)):
                if name.endswith(SUFFIX):
                    events += [event for line in self._new_lines(name) if (event := parse_event(line))]
        return events

    def _new_lines(self, name: str) -> list[bytes]:
        with open(os.path.join(self._folder, name), "rb") as file:
            file.seek(self._read.get(name, 0))
            complete = file.read().rpartition(b"\n")
        self._read[name] = self._read.get(name, 0) + len(complete[0]) + len(complete[1])
        return complete[0].splitlines()


def parse_event(line: bytes) -> dict[str, Any] | None:
    """One line as an event; None for what is none: a drawing is not worth a failure."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    if not isinstance(event, dict) or len(KINDS & event.keys()) != 1:
        return None
    return event if all(isinstance(event[key], kind) for key, kind in KEYS.items() if key in event) else None


@dataclass
class Step:
    """What is known of one step of a stage, such as scan, validate, write, verify; or train."""

    name: str
    assets: int = 0
    rows: int = 0
    total_assets: int | None = None
    total_rows: int | None = None
    at: int | None = None  # of those that say where they are, and not what is new
    total: int | None = None
    unit: str = ""
    note: str = ""
    started: float = 0.0
    ended: float | None = None
    _from: int = 0  # what was done before
    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    @property
    def counted(self) -> str:
        return COUNTED.get(self.name, "assets")

    def add(self, event: dict[str, Any], now: float) -> None:
        if "done" in event:
            if self.at is None:
                self._from = event["done"]
            self.at, self.total = event["done"], event.get("total") or self.total
            self.unit, self.note = event.get("unit", self.unit), event.get("note", self.note)
        self.total_assets = event.get("total_assets") or self.total_assets  # 0: not known
        self.total_rows = event.get("total_rows") or self.total_rows
        self.assets += event.get("assets", 0)
        self.rows += event.get("rows", 0)
        # From the first that was done on: it has the start-up in it, such as what is compiled.
        done = self.measure()[0]
        if self._samples and done < self._samples[-1][1]:  # started again, from a checkpoint
            self._samples.clear()
            self._from = done
        if done > self._from:
            self._samples.append((now, done))
        while len(self._samples) > 2 and self._samples[0][0] < now - RATE_SECONDS:
            self._samples.popleft()
        if self.done() and self.ended is None:
            self.ended = now

    def done(self) -> bool:
        """Whether all that was announced has been done. A worker that tried twice may have counted more."""
        totals = [(self.assets, self.total_assets), (self.rows, self.total_rows), (self.at or 0, self.total)]
        bounded = [(count, total) for count, total in totals if total is not None]
        return bool(bounded) and all(count >= total for count, total in bounded)

    def measure(self) -> tuple[int, int | None, str]:
        """What a bar shows: how much, of how much, of what. Rows where they are counted, else assets."""
        if self.at is not None:
            return _at_most(self.at, self.total), self.total, self.unit
        if self.total_rows is not None or (self.rows and self.total_assets is None):
            return _at_most(self.rows, self.total_rows), self.total_rows, "rows"
        return _at_most(self.assets, self.total_assets), self.total_assets, self.counted

    def rate(self) -> float | None:
        """How much of what is measured is done in a second, of late; None where that cannot be said yet."""
        if not self._samples:
            return None
        (first, before), (last, after) = self._samples[0], self._samples[-1]
        # Of less than a second it would be a matter of luck.
        return (after - before) / (last - first) if last - first >= 1.0 and after > before else None

    def seconds_left(self, now: float) -> float | None:
        """Until all is done, at this rate; None where that is not known."""
        done, total, _ = self.measure()
        rate = self.rate()
        if total is None or rate is None or self.ended is not None:
            return None
        return max(0.0, (total - done) / rate - (now - self._samples[-1][0]))

    def counts(self) -> list[tuple[int, str]]:
        """What was done, and of what."""
        if self.at is not None:
            return [(self.at - self._from, self.unit)]
        assets = (_at_most(self.assets, self.total_assets), self.counted)
        return [assets, (_at_most(self.rows, self.total_rows), "rows")] if self.rows else [assets]


@dataclass
class StageProgress:
    """What is known of a stage that runs.

    Attributes:
      name: of the stage.
      started: when, by `time.monotonic`.
      number: of the stage, from 1, among `of` that are run.
      steps: by name, in the order in which they began.
      phase: what is going on that is not counted, empty where a step is.
      now: the name of the step that was told of last.
      evaluations: what was measured so far.
    """

    name: str
    started: float
    number: int = 1
    of: int = 1
    steps: dict[str, Step] = field(default_factory=dict)
    phase: str = "starting"
    now: str = ""
    evaluations: list[dict[str, Any]] = field(default_factory=list)

    def add(self, event: dict[str, Any], now: float) -> None:
        """Takes an event in."""
        if "phase" in event:
            self.phase = event["phase"]
            return
        if "evaluation" in event:
            self.evaluations.append(event["evaluation"])
            return
        self.phase, self.now = "", event["stage"]
        self.steps.setdefault(self.now, Step(self.now, started=now)).add(event, now)

    def step(self) -> Step | None:
        """The step to show: that which was told of last, or one before it that still goes on."""
        going = [step for step in self.steps.values() if step.ended is None]
        if self.now and self.steps[self.now] in going:
            return self.steps[self.now]
        return going[-1] if going else self.steps.get(self.now)

    def run_left(self, now: float) -> float | None:
        """Seconds until the end of the run; None where much may come after the step that goes on."""
        step = self.step()
        if step is None or step.name not in LAST or self.number < self.of:
            return None
        return step.seconds_left(now)


def _at_most(count: int, total: int | None) -> int:
    return count if total is None else min(count, total)


@contextmanager
def watching(folder: str, progress: StageProgress, show: Callable[[StageProgress], None]) -> Iterator[None]:
    """Takes in what arrives in `folder` while the block runs, and shows it, from a thread of its own.

    Where the block is interrupted, `stopping` is the phase from then on.
    """
    stop = threading.Event()
    thread = threading.Thread(target=_follow, args=(ProgressReader(folder), progress, show, stop), daemon=True)
    thread.start()
    try:
        try:
            yield
        finally:
            stop.set()
            thread.join()
    except (KeyboardInterrupt, SystemExit):
        progress.phase = "stopping"
        raise


def _follow(
    reader: ProgressReader, progress: StageProgress, show: Callable[[StageProgress], None], stop: threading.Event
) -> None:
    stopping = False
    while not stopping:
        stopping = stop.wait(POLL_SECONDS)  # read once more after the end
        now = time.monotonic()
        for event in reader.read():
            progress.add(event, now)
        show(progress)
