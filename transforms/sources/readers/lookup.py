"""The look-up of readers: of formats whose columns have types, and of texts. Another format is a file and a line here.

Its suffixes stand in beamfeed/contract/config/sources/formats.py.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from beamfeed.transforms.sources.readers.arrow_file import arrow_schema, divides_arrow, iter_arrow
from beamfeed.transforms.sources.readers.avro import avro_groups, avro_schema, iter_avro
from beamfeed.transforms.sources.readers.expected import Checks, Cut, Expected, Group, Look, TextOptions
from beamfeed.transforms.sources.readers.formats import format_of
from beamfeed.transforms.sources.readers.json_documents import cut_json
from beamfeed.transforms.sources.readers.json_lines import first_rows_of_json, iter_json, look_at_json
from beamfeed.transforms.sources.readers.parquet import iter_parquet, parquet_groups, parquet_schema
from beamfeed.transforms.sources.readers.text import cut_text, first_rows_of_text, iter_text, look_at_text

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


@dataclass(frozen=True)
class TextReader:
    """Reads the files of a format whose columns have no types.

    Attributes:
      look: what a file's beginning tells.
      batches: columns of some groups, or of all, see `iter_batches`.
      first_rows: columns of them, as text.
      cut: how a file can be cut between lines; None where it cannot be.
    """

    look: Callable[[str, TextOptions], Look]
    batches: Callable[[str, Expected, Sequence[str], Sequence[Group] | None], Batches]
    first_rows: Callable[[str, Sequence[str], TextOptions], pa.Table]
    cut: Callable[[str, TextOptions], Cut | None]


TYPED = {
    "parquet": Reader(parquet_schema, iter_parquet, parquet_groups),
    "arrow": Reader(arrow_schema, iter_arrow, divides=divides_arrow),
    "avro": Reader(avro_schema, iter_avro, avro_groups),
}
TEXTS = {
    "csv": TextReader(look_at_text, iter_text, first_rows_of_text, cut_text),
    "json": TextReader(look_at_json, iter_json, first_rows_of_json, cut_json),
}


def typed_reader(path: str) -> Reader | None:
    """The reader of a file; None of a text, whose columns have no types."""
    return TYPED.get(format_of(path))


def text_reader(path: str) -> TextReader:
    """The reader of a text."""
    return TEXTS[format_of(path)]
