"""Keeps the chatter of native libraries off the terminal while they are imported."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """Holds back what is written to file descriptor 2; shows it if the body raises.

    TensorFlow writes about CPU features and absent GPUs there before any log level
    can reach it. Use it around imports only, and with a single thread.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(saved, held.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
