"""Formats whose columns have types: the look-up of their readers. Another format is a file and a line here.

Its suffixes stand in beamfeed/contract/config/sources/formats.py.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from beamfeed.transforms.sources.readers.arrow_file import arrow_schema, divides_arrow, iter_arrow
from beamfeed.transforms.sources.readers.avro import avro_groups, avro_schema, iter_avro
from beamfeed.transforms.sources.readers.expected import Checks, Group
from beamfeed.transforms.sources.readers.formats import format_of
from beamfeed.transforms.sources.readers.parquet import iter_parquet, parquet_groups, parquet_schema

Batches = Iterator[tuple[Group, int, pa.RecordBatch]]


@dataclass(frozen=True)
class Reader:
    """Reads the files of a format.

    Attributes:
      schema: the names and types of a file's columns.
      batches: columns of some groups, or of all, see `iter_batches`; those that the file lacks are left out. Of the
        last group no more rows are needed than the last argument says.
      groups: the groups of rows, as a file tells them without its rows being read; None where these must be read.
      divides: whether the groups of a file can be read each by itself.
    """

    schema: Callable[[str], pa.Schema]
    batches: Callable[[str, Checks, Sequence[str], Sequence[Group] | None, int | None], Batches]
    groups: Callable[[str, Checks], list[Group]] | None = None
    divides: Callable[[str], bool] = lambda _: True


TYPED = {
    "parquet": Reader(parquet_schema, iter_parquet, parquet_groups),
    "arrow": Reader(arrow_schema, iter_arrow, divides=divides_arrow),
    "avro": Reader(avro_schema, iter_avro, avro_groups),
}


def typed_reader(path: str) -> Reader | None:
    """The reader of a file; None of a text, whose columns have no types."""
    return TYPED.get(format_of(path))
