"""Reads a shard once: are its records whole, and what is in them?"""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.errors import JobFailed
from beamfeed.contract.records.frames import (
    GZIP,
    HEAD,
    MOST_BYTES,
    Counted,
    Damaged,
    is_tfrecord,
    read_frames,
    unpacked,
)
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.adopt.examples import Features, Mixed, add_features, look_at, strings_of
from beamfeed.transforms.records.blocks import cut_blocks
from beamfeed.transforms.rejects import BadInput, Reject
from beamfeed.transforms.sources.image.header import BadImage, read_header

SINGLE = Windows(length=1)  # a record is a row, and a row is a window
BEGIN_BYTES = 64 << 10  # that tell what a file is
FIRST_RECORDS, FIRST_FILES = 100, 10  # that are looked at before all are read
PACKED_BYTES = 256 << 20  # of a record in a packed file: as zeros they are packed into 256 KB
FIRST_IMAGES = 16  # of a file, whose sizes are looked at


@dataclass(frozen=True)
class Scan:
    """What a shard holds.

    Attributes:
      file: as it was listed.
      records: of these,
      rows: are not empty.
      crc32c: of the whole file.
      compression: none or gzip.
      blocks: see `cut_blocks`.
      features: what was seen of each.
    """

    file: FileStat
    records: int
    rows: int
    crc32c: str
    compression: str
    blocks: np.ndarray = field(compare=False)
    features: Features


def find_compression(path: str) -> str | None:
    """How a TFRecord file is compressed, none or gzip, by how it begins; None if it is no TFRecord file.

    Raises:
      OSError: if it cannot be read.
    """
    with storage.open_input(path) as file:
        begin = bytes(file.read(BEGIN_BYTES))
    if not begin.startswith(GZIP):
        return "none" if is_tfrecord(begin) else None
    try:
        inside = zlib.decompressobj(wbits=31).decompress(begin, HEAD.size)
    except zlib.error:
        return None
    return "gzip" if is_tfrecord(inside) or not inside else None


def scan_file(file: FileStat, watched: frozenset[str] = frozenset()) -> Scan:
    """Reads a shard.

    Args:
      file: as it was listed.
      watched: features whose values are counted.

    Raises:
      BadInput: if it is damaged, or a record is no Example or SequenceExample; with the byte or the record.
      JobFailed: if it changed since it was listed.
      OSError: if it cannot be read.
    """
    compression = find_compression(file.path)
    if compression is None:
        raise BadInput(file.path, "byte 0", "is not a TFRecord file: it does not begin with a record")
    sizes: list[np.ndarray] = []
    features: Features = {}
    records = 0
    with storage.open_stream(file.path) as opened:
        raw = Counted(opened)
        try:
            for batch in _frames(raw, compression):
                features = _with(features, batch, records, file.path, watched)
                sizes.append(np.fromiter(map(len, batch), np.int64, len(batch)))
                records += len(batch)
        except Damaged as damaged:
            raise BadInput(file.path, damaged.place, damaged.reason) from None
    if raw.bytes != file.size:
        raise JobFailed(f"{file.path}: changed while it was read: it had {file.size:,} bytes, then {raw.bytes:,}")
    lengths = np.concatenate(sizes) if sizes else np.empty(0, np.int64)
    rows = (lengths > 0).astype(np.int64)
    return Scan(file, records, int(rows.sum()), raw.crc32c, compression, cut_blocks(lengths, rows, SINGLE), features)


def _frames(file: Counted, compression: str) -> Iterator[list[bytes]]:
    return read_frames(unpacked(file, compression), PACKED_BYTES if compression == "gzip" else MOST_BYTES)


def _with(features: Features, batch: Sequence[bytes], before: int, path: str, watched: frozenset[str]) -> Features:
    """What was seen, with another batch; `before` records come before it."""
    place = f"records {before} to {before + len(batch) - 1}"
    try:
        try:
            added = look_at(batch, watched)
        except Mixed:
            added = {}
            for record in batch:
                added = add_features(added, look_at([record], watched))
        return add_features(features, added)
    except Mixed as error:
        raise BadInput(path, place, str(error)) from None
    except ValueError as error:
        raise BadInput(path, _bad_record(batch, before) or place, f"no tf.train.Example: {error}") from None


def _bad_record(batch: Sequence[bytes], before: int) -> str | None:
    """The first of the records that is none."""
    for number, record in enumerate(batch):
        try:
            look_at([record])
        except ValueError:
            return f"record {before + number}"
    return None


def first_records(paths: Sequence[str]) -> Iterator[list[bytes]]:
    """The first records of the first shards; of those that cannot be read, none."""
    for path in paths[:FIRST_FILES]:
        compression = find_compression(path)
        if compression is None:
            continue
        try:
            with storage.open_input(path) as file:
                batch = next(_frames(Counted(file), compression), [])
        except Damaged:
            continue
        yield batch[:FIRST_RECORDS]


def first_names(paths: Sequence[str]) -> list[str]:
    """The names of the features of the first records of the first shard that can be read; none where none can."""
    for records in first_records(paths):
        with suppress(ValueError):
            if features := look_at(records):
                return sorted({name.name for name in features})
    return []


def image_sizes(paths: Sequence[str], feature: str) -> list[tuple[int, int]]:
    """Height and width of some images; none where none can be read.

    Args:
      paths: of the shards.
      feature: that holds the images, as the records name it.
    """
    sizes = []
    for records in first_records(paths):
        with suppress(ValueError):
            for data in strings_of(records[:FIRST_IMAGES], feature):
                with suppress(BadImage):
                    header = read_header(data)
                    sizes.append((header.height, header.width))
        if sizes:
            break
    return sizes


def scan_or_reject(file: FileStat, watched: frozenset[str]) -> Scan | Reject:
    """As `scan_file`; a file that cannot be used is set aside."""
    try:
        return scan_file(file, watched)
    except BadInput as bad:
        return bad.reject(None)
