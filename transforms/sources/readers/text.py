"""CSV and its like: how a file is written is found out from its beginning, then its blocks are parsed by that."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.csv

from beamfeed.contract import storage
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
from beamfeed.transforms.sources.readers.parse import check_rows, infer, parse
from beamfeed.transforms.sources.readers.sniff import sniff

_TAIL_BYTES = 4 << 20  # that hold the lines at the end which are no rows


def find_dialect(path: str, options: TextOptions) -> Dialect:
    """How a file is written.

    Raises:
      BadInput: if it is not text, or its numbers could be read in two ways.
    """
    with storage.open_input(path) as source:
        size = source.size()
    try:
        return _dialect(path, size, options)
    except Unsure as unsure:
        raise BadInput(path, "file", str(unsure)) from None


@lru_cache(64)
def _dialect(path: str, size: int, options: TextOptions) -> Dialect:
    start, complete = read_start(path)
    return _sniff(path, start, complete, options)


def _sniff(path: str, start: bytes, complete: bool, options: TextOptions) -> Dialect:
    with naming_the_place(path):
        return sniff(
            start,
            options.keys,
            options.needed,
            complete=complete,
            is_feature=options.is_feature,
            numbers=options.numbers,
        )


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
    start, complete = read_start(path)
    dialect = _sniff(path, start, complete, options)
    with naming_the_place(path, dialect.first_line):
        schema = infer(
            _first_rows(start, complete, dialect),
            dialect,
            lenient=options.lenient,
            is_number=options.number_columns.__contains__,
        )
    return Look(schema, dialect)


def first_rows_of_text(path: str, names: Sequence[str], options: TextOptions) -> pa.Table:
    """Columns of the first rows, as they are written."""
    start, whole = read_start(path)
    dialect = _sniff(path, start, whole, options)
    with naming_the_place(path, dialect.first_line):
        table = parse(_first_rows(start, whole, dialect), dialect, dict.fromkeys(names, pa.string()))
        if not options.lenient:
            check_rows(table)
        return table.select(list(names))


def find_bad_number(path: str, name: str, options: TextOptions) -> BadText | None:
    """The first value of a column that is no number, among the first rows of a file."""
    start, complete = read_start(path)
    dialect = _sniff(path, start, complete, options)
    try:
        check_rows(parse(_first_rows(start, complete, dialect), dialect, {name: pa.float32()}))
    except BadText as bad:
        return bad.after(dialect.first_line)
    return None


def _first_rows(start: bytes, complete: bool, dialect: Dialect) -> bytes:
    """The rows in the first bytes of a file."""
    lines = start if dialect.by_lines else b"".join(to_lines([start], dialect, complete=complete))
    if not complete:
        lines = lines[: lines.rfind(b"\n") + 1]
    elif dialect.skip_last:
        lines = lines[: end_of_rows(lines, dialect.skip_last)]
    return clean(lines, dialect, first=True)


def iter_text(
    path: str, expected: Expected, names: Sequence[str], groups: Sequence[Group] | None
) -> Iterator[tuple[Group, int, pa.RecordBatch]]:
    """Streams columns of blocks, see `iter_batches`."""
    dialect = find_dialect(path, expected.text)
    require_columns(path, expected.names, dialect.names, expected.optional, dialect.describe())
    csv_types, stored = expected.csv_types, frozenset(dialect.names)
    types = {name: csv_types[name] for name in names if name in stored}

    def parse_block(block: bytes, first: bool) -> pa.Table:
        return parse(clean(block, dialect, first=first), dialect, types)

    blocks = _blocks(path, dialect) if groups is None else blocks_at(path, groups)
    yield from iter_tables(path, blocks, groups, names, parse_block, dialect.first_line)


def _blocks(path: str, dialect: Dialect) -> Iterator[tuple[int, bytes]]:
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
