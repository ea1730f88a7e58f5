"""Texts as blocks of whole lines, so that workers can share a file."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers.encoding import BadText, place_of
from beamfeed.transforms.sources.readers.expected import Group, batch_rows
from beamfeed.transforms.sources.readers.formats import packed_by
from beamfeed.transforms.sources.readers.parse import BAD, Parsed, fault_column
from beamfeed.transforms.sources.readers.quotes import Quotes, find_open, last_line
from beamfeed.transforms.sources.readers.zipped import open_member

BLOCK_BYTES = 8 << 20
LINE_BYTES = 64 << 20  # a longer line is none
TAIL_BYTES = 64 << 10  # of a block, in which its last line is looked for
NEAR_BYTES = 256 << 10  # looked through at a time: what is made of them stays in the processor's cache
START_BYTES = 1 << 20  # that tell how a text is written
PARSERS = min(4, os.cpu_count() or 1)  # threads that parse a text; each holds some blocks


class EmptyFile(BadInput):
    """A file of no bytes."""


@contextmanager
def naming_the_place(path: str, lines: int = 0, noun: Callable[[], str] = lambda: "line") -> Iterator[None]:
    """Turns BadText into BadInput; so many lines of the file stand before, which are called so."""
    try:
        yield
    except BadText as bad:
        place = "file" if bad.line is None else place_of(bad.line + lines, bad.column, noun())
        raise BadInput(path, place, bad.reason) from None


@contextmanager
def open_text(path: str) -> Iterator[pa.NativeFile]:
    """Opens a text, unpacked."""
    with storage.open_input(path) as source:
        if source.size() == 0:
            raise EmptyFile(path, "file", "the file is empty")
        packing = packed_by(path)
        if packing is None:
            yield source
            return
        if packing == "zip":
            with open_member(path, source) as text:
                yield text
            return
        # Arrow unpacks 64 KB at a time, which would be a request each on gs://.
        with pa.CompressedInputStream(pa.BufferedInputStream(source, BLOCK_BYTES), packing) as text:
            yield text


def read_start(path: str, lines: int = 2) -> tuple[bytes, bool]:
    """The first bytes of a text, some lines at least, and whether they are all of it."""
    with open_text(path) as text:
        start = _read(text, START_BYTES)
        size = START_BYTES
        while len(start) == size and max(start.count(b"\n"), start.count(b"\r")) <= lines and size < LINE_BYTES:
            start += _read(text, size)
            size *= 2
        return start, len(start) < size or not _read(text, 1)


def _read(text: pa.NativeFile, size: int) -> bytes:
    """So many bytes at most. Where unpacking fails, `read` of pyarrow 25 never frees what it was to fill."""
    return text.read_buffer(size).to_pybytes() if isinstance(text, pa.CompressedInputStream) else text.read(size)


def pieces_of(path: str) -> Iterator[bytes]:
    """All bytes of a text, unpacked, cut anywhere; where it costs nothing, behind lines, which need no copy then."""
    with open_text(path) as text:
        if isinstance(text, pa.OSFile):
            yield from _cut_behind_lines(text)
            return
        while piece := _read(text, BLOCK_BYTES):
            yield piece


def _cut_behind_lines(file: pa.NativeFile) -> Iterator[bytes]:
    place, size = 0, file.size()
    for end in range(BLOCK_BYTES, size + BLOCK_BYTES, BLOCK_BYTES):
        if end < size:
            tail_bytes = min(TAIL_BYTES, BLOCK_BYTES)
            tail = file.read_at(tail_bytes, end - tail_bytes)
            end -= len(tail) - (tail.rfind(b"\n") + 1 or len(tail))
        if place < end and (piece := file.read_at(end - place, place)):
            place += len(piece)
            yield piece


def whole_lines(
    path: str, pieces: Iterator[bytes], quotes: Quotes | None, skipped: int = 0
) -> Iterator[tuple[int, bytes]]:
    """Blocks of whole lines, each with the byte that it starts at.

    Args:
      path: of the file, for errors.
      pieces: all bytes of it, cut anywhere.
      quotes: around values that may hold ends of lines.
      skipped: how many lines are no rows at the beginning; they are in the first block, and quotes in them are text.

    Raises:
      BadInput: if a line has no end.
    """
    place, rest = 0, b""
    for piece in pieces:
        last = piece.rfind(b"\n") + 1
        block = piece
        if rest or last < len(piece):
            block = b"".join((rest, memoryview(piece)[:last])) if last else b""
        rows = after_lines(block, skipped) if place == 0 else 0
        has_rows = rows < len(block)
        if has_rows and (quotes is None or quotes.is_sound(block[rows:])):
            yield place, block
            place, rest = place + len(block), piece[last:]
            continue
        text = rest + piece  # a value or a line goes on behind the piece
        rows = after_lines(text, skipped) if place == 0 else 0
        end = _end_of_lines(text, quotes, rows, is_open=has_rows)
        if not end and len(text) > LINE_BYTES:
            raise BadInput(path, f"byte {place}", f"a line of more than {LINE_BYTES >> 20} MB")
        if end:
            yield place, text[:end]
        place, rest = place + end, text[end:]
    if rest:
        yield place, rest


def after_lines(data: bytes, lines: int) -> int:
    """The byte that so many lines end before; the end if there are no more."""
    at = 0
    for _ in range(lines):
        at = data.find(b"\n", at) + 1
        if not at:
            return len(data)
    return at


def _end_of_lines(data: bytes, quotes: Quotes | None, rows: int, *, is_open: bool) -> int:
    """Where the last whole line of the rows from `rows` on ends, outside of quotes; 0 if there is none.

    `is_open` tells that a quote is open where the last line ends.
    """
    end = last = data.rfind(b"\n", rows) + 1
    if quotes is not None and end and (is_open or not quotes.is_sound(data[rows:end] if rows else data[:end])):
        # Most often the last line ends in a value that goes on: then the lines before that value are sound.
        earlier = data.rfind(b"\n", rows, max(rows, data.rfind(quotes.quote.encode(), rows, end))) + 1
        if earlier and quotes.is_sound(data[rows:earlier]):
            return earlier
        open_quotes = find_open(data, quotes, rows, complete=False)
        end = last_line(data, open_quotes.values, rows, open_quotes.rest)
    return end or (last if len(data) > 2 * BLOCK_BYTES else 0)  # a value that never ends has an open quote


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


def count_lines(block: bytes) -> int:
    """How many ends of lines are in a block; others may run meanwhile."""
    values = np.frombuffer(block, np.uint8)
    parts = (values[at : at + NEAR_BYTES] for at in range(0, len(values), NEAR_BYTES))
    return sum(int(np.count_nonzero(part == ord("\n"))) for part in parts)


_Parsed = tuple[Parsed, int]  # a block, and how many lines it has


def _ahead(
    blocks: Iterable[tuple[int, bytes]], parse: Callable[[bytes, bool], _Parsed]
) -> Iterator[tuple[int, bytes, Callable[[], _Parsed]]]:
    """Blocks with what gives their tables; behind the first, some are parsed while those before them are used."""
    pending: deque[tuple[int, bytes, Callable[[], _Parsed]]] = deque()
    pool = ThreadPoolExecutor(PARSERS)
    try:
        for number, (place, block) in enumerate(blocks):
            if number == 0:  # who looks at the first rows needs no more
                yield place, block, partial(parse, block, place == 0)
                continue
            pending.append((place, block, pool.submit(parse, block, place == 0).result))
            if len(pending) > PARSERS:
                yield pending.popleft()
        yield from pending
    except Exception:
        yield from pending  # what is wrong with these comes first
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def iter_tables(
    path: str, blocks: Iterable[tuple[int, bytes]], groups: Sequence[Group] | None, names: Sequence[str],
    parse: Callable[[bytes, bool], Parsed], first_line: int = 0, noun: Callable[[], str] = lambda: "line",
) -> Iterator[tuple[Group, int, pa.RecordBatch]]:  # fmt: skip
    """Parses blocks one after the other, see `iter_batches`.

    Args:
      path: of the file, for messages.
      blocks: whole lines, each with the byte that they start at.
      groups: what they are; None where they are all blocks of the file.
      names: of the columns that are read; without BAD among them, no row may be bad.
      parse: a block, and whether it is the first of the file, is parsed; raises BadText.
      first_line: lines that were left out of the first block.
      noun: tells what a line is for who wrote the file; asked where something is wrong with one.

    Raises:
      BadInput: at the line that cannot be read.
    """
    planned = {group.place: group for group in groups or ()}
    row, lines = 0, 0
    for place, block, result in _ahead(blocks, lambda block, first: (parse(block, first), count_lines(block))):
        if groups is not None:
            row, lines = planned[place].row, planned[place].lines
        before = lines + (first_line if place == 0 else 0)
        with naming_the_place(path, before, noun):
            parsed, lines_of_block = result()
            if BAD not in names:
                parsed.check()
        columns = dict(parsed.columns)
        if BAD in names:
            columns[BAD] = fault_column(parsed, before, noun)
        group = Group(row, parsed.rows, place, len(block), lines)
        for batch in pa.table(columns).to_batches(max_chunksize=batch_rows(len(names))):
            yield group, row, batch
            row += batch.num_rows
        lines += lines_of_block
