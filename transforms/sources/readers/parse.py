"""Parses whole lines of a text into columns: by Arrow, and where it does not take a value, by way of text."""

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from beamfeed.transforms.sources.readers.dialect import FALSE_WORDS, TRUE_WORDS, Dialect
from beamfeed.transforms.sources.readers.encoding import BadText, has_marks, marked, with_marks
from beamfeed.transforms.sources.readers.quotes import describe_open, is_marked
from beamfeed.transforms.sources.readers.values import BadValue, convert, convert_all

MOST_WRONG = 0.1  # of the values of a column of numbers, at its beginning: those that are no numbers
BAD = "\x00bad"  # the column of `parse_all` that says what is wrong with a row
SMALL_BLOCK = 1024 * 1024  # bytes


def parse(block: bytes, dialect: Dialect, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Columns of a block of rows.

    Args:
      block: whole lines, as `clean` gives them.
      dialect: of the file.
      types: of the columns that are read, which the file has once each.

    Raises:
      BadText: at the first line or value that cannot be read; lines are those of the block, from 1.
    """
    if not block.strip():
        return pa.table({name: pa.array([], type_) for name, type_ in types.items()})
    marks = has_marks(block, dialect.encoding)  # which Arrow would take for characters
    if not dialect.as_text and not marks:
        try:
            return _typed(block, dialect, types)
        except pa.ArrowInvalid:
            pass  # which line or value it is, or whether it is one at all, is found out by way of text
    table = _read_text(block, dialect, [dialect.names.index(name) for name in types])
    columns = {}
    for i, (name, type_) in enumerate(types.items()):
        text = table.column(i).combine_chunks()
        if marks and (bad_bytes := marked(text, dialect.encoding)):
            row, reason = next(iter(bad_bytes.items()))
            raise BadText(reason, line_of_row(block, dialect, row), name)
        try:
            columns[name] = convert(text, type_, dialect)
        except BadValue as bad:
            line = line_of_row(block, dialect, bad.row)
            raise BadText(f"{bad.value!r} {bad.reason}", line, name) from None
    return pa.table(columns)


def _typed(block: bytes, dialect: Dialect, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Columns as Arrow's own reader takes them."""
    places = {dialect.names.index(name): type_ for name, type_ in types.items()}
    # Without threads, Arrow has another one read the block and waits: of a small one, for most of the time. With them,
    # it does not tell which row is wrong.
    table = _read(block, dialect, places, threads=len(block) < SMALL_BLOCK)
    columns = [
        pc.utf8_trim_whitespace(column) if dialect.padded and pa.types.is_string(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=list(types))


def parse_all(block: bytes, dialect: Dialect, types: Mapping[str, pa.DataType]) -> pa.Table:
    """As `parse`, but a row that cannot be read is one of missing values: as a whole, or where its value is bad.

    Returns:
      the columns, and BAD, string: what is wrong with a row, where something is; see `faults_of`.

    Raises:
      BadText: if the block is not text.
    """
    if block.strip() and not dialect.as_text and not has_marks(block, dialect.encoding):
        try:
            typed = _typed(block, dialect, types)
            return typed.append_column(BAD, pa.nulls(typed.num_rows, pa.string()))
        except pa.ArrowInvalid:
            pass
    wrong: dict[int, tuple[str, str]] = {}
    ragged: list[int] = []

    def skip(row: pa.csv.InvalidRow) -> str:
        ragged.append(row.number - 1)
        if dialect.quotes is not None and is_marked(row.text, dialect.quotes):
            wrong[row.number - 1] = "", describe_open(row.text, dialect.quotes)
            return "skip"
        wrong[row.number - 1] = "", _ragged(row.expected_columns, row.actual_columns, row.text)
        return "skip"

    block = with_marks(block)
    table = _read_text(block, dialect, [dialect.names.index(name) for name in types], skip) if block.strip() else None
    if table is None:
        return pa.table({name: pa.array([], type_) for name, type_ in {**types, BAD: pa.string()}.items()})
    rows = np.delete(np.arange(table.num_rows + len(ragged)), ragged)  # of the file, by rows of the table
    columns = {}
    for i, (name, type_) in enumerate(types.items()):
        text = table.column(i).combine_chunks()
        bad = marked(text, dialect.encoding)
        if bad:
            text = without_rows(text, list(bad))
        column, no_values = convert_all(text, type_, dialect)
        for row, reason in {**bad, **no_values}.items():
            wrong.setdefault(int(rows[row]), (name, reason))
        columns[name] = column
    if ragged:
        take = np.zeros(table.num_rows + len(ragged), np.int64)
        take[rows] = np.arange(len(rows))
        is_read = np.zeros(len(take), bool)
        is_read[rows] = True
        place = pa.array(take, mask=~is_read)
        columns = {name: column.take(place) for name, column in columns.items()}
    lines = lines_of_rows(block, dialect, sorted(wrong), table.num_rows + len(ragged))
    return pa.table({**columns, BAD: fault_column(table.num_rows + len(ragged), wrong, lines)})


def fault_column(rows: int, wrong: Mapping[int, tuple[str, str]], lines: Mapping[int, int]) -> pa.StringArray:
    """The column BAD of a block.

    Args:
      rows: of the block.
      wrong: by row the column, or "", and what is wrong.
      lines: of these rows, in the block, from 1.
    """
    reasons = np.full(rows, None, object)
    for row, (name, reason) in wrong.items():
        reasons[row] = f"{lines[row]}\0{name}\0{reason}"
    return pa.array(reasons, pa.string())


def after_line(column: pa.StringArray, lines: int) -> pa.StringArray:
    """A column BAD, or a part of one, where so many lines of the file stand before the block."""
    parts = (None if value is None else value.split("\0", 1) for value in column.to_pylist())
    return pa.array([None if part is None else f"{int(part[0]) + lines}\0{part[1]}" for part in parts], pa.string())


def of_records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch with the column BAD whose lines are the records of a JSON document."""
    at = batch.schema.get_field_index(BAD)
    return batch.set_column(at, BAD, pc.binary_join_element_wise("record ", batch.column(at), ""))


def faults_of(column: pa.Array) -> dict[int, tuple[str, str]]:
    """What a column BAD says: by row the place in the file, such as `line 17, column x`, and the reason."""
    if column.null_count == len(column):
        return {}
    faults = {}
    for row in np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).tolist():
        place, name, reason = column[row].as_py().split("\0", 2)
        place = place if place.startswith("record ") else f"line {place}"
        faults[row] = f"{place}{f', column {name}' if name else ''}", reason
    return faults


def without_rows(column: pa.StringArray, rows: list[int]) -> pa.StringArray:
    """A column of which some rows are null."""
    keep = np.ones(len(column), bool)
    keep[rows] = False
    return pc.if_else(pa.array(keep), column, pa.scalar(None, pa.string()))


def infer(
    block: bytes, dialect: Dialect, *, lenient: bool = False, is_number: Callable[[str], bool] = lambda _: False
) -> pa.Schema:
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
    skip = (lambda _: "skip") if lenient else None
    block = with_marks(block) if lenient else block
    try:
        table = _read(block, dialect, None, skip)
    except pa.ArrowInvalid:
        table = _read_text(block, dialect, list(range(len(dialect.names))), skip)
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
    block: bytes, dialect: Dialect, types: Mapping[int, pa.DataType] | None,
    skip: Callable[[pa.csv.InvalidRow], str] | None = None, *, threads: bool = False,
) -> pa.Table:  # fmt: skip
    """Columns by their places, all without `types`; their names are the places, as a file may have a name twice."""
    types = types or {}
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
            decimal_point=dialect.decimal,
        ),
    )


def _read_text(
    block: bytes, dialect: Dialect, places: list[int], skip: Callable[[pa.csv.InvalidRow], str] | None = None
) -> pa.Table:
    """Columns as they are written.

    Raises:
      BadText: at the first row that has too many or too few values, or is not UTF-8.
    """
    try:
        return _read(block, dialect, dict.fromkeys(places, pa.string()), skip)
    except pa.ArrowInvalid as error:
        message = " ".join(str(error).split())
    if match := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+): ?(.*)", message):
        row, expected, count, text = match.groups()
        line = line_of_row(block, dialect, int(row) - 1)
        content = b"".join(block.split(b"\n", line)[line - 1 : line])  # which Arrow cuts in its message
        line_text = content.decode("utf-8", "replace").removesuffix("\r")
        if dialect.quotes is not None and is_marked(line_text, dialect.quotes):
            raise BadText(describe_open(line_text, dialect.quotes), line)
        raise BadText(_ragged(expected, count, text), line)
    if match := re.search(r"column #(\d+): .*invalid UTF8", message):
        for number, content in enumerate(block.split(b"\n"), 1):
            try:
                content.decode()
            except UnicodeDecodeError as error:
                reason = f"is not UTF-8 text: byte 0x{content[error.start]:02x}; see source.csv.encoding"
                raise BadText(reason, number) from None
    raise BadText(f"cannot be read: {message[:300]}")


def _ragged(expected: int | str, count: int | str, row: str) -> str:
    text = " ".join(row.split("\n")).replace("\0", "\\0")  # values may go on in the next line
    return f"expected {expected} columns, got {count}: {text[:100]}{'...' if len(text) > 100 else ''}"


def line_of_row(block: bytes, dialect: Dialect, row: int) -> int:
    """The line of a block, from 1, that one of its rows begins with; empty lines are no rows, as Arrow has it."""
    return lines_of_rows(block, dialect, [row])[row]


def lines_of_rows(block: bytes, dialect: Dialect, rows: Sequence[int], total: int | None = None) -> dict[int, int]:
    """As `line_of_row`, of several in order; `total` is how many rows the block has."""
    if total is not None and total == block.count(b"\n") + (not block.endswith(b"\n")):
        return {row: row + 1 for row in rows}  # each line is one
    reader = csv.reader(
        io.StringIO(block.decode("utf-8", "replace"), newline=""),
        delimiter=dialect.delimiter,
        quotechar=dialect.quote or '"',
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        escapechar=dialect.escape,
    )
    lines: dict[int, int] = {}
    line = number = 0
    remaining = iter(rows)
    target = next(remaining, None)
    try:
        for cells in reader:
            if cells:
                if number == target:
                    lines[number] = line + 1
                    target = next(remaining, None)
                    if target is None:
                        break
                number += 1
            line = reader.line_num
    except csv.Error:  # such as a value of more than 128 KB
        pass
    return {row: lines.get(row, line + 1) for row in rows}
