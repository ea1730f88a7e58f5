"""Imports of large frameworks: faster, and without their chatter."""

import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from beamfeed.contract.errors import PARTS, UserError, not_installed


@contextmanager
def heavy_imports() -> Iterator[None]:
    """Wraps the imports of Beam and TensorFlow, while the process has a single thread.

    What is written to file descriptor 2 is held back, and shown if the body raises
    something else than a UserError, which says all itself: TensorFlow tells of CPU
    features and absent GPUs there before any log level can reach it. The
    garbage collector pauses: modules are no garbage, and looking through their
    hundreds of thousands of objects takes a quarter of the time. What was imported
    is never looked through again.

    Raises:
      UserError: if one of PARTS is not installed.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    gc.disable()
    with _scratch() as captured:
        os.dup2(captured.fileno(), 2)
        try:
            yield
        except BaseException as error:
            if isinstance(error, ModuleNotFoundError) and error.name in PARTS:
                raise not_installed(error.name) from None
            if not isinstance(error, UserError):
                captured.seek(0)
                os.write(saved, captured.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            gc.freeze()
            gc.enable()


def _scratch() -> IO[bytes]:
    """A file without a name; where no folder takes one, what is written to it is lost."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.devnull, "r+b")
