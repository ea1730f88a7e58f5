"""Reads ranges of gs:// objects: one request for each range, and no more bytes than were asked for.

pyarrow's own file on gs:// asks for the whole object when it is opened and hangs up
later, which doubled what was read (docs/gs.md). This one gives pyarrow's readers the
ranges through Google's client; they choose them well: a footer, then column chunks.
"""

import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from beamfeed.contract.errors import Unanswered, first_line

PATIENCE = 600.0  # seconds


def open_ranges(path: str) -> Any:
    """Opens a gs:// object for random reads; returns a pyarrow NativeFile.

    Raises:
      FileNotFoundError, PermissionError
      Unanswered: if Cloud Storage gave no answer for PATIENCE seconds.
    """
    import pyarrow as pa

    return pa.PythonFile(_Ranges(path), mode="r")


@lru_cache(maxsize=64)
def _client(thread: int) -> Any:
    """A client for each thread: one keeps ten connections, and complains when more threads than that share it."""
    from google.cloud.storage import Client

    return Client(project="none")  # none is needed for objects, and the login of a person names none


os.register_at_fork(after_in_child=_client.cache_clear)  # a child's thread of the same number would share connections


def list_names(folder: str) -> list[str]:
    """The names directly in a gs:// folder, sorted: one request for each thousand, whatever lies below them.

    Raises:
      FileNotFoundError: if there is no such bucket.
      PermissionError, Unanswered
    """
    bucket, _, name = folder.removeprefix("gs://").rstrip("/").partition("/")
    prefix = f"{name}/" if name else ""
    with _naming(folder):
        listed = _client(threading.get_ident()).list_blobs(
            bucket, prefix=prefix, delimiter="/", fields="items(name),prefixes,nextPageToken", retry=_retry()
        )
        names = {blob.name for blob in listed} | set(listed.prefixes)  # in this order: the pages fill the prefixes
    return sorted({name.removeprefix(prefix).rstrip("/") for name in names} - {""})  # a folder may be marked by itself


class _Ranges(io.RawIOBase):
    """One generation of an object, as it was when it was opened."""

    def __init__(self, path: str):
        super().__init__()
        bucket, _, name = path.removeprefix("gs://").partition("/")
        self._path, self._at = path, 0
        with _naming(path):
            self._blob = _client(threading.get_ident()).bucket(bucket).blob(name)
            self._blob.reload(retry=_retry())
        self._size: int = self._blob.size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._at + size, self._size)
        if end <= self._at:
            return b""
        with _naming(self._path):
            data: bytes = self._blob.download_as_bytes(
                start=self._at, end=end - 1, raw_download=True, checksum=None,
                if_generation_match=self._blob.generation, retry=_retry(),
            )  # fmt: skip
        if len(data) != end - self._at:
            raise Unanswered(f"{self._path}: gave {len(data)} bytes at {self._at}, {end - self._at} were asked for")
        self._at = end
        return data


def _retry() -> Any:
    from google.cloud.storage.retry import DEFAULT_RETRY

    return DEFAULT_RETRY.with_timeout(PATIENCE)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    from google.api_core.exceptions import Forbidden, GoogleAPIError, NotFound, PreconditionFailed
    from google.auth.exceptions import GoogleAuthError
    from requests.exceptions import RequestException

    try:
        yield
    except (NotFound, PreconditionFailed):
        raise FileNotFoundError(f"{path}: there is no such file") from None
    except Forbidden as error:
        raise PermissionError(f"{path}: {error}") from None
    except (GoogleAPIError, GoogleAuthError, RequestException) as error:
        raise Unanswered(f"{path}: {first_line(error)}") from None
