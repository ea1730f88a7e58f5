"""Reads files as Arrow record batches; the only place that knows file formats.

Whatever a broken file makes Arrow raise becomes a BadInput with file, place and
reason.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers.cells import Unsure
from beamfeed.transforms.sources.readers.dialect import NULL_WORDS, Numbers
from beamfeed.transforms.sources.readers.expected import (
    BATCH_ROWS,
    VIEWS,
    Columns,
    Expected,
    Group,
    Look,
    TextOptions,
    batch_rows,
    require_columns,
)
from beamfeed.transforms.sources.readers.formats import format_of, has_types
from beamfeed.transforms.sources.readers.glimpse import peek, place_of_row
from beamfeed.transforms.sources.readers.lookup import reader_of
from beamfeed.transforms.sources.readers.parquet import open_parquet, row_groups
from beamfeed.transforms.sources.readers.parse import BAD, faults_of
from beamfeed.transforms.sources.readers.trouble import naming_the_file
from beamfeed.transforms.sources.readers.unread import check_format, what_it_is

__all__ = [
    "BAD",
    "BATCH_ROWS",
    "NULL_WORDS",
    "Columns",
    "Group",
    "Look",
    "Numbers",
    "TextOptions",
    "Unsure",
    "batch_rows",
    "divides",
    "faults_of",
    "has_types",
    "is_csv",
    "is_parquet",
    "iter_batches",
    "look_at",
    "naming_the_file",
    "open_parquet",
    "parses",
    "peek",
    "place_of_row",
    "read_schema",
    "require_columns",
    "row_groups",
]


def is_parquet(path: str) -> bool:
    """Whether a path is that of a Parquet file."""
    return format_of(path) == "parquet"


def is_csv(path: str) -> bool:
    """Whether a path is that of a CSV, or another text with delimiters."""
    return format_of(path) == "csv"


def divides(path: str, expected: Expected) -> bool:
    """Whether the groups of a file can be read each by itself."""
    with naming_the_file(path):
        return reader_of(path).cut(path, expected.text) is not None


def parses(path: str) -> bool:
    """Whether the values of a file are parsed, which takes longer than to read a copy of them."""
    return reader_of(path).parses


def look_at(path: str, text: TextOptions = TextOptions()) -> Look:
    """What the beginning of a file tells of it.

    Raises:
      BadInput: if it cannot be read.
      Unsure: if its numbers could be read in two ways.
    """
    with naming_the_file(path):
        check_format(path)
        try:
            return reader_of(path).look(path, text)
        except BadInput:
            if not has_types(path) and (advice := what_it_is(path)):
                raise BadInput(path, "file", advice) from None
            raise


def read_schema(path: str, text: TextOptions = TextOptions()) -> pa.Schema:
    """The names and types of a file's columns; of a text, as its beginning suggests them.

    Raises:
      BadInput: if it cannot be read.
    """
    try:
        return look_at(path, text).schema
    except Unsure as unsure:
        raise BadInput(path, "file", str(unsure)) from None


def iter_batches(
    path: str, expected: Expected, names: Sequence[str], groups: Sequence[Group] | None = None,
    last_rows: int | None = None,
) -> Iterator[tuple[Group, int, pa.RecordBatch]]:  # fmt: skip
    """Streams the columns `names` of a file, some megabytes at a time, in the file's order.

    A column that the file may lack, and lacks, is one of missing values. With BAD among the names, a row of a text that
    cannot be read is one of missing values too, and that column says why, see `faults_of`.

    Args:
      path: the file, local or gs://
      expected: what every file must hold.
      names: of the columns to read.
      groups: which to read, of a file that divides; None reads all.
      last_rows: of the last group no more rows than these are needed; what is behind them may be left out.

    Yields:
      the group, the file's row that the batch starts with, and the batch.

    Raises:
      BadInput: at the place where the file breaks.
      JobFailed: if the machine fails.
    """
    names = list(dict.fromkeys(names))
    with naming_the_file(path):
        check_format(path)
        for group, row, batch in reader_of(path).batches(path, expected, names, groups, last_rows):
            yield group, row, _complete(batch, names)


def _complete(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """The columns `names`; those that are not there hold nothing, and views become what they are views of."""
    stored, has_views = batch.schema.names, not VIEWS.keys().isdisjoint(batch.schema.types)
    if stored == list(names) and not has_views:
        return batch
    nulls, by_name = pa.nulls(batch.num_rows, pa.float32()), dict(zip(stored, batch.columns, strict=True))
    columns = [by_name.get(name, nulls) for name in names]
    if has_views:
        columns = [column.cast(VIEWS.get(column.type, column.type)) for column in columns]
    return pa.RecordBatch.from_arrays(columns, names=list(names))
