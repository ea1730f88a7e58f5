"""Staged rows as records: where these begin, their labels and weights, and what the transform graph gives of rows."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.features import Pass
from beamfeed.contract.config.label import Label
from beamfeed.contract.dataset.fields import Field
from beamfeed.transforms.sources.columns.labels import LabelColumn, label_numbers
from beamfeed.transforms.sources.record_block import RecordBlock, Values
from beamfeed.transforms.sources.table.rows import label_name
from beamfeed.transforms.sources.table.schema import TableSchema
from beamfeed.transforms.sources.table.staged import Run, by_bytes, read_runs

RECORD_BYTES = 64 << 10
MOST_ROWS = 4096  # of a record
PART_BYTES = 16 << 20  # of rows that go through the graph at a time

ValuesOfRows: TypeAlias = Callable[[pa.RecordBatch], dict[str, Values]]


def row_bytes(fields: Sequence[Field]) -> int:
    """About how many bytes a row of these fields takes in a record."""
    return sum((field.bytes or 64) for field in fields)


def rows_of_record(fields: Sequence[Field]) -> int:
    """How many rows a record has where the job does not say."""
    return max(1, min(MOST_ROWS, RECORD_BYTES // row_bytes(fields)))


def parts_of(
    path: str, runs: Sequence[Run], fields: Sequence[Field], rows_per_record: int
) -> Iterator[tuple[pa.RecordBatch, np.ndarray, np.ndarray]]:
    """The rows of some runs in parts, each with the first row and the rows of each record."""
    size = row_bytes(fields)
    for rows in read_runs(path, runs):
        for part in by_bytes(rows, PART_BYTES, size, rows_per_record):
            first = np.arange(0, part.num_rows, rows_per_record)
            yield part, first, np.minimum(rows_per_record, part.num_rows - first)


def label_values(rows: pa.RecordBatch, labels: Sequence[Label], specs: Sequence[LabelColumn]) -> dict[str, np.ndarray]:
    """The values of each label by its name, `[rows]`."""
    numbers = label_numbers([rows.column(label_name(spec)) for spec in specs], specs, rows.num_rows)
    by_name = {}
    for k, label in enumerate(labels):
        column = numbers[:, k]
        if label.cap is not None:
            column = np.minimum(column, np.float32(label.cap))
        by_name[label.name] = column if label.classes is None else column.astype(np.int64)
    return by_name


def numbers_passed(rows: pa.RecordBatch, schema: TableSchema) -> dict[str, Values]:
    """What some rows give without the transform graph: the numbers that it only passes on."""
    return {
        feature.name: rows.column(feature.columns[0]).to_numpy()
        for feature in schema.features
        if isinstance(feature.section, Pass) and feature.section.as_ == "number"
    }


def read_records(
    name: str, path: str, runs: Sequence[Run], transformer: ValuesOfRows, labels: Sequence[Label],
    specs: Sequence[LabelColumn], fields: Sequence[Field], rows_per_record: int,
) -> Iterator[RecordBlock]:  # fmt: skip
    """The records of some staged rows of a file.

    Args:
      name: of the file, as an asset.
      path: of the staged rows.
      runs: which of them.
      transformer: gives the fields of some rows, but for labels and weights: the transform graph, or `numbers_passed`.
      labels: of the job, and
      specs: their columns, with classes known.
      fields: of a record.
      rows_per_record: at most.
    """
    for rows, first, counts in parts_of(path, runs, fields, rows_per_record):
        yield RecordBlock(name, first, counts, transformer(rows) | label_values(rows, labels, specs))
