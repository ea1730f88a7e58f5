"""The first rows of a file as text beside what becomes of them, for who has rows as text later on."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.dataset.raw_rows import MOST_BYTES, ROWS, RawRows
from beamfeed.contract.dataset.raw_values import RawValues
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.paths import key_columns
from beamfeed.transforms.sources.columns.time_units import NO_TIME
from beamfeed.transforms.sources.readers import BAD, Look, faults_of, has_types, is_csv, iter_batches
from beamfeed.transforms.sources.readers.values import group_patterns
from beamfeed.transforms.sources.record_block import Ragged, Values
from beamfeed.transforms.sources.table.raw import types_of
from beamfeed.transforms.sources.table.rows import TableRows, to_rows, to_text
from beamfeed.transforms.sources.table.schema import TableSchema

YEARS_WRITTEN = (-62_135_596_800, 253_402_300_800)  # the years 1 to 9999, in seconds since 1970

ValuesOfRows = Callable[[pa.RecordBatch], dict[str, Values]]


def typical_file(raw: RawValues, looks: Mapping[str, Look]) -> str:
    """The first file whose values are written as the description says; "" if there is none.

    There is none of JSON, none where only some files are texts, and none where a column is of several types, as then
    the description is of some files alone.

    Args:
      raw: the description.
      looks: what some files tell, by their paths.
    """
    dialects = {path: look.dialect for path, look in looks.items() if look.dialect is not None}
    padded = any(dialect.padded for dialect in dialects.values())
    if len(dialects) == len(looks):
        for path, dialect in dialects.items():
            numbers = dialect.numbers.decimal, group_patterns(dialect.numbers)
            if dialect.padded == padded and numbers == (raw.decimal, (raw.group, raw.grouped)):
                return path
    elif all(map(has_types, looks)):
        types = types_of(looks)
        if all(len(types[name]) <= 1 for name in raw.columns):
            return next(iter(looks))
    return ""


def raw_rows_of(schema: TableSchema, transform: ValuesOfRows) -> RawRows | None:
    """The first rows of the typical file, those before the first that is set aside.

    None if there are none, they are large, or they can no longer be read: no dataset fails for them.
    """
    if schema.typical is None or schema.raw is None:
        return None
    path, raw = schema.typical.path, schema.raw
    of_path = key_columns(path)
    try:
        if storage.stat(path) != schema.typical:
            return None
        rows, written = _read_twice(path, schema, of_path)
        count = _usable(rows, written, schema)
        if not count:
            return None

        def texts(name: str) -> pa.Array:
            if name in schema.of_path:
                return pa.array([of_path[name]] * count, pa.binary())
            return _as_text(written.column(name).slice(0, count), name).fill_null("").cast(pa.binary())

        raw_texts = {name: texts(name) for name in raw.columns}
    except (BadInput, JobFailed, OSError, pa.ArrowException):
        return None
    return RawRows(
        [f"{path}, row {row}" for row in range(count)],
        raw_texts,
        {
            name: pa.array(values.reshape(-1)) if isinstance(values, np.ndarray) else values
            for name, values in transform(rows.columns.slice(0, count)).items()
            if not isinstance(values, Ragged)
        },
    )


def _read_twice(path: str, schema: TableSchema, of_path: dict[str, str]) -> tuple[TableRows, pa.RecordBatch]:
    """The first rows of a file as features take them, and as the file has them: of a text, all columns as strings."""
    batch = _first_batch(path, schema)
    rows = to_rows(path, 0, batch, schema, of_path)
    if not is_csv(path):
        return rows, batch
    columns = tuple(name for name in schema.columns if name not in schema.of_path)
    as_text = replace(
        schema, numbers=(), texts=columns, times={}, labels=(), partitions=(), key=None, split=None, time=None
    )
    return rows, _first_batch(path, as_text)


def _first_batch(path: str, schema: TableSchema) -> pa.RecordBatch:
    first = next(iter_batches(path, schema, [*schema.names, BAD]), None)
    if first is None:
        raise BadInput(path, "file", "has no rows")
    return first[2].slice(0, ROWS)


def _usable(rows: TableRows, written: pa.RecordBatch, schema: TableSchema) -> int:
    """How many rows from the first one on are right in both readings, have times of years that are written, and fit."""
    wrong = [len(rows), written.num_rows, *rows.wrong]
    if BAD in written.schema.names:
        wrong += faults_of(written.column(BAD))
    for name in schema.dated:
        seconds = rows.columns.column(name).to_numpy()
        far = (seconds != NO_TIME) & ((seconds < YEARS_WRITTEN[0]) | (seconds >= YEARS_WRITTEN[1]))
        wrong += np.flatnonzero(far).tolist()
    count = min(wrong)
    while count and max(part.slice(0, count).nbytes for part in (rows.columns, written)) > MOST_BYTES:
        count //= 2
    return count


def _as_text(column: pa.Array, name: str) -> pa.StringArray:
    if pa.types.is_timestamp(column.type) and column.type.tz:  # which takes no list of zones
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    return to_text(column, name, {})
