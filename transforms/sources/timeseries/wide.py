"""Files in which a row is a whole series, and columns are times: read as a row for each of these columns.

What is behind this file sees rows as other files have them. Memory holds a part of a batch at a time, however many
rows and columns a file has.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.numbers import is_name, is_number, pack
from beamfeed.transforms.sources.readers import (
    BATCH_ROWS,
    Group,
    TextOptions,
    iter_batches,
    place_of_row,
    read_schema,
    require_columns,
)
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema, Wide


@dataclass(frozen=True)
class _AsStored:
    """What a file holds: an `Expected` of the columns that are there.

    Attributes:
      schema: of the rows that they become.
      columns: that are times.
    """

    schema: SeriesSchema
    columns: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        melted = _melted_names(self.schema)
        return [*(name for name in self.schema.names if name not in melted), *self.columns]

    @property
    def optional(self) -> frozenset[str]:
        return frozenset()

    @property
    def csv_types(self) -> dict[str, pa.DataType]:
        return {**self.schema.csv_types, **dict.fromkeys(self.columns, pa.float32())}

    @property
    def text(self) -> TextOptions:
        return self.schema.text

    def check(self, path: str, schema: pa.Schema) -> None:
        """Raises BadInput if a column is missing or of the wrong type."""
        require_columns(path, self.names, schema.names)
        for key in filter(None, (self.schema.asset, self.schema.split)):
            if not is_name(schema.field(key).type):
                raise BadInput(path, f"column {key}", f"is {schema.field(key).type}, text is needed")
        for name in self.columns:
            if not is_number(schema.field(name).type):
                raise BadInput(path, f"column {name}", f"is {schema.field(name).type}, a number is needed")
        for label in self.schema.labels:
            if fault := label.fault(schema.field(label.column).type):
                raise BadInput(path, f"column {label.column}", fault)


def _melted_names(schema: SeriesSchema) -> frozenset[str]:
    """The columns that are made of those of the files."""
    assert schema.wide is not None
    return frozenset(name for name in (schema.wide.time, schema.wide.value) if name)


def iter_rows(
    path: str, schema: SeriesSchema, names: Sequence[str], groups: Sequence[Group] | None = None,
    last_rows: int | None = None,
) -> Iterator[tuple[Group, int, pa.RecordBatch]]:  # fmt: skip
    """As `iter_batches`; of a file whose columns are times, the rows that it becomes, counted as such."""
    wide = schema.wide
    if wide is None:
        yield from iter_batches(path, schema, names, groups, last_rows)
        return
    stored = _as_stored(path, schema)
    times = wide.times_of(path, stored.columns)
    melted = _melted_names(schema)
    read_names = [name for name in names if name not in melted]
    if wide.value in names:
        read_names += stored.columns
    count = len(stored.columns)
    step = max(1, BATCH_ROWS // count)
    for group, row, batch in iter_batches(path, stored, read_names or list(stored.columns[:1]), groups, last_rows):
        for at in range(0, batch.num_rows, step):
            yield group, (row + at) * count, melt(batch.slice(at, step), stored.columns, names, wide, times)


def melt(
    batch: pa.RecordBatch, columns: Sequence[str], names: Sequence[str], wide: Wide, times: pa.Array | None
) -> pa.RecordBatch:
    """Rows of which each becomes one for every column that is a time, in the order of these columns.

    Args:
      batch: n rows.
      columns: its k columns that are times.
      names: of the columns to make; what is neither time nor value stands in all k rows.
      wide: what they are called.
      times: of the columns.

    Returns:
      n * k rows; values are float32, NaN where one is missing.
    """
    count = len(columns)
    every = pa.array(np.repeat(np.arange(batch.num_rows), count))
    columns_out = []
    for name in dict.fromkeys(names):
        if name == wide.time and times is not None:
            columns_out.append(times.take(pa.array(np.tile(np.arange(count), batch.num_rows))))
        elif name == wide.value:
            columns_out.append(pa.array(pack(batch, columns).reshape(-1)))
        else:
            columns_out.append(batch.column(name).take(every))
    return pa.RecordBatch.from_arrays(columns_out, names=list(dict.fromkeys(names)))


def place_in_file(path: str, row: int, schema: SeriesSchema) -> str:
    """Where a row is in its file, for people; of a file whose columns are times, where the row is that it is of."""
    if schema.wide is None:
        return place_of_row(path, row, schema)
    stored = _as_stored(path, schema)
    return place_of_row(path, row // len(stored.columns), stored)


def _as_stored(path: str, schema: SeriesSchema) -> _AsStored:
    assert schema.wide is not None
    names = read_schema(path, schema.text).names
    return _AsStored(schema, tuple(schema.wide.columns_of(path, names)))
