"""Files in which a row is a whole series, and columns are times: read as a row for each of these columns.

What is behind this file sees rows as other files have them. Memory holds a part of a batch at a time, however many
rows and columns a file has.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from beamfeed.transforms.sources.columns.numbers import pack
from beamfeed.transforms.sources.readers import BATCH_ROWS, Group, iter_batches, place_of_row, read_schema
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema, Wide


def _melted_names(schema: SeriesSchema) -> frozenset[str]:
    """The columns that are made of those of the files."""
    assert schema.wide is not None
    return frozenset(name for name in (schema.wide.time, schema.wide.value) if name)


def iter_rows(path: str, schema: SeriesSchema, names: Sequence[str]) -> Iterator[tuple[Group, int, pa.RecordBatch]]:
    """As `iter_batches`; of a file whose columns are times, the rows that it becomes, counted as such."""
    wide = schema.wide
    if wide is None:
        yield from iter_batches(path, schema, names)
        return
    stored = _as_stored(path, schema)
    times = wide.times_of(path, stored.features)
    melted = _melted_names(schema)
    read_names = [name for name in names if name not in melted]
    if wide.value in names:
        read_names += stored.features
    count = len(stored.features)
    step = max(1, BATCH_ROWS // count)
    for group, row, batch in iter_batches(path, stored, read_names or list(stored.features[:1])):
        for at in range(0, batch.num_rows, step):
            yield group, (row + at) * count, melt(batch.slice(at, step), stored.features, names, wide, times)


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
    return place_of_row(path, row // len(stored.features), stored)


def _as_stored(path: str, schema: SeriesSchema) -> SeriesSchema:
    """What a file holds: its columns that are times are the features."""
    assert schema.wide is not None
    columns = tuple(schema.wide.columns_of(path, read_schema(path, schema.text).names))
    inputs = schema.inputs
    if inputs is not None:
        melted = _melted_names(schema)
        others = [(name, type_) for name, type_ in inputs.types if name not in melted]
        inputs = replace(inputs, types=(*others, *((name, pa.float32()) for name in columns)))
    return replace(schema, time=None, more_times=(), features=columns, lacking=False, wide=None, inputs=inputs)
