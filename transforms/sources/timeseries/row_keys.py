"""What rows say of themselves: when they are, and which asset they are of."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.numbers import plain, whole_numbers
from beamfeed.transforms.sources.columns.time_units import MOST_BAD_TIMES, is_doubtful, ticks_of_rows
from beamfeed.transforms.sources.readers import BAD, faults_of, place_of_row
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema
from beamfeed.transforms.sources.timeseries.wide import place_in_file

Wrong = dict[int, tuple[str, str]]  # by row of a batch: where it is in the file, "" where that is not known, and why


def read_ticks(path: str, batch: pa.RecordBatch, schema: SeriesSchema, rows: np.ndarray) -> tuple[np.ndarray, Wrong]:
    """int64 [n] ticks of a batch, NO_TIME where a row has none, and what is wrong with rows.

    Args:
      path: of its file.
      batch: that holds the columns of time, and BAD.
      schema: what the file must hold. Where rows count, they are numbered as in the file.
      rows: int64 [n], of the file.

    Raises:
      BadInput: at a time that makes the others doubtful.
    """
    wrong: Wrong = faults_of(batch.column(BAD))
    if schema.time is None:
        return schema.time_units.rows(int(rows[0]) if len(rows) else 0, len(rows)), wrong
    columns = [batch.column(name) for name in schema.time_columns]
    has_time = np.ones(batch.num_rows, bool)
    if any(column.null_count for column in columns):
        has_time = np.logical_and.reduce([column.is_valid().to_numpy(zero_copy_only=False) for column in columns])
        for at in np.flatnonzero(~has_time).tolist():
            wrong.setdefault(at, ("", "the time is missing"))
    ticks, bad_times = ticks_of_rows(schema.time_units, columns, has_time)
    for at, bad in bad_times.items():
        if is_doubtful(bad, schema.time_units):
            raise BadInput(path, place_of_row(path, int(rows[at]), schema), bad.fault)
        wrong.setdefault(at, ("", bad.fault))
    if len(bad_times) >= MOST_BAD_TIMES:
        fault = f"more than {MOST_BAD_TIMES} values are not times: {wrong[at][1]}"
        raise BadInput(path, f"column {schema.time}", fault)
    return ticks, wrong


def asset_names(path: str, column: pa.Array, schema: SeriesSchema, row: int) -> pa.StringArray:
    """The asset column as strings; a missing name, or one that is not UTF-8, becomes BadInput."""
    name = f"column {schema.asset}"
    column = plain(column)
    if column.null_count:
        at = row + pc.index(column.is_null(), True).as_py()
        raise BadInput(path, place_in_file(path, at, schema), "the asset is missing")
    try:
        names = column.cast(pa.string())
    except pa.ArrowException as error:
        raise BadInput(path, name, f"is {column.type} and cannot be read as text: {error}") from None
    try:
        names.validate(full=True)
    except pa.ArrowInvalid as error:
        match = re.search(r"at string index (\d+)", str(error))
        place = place_in_file(path, row + int(match[1]), schema) if match else name
        raise BadInput(path, place, "the name of the asset is not UTF-8") from None
    if pa.types.is_integer(column.type):
        return names
    names = pc.utf8_trim_whitespace(names)
    if pc.any(blank := pc.equal(names, "")).as_py():
        raise BadInput(path, place_in_file(path, row + pc.index(blank, True).as_py(), schema), "the asset is missing")
    return whole_numbers(names)
