"""Copies of shards on this machine, not compressed, for as long as the process lives.

They lie in a folder of temporary files that goes away even when its owner was killed.
"""

import atexit
import fcntl
import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import cache

import tensorflow as tf

from beamfeed.contract.errors import UserError

THREADS = 8
PREFIX, LOCK = "beamfeed-scratch-", ".lock"
CHUNK_BYTES = 8 << 20

_until_the_end = ExitStack()
atexit.register(_until_the_end.close)


def local_copies(paths: list[str], compression: str) -> list[str]:
    """Copies the shards to a folder of temporary files and returns their paths there; once for each shard.

    Raises:
      UserError: if there is no room for them, or a compressed one is damaged.
    """
    folder = _folder()
    targets = [os.path.join(folder, path.replace("://", "/").lstrip("/")) for path in paths]
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            for _ in pool.map(_copy, paths, targets, [compression] * len(paths)):
                pass
    except OSError as error:
        raise UserError(
            f"{folder}: cannot hold copies of the shards: {error}; TMPDIR can name another folder"
        ) from None
    return targets


def _copy(source: str, target: str, compression: str) -> None:
    if os.path.exists(target):
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    part = target + ".part"
    with tf.io.gfile.GFile(source, "rb") as file, open(part, "wb") as out:
        stream = gzip.GzipFile(fileobj=file) if compression == "gzip" else file
        try:
            while chunk := stream.read(CHUNK_BYTES):
                out.write(chunk)
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise UserError(f"{source}: damaged: {error}; preprocess again") from None
    os.replace(part, target)


@cache
def _folder() -> str:
    return _until_the_end.enter_context(scratch_folder())


def remove_copies() -> None:
    """Removes all copies; what reads one reads on. A process that ends without Python's cleaning up calls this."""
    _until_the_end.close()
    _folder.cache_clear()


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
