"""Reads files as Arrow record batches; the only place that knows file formats.

Whatever a broken file makes Arrow raise becomes a BadInput with file, place and
reason.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from beamfeed.transforms.sources.readers.expected import (
    BATCH_ROWS,
    Expected,
    Group,
    batch_rows,
    require_columns,
)
from beamfeed.transforms.sources.readers.parquet import iter_parquet, open_parquet, row_groups
from beamfeed.transforms.sources.readers.text import can_seek, guess_schema, iter_text
from beamfeed.transforms.sources.readers.trouble import naming_the_file

__all__ = [
    "BATCH_ROWS",
    "Expected",
    "Group",
    "batch_rows",
    "divides",
    "is_parquet",
    "iter_batches",
    "naming_the_file",
    "open_parquet",
    "read_schema",
    "require_columns",
    "row_groups",
]


def is_parquet(path: str) -> bool:
    """Whether a path is that of a Parquet file."""
    return path.endswith(".parquet")


def divides(path: str) -> bool:
    """Whether the groups of a file can be read each by itself."""
    return is_parquet(path) or can_seek(path)


def read_schema(path: str) -> pa.Schema:
    """The names and types of a file's columns; of a CSV, as its first block suggests them.

    Raises:
      BadInput
    """
    with naming_the_file(path):
        if is_parquet(path):
            with open_parquet(path) as file:
                return file.schema_arrow
        return guess_schema(path)


def iter_batches(
    path: str, expected: Expected, names: Sequence[str], groups: Sequence[Group] | None = None
) -> Iterator[tuple[Group, int, pa.RecordBatch]]:
    """Streams the columns `names` of a file, some megabytes at a time, in the file's order.

    Args:
      path: the file, local or gs://
      expected: what every file must hold.
      names: of the columns to read.
      groups: which to read, of a file that divides; None reads all.

    Yields:
      the group, the file's row that the batch starts with, and the batch.

    Raises:
      BadInput: at the place where the file breaks.
      JobFailed: if the machine fails.
    """
    names = list(dict.fromkeys(names))
    with naming_the_file(path):
        yield from (iter_parquet if is_parquet(path) else iter_text)(path, expected, names, groups)
