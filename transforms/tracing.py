"""Traces a source's transform graph in a process apart, so that TensorFlow is loaded while rows are read.

python -m beamfeed.transforms.tracing < (folder, source), pickled
"""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from types import TracebackType
from typing import Any, BinaryIO

from beamfeed.contract.errors import JobFailed
from beamfeed.contract.imports import heavy_imports

_RUNNING: dict[str, "Tracing"] = {}  # by folder, those that this process has started and not waited for


class Tracing:
    """A process that loads TensorFlow at once, and traces when it is told what. It ends with the `with` block."""

    def __init__(self) -> None:
        self._errors: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._folder = ""
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"},  # a trainer needs the GPU
        )

    def __enter__(self) -> "Tracing":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def trace(self, source: Any, folder: str) -> None:
        """Lets it write the graph of a source to a folder; `wait_for` that."""
        self._folder = folder
        _RUNNING[folder] = self
        assert self._process.stdin is not None
        try:
            with self._process.stdin as pipe:
                pickle.dump((folder, source), pipe)
        except BrokenPipeError:  # why, it has said
            pass

    def wait(self) -> None:
        """Returns when the graph is written.

        Raises:
          JobFailed: if it cannot be; what the process said comes with it.
        """
        if code := self._process.wait():
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip() or f"exit code {code}"
            raise JobFailed(f"the transform graph cannot be traced: {said.splitlines()[-1]}")
        _RUNNING.pop(self._folder, None)

    def close(self) -> None:
        """Ends the process. May be called twice."""
        _RUNNING.pop(self._folder, None)
        self._process.kill()
        self._process.wait()
        self._errors.close()


def wait_for(folder: str) -> None:
    """Returns when the graph in a folder is written: where the process was started elsewhere, it is."""
    if tracing := _RUNNING.get(folder):
        tracing.wait()


def main() -> None:
    """Traces what it reads from stdin."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it ends it
    with heavy_imports():
        import tensorflow_transform  # noqa: F401
    if pickled := sys.stdin.buffer.read():  # none, if it was not needed after all
        folder, source = pickle.loads(pickled)  # noqa: S301 - from the process that started this one
        source.trace(folder)


if __name__ == "__main__":
    main()
