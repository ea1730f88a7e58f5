"""How a program ends at a signal: within seconds, whatever its threads are busy with, and nothing held is kept."""

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from beamfeed.contract import streams

PATIENCE = 2.0  # seconds for giving back what is held; the launcher kills after three
BY_SIGNAL = 128  # and the signal's number: the exit code, as shells have it


GENERATED = "__autograph_generated_file"  # the modules that TensorFlow writes for Python functions of a graph


def leave(code: int) -> NoReturn:
    """Ends the process without taking its modules apart, for which large frameworks need seconds.

    What TensorFlow would remove from the folder of temporary files at its end is removed here.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith(GENERATED):
            file, bytecode = (getattr(module, key, None) for key in ("__file__", "__cached__"))
            for remove, path in (
                (os.unlink, file),
                (os.unlink, bytecode),
                (os.rmdir, bytecode and os.path.dirname(bytecode)),  # once it is empty
            ):
                with suppress(OSError):
                    remove(path or "")
    os._exit(code)


class Ending:
    """What is to be undone if the program has to end at once."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._begun = threading.Lock()
        self._stderr = 2
        self._is_programs = False

    @contextmanager
    def undoing(self, undo: Callable[[], None]) -> Iterator[None]:
        """Calls `undo` if the process is ended while the block runs. It may be called from any thread."""
        self._undo.append(undo)
        try:
            yield
        finally:
            self._undo.remove(undo)

    @contextmanager
    def scratch(self) -> Iterator[None]:
        """Temporary files of this process and of what it starts meanwhile lie in a folder that goes with the block.

        Not where the process is somebody else's, such as a notebook, who may have temporary files of his own just then.
        """
        if not self._is_programs:
            yield
            return
        before, variable = tempfile.tempdir, os.environ.get("TMPDIR")
        folder = tempfile.mkdtemp(prefix="beamfeed-")

        def remove() -> None:
            shutil.rmtree(folder, ignore_errors=True)

        with self.undoing(remove):
            try:
                tempfile.tempdir = os.environ["TMPDIR"] = folder
                yield
            finally:
                tempfile.tempdir = before
                os.environ.pop("TMPDIR", None)
                if variable is not None:
                    os.environ["TMPDIR"] = variable
                remove()

    def end(self, code: int, line: str = "") -> None:
        """Ends the process, from whatever thread: undoes the last first, tells the line, if any."""
        self._begun.acquire()  # for good: of two ends, the first counts
        undoing = threading.Thread(target=self._undo_all, daemon=True)
        undoing.start()
        undoing.join(PATIENCE)
        if line:
            streams.write_line(line, self._stderr)
        leave(code)

    def let_end(self) -> None:
        """Returns, but not while the process is being ended: what fails as things are undone says nothing."""
        if self._begun.locked():
            threading.Event().wait()

    def watch_signals(self) -> None:
        """From here on SIGINT, SIGTERM and SIGHUP end the process. To be called by a program's main thread.

        Unwinding would wait for a runner's threads, which may be busy for minutes, so a thread of its own acts. SIGINT
        counts even where a shell has it ignored, as it does for what it starts in the background. SIGHUP does not
        under nohup.
        """
        self._is_programs = True
        self._stderr = os.dup(2)  # imports of large frameworks put another file in its place for a while
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(reader,), daemon=True).start()

    def _watch(self, reader: int) -> None:
        number = os.read(reader, 1)[0]
        self.end(BY_SIGNAL + number, "interrupted" if number == signal.SIGINT else "")

    def _undo_all(self) -> None:
        for undo in reversed(self._undo):
            with suppress(Exception):
                undo()
