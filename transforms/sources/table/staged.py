"""Files of the job's own, one of each kind for a unit: the rows that were checked, and what was counted of them.

Rows are put there by split, so that each is decoded once, and what is written of a split later on reads its own rows
alone; a batch of the file's rows becomes a message of Arrow for each split that it has. Counts may be of a million
terms, and reports go through shuffles.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.features import MOST_TERMS
from beamfeed.contract.config.split import SplitName
from beamfeed.transforms.sources.messages import read_messages
from beamfeed.transforms.statistics.value_counts import ValueCounts

_OVER = b"over"  # the key of the file's metadata that says which counts are over the limit


@dataclass(frozen=True)
class Run:
    """Rows of one split that stand together.

    Attributes:
      split: that they are in.
      folder: of the partition that they are in.
      rows: how many.
      place: the byte that they begin at.
      size: in bytes.
    """

    split: SplitName
    rows: int
    place: int
    size: int
    folder: str = ""


def read_runs(path: str, runs: Sequence[Run]) -> Iterator[pa.RecordBatch]:
    """The rows of some runs of a staged file."""
    return read_messages(path, ((run.place, run.size) for run in runs))


def by_bytes(rows: pa.RecordBatch, size: int, row: int = 0, multiple: int = 1) -> Iterator[pa.RecordBatch]:
    """The rows of a batch in parts of about so many bytes.

    Args:
      rows: the batch.
      size: of a part.
      row: bytes that a row will take at least.
      multiple: a part has a multiple of so many rows.
    """
    if not rows.num_rows:
        return
    bytes_of_a_row = max(row, rows.nbytes // rows.num_rows, 1)
    count = max(multiple, size // bytes_of_a_row // multiple * multiple)
    for first in range(0, rows.num_rows, count):
        yield rows.slice(first, count)


def pick(rows: pa.RecordBatch, places: np.ndarray) -> pa.RecordBatch:
    """Some rows of a batch; all of them as they are."""
    return rows if len(places) == rows.num_rows else rows.take(pa.array(places))


def write_counts(path: str, counts: Sequence[ValueCounts]) -> None:
    """Writes the counts of some features, one message of Arrow for each."""
    over = b",".join(str(place).encode() for place, counted in enumerate(counts) if counted.over)
    tables = [counted.table().combine_chunks() for counted in counts]
    schema = tables[0].schema.with_metadata({_OVER: over})
    with storage.open_output(path) as target, pa.ipc.new_stream(target, schema) as writer:
        for table in tables:
            batches = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
            for batch in batches:
                writer.write_batch(batch.replace_schema_metadata({_OVER: over}))


def read_counts(path: str) -> list[ValueCounts]:
    """The counts of a file, in the order in which they were written."""
    with storage.open_input(path) as file, pa.ipc.open_stream(file) as reader:
        over = (reader.schema.metadata or {}).get(_OVER, b"").split(b",")
        return [
            ValueCounts.of_table(pa.Table.from_batches([batch]), MOST_TERMS, over=str(place).encode() in over)
            for place, batch in enumerate(reader)
        ]


def gather_counts(counts: Sequence[ValueCounts], paths: Sequence[str]) -> tuple[ValueCounts, ...]:
    """The sums of counts and of those in files; one file at a time is in memory."""
    totals = list(counts)
    for path in paths:
        totals = [total + more for total, more in zip(totals, read_counts(path), strict=True)]
    return tuple(totals)
