"""The records of TFRecord files, by a plain loop: to set up a pipeline of TensorFlow's takes longer than to read."""

import gzip
import struct
from collections.abc import Iterator
from pathlib import Path

import google_crc32c

HEAD, TAIL = struct.Struct("<QI"), struct.Struct("<I")  # the size and its checksum; that of the data


def masked(data: bytes) -> int:
    """The checksum that the format has of some bytes."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def read_framed(path: str | Path, compression: str = "none") -> Iterator[bytes]:
    """Each record of a file; its sizes and checksums must be right."""
    data = Path(path).read_bytes()
    if compression == "gzip":
        data = gzip.decompress(data)
    at = 0
    while at < len(data):
        size, check = HEAD.unpack_from(data, at)
        assert check == masked(data[at : at + 8]), f"{path}: another size at byte {at}"
        at += HEAD.size
        record = data[at : at + size]
        (check,) = TAIL.unpack_from(data, at + size)
        assert check == masked(record), f"{path}: other data at byte {at}"
        yield record
        at += size + TAIL.size
