"""Looks for single things in a file: some values of columns, the line that a row is in."""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.transforms.sources.readers.clean import clean
from beamfeed.transforms.sources.readers.excerpt import spread
from beamfeed.transforms.sources.readers.expected import BATCH_ROWS, Columns, Expected, TextOptions
from beamfeed.transforms.sources.readers.formats import format_of
from beamfeed.transforms.sources.readers.lookup import reader_of
from beamfeed.transforms.sources.readers.parquet import open_parquet
from beamfeed.transforms.sources.readers.parse import BAD, line_of_row, parse
from beamfeed.transforms.sources.readers.text import blocks_of, find_dialect
from beamfeed.transforms.sources.readers.trouble import naming_the_file


def peek(path: str, names: Sequence[str], text: TextOptions, most: int = 500) -> list[str]:
    """Some values of columns as text, from the beginning of a file, of Parquet also from its end.

    Args:
      path: the file.
      names: of the columns; the values of a row are joined by spaces.
      text: how texts are written; of rows that cannot be read there are none.
      most: how many values.

    Raises:
      BadInput: if it cannot be read.
    """
    with naming_the_file(path):
        table = _some_rows(path, list(names), text, most)
        columns_read = [] if table is None else table.select(list(names)).columns
    columns = []
    for column in columns_read:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        columns.append(column.cast(pa.string()))
    if not columns:
        return []
    joined = columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, " ")
    some = joined.take(pa.array(spread(range(len(joined)), most), pa.int64()))
    return [value for value in some.to_pylist() if value is not None]


def _picked(batches: Iterable[pa.RecordBatch], rows: np.ndarray) -> pa.Table | None:
    """Some rows of batches that follow each other, of which one is in memory at a time."""
    parts, first = [], 0
    for batch in batches:
        begin, end = np.searchsorted(rows, (first, first + batch.num_rows))
        parts.append(batch.take(pa.array(rows[begin:end] - first)))
        first += batch.num_rows
    return pa.Table.from_batches(parts) if parts else None


def _some_rows(path: str, names: list[str], text: TextOptions, most: int) -> pa.Table | pa.RecordBatch | None:
    if format_of(path) == "parquet":
        with open_parquet(path) as file:
            groups = sorted({0, file.num_row_groups - 1}) if file.num_row_groups else []
            total = sum(file.metadata.row_group(at).num_rows for at in groups)
            rows = np.array(spread(range(total), most), np.int64)
            return _picked(file.iter_batches(BATCH_ROWS, row_groups=groups, columns=names), rows)
    expected = Columns(names, dict.fromkeys(names, pa.string()), text, frozenset(names))
    batches = reader_of(path).batches(path, expected, [*names, BAD], None, None)
    return next((batch for _, _, batch in batches), None)


def place_of_row(path: str, row: int, expected: Expected) -> str:
    """Where a row of a file is, for people: the line of a CSV, else the number of the row."""
    if format_of(path) != "csv":
        return f"row {row}"
    with naming_the_file(path):
        dialect = find_dialect(path, expected.text)
        name = next(name for name in expected.names if name in dialect.names)
        rows = lines = 0
        for place, block in blocks_of(path, dialect):
            cleaned = clean(block, dialect, first=place == 0)
            count = parse(cleaned, dialect, {name: pa.string()}).rows
            if row < rows + count:
                before = lines + (dialect.first_line if place == 0 else 0)
                return f"line {before + line_of_row(cleaned, dialect, row - rows)}"
            rows, lines = rows + count, lines + block.count(b"\n")
    return f"row {row}"
