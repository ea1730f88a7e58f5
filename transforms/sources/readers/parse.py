"""Parses whole lines of a text into columns: by Arrow, and where it does not take a value, by way of text."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from beamfeed.transforms.sources.readers.dialect import FALSE_WORDS, TRUE_WORDS, Dialect, split_rows
from beamfeed.transforms.sources.readers.encoding import BadText, is_damaged, marked, place_of, with_marks
from beamfeed.transforms.sources.readers.quotes import Quotes, describe_open
from beamfeed.transforms.sources.readers.values import convert_all, without_rows

MOST_WRONG = 0.1  # of the values of a column of numbers, at its beginning: those that are no numbers
BAD = "\x00bad"  # the column that says what is wrong with a row
SMALL_BLOCK = 1024 * 1024  # bytes


@dataclass(frozen=True)
class Parsed:
    """A block of rows.

    Attributes:
      columns: by name; a row that cannot be read is of missing values: all of them, or the one that is bad.
      rows: how many there are.
      wrong: of those in which something is wrong, the line in the block, the column if it is one's fault, and what.
    """

    columns: Mapping[str, pa.Array | pa.ChunkedArray]
    rows: int
    wrong: Mapping[int, tuple[int, str | None, str]]

    def check(self) -> None:
        """Raises BadText at the first row in which something is wrong."""
        if self.wrong:
            line, column, reason = self.wrong[min(self.wrong)]
            raise BadText(reason, line, column)


def no_rows(types: Mapping[str, pa.DataType]) -> Parsed:
    """What a block without rows comes to."""
    return Parsed({name: pa.array([], type_) for name, type_ in types.items()}, 0, {})


def _typed(block: bytes, dialect: Dialect, types: Mapping[str, pa.DataType]) -> Parsed:
    """As `parse`, where Arrow's own reader takes all."""
    places = {dialect.places[name]: type_ for name, type_ in types.items()}
    # Without threads, Arrow has another one read the block and waits: of a small one, for most of the time. With them,
    # it does not tell which row is wrong.
    table = _read(block, dialect, places, threads=len(block) < SMALL_BLOCK)
    columns = [
        pc.utf8_trim_whitespace(column) if dialect.padded and pa.types.is_string(column.type) else column
        for column in table.columns
    ]
    return Parsed(dict(zip(types, columns, strict=True)), table.num_rows, {})


def parse(block: bytes, dialect: Dialect, types: Mapping[str, pa.DataType]) -> Parsed:
    """Columns of a block of rows.

    Args:
      block: whole lines, as `clean` gives them.
      dialect: of the file.
      types: of the columns that are read, which the file has once each.

    Raises:
      BadText: if the block is not text.
    """
    if not block or block.isspace():
        return no_rows(types)
    if dialect.numbers.thousands is None and not is_damaged(block, dialect.encoding):
        with suppress(pa.ArrowInvalid):  # which line or value it is, or whether it is one at all, is found out below
            return _typed(block, dialect, types)
    block = with_marks(block)
    table, ragged = _read_rows(block, dialect, dict.fromkeys((dialect.places[name] for name in types), pa.string()))
    wrong: dict[int, tuple[str | None, str]] = {row: (None, reason) for row, reason in ragged.items()}
    total = table.num_rows + len(ragged)
    rows = np.delete(np.arange(total), list(ragged))  # of the file, by rows of the table
    columns = {}
    for text, (name, type_) in zip(table.columns, types.items(), strict=True):
        text = text.combine_chunks()
        bad = marked(text, dialect.encoding)
        if bad:
            text = without_rows(text, list(bad))
        columns[name], no_values = convert_all(text, type_, dialect)
        for row, reason in {**bad, **no_values}.items():
            wrong.setdefault(int(rows[row]), (name, reason))
    if ragged:
        places = np.full(total, -1)
        places[rows] = np.arange(len(rows))
        taken = pa.array(places, mask=places < 0)
        columns = {name: column.take(taken) for name, column in columns.items()}
    lines = lines_of_rows(block, dialect, sorted(wrong), total)
    return Parsed(columns, total, {row: (lines[row], *fault) for row, fault in wrong.items()})


def fault_column(parsed: Parsed, lines: int, noun: Callable[[], str]) -> pa.StringArray:
    """The column BAD of a block before which so many lines, called so, stand in the file."""
    if not parsed.wrong:
        return pa.nulls(parsed.rows, pa.string())
    name, reasons = noun(), np.full(parsed.rows, None, object)
    for row, (line, column, reason) in parsed.wrong.items():
        reasons[row] = f"{place_of(line + lines, column, name)}\0{reason}"
    return pa.array(reasons, pa.string())


def faults_of(column: pa.Array) -> dict[int, tuple[str, str]]:
    """What a column BAD says of a file: by row the place, such as `line 17, column x`, and the reason."""
    if column.null_count == len(column):
        return {}
    faults = {}
    for row in np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).tolist():
        place, reason = column[row].as_py().split("\0", 1)
        faults[row] = place, reason
    return faults


