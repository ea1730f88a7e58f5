"""Traces a source's transform graph in a process apart, so that TensorFlow is loaded while rows are read."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from typing import BinaryIO

from beamfeed.contract.errors import JobFailed, not_installed
from beamfeed.contract.imports import heavy_imports

TASK = "task"  # the name of the file that says what to trace
_RUNNING: dict[str, "Tracing"] = {}  # by folder, those that this process has started


class Tracing:
    """A process that loads TensorFlow at once, and traces when it is told what. `close` ends it.

    Args:
      begin: whether it is likely to be needed. Where not, or where this process has TensorFlow anyway, as in a
        notebook, there is no other, and this one traces.

    Raises:
      UserError: if TensorFlow Transform is not installed.
    """

    def __init__(self, begin: bool = True) -> None:
        self._folder = ""
        self._process: subprocess.Popen[bytes] | None = None
        if begin and "tensorflow" not in sys.modules:
            if find_spec("tensorflow_transform") is None:
                raise not_installed("tensorflow_transform")
            self._scratch = tempfile.TemporaryDirectory(prefix="beamfeed-tracing-", ignore_cleanup_errors=True)
            self._errors: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", f"from {__name__} import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env={
                    **os.environ,
                    "CUDA_VISIBLE_DEVICES": "-1",  # a trainer needs the GPU
                    "OPENBLAS_NUM_THREADS": "1",  # its threads would spin
                    "TF_CPP_MIN_LOG_LEVEL": "2",
                    "TF_USE_LEGACY_KERAS": "1",  # TensorFlow Transform takes Keras 2: then 3 is not loaded beside it
                    "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
                    "TMPDIR": self._scratch.name,  # whenever it ends, what TensorFlow leaves there goes
                },
            )

    def trace(self, graph: Callable[[str], None], folder: str) -> None:
        """Lets it write the graph of a source to a folder; `wait_for` that.

        Args:
          graph: what does so, to be pickled.
          folder: local or gs://
        """
        if self._process is None:
            graph(folder)
            return
        self._folder = folder
        _RUNNING[folder] = self
        with open(os.path.join(self._scratch.name, TASK), "wb") as task:  # a pipe would hold no large one
            pickle.dump((folder, graph), task)
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> None:
        """Returns when the graph is written.

        Raises:
          JobFailed: if it cannot be; what the process said comes with it.
        """
        if self._process is not None and (code := self._process.wait()):
            self._errors.seek(0)
            output = self._errors.read().decode(errors="replace").strip() or f"exit code {code}"
            raise JobFailed(f"the transform graph cannot be traced: {output.splitlines()[-1]}")

    def close(self) -> None:
        """Ends the process. May be called twice."""
        _RUNNING.pop(self._folder, None)
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._errors.close()
            self._scratch.cleanup()


def wait_for(folder: str) -> None:
    """Returns when the graph in a folder is written: where the process was started elsewhere, it is."""
    if tracing := _RUNNING.get(folder):
        tracing.wait()


def main() -> None:
    """Traces what is told in the folder for temporary files when stdin ends, and leaves nothing there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it ends it
    with heavy_imports("PIL", "h5py"):  # with which Keras reads images and weights
        import tensorflow_transform  # noqa: F401
    sys.stdin.read()
    scratch = os.environ["TMPDIR"]
    try:
        with open(os.path.join(scratch, TASK), "rb") as task:
            folder, graph = pickle.load(task)  # noqa: S301 - from the process that started this one
        graph(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
