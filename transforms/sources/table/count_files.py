"""Counts of a unit in a file of the job's own: they may be of a million terms, and reports go through shuffles."""

from collections.abc import Sequence

import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.features import MOST_TERMS
from beamfeed.transforms.statistics.value_counts import ValueCounts

_OVER = b"over"  # the key of the file's metadata that says which counts are over the limit


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