def infer(block: bytes, dialect: Dialect, *, lenient: bool, is_number: Callable[[str], bool]) -> pa.Schema:
    """The names and types of all columns, as some rows suggest them; of no rows, types are null.

    Args:
      block: whole lines, as `clean` gives them.
      dialect: of the file.
      lenient: passes over rows that cannot be read.
      is_number: of which columns the job says that they hold numbers.

    Raises:
      BadText: at a line that cannot be read.
    """
    if not block.strip():
        return pa.schema([(name, pa.null()) for name in dialect.names])
    block = with_marks(block)
    table, ragged = _read_rows(block, dialect, {})
    if ragged and not lenient:
        row = min(ragged)
        raise BadText(ragged[row], line_of_row(block, dialect, row))
    types = []
    for name, column in zip(dialect.names, table.columns, strict=True):
        type_ = column.type
        if pa.types.is_string(type_) or pa.types.is_binary(type_):  # may be numbers that Arrow does not take
            text = column.combine_chunks().cast(pa.string(), safe=False)
            numbers, wrong = convert_all(text, pa.float64(), dialect)
            present = len(numbers) - numbers.null_count
            if not wrong or (lenient and len(wrong) < present * (1 if is_number(name) else MOST_WRONG)):
                is_integer = bool(wrong) and len(convert_all(text, pa.int64(), dialect)[1]) == len(wrong)
                type_ = pa.int64() if is_integer else pa.float64() if present else pa.null()
        types.append(type_)
    return pa.schema(list(zip(dialect.names, types, strict=True)))


def _read(
    block: bytes, dialect: Dialect, types: Mapping[int, pa.DataType],
    skip: Callable[[pa.csv.InvalidRow], str] | None = None, *, threads: bool = False,
) -> pa.Table:  # fmt: skip
    """Columns by their places, all without `types`; their names are the places, as a file may have a name twice."""
    return pa.csv.read_csv(
        pa.py_buffer(block),
        read_options=pa.csv.ReadOptions(
            use_threads=threads,
            block_size=len(block) + 1,
            column_names=[str(i) for i in range(len(dialect.names))],
        ),
        parse_options=pa.csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote or False,
            escape_char=dialect.escape or False,
            newlines_in_values=dialect.quote is not None and dialect.quote.encode() in block,
            invalid_row_handler=skip,
        ),
        convert_options=pa.csv.ConvertOptions(
            column_types={str(place): type_ for place, type_ in types.items()},
            include_columns=[str(place) for place in types],
            null_values=dialect.null_words,
            true_values=TRUE_WORDS,
            false_values=FALSE_WORDS,
            decimal_point=dialect.numbers.decimal,
        ),
    )


def _read_rows(block: bytes, dialect: Dialect, types: Mapping[int, pa.DataType]) -> tuple[pa.Table, dict[int, str]]:
    """Columns by their places, all without `types`; and by their rows, which are left out, what is wrong with others.

    Raises:
      BadText: if the block is not text.
    """
    ragged: dict[int, str] = {}

    def skip(row: pa.csv.InvalidRow) -> str:
        ragged[row.number - 1] = _why_ragged(row, dialect.quotes)
        return "skip"

    try:
        return _read(block, dialect, types, skip), ragged
    except pa.ArrowInvalid as error:
        raise BadText(f"cannot be read: {' '.join(str(error).split())[:300]}") from None


def _why_ragged(row: pa.csv.InvalidRow, quotes: Quotes | None) -> str:
    if quotes is not None and (reason := describe_open(row.text, quotes)):
        return reason
    text = row.text.replace("\n", " ").replace("\0", "\\0")  # values may go on in the next line
    shown = f"{text[:100]}{'...' if len(text) > 100 else ''}"
    return f"expected {row.expected_columns} columns, got {row.actual_columns}: {shown}"


def line_of_row(block: bytes, dialect: Dialect, row: int) -> int:
    """The line of a block, from 1, that one of its rows begins with; empty lines are no rows, as Arrow has it."""
    return lines_of_rows(block, dialect, [row])[row]


def lines_of_rows(block: bytes, dialect: Dialect, rows: Sequence[int], total: int | None = None) -> dict[int, int]:
    """As `line_of_row`, of several in order; `total` is how many rows the block has."""
    if not rows or total == block.count(b"\n") + (not block.endswith(b"\n")):
        return {row: row + 1 for row in rows}  # each line is one
    text = io.StringIO(block.decode("utf-8", "replace"), newline="")
    reader = split_rows(text, dialect.delimiter, dialect.quote, dialect.escape)
    lines, line = [], 1  # that the rows begin with
    with suppress(csv.Error):  # such as of a value of more than 128 KB
        for cells in reader:
            if cells:
                lines.append(line)
            line = reader.line_num + 1
    return {row: lines[row] if row < len(lines) else line for row in rows}
