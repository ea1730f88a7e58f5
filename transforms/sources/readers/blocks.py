"""Texts as blocks of whole lines, so that workers can share a file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers.expected import Group
from beamfeed.transforms.sources.readers.formats import packed_by

BLOCK_BYTES = 8 << 20
LINE_BYTES = 64 << 20  # a longer line is none
START_BYTES = 1 << 20  # that tell how a text is written


@contextmanager
def open_text(path: str) -> Iterator[pa.NativeFile]:
    """Opens a text, unpacked."""
    with storage.open_input(path) as source:
        if source.size() == 0:
            raise BadInput(path, "file", "the file is empty")
        packing = packed_by(path)
        if packing is None:
            yield source
            return
        # Arrow unpacks 64 KB at a time, which would be a request each on gs://.
        with pa.CompressedInputStream(pa.BufferedInputStream(source, BLOCK_BYTES), packing) as text:
            yield text


def read_start(path: str, lines: int = 2) -> tuple[bytes, bool]:
    """The first bytes of a text, some lines at least, and whether they are all of it."""
    with open_text(path) as text:
        start = text.read(START_BYTES)
        size = START_BYTES
        while len(start) == size and max(start.count(b"\n"), start.count(b"\r")) <= lines and size < LINE_BYTES:
            start += text.read(size)
            size *= 2
        return start, len(start) < size or not text.read(1)


def pieces_of(path: str) -> Iterator[bytes]:
    """All bytes of a text, unpacked, cut anywhere."""
    with open_text(path) as text:
        while piece := text.read(BLOCK_BYTES):
            yield piece


def whole_lines(path: str, pieces: Iterator[bytes], quote: str | None) -> Iterator[tuple[int, bytes]]:
    """Blocks of whole lines, each with the byte that it starts at.

    Args:
      path: of the file, for errors.
      pieces: all bytes of it, cut anywhere.
      quote: around values that may hold ends of lines.

    Raises:
      BadInput: if a line has no end.
    """
    place, rest = 0, b""
    for piece in pieces:
        data = rest + piece
        end = _end_of_lines(data, quote)
        if not end and len(data) > LINE_BYTES:
            raise BadInput(path, f"byte {place}", f"a line of more than {LINE_BYTES >> 20} MB")
        if end:
            yield place, data[:end]
        place, rest = place + end, data[end:]
    if rest:
        yield place, rest


def _end_of_lines(data: bytes, quote: str | None) -> int:
    """Where the last whole line ends, outside of quotes; 0 if there is none."""
    end = last = data.rfind(b"\n") + 1
    # An odd number of quotes before: the line goes on in a quoted value.
    while quote is not None and end and data.count(quote.encode(), 0, end) % 2:
        end = data.rfind(b"\n", 0, end - 1) + 1
    return end or (last if len(data) > 2 * BLOCK_BYTES else 0)  # a quote that never ends is a character


def blocks_at(path: str, groups: Sequence[Group]) -> Iterator[tuple[int, bytes]]:
    """The blocks of some groups, each with the byte that it starts at.

    Raises:
      BadInput: if the file does not reach so far.
    """
    with storage.open_input(path) as file:
        for group in groups:
            data = file.read_at(group.size, group.place)
            if len(data) != group.size:
                raise BadInput(path, f"byte {group.place}", "the file is shorter than when it was planned")
            yield group.place, data


def lines_before(path: str, place: int) -> int:
    """How many lines end before a byte of a text."""
    lines = 0
    for piece in pieces_of(path):
        lines += piece[:place].count(b"\n")
        place -= len(piece)
        if place <= 0:
            break
    return lines
