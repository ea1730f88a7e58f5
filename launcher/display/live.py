"""One live area for a whole run, on a terminal: what goes on is drawn on its last lines, and lines go above."""

import codecs
import os
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from typing import Any, Self, TextIO

from beamfeed.launcher.display.area import ASCII, LINES, area
from beamfeed.launcher.display.lines import Telling
from beamfeed.launcher.display.screen import Above, Screen
from beamfeed.launcher.processes import Output, Piped
from beamfeed.launcher.progress import StageProgress

DRAW_SECONDS = 0.2
PIECE = 1 << 16  # bytes
LEAST_ROWS = 4  # of a terminal that has room for two lines


class Live(Telling):
    """Draws the stage that runs. What this process and the stage print meanwhile goes above it, in whole lines.

    Args:
      stream: the terminal, to be stderr.
      env: the environment, which says what the terminal can do.
    """

    def __init__(self, stream: TextIO, env: Mapping[str, str]):
        self._screen = Screen(stream, env)
        super().__init__(self._screen.line)
        self._stream = stream
        self._began = time.monotonic()
        self._stage: StageProgress | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_drawing, daemon=True)
        self._streams = ExitStack()
        self._pipes_stdout = sys.stdout.isatty()  # else it is a file, or another program's, and gets it as it is

    def __enter__(self) -> Self:
        above = Above(self._screen, self._stream)
        self._streams.enter_context(redirect_stderr(above))
        self._streams.callback(above.finish)
        if self._pipes_stdout:
            out = Above(self._screen, sys.stdout)
            self._streams.enter_context(redirect_stdout(out))
            self._streams.callback(out.finish)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._stage = None
        self._screen.draw(())
        self._streams.close()

    def width(self) -> int:
        return self._screen.size().columns

    def begins(self, stage: StageProgress, reason: str) -> None:
        super().begins(stage, reason)
        self._stage = stage
        self._draw()

    def ends(self, stage: StageProgress, code: int, seconds: float) -> None:
        self._stage = None
        self._screen.draw(())
        super().ends(stage, code, seconds)

    def summary(self, text: str, values: Mapping[str, Any]) -> None:
        self._screen.draw(())
        super().summary(text, values)

    def output(self) -> Output:
        return PipedAbove(self._screen, self._stream, self._pipes_stdout)

    def _keep_drawing(self) -> None:
        while not self._stop.wait(DRAW_SECONDS):
            self._draw()

    def _draw(self) -> None:
        stage = self._stage
        if stage is None:
            return
        size = self._screen.size()
        marks = LINES if self._screen.encoding.lower().startswith("utf") else ASCII
        lines = area(stage, time.monotonic(), self._began, size.columns - 1, marks)
        self._screen.draw(lines if size.lines >= LEAST_ROWS else lines[:1])


class PipedAbove(Piped):
    """Takes what a process writes and prints it above the area.

    Args:
      screen: that has the area.
      stream: the terminal.
      stdout: whether the process's stdout is taken, too.
    """

    def __init__(self, screen: Screen, stream: TextIO, stdout: bool):
        super().__init__()
        self._above = Above(screen, stream)
        self.stderr = self.pipe(self._read)
        self.stdout = self.stderr if stdout else None

    def finish(self) -> None:
        super().finish()
        self._above.finish()

    def _read(self, reader: int) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        with suppress(OSError):
            while piece := os.read(reader, PIECE):
                self._above.write(decoder.decode(piece))
        os.close(reader)
