"""What shows a run while it goes on. Each way to show it is a class of this interface."""

from collections.abc import Mapping
from typing import Any, Self

from beamfeed.launcher.processes import Output
from beamfeed.launcher.progress import StageProgress


class Display:
    """Shows nothing: what the others are made of, and what `--quiet` asks for.

    A context manager: what it draws is there while the block runs. Its methods may be called from any thread.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves nothing unfinished behind."""

    def skipped(self, stage: str, reason: str) -> None:
        """Tells of a stage that is complete."""

    def begins(self, stage: StageProgress, reason: str) -> None:
        """Tells that a stage begins, and why."""

    def show(self, stage: StageProgress) -> None:
        """Shows how far it is; called several times a second."""

    def ends(self, stage: StageProgress, code: int, seconds: float) -> None:
        """Tells how a stage has ended: with which exit code, after so many seconds."""

    def say(self, line: str) -> None:
        """Tells something else, in a line."""

    def summary(self, text: str, values: Mapping[str, Any]) -> None:
        """Tells what came out of it all.

        Args:
          text: for people.
          values: for programs.
        """

    def output(self) -> Output:
        """Where the next process writes that belongs on the terminal."""
        return Output()
