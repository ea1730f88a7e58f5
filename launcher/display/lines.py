"""Plain lines with the time: for logs, for CI, and for terminals that can do no more."""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from beamfeed.launcher.display.base import Display
from beamfeed.launcher.display.copied import shown_stderr
from beamfeed.launcher.display.words import clock, ended_line, going_line
from beamfeed.launcher.progress import StageProgress

EVERY_SECONDS = 30.0  # between lines about a step that takes long


class Telling(Display):
    """Tells what has ended in lines, whatever a line is made to be.

    Args:
      write: takes a line.
    """

    def __init__(self, write: Callable[[str], None]):
        self._write = write
        self._reported: set[tuple[str, str]] = set()  # stages and steps

    def width(self) -> int | None:
        """Columns that a line should not pass; None where any number is right."""
        return None

    def skipped(self, stage: str, reason: str) -> None:
        self._write(f"{stage}: complete, nothing to do: {reason}")

    def begins(self, stage: StageProgress, reason: str) -> None:
        self._write(f"{stage.name}: {reason}")

    def show(self, stage: StageProgress) -> None:
        for step in list(stage.steps.values()):
            # A training run has lines of its own, for each evaluation.
            if step.at is None and step.ended is not None and (stage.name, step.name) not in self._reported:
                self._reported.add((stage.name, step.name))
                self._write(ended_line(stage.name, step, self.width()))

    def ends(self, stage: StageProgress, code: int, seconds: float) -> None:
        if code:  # the stage, or who ran it, has told why
            return
        for step in stage.steps.values():  # of which it was not known how much they had to do
            step.ended = step.ended or stage.started + seconds
        Telling.show(self, stage)
        self._write(f"{stage.name}: done in {clock(seconds) if seconds >= 60 else f'{seconds:.1f} s'}")

    def say(self, line: str) -> None:
        self._write(line)

    def summary(self, text: str, values: Mapping[str, Any]) -> None:
        print(text, flush=True)


class Lines(Telling):
    """Lines on stderr, also about what is going on: now and then, and where another phase begins."""

    def __init__(self) -> None:
        stream = shown_stderr()  # a log that copies what is printed has these lines already
        super().__init__(lambda line: print(f"{datetime.now():%H:%M:%S} {line}", file=stream, flush=True))
        self._last = time.monotonic()
        self._phases: set[tuple[str, str]] = set()

    def begins(self, stage: StageProgress, reason: str) -> None:
        super().begins(stage, reason)
        self._last = time.monotonic()
        self._phases.add((stage.name, stage.phase))  # the line above has said it

    def show(self, stage: StageProgress) -> None:
        super().show(stage)
        now, step = time.monotonic(), stage.step()
        if stage.phase:
            if (stage.name, stage.phase) not in self._phases:
                self._phases.add((stage.name, stage.phase))
                self._write(f"{stage.name}: {stage.phase}")
        elif step is not None and step.ended is None and now - self._last >= EVERY_SECONDS:
            self._last = now
            self._write(going_line(stage, step, now))
