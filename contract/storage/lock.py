"""One run at a time in a folder: a locked file on a disk, a lease in a bucket.

A disk's lock ends with the process that holds it, however it ends. A bucket has no
locks: there an object says who holds the place, and is written anew while the holder lives.
"""

import errno
import fcntl
import json
import os
import socket
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from beamfeed.contract import storage
from beamfeed.contract.ending import Ending
from beamfeed.contract.errors import JOB_FAILED, JobFailed, Unanswered, UserError, first_line
from beamfeed.contract.storage.credentials import require_credentials

RENEWED_SECONDS = 15
LASTS_SECONDS = 60  # without being renewed; clocks of machines may differ by less than that
LAST_SECONDS = 5.0  # that a run which is done waits for its lease
# What the system says of a folder in which nobody, or not this user, can write.
WRONG_PLACE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


@dataclass(frozen=True)
class Use:
    """What a folder is for, in the words of messages.

    Attributes:
      key: of the job, that names the folder.
      doing: what its holder does.
    """

    key: str
    doing: str


PREPROCESSING = Use("output.path", "preprocessing into")
TRAINING = Use("train.workdir", "training in")


class Busy(UserError):
    """Somebody else holds the lock."""


@contextmanager
def hold(path: str, ending: Ending | None = None, use: Use = PREPROCESSING) -> Iterator["_FileLock | _Lease"]:
    """Holds the lock of this name, on a disk or gs://, while the body runs, or until it is given back.

    Args:
      path: of the lock.
      ending: of the process: gives it back, and is asked to end it should another run take a lock in a bucket.
      use: what the folder is for.

    Raises:
      Busy: if somebody else holds it.
      UserError: if it cannot be made there.
    """
    ending = ending or Ending()
    lock = _Lease(path, ending, use) if storage.is_remote(path) else _FileLock(path, use)
    with ending.undoing(lock.give_back):  # before it is taken: an end may come just then
        try:
            lock.take()
            yield lock
        finally:
            lock.give_back()


def _me() -> dict[str, Any]:
    return {"host": socket.gethostname(), "pid": os.getpid(), "born": born(os.getpid()), "token": uuid.uuid4().hex}


def born(pid: int) -> str:
    """When a process of this machine started, as the kernel counts; empty if there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]  # field 22; the second one, a name, may hold spaces
    except OSError:
        return ""


def _busy(path: str, use: Use, holder: dict[str, Any], more: str = "") -> Busy:
    owner = f"process {holder['pid']} on {holder['host']}" if holder else "another process"
    folder = path.rpartition("/")[0]
    return Busy(f"{use.key}: {owner} is {use.doing} {folder} right now; wait for it{more}, or choose another folder")


class _FileLock:
    """A locked file, and the folder that was made for it.

    Once it was given back, it is not taken. That may be done from any thread, and again.
    """

    def __init__(self, path: str, use: Use):
        self._path, self._use, self._folder = path, use, os.path.dirname(path) or "."
        self._new = not os.path.isdir(self._folder)
        self._changing = threading.Lock()
        self._over = False
        self._file = -1

    def take(self) -> None:
        with self._changing:
            if self._over:
                return
            try:
                os.makedirs(self._folder, exist_ok=True)
                self._file = _lock(self._path, self._use)
            except OSError as error:
                raise _trouble(self._folder, self._use, error) from None

    def give_back(self) -> None:
        with self._changing:
            if self._over:
                return
            self._over = True
            if self._file >= 0:
                with suppress(OSError):  # gone with its folder, or no longer ours to remove
                    if os.path.samestat(os.fstat(self._file), os.stat(self._path)):
                        os.unlink(self._path)
                os.close(self._file)
            if self._new:
                with suppress(OSError):  # it holds something, or was never made
                    os.rmdir(self._folder)


def _trouble(folder: str, use: Use, error: OSError) -> UserError | JobFailed:
    """Why there can be no lock: the place is wrong, or the machine has trouble."""
    message = f"{use.key}: {folder} cannot be written: {error.strerror}"
    return UserError(message) if error.errno in WRONG_PLACE else JobFailed(message)


def _lock(path: str, use: Use) -> int:
    """The open file, once it is locked and still has its name."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(file, 10_000)
            os.close(file)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise UserError(f"{use.key}: {path} cannot be locked: {error.strerror}") from None
            raise _busy(path, use, _parse(holder)) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), os.stat(path)):
                with suppress(OSError):  # on a full disk nobody reads who holds it
                    os.truncate(file, 0)
                    os.write(file, json.dumps(_me()).encode())
                return file
        os.close(file)  # its holder removed it between our opening and our locking


