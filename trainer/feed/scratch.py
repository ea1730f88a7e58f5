"""Folders for files that nobody keeps, and that go away even when their owner was killed."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PREFIX, LOCK = "beamfeed-scratch-", ".lock"


@contextmanager
def scratch_folder() -> Iterator[str]:
    """An empty folder in the machine's folder of temporary files, removed at the end.

    A process that is killed cannot remove it. So each folder has a locked file
    beside it; the kernel lifts the lock when the process is gone, however it went,
    and whoever makes the next folder on this machine removes those without one.
    """
    top = tempfile.gettempdir()
    remove_stale(top)
    lock, folder = _claim(top)
    try:
        yield folder
    finally:
        _remove(folder)
        os.close(lock)


def remove_stale(top: str) -> None:
    """Removes the folders whose owner is gone."""
    for name in os.listdir(top):
        if not (name.startswith(PREFIX) and name.endswith(LOCK)):
            continue
        with suppress(OSError):  # another user's, or gone meanwhile
            lock = os.open(os.path.join(top, name), os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(os.path.join(top, name.removesuffix(LOCK)))
            finally:
                os.close(lock)


def _claim(top: str) -> tuple[int, str]:
    while True:
        lock, path = tempfile.mkstemp(prefix=PREFIX, suffix=LOCK, dir=top)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # taken for stale between the two calls
            os.close(lock)
            continue
        if os.fstat(lock).st_nlink:  # else it was removed between the two calls
            folder = path.removesuffix(LOCK)
            os.mkdir(folder, 0o700)
            return lock, folder
        os.close(lock)


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(FileNotFoundError):
        os.unlink(folder + LOCK)
