"""The look-up of readers. Another format is a file and a line here.

Its suffixes stand in beamfeed/contract/config/sources/formats.py, which says also whether its columns have types.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from beamfeed.transforms.sources.readers.arrow_file import cut_arrow, iter_arrow, look_at_arrow
from beamfeed.transforms.sources.readers.avro import avro_groups, iter_avro, look_at_avro
from beamfeed.transforms.sources.readers.expected import Cut, Expected, Group, Look, TextOptions
from beamfeed.transforms.sources.readers.formats import format_of
from beamfeed.transforms.sources.readers.json_documents import cut_json
from beamfeed.transforms.sources.readers.json_lines import iter_json, look_at_json
from beamfeed.transforms.sources.readers.parquet import iter_parquet, look_at_parquet, parquet_groups
from beamfeed.transforms.sources.readers.text import cut_text, iter_text, look_at_text

Batches = Iterator[tuple[Group, int, pa.RecordBatch]]


@dataclass(frozen=True)
class Reader:
    """Reads the files of a format.

    Attributes:
      look: what a file's beginning tells.
      batches: columns of some groups, or of all, see `iter_batches`; those that the file lacks are left out. Of the
        last group no more rows are needed than the last argument says.
      groups: the groups of rows, as a file tells them without its rows being read; None where these must be read.
      cut: how a file can be cut into groups that are read each by itself; None where it cannot be.
      parses: whether values are parsed, which takes longer than to read a copy of them.
    """

    look: Callable[[str, TextOptions], Look]
    batches: Callable[[str, Expected, Sequence[str], Sequence[Group] | None, int | None], Batches]
    groups: Callable[[str, Expected], list[Group]] | None = None
    cut: Callable[[str, TextOptions], Cut | None] = lambda *_: Cut()
    parses: bool = True


READERS = {
    "parquet": Reader(look_at_parquet, iter_parquet, parquet_groups, parses=False),
    "arrow": Reader(look_at_arrow, iter_arrow, cut=cut_arrow, parses=False),
    "avro": Reader(look_at_avro, iter_avro, avro_groups),
    "csv": Reader(look_at_text, iter_text, cut=cut_text),
    "json": Reader(look_at_json, iter_json, cut=cut_json),
}


def reader_of(path: str) -> Reader:
    """The reader of a file."""
    return READERS[format_of(path)]
