"""Copies of shards on this machine, not compressed, which all processes of a user here share.

They lie in a folder of temporary files that goes away with the last process that uses it, even when that was killed.
"""

import atexit
import fcntl
import gzip
import hashlib
import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

from beamfeed.contract import storage
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.contract.records.frames import CHUNK_BYTES, unpacked
from beamfeed.contract.storage import FileStat

THREADS = 8
PREFIX, LOCK = "beamfeed-copies-", ".lock"

_until_the_end = ExitStack()
_folders: dict[str, str] = {}  # that this process holds, by name
atexit.register(_until_the_end.close)


def local_copies(
    dataset: str, shards: Sequence[FileStat], compression: str, remedy: str = "preprocess again"
) -> list[str]:
    """Copies shards to a folder of temporary files and returns their paths there; once for each on this machine.

    Args:
      dataset: names the folder.
      shards: as they were listed; one that has changed since is another.
      compression: of the shards.
      remedy: what makes the dataset good again.

    Raises:
      UserError: if there is no room for them, or a compressed one is damaged.
      JobFailed: if one cannot be read.
    """
    name = hashlib.sha256(dataset.encode()).hexdigest()[:16]
    try:
        folder = _folders.get(name) or _until_the_end.enter_context(shared_folder(name))
        _folders[name] = folder
        targets = [os.path.join(folder, _name(shard)) for shard in shards]
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda shard, target: _copy(shard.path, target, compression, remedy), shards, targets))
    except OSError as error:
        raise UserError(
            f"{tempfile.gettempdir()}: cannot hold copies of the shards: {error}; TMPDIR can name another folder"
        ) from None
    return targets


def _name(shard: FileStat) -> str:
    """Of a copy: that of another state of the same file is another."""
    return hashlib.sha256(f"{shard.path}\t{shard.size}\t{shard.mtime}".encode()).hexdigest()[:32]


def _copy(source: str, target: str, compression: str, remedy: str) -> None:
    with open(target + LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # while another process copies it, this one waits
        if os.path.exists(target):
            return
        part = target + ".part"
        with open(part, "wb") as out:
            for chunk in _chunks(source, compression, remedy):
                out.write(chunk)
        os.replace(part, target)


def _chunks(source: str, compression: str, remedy: str) -> Iterator[bytes]:
    try:
        with storage.open_stream(source) as file:
            content = unpacked(file, compression)
            while chunk := content.read(CHUNK_BYTES):
                yield chunk
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise UserError(f"{source}: damaged: {error}; {remedy}") from None
    except OSError as error:  # of where it is, not of the copy
        raise JobFailed(f"{source}: cannot be read: {error}") from error


def remove_copies() -> None:
    """Leaves all folders; what reads a copy reads on. A process that ends without Python's cleaning up calls this."""
    _until_the_end.close()
    _folders.clear()


@contextmanager
def shared_folder(name: str) -> Iterator[str]:
    """A folder in the machine's folder of temporary files, the same for all of this user's processes that name it.

    Each of them holds a lock on a file beside it, which the kernel lifts when the process is gone, however it went.
    Who leaves last removes both; those of processes that were killed are removed by whoever makes a folder next.

    Raises:
      OSError: if there can be none, or somebody else has made what has its name.
    """
    top = tempfile.gettempdir()
    remove_stale(top)
    folder = os.path.join(top, f"{PREFIX}{os.getuid()}-{name}")
    lock = _join(folder)
    try:
        yield folder
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)
        _remove_if_left(folder, lock)


def remove_stale(top: str) -> None:
    """Removes the folders whose processes are all gone."""
    for name in os.listdir(top):
        if name.startswith(PREFIX) and name.endswith(LOCK):
            path = os.path.join(top, name)
            with suppress(OSError):  # another user's, or gone meanwhile
                _remove_if_left(path.removesuffix(LOCK), os.open(path, os.O_RDWR | os.O_NOFOLLOW))


def _join(folder: str) -> int:
    """Makes the folder unless it is there; the lock that holds it."""
    while True:
        lock = os.open(folder + LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)  # waits for one that removes it just now
            if _is_at(lock, folder + LOCK):
                with suppress(FileExistsError):
                    os.mkdir(folder, 0o700)
                for stat_ in (os.lstat(folder), os.fstat(lock)):
                    if stat_.st_uid != os.getuid() or stat.S_ISLNK(stat_.st_mode):
                        raise PermissionError(f"{folder} belongs to another user")
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def _remove_if_left(folder: str, lock: int) -> None:
    """Removes the folder and its lock unless another process holds it; closes the lock."""
    try:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(lock, folder + LOCK):
                shutil.rmtree(folder, ignore_errors=True)
                os.unlink(folder + LOCK)
    finally:
        os.close(lock)


def _is_at(lock: int, path: str) -> bool:
    """Whether the file is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(lock), os.lstat(path))
    except FileNotFoundError:
        return False
