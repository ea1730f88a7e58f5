"""CSV and its like: how a file is written is found out from its beginning, then its blocks are parsed by that."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.csv

from beamfeed.contract import storage
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers.blocks import (
    blocks_at,
    iter_tables,
    naming_the_place,
    pieces_of,
    read_start,
    whole_lines,
)
from beamfeed.transforms.sources.readers.cells import Unsure
from beamfeed.transforms.sources.readers.clean import clean, end_of_rows, to_lines
from beamfeed.transforms.sources.readers.dialect import Dialect
from beamfeed.transforms.sources.readers.encoding import BadText
from beamfeed.transforms.sources.readers.expected import Cut, Expected, Group, Look, TextOptions, require_columns
from beamfeed.transforms.sources.readers.formats import packed_by
from beamfeed.transforms.sources.readers.parse import Parsed, infer, parse
from beamfeed.transforms.sources.readers.sniff import sniff

_TAIL_BYTES = 4 << 20  # that hold the lines at the end which are no rows


def find_dialect(path: str, options: TextOptions) -> Dialect:
    """How a file is written.

    Raises:
      BadInput: if it is not text, or its numbers could be read in two ways.
    """
    try:
        return _dialect(storage.stat(path), options)
    except Unsure as unsure:
        raise BadInput(path, "file", str(unsure)) from None


@lru_cache(64)
def _dialect(file: FileStat, options: TextOptions) -> Dialect:
    return _beginning(file.path, options)[0]


def _beginning(path: str, options: TextOptions) -> tuple[Dialect, bytes]:
    """How a file is written, and its first rows."""
    start, complete = read_start(path)
    with naming_the_place(path):
        dialect = sniff(start, options, complete=complete)
        lines = start if dialect.by_lines else b"".join(to_lines([start], dialect, complete=complete))
        if not complete:
            lines = lines[: lines.rfind(b"\n") + 1]
        elif dialect.skip_last:
            lines = lines[: end_of_rows(lines, dialect.skip_last)]
        return dialect, clean(lines, dialect, first=True)


def cut_text(path: str, options: TextOptions) -> Cut | None:
    """Whether a block can be read without what is before it."""
    if packed_by(path) is not None:
        return None
    dialect = find_dialect(path, options)
    return Cut(dialect.quote, dialect.skip_last) if dialect.by_lines else None


def look_at_text(path: str, options: TextOptions) -> Look:
    """The names and types of the columns, as the first rows suggest them, and how the file is written.

    Raises:
      BadInput: if it cannot be read.
      Unsure: if its numbers could be read in two ways.
    """
    dialect, rows = _beginning(path, options)
    with naming_the_place(path, dialect.first_line):
        is_number = options.number_columns.__contains__
        return Look(infer(rows, dialect, lenient=options.lenient, is_number=is_number), dialect)


def find_bad_number(path: str, name: str, options: TextOptions) -> BadText | None:
    """The first value of a column that is no number, among the first rows of a file."""
    dialect, rows = _beginning(path, options)
    try:
        parse(rows, dialect, {name: pa.float32()}).check()
    except BadText as bad:
        return bad.after(dialect.first_line)
    return None


def iter_text(
    path: str, expected: Expected, names: Sequence[str], groups: Sequence[Group] | None, _: int | None
) -> Iterator[tuple[Group, int, pa.RecordBatch]]:
    """Streams columns of blocks, see `iter_batches`."""
    dialect = find_dialect(path, expected.text)
    require_columns(path, expected.names, dialect.names, expected.optional, dialect.describe())
    csv_types, stored = expected.csv_types, frozenset(dialect.names)
    types = {name: csv_types[name] for name in names if name in stored}

    def parse_block(block: bytes, first: bool) -> Parsed:
        return parse(clean(block, dialect, first=first), dialect, types)

    blocks = blocks_of(path, dialect) if groups is None else blocks_at(path, groups)
    yield from iter_tables(path, blocks, groups, names, parse_block, dialect.first_line)


def blocks_of(path: str, dialect: Dialect) -> Iterator[tuple[int, bytes]]:
    """All rows of a text in blocks of whole lines, each with the byte that it starts at."""
    with naming_the_place(path):
        pieces = pieces_of(path) if dialect.by_lines else to_lines(pieces_of(path), dialect)
        lines = whole_lines(path, pieces, dialect.quotes, dialect.first_line)
        yield from _without_last(lines, dialect.skip_last)


def _without_last(blocks: Iterator[tuple[int, bytes]], lines: int) -> Iterator[tuple[int, bytes]]:
    """The blocks without the last lines of the last one; a block is held back, as the last may have too few."""
    if not lines:
        yield from blocks
        return
    pending: tuple[int, bytes] | None = None
    for place, block in blocks:
        if pending is not None and len(block) < _TAIL_BYTES:
            place, block = pending[0], pending[1] + block
        elif pending is not None:
            yield pending
        pending = place, block
    if pending is not None:
        place, block = pending
        end = end_of_rows(block, lines)
        if end:
            yield place, block[:end]