def _parse(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except ValueError:  # it is just being written
        return {}
    return content if isinstance(content, dict) and {"host", "pid"} <= content.keys() else {}


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Raises UserError or Unanswered, in one line, for what Cloud Storage says of the path."""
    from google.api_core.exceptions import Forbidden, GoogleAPICallError, NotFound, Unauthorized
    from google.auth.exceptions import GoogleAuthError
    from requests.exceptions import RequestException

    try:
        yield
    except NotFound:
        bucket = path.removeprefix(storage.GS).partition("/")[0]
        raise UserError(f"{path}: there is no bucket {bucket!r}") from None
    except (Forbidden, Unauthorized) as error:
        raise UserError(f"{path}: no permission: {first_line(error)}") from None
    except (GoogleAPICallError, GoogleAuthError, RequestException) as error:
        raise Unanswered(f"{path}: Cloud Storage does not answer: {first_line(error)}") from None


class _Lease:
    """An object that is replaced only by who knows its generation. It is taken and given back as a `_FileLock`."""

    def __init__(self, path: str, ending: Ending, use: Use):
        from google.cloud.storage import Client

        require_credentials()
        self._path, self._me, self._ending, self._use = path, _me(), ending, use
        self._changing = threading.Lock()
        self._is_held = False
        self._done = threading.Event()
        self._renewing = threading.Thread(target=self._keep, daemon=True)
        bucket, _, name = path.removeprefix(storage.GS).partition("/")
        # Names no project: none is needed for objects, and looking for one may take its time.
        self._bucket, self._name = Client(project="none").bucket(bucket), name
        self._generation = 0

    def take(self) -> None:
        with self._changing:
            if self._done.is_set():
                return
            with _naming(self._path):
                self._take()
            self._is_held = True
            self._renewing.start()

    def _take(self) -> None:
        from google.api_core.exceptions import PreconditionFailed

        try:
            self._write()
        except PreconditionFailed:
            if self._is_mine():
                return
            blob, holder = self._read()
            if blob is None:  # given back just now
                self._take_over(0)
                return
            silent = (datetime.now(UTC) - blob.updated).total_seconds()
            if silent < LASTS_SECONDS and not self._died(holder):
                raise _busy(
                    self._path, self._use, holder, f" (if it was killed, for {LASTS_SECONDS - max(0, silent):.0f} s)"
                ) from None
            self._take_over(blob.generation)

    def _take_over(self, generation: int) -> None:
        """Takes the lease that nobody holds any more.

        Raises:
          UserError: if another one was faster.
        """
        from google.api_core.exceptions import PreconditionFailed

        self._generation = generation
        try:
            self._write()
        except PreconditionFailed:
            raise _busy(self._path, self._use, {}) from None

    def _is_mine(self) -> bool:
        """Whether it was this process that wrote last, and the answer was lost on the way; goes on from there."""
        blob, holder = self._read()
        if blob is None or holder.get("token") != self._me["token"]:
            return False
        self._generation = blob.generation
        return True

    def _read(self) -> tuple[Any, dict[str, Any]]:
        """The object as it is now, None where there is none, and what it says of its holder."""
        from google.api_core.exceptions import NotFound

        while (blob := self._bucket.get_blob(self._name)) is not None:
            with suppress(NotFound):  # renewed or given back since: a generation that was replaced cannot be read
                return blob, _parse(blob.download_as_bytes())
        return None, {}

    def _died(self, holder: dict[str, Any]) -> bool:
        """Whether the holder was a process of this machine that is no more."""
        return bool(holder) and holder["host"] == self._me["host"] and born(holder["pid"]) != holder.get("born")

    def _write(self) -> None:
        blob = self._bucket.blob(self._name)
        blob.upload_from_string(json.dumps(self._me), "application/json", if_generation_match=self._generation)
        self._generation = blob.generation

    def _keep(self) -> None:
        """Renews it; ends the process if another run has taken it, which may be removing our files."""
        from google.api_core.exceptions import PreconditionFailed

        while not self._done.wait(RENEWED_SECONDS):
            try:
                try:
                    self._write()
                except PreconditionFailed:
                    if not self._is_mine():
                        message = f"{self._path}: another run has taken the lock, because this one had not renewed it"
                        self._done.set()  # there is nothing to give back
                        self._ending.end(JOB_FAILED, message)
            except Exception as error:  # the next time it may be reached
                print(f"{self._path}: the lock could not be renewed: {first_line(error)}", file=sys.stderr)

    def give_back(self) -> None:
        # Whoever is just taking it may wait for the service for longer than a process that is to end has.
        is_free = self._changing.acquire(timeout=1)
        was_done = self._done.is_set()
        self._done.set()
        if is_free:
            self._changing.release()
        if was_done or not self._is_held:
            return
        self._renewing.join(LAST_SECONDS)
        with suppress(Exception):  # what is not given back is void after a minute
            from google.cloud.storage.retry import DEFAULT_RETRY

            blob = self._bucket.blob(self._name)
            retry = DEFAULT_RETRY.with_timeout(LAST_SECONDS)
            blob.delete(if_generation_match=self._generation, timeout=LAST_SECONDS, retry=retry)
