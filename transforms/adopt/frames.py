"""The records of a TFRecord file, each checked by its CRC-32C, with the byte at which something is wrong.

The format (tensorflow/core/lib/io/record_writer.h): length as uint64, its masked
CRC-32C as uint32, the record, its masked CRC-32C; all little-endian.
"""

import gzip
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import google_crc32c

from beamfeed.contract.dataset.verify import CHUNK_BYTES, Readable
from beamfeed.transforms.rejects import BadInput

HEAD, TAIL = struct.Struct("<QI"), struct.Struct("<I")
LENGTH = 8  # bytes of the length in the head
MOST_BYTES = (2 << 30) - 1  # of a record: protocol buffers hold no more
BATCH_BYTES, BATCH_RECORDS = 8 << 20, 4096  # given at a time
GZIP = b"\x1f\x8b"


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
        return self._crc.digest().hex()


def masked(data: bytes) -> int:
    """The masked CRC-32C of some bytes, as record_writer.h has it."""
    crc = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def is_tfrecord(begin: bytes) -> bool:
    """Whether a file that is not compressed begins with the head of a record."""
    if len(begin) < HEAD.size:
        return False
    _, crc = HEAD.unpack_from(begin)
    return bool(masked(begin[:LENGTH]) == crc)


def unpacked(file: Any, compression: str) -> Readable:
    """What a file holds."""
    return gzip.GzipFile(fileobj=file) if compression == "gzip" else file


def read_frames(file: Readable, path: str) -> Iterator[list[bytes]]:
    """The records of a file, some at a time.

    Args:
      file: unpacked, at its beginning.
      path: for messages.

    Raises:
      BadInput: with the byte where a record is damaged or cut off, when the reading comes to it.
    """
    data, at, before, records, size, count = b"", 0, 0, [], 0, 0
    while True:
        head = HEAD.size
        if len(data) - at < head:
            before, data, at = before + at, _read(file, head, path, data[at:]), 0
            if len(data) < head:
                if data:
                    raise _damage(path, count, before, "the file ends in its head")
                break
        length, crc = HEAD.unpack_from(data, at)
        if masked(data[at : at + LENGTH]) != crc:
            raise _damage(path, count, before + at, "the checksum of its length is wrong")
        if length > MOST_BYTES:
            raise _damage(path, count, before + at, f"is of {length:,} bytes; an Example has {MOST_BYTES:,} at most")
        whole = head + length + TAIL.size
        if len(data) - at < whole:
            before, data, at = before + at, _read(file, whole, path, data[at:]), 0
            if len(data) < whole:
                raise _damage(path, count, before, f"the file ends {whole - len(data):,} bytes before its end")
        record = data[at + head : at + head + length]
        if masked(record) != TAIL.unpack_from(data, at + head + length)[0]:
            raise _damage(path, count, before + at, "the checksum of its data is wrong")
        records.append(record)
        at, size, count = at + whole, size + length, count + 1
        if size >= BATCH_BYTES or len(records) == BATCH_RECORDS:
            yield records
            records, size = [], 0
    if records:
        yield records


def _read(file: Readable, least: int, path: str, before: bytes) -> bytes:
    """What was read before and more, at least so many bytes if there are as many, piece by piece."""
    chunks, size = [before], len(before)
    try:
        while size < least and (chunk := file.read(CHUNK_BYTES)):
            chunks.append(chunk)
            size += len(chunk)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise BadInput(path, "file", f"cannot be unpacked: {error}") from None
    return b"".join(chunks)


def _damage(path: str, record: int, byte: int, what: str) -> BadInput:
    return BadInput(path, f"record {record}, byte {byte}", what)
