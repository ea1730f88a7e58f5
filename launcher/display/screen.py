"""A terminal of which the last lines are drawn over and over, while finished lines go above them."""

import io
import os
import threading
from collections.abc import Mapping, Sequence
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from beamfeed.launcher.display.area import Part

ALL_OF_THE_LINE = 2  # argument of the code that erases in a line
# Terminals that cut lines off when they get narrower. All others, so most of today's, break them into two.
CUTTING = ("linux", "rxvt", "vt", "ansi", "screen.linux")
MOST = 1 << 20  # characters of a line without an end


class Screen:
    """Draws. From any thread: each call writes once, and whole.

    Args:
      stream: the terminal.
      env: the environment, which says what terminal it is.
    """

    def __init__(self, stream: TextIO, env: Mapping[str, str]):
        self._stream = stream
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._cuts = env.get("TERM", "").startswith(CUTTING) or "XTERM_VERSION" in env
        self._lock = threading.RLock()
        self._drawn: list[int] = []  # columns of each line of the area
        self._lines: Sequence[Sequence[Part]] = ()

    @property
    def encoding(self) -> str:
        return self._console.encoding

    def size(self) -> os.terminal_size:
        """Columns and rows, now."""
        try:
            return os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError, io.UnsupportedOperation):
            return os.terminal_size((80, 24))

    def line(self, text: str) -> None:
        """Prints a finished line above the area. It may be longer than the terminal is wide, which breaks it."""
        self.lines([text])

    def lines(self, texts: Sequence[str]) -> None:
        """Prints several."""
        with self._lock, self._console:
            self._erase()
            for text in texts:
                self._console.print(Text.from_ansi(text) if text else "")
            self._draw()

    def draw(self, lines: Sequence[Sequence[Part]]) -> None:
        """Puts these lines in the place of the area; each must be narrower than the terminal. None: it goes."""
        with self._lock, self._console:
            self._erase()
            self._lines = lines
            self._draw()

    def _draw(self) -> None:
        widths = [sum(cell_len(text) for text, _ in line) for line in self._lines]
        if not widths:
            return
        if any(width >= self.size().columns for width in widths):
            self._drawn = []  # it was made for another width: the next one is not far
            return
        text = Text("\n").join(Text.assemble(*line) for line in self._lines)
        self._console.print(text, end="")
        # At the beginning of the line: what is typed, such as the ^C of Ctrl-C, is drawn over.
        self._console.control(Control(ControlType.CARRIAGE_RETURN))
        self._drawn = widths

    def _erase(self) -> None:
        if not self._drawn:
            return
        columns = self.size().columns
        # What was drawn before the terminal became narrower may take more rows by now.
        rows = sum(1 if self._cuts else max(1, -(-width // columns)) for width in self._drawn)
        # The cursor stands at the beginning of the last line, which is its first row.
        last = 1 if self._cuts else max(1, -(-self._drawn[-1] // columns))
        erase = (ControlType.ERASE_IN_LINE, ALL_OF_THE_LINE)
        down = [(ControlType.CURSOR_DOWN, 1), erase] * (last - 1)
        up = [(ControlType.CURSOR_UP, 1), erase] * (rows - 1)
        self._console.control(Control(ControlType.CARRIAGE_RETURN, erase, *down, *up))
        self._drawn = []


class Above(io.TextIOBase):
    """Takes the place of stdout or stderr while an area is drawn: whole lines go above it.

    Args:
      screen: that has the area.
      stream: the stream that this one stands for.
    """

    def __init__(self, screen: Screen, stream: TextIO):
        super().__init__()
        self._screen, self._stream = screen, stream
        self._rest = ""
        self._lock = threading.Lock()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            *lines, rest = (self._rest + text).split("\n")
            if len(rest) >= MOST:
                lines, rest = [*lines, rest], ""
            self._rest = _last(rest) + "\r" * rest.endswith("\r")
        if lines:
            self._screen.lines([_last(line) for line in lines])
        return len(text)

    def finish(self) -> None:
        """Prints what has no end of line yet, as a line."""
        with self._lock:
            rest, self._rest = self._rest, ""
        if rest:
            self._screen.line(_last(rest))


def _last(line: str) -> str:
    """What stands on a line in the end: bars draw over theirs again and again."""
    return line.rstrip("\r").rsplit("\r", 1)[-1]
