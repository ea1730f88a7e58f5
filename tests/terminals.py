"""A program in a real terminal: a pty, and a parser that says what stands on the screen."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import pyte

PATIENCE = 60.0


class Terminal:
    """Runs a command in a terminal of its own.

    Attributes:
      screens: what stood on the screen after each piece of output.
      code: the exit code, once it has ended.
    """

    def __init__(self, command, columns=80, rows=24, env=None, cwd=None, patience=PATIENCE):
        self.screen = pyte.HistoryScreen(columns, rows, history=1000, ratio=1.0)
        self.stream = pyte.ByteStream(self.screen)
        self.screens = []
        self.raw = b""
        self._patience = patience
        self.code = None
        self.master, slave = pty.openpty()
        _set_size(slave, columns, rows)
        # pyte is like the console of Linux: it cuts what a terminal that becomes narrower has no room for.
        variables = {**os.environ, "TERM": "linux", **(env or {})}
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=variables, cwd=cwd, preexec_fn=_as_in_a_session
        )
        os.close(slave)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.master)

    def read(self, seconds=0.05):
        """Takes in what is written for so long; False at the end."""
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:  # as Linux says that nobody has the other end
            return False
        self.raw += data
        self.stream.feed(data)
        self.screens.append(self.lines())
        return bool(data)

    def until(self, wanted):
        """Reads until the screen holds a text."""
        end = time.monotonic() + self._patience
        while not any(wanted in line for line in self.all_lines()):
            assert self.read(), self.all_lines()
            assert time.monotonic() < end, self.all_lines()

    def finish(self):
        """Reads to the end and returns all lines: those that have left the screen, and those that stand on it."""
        end = time.monotonic() + self._patience
        while self.read():
            assert time.monotonic() < end, self.all_lines()
        self.code = self.process.wait(PATIENCE)
        return self.all_lines()

    def resize(self, columns, rows=24):
        narrower = columns < self.screen.columns
        if narrower:  # what was written for more columns is taken in before
            _set_size(self.master, columns, rows)
            while select.select([self.master], [], [], 0)[0] and self.read():
                pass
        self.screen.resize(rows, columns)
        if not narrower:
            _set_size(self.master, columns, rows)

    def type(self, text):
        os.write(self.master, text)

    def lines(self):
        """What stands on the screen, without empty lines at its end."""
        lines = [line.rstrip() for line in self.screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def all_lines(self):
        columns = self.screen.columns
        gone = ["".join(row[at].data for at in range(columns)).rstrip() for row in self.screen.history.top]
        return [*gone, *self.lines()]


def finish_all(terminals):
    """Reads from all of them until the last has ended."""
    end = time.monotonic() + 2 * PATIENCE
    going = list(terminals)
    while going:
        going = [one for one in going if one.read(0.01)]
        assert time.monotonic() < end
    for one in terminals:
        one.code = one.process.wait(PATIENCE)


def _set_size(descriptor, columns, rows):
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _as_in_a_session():
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
