"""Zip files with one file in them, which is read as if it lay there by itself."""

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import IO, Any

import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.sources.formats import FORMATS, PACKED, ZIP
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import BadInput

# What zipfile raises of a broken archive, beside what `naming_the_file` knows to be the file's fault.
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    IndexError,
    NotImplementedError,
    RuntimeError,
)
_UNPACKED = (
    *(suffix for format_ in FORMATS.values() if not format_.is_text for suffix in format_.suffixes),
    *PACKED,
    ZIP,
)


def member_of(path: str) -> str:
    """The name of the file in a zip file.

    Raises:
      BadInput: if there are several, or it cannot be read as it lies there.
    """
    return _member(storage.stat(path))


@lru_cache(256)
def _member(file: FileStat) -> str:
    with storage.open_input(file.path) as source, _as_broken(file.path), zipfile.ZipFile(_Seekable(source)) as archive:
        return _only(file.path, archive).filename


@contextmanager
def open_member(path: str, source: Any) -> Iterator["Member"]:
    """The file in a zip file, unpacked while it is read.

    Raises:
      BadInput: if it cannot be opened. What is raised by whoever reads it stays as it is.
    """
    with ExitStack() as opened:
        with _as_broken(path):
            archive = opened.enter_context(zipfile.ZipFile(_Seekable(source)))
            member = opened.enter_context(archive.open(_only(path, archive)))
        yield Member(path, member)


class Member:
    """The bytes of a file in a zip file.

    Args:
      path: of the zip file, for messages.
      member: the file in it, open.
    """

    def __init__(self, path: str, member: IO[bytes]):
        self._path, self._member = path, member

    def read(self, size: int) -> bytes:
        """The next bytes, no more than `size`; none at the end.

        Raises:
          BadInput: if they cannot be unpacked.
        """
        with _as_broken(self._path):
            return self._member.read(size)


@contextmanager
def _as_broken(path: str) -> Iterator[None]:
    """Turns what zipfile raises of a broken archive into BadInput."""
    try:
        yield
    except _BROKEN as error:
        raise BadInput(path, "file", f"cannot be unpacked: {error or type(error).__name__}") from None


class _Seekable:
    """A file of Arrow that says of a place before its beginning what zipfile waits for."""

    def __init__(self, source: Any):
        self._source = source

    def seek(self, place: int, whence: int = 0) -> int:
        try:
            return self._source.seek(place, whence)
        except pa.ArrowInvalid as error:
            raise OSError(str(error)) from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def _only(path: str, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    members = [info for info in archive.infolist() if not info.is_dir() and not _is_hidden(info.filename)]
    if len(members) != 1:
        names = ", ".join(info.filename for info in members[:3])
        holds = f"{len(members)} files ({names}{', ...' if len(members) > 3 else ''})" if members else "no file"
        raise BadInput(path, "file", f"is a zip file with {holds}, one is read; unpack it, and name its folder")
    (member,) = members
    if member.filename.lower().endswith(_UNPACKED):
        raise BadInput(path, "file", f"is a zip file with {member.filename}, which is packed already; unpack it")
    return member


def _is_hidden(name: str) -> bool:
    return name.startswith("__MACOSX/") or name.rpartition("/")[2].startswith(".")
