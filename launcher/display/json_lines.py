"""`--json`: an object a line on stdout, for programs. docs/terminal.md says what its keys mean; they stay."""

import sys
import time
from collections.abc import Mapping
from typing import Any

from beamfeed.contract.events import emit_event
from beamfeed.launcher.display.base import Display
from beamfeed.launcher.processes import Output
from beamfeed.launcher.progress import StageProgress, Step

EVERY_SECONDS = 1.0  # between events about how far a step is


class JsonLines(Display):
    """Writes events. What the processes of a stage print goes to stderr."""

    def __init__(self) -> None:
        self._last = 0.0
        self._phase = ""
        self._evaluated = 0  # of the stage
        self._begun: set[tuple[str, str]] = set()  # stages and steps
        self._ended: set[tuple[str, str]] = set()

    def skipped(self, stage: str, reason: str) -> None:
        emit_event("stage", stage=stage, state="complete", reason=reason)

    def begins(self, stage: StageProgress, reason: str) -> None:
        emit_event("stage", stage=stage.name, state="begins", reason=reason)
        self._phase, self._evaluated = stage.phase, 0

    def show(self, stage: StageProgress) -> None:
        for step in list(stage.steps.values()):
            self._step(stage.name, step)
        if stage.phase and stage.phase != self._phase:
            emit_event("phase", stage=stage.name, phase=stage.phase)
        self._phase = stage.phase
        self._evaluations(stage)
        now, going = time.monotonic(), stage.step()
        if going is not None and going.ended is None and now - self._last >= EVERY_SECONDS:
            self._last = now
            rate, left = going.rate(), going.seconds_left(now)
            emit_event(
                "progress",
                **_counts(stage.name, going),
                per_second=None if rate is None else round(rate, 3),
                seconds_left=None if left is None else round(left, 1),
            )

    def ends(self, stage: StageProgress, code: int, seconds: float) -> None:
        for step in stage.steps.values() if code == 0 else ():
            step.ended = step.ended or stage.started + seconds
            self._step(stage.name, step)
        self._evaluations(stage)
        state = "failed" if code else "done"
        emit_event("stage", stage=stage.name, state=state, code=code, seconds=round(seconds, 3))

    def say(self, line: str) -> None:
        emit_event("note", text=line)

    def summary(self, text: str, values: Mapping[str, Any]) -> None:
        emit_event("summary", **values)

    def output(self) -> Output:
        output = Output()
        output.stdout = sys.stderr.fileno()
        return output

    def _evaluations(self, stage: StageProgress) -> None:
        for values in stage.evaluations[self._evaluated :]:
            emit_event("evaluation", stage=stage.name, values=values)
        self._evaluated = len(stage.evaluations)

    def _step(self, stage: str, step: Step) -> None:
        name = (stage, step.name)
        if name not in self._begun:
            self._begun.add(name)
            emit_event("step", stage=stage, step=step.name, state="begins")
        if step.ended is not None and name not in self._ended:
            self._ended.add(name)
            emit_event("step", **_counts(stage, step), state="done", seconds=round(step.ended - step.started, 3))


def _counts(stage: str, step: Step) -> dict[str, Any]:
    done, total, unit = step.measure()
    return {"stage": stage, "step": step.name, "done": done, "total": total, "unit": unit}
