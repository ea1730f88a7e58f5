"""Looks for single things in a file: some values of columns, the line that a row is in."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.transforms.sources.readers.blocks import pieces_of, whole_lines
from beamfeed.transforms.sources.readers.clean import clean, to_lines
from beamfeed.transforms.sources.readers.expected import Expected, TextOptions
from beamfeed.transforms.sources.readers.formats import format_of
from beamfeed.transforms.sources.readers.lookup import text_reader, typed_reader
from beamfeed.transforms.sources.readers.parquet import open_parquet
from beamfeed.transforms.sources.readers.parse import line_of_row, parse
from beamfeed.transforms.sources.readers.text import find_dialect
from beamfeed.transforms.sources.readers.trouble import naming_the_file


def peek(path: str, names: Sequence[str], text: TextOptions, most: int = 500) -> list[str]:
    """Some values of columns as text, from the beginning of a file, of Parquet also from its end.

    Args:
      path: the file.
      names: of the columns; the values of a row are joined by spaces.
      text: how texts are written.
      most: how many values.

    Raises:
      BadInput: if it cannot be read.
    """
    with naming_the_file(path):
        table = _some_rows(path, list(names), text)
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        columns.append(column.cast(pa.string()))
    joined = columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, " ")
    rows = np.unique(np.linspace(0, len(joined) - 1, min(most, len(joined))).astype(np.int64))
    return [value for value in joined.take(pa.array(rows, pa.int64())).to_pylist() if value is not None]


def _some_rows(path: str, names: list[str], text: TextOptions) -> pa.Table:
    if format_of(path) == "parquet":
        with open_parquet(path) as file:
            groups = sorted({0, file.num_row_groups - 1}) if file.num_row_groups else []
            return file.read_row_groups(groups, columns=names, use_threads=False)
    if (reader := typed_reader(path)) is not None:
        batches = reader.batches(path, _Nothing(), names, None, None)
        first = next((batch for _, _, batch in batches), None)
        return reader.schema(path).empty_table().select(names) if first is None else pa.table(first).select(names)
    return text_reader(path).first_rows(path, names, text)


class _Nothing:
    """Of a file from which nothing is expected."""

    def check(self, path: str, schema: pa.Schema) -> None:
        """Takes any."""


def place_of_row(path: str, row: int, expected: Expected) -> str:
    """Where a row of a file is, for people: the line of a CSV, else the number of the row."""
    if format_of(path) != "csv":
        return f"row {row}"
    with naming_the_file(path):
        dialect = find_dialect(path, expected.text)
        name = next(name for name in expected.names if name in dialect.names)
        pieces = pieces_of(path) if dialect.by_lines else to_lines(pieces_of(path), dialect)
        rows = lines = 0
        for place, block in whole_lines(path, pieces, dialect.quotes, dialect.first_line):
            cleaned = clean(block, dialect, first=place == 0)
            count = parse(cleaned, dialect, {name: pa.string()}).num_rows
            if row < rows + count:
                before = lines + (dialect.first_line if place == 0 else 0)
                return f"line {before + line_of_row(cleaned, dialect, row - rows)}"
            rows, lines = rows + count, lines + block.count(b"\n")
    return f"row {row}"
