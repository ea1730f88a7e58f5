"""The framing of TFRecord files: records are framed, and read back, each checked by its CRC-32C.

The format (tensorflow/core/lib/io/record_writer.h): length as uint64, its masked
CRC-32C as uint32, the record, its masked CRC-32C; all little-endian.
"""

import gzip
import io
import struct
import zlib
from collections.abc import Iterator
from typing import Any, Protocol

import google_crc32c

from beamfeed.contract.dataset.windows import Integers

HEAD, TAIL = struct.Struct("<QI"), struct.Struct("<I")
LENGTH = 8  # bytes of the length in the head
FRAMING_BYTES = HEAD.size + TAIL.size  # that a file adds to each record
CHUNK_BYTES = 1 << 20  # read at a time: what stays in the cache of a processor is copied in no time
MOST_BYTES = (2 << 30) - 1  # of a record: protocol buffers hold no more
BATCH_BYTES, BATCH_RECORDS = 8 << 20, 4096  # given at a time
GZIP = b"\x1f\x8b"
GZIP_BITS = 31  # of zlib: with the head of gzip, whose time is 0


class Readable(Protocol):
    """An open file."""

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; none at the end."""


class Damaged(ValueError):
    """A file that is not as it was written: where, and what is wrong."""

    def __init__(self, place: str, reason: str):
        super().__init__(f"{place}: {reason}")
        self.place, self.reason = place, reason


class Counted:
    """A file that tells what was read of it: bytes, and their CRC-32C."""

    def __init__(self, file: Readable):
        self._file, self._crc = file, google_crc32c.Checksum()
        self.bytes = 0

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; none at the end."""
        chunk = bytes(self._file.read(CHUNK_BYTES if size < 0 else size))
        self._crc.update(chunk)
        self.bytes += len(chunk)
        return chunk

    @property
    def crc32c(self) -> str:
        """8 hex digits."""
        digest: bytes = self._crc.digest()
        return digest.hex()


def masked(data: bytes) -> int:
    """The masked CRC-32C of some bytes."""
    checksum: int = mask(google_crc32c.value(data))
    return checksum


def mask(crc: Integers) -> Integers:
    """A CRC-32C, or a uint64 array of them, as it stands in the file: turned by 15 bits, with a number added."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(record: bytes) -> tuple[bytes, bytes, bytes]:
    """What stands in a file for a record, in three pieces."""
    length = len(record).to_bytes(LENGTH, "little")
    return length + masked(length).to_bytes(4, "little"), record, TAIL.pack(masked(record))


def packer(compression: str) -> Any:
    """What packs a file's bytes piece by piece, by `compress(data)` and at the end `flush()`."""
    return zlib.compressobj(wbits=GZIP_BITS, memLevel=9) if compression == "gzip" else _Plain()


class _Plain:
    def compress(self, data: bytes) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


def is_tfrecord(begin: bytes) -> bool:
    """Whether a file that is not compressed begins with the head of a record."""
    if len(begin) < HEAD.size:
        return False
    _, crc = HEAD.unpack_from(begin)
    return bool(masked(begin[:LENGTH]) == crc)


def unpacked(file: Readable, compression: str) -> Readable:
    """What a file holds."""
    if compression != "gzip":
        return file
    # It would ask for 8 KB at a time, on gs:// each in a request of its own.
    return gzip.GzipFile(fileobj=io.BufferedReader(_Raw(file), CHUNK_BYTES))


class _Raw(io.RawIOBase):
    """A file for `io.BufferedReader`."""

    def __init__(self, file: Readable):
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._file.read(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)


def read_frames(file: Readable, most: int = MOST_BYTES) -> Iterator[list[bytes]]:
    """The records of a file, some at a time.

    Args:
      file: unpacked, at its beginning.
      most: bytes of a record, where a file of somebody else might name more than is wanted in memory.

    Raises:
      Damaged: with the byte where a record is damaged or cut off, when the reading comes to it.
    """
    records: list[bytes] = []
    data, at, before, size, count = b"", 0, 0, 0, 0
    damage = None  # is told behind the records before it
    try:
        while True:
            head = HEAD.size
            if len(data) - at < head:
                before, data, at = before + at, _read(file, head, data[at:]), 0
                if len(data) < head:
                    if data:
                        raise _damage(count, before, "the file ends in its head")
                    break
            length, crc = HEAD.unpack_from(data, at)
            if masked(data[at : at + LENGTH]) != crc:
                raise _damage(count, before + at, "the checksum of its length is wrong")
            if length > most:
                what = "an Example has" if most == MOST_BYTES else "of a packed file it must have"
                reason = f"is of {length:,} bytes; {what} {most:,} at most"
                raise _damage(count, before + at, reason)
            frame = head + length + TAIL.size
            if len(data) - at < frame:
                before, data, at = before + at, _read(file, frame, data[at:]), 0
                if len(data) < frame:
                    raise _damage(count, before, f"the file ends {frame - len(data):,} bytes before its end")
            record = data[at + head : at + head + length]
            if masked(record) != TAIL.unpack_from(data, at + head + length)[0]:
                raise _damage(count, before + at, "the checksum of its data is wrong")
            records.append(record)
            at, size, count = at + frame, size + length, count + 1
            if size >= BATCH_BYTES or len(records) == BATCH_RECORDS:
                yield records
                records, size = [], 0
    except Damaged as error:
        damage = error
    if records:
        yield records
    if damage is not None:
        raise damage


def _read(file: Readable, least: int, before: bytes) -> bytes:
    """What was read before and more, at least so many bytes if there are as many, piece by piece."""
    chunks, size = [before], len(before)
    try:
        while size < least and (chunk := file.read(CHUNK_BYTES)):
            chunks.append(chunk)
            size += len(chunk)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise Damaged("file", f"cannot be unpacked: {error}") from None
    return b"".join(chunks)


def _damage(record: int, byte: int, reason: str) -> Damaged:
    return Damaged(f"record {record}, byte {byte}", reason)
