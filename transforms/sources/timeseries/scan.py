"""Reads what planning needs of a file, and no more: of Parquet the footer, of text the time column.

Where a column names the assets, that column is read too.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beamfeed.contract.config.sources.timeseries import AssetFrom
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.time_units import BadTime
from beamfeed.transforms.sources.descriptors import Piece
from beamfeed.transforms.sources.readers import (
    BAD,
    Group,
    divides,
    is_parquet,
    iter_batches,
    naming_the_file,
    open_parquet,
    place_of_row,
    read_times,
    row_groups,
    told,
)
from beamfeed.transforms.sources.timeseries.assets import asset_of_path, path_columns
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema
from beamfeed.transforms.sources.timeseries.wide import place_in_file


@dataclass(frozen=True)
class FileSlice(Piece):
    """The rows of one asset in one file, and when they are.

    Attributes:
      first, last: the earliest and the latest time, in ticks.
      groups: that hold these rows and no others; none where the file can only be read from its start.
      copy: a file that holds the rows in their place, as the file itself mixes assets, or is small.
      number: of the slice in its asset, in order of time.
      split: with split: {by: column} of the path, where the files of an asset are in several.
    """

    first: int
    last: int
    groups: tuple[Group, ...]
    copy: str | None = field(default=None, kw_only=True)
    number: int = field(default=0, kw_only=True)
    split: SplitName | None = field(default=None, kw_only=True)


def scan_file(
    file: FileStat, asset: AssetFrom, schema: SeriesSchema, split_column: str | None, scratch: str
) -> list[FileSlice]:
    """The slices of a file, one for each asset in it.

    Args:
      file: local or gs://
      asset: which rows belong to one asset.
      schema: what the file must hold.
      split_column: the column of the path that splits the assets, if one does.
      scratch: a folder for a copy of a file that mixes assets.

    Raises:
      BadInput: if the file cannot be used at all.
    """
    path = file.path
    split_value = path_columns(path, asset).get(split_column) if split_column else None
    if split_column and split_value is None:
        raise BadInput(path, "path", f"names no {split_column!r}, which split.column is")
    if schema.asset is not None:
        from beamfeed.transforms.sources.timeseries.mixed import slices_by_column

        return slices_by_column(file, schema, split_value, scratch)
    name = asset_of_path(path, asset)
    if name is None:
        what = "source.asset.pattern finds no 'asset' in it" if asset.pattern else f"has no folder {asset.column}=..."
        raise BadInput(path, "path", what)
    groups, span = _parquet_span(path, schema) if is_parquet(path) else _read_span(path, schema)
    rows = sum(group.rows for group in groups)
    kept = groups if divides(path, schema) else ()
    first, last = span if rows else (0, 0)
    return [FileSlice(name, path, rows, first, last, tuple(kept), split_value=split_value, file=file)]


NO_TIME = np.iinfo(np.int64).min  # of a row that does not tell its own
_MOST_BAD_TIMES = 1000  # of a batch, before its file is given up
_OTHER_ORDER = {"dmy": "mdy", "mdy": "dmy"}
Wrong = dict[int, tuple[str, str]]  # by row of a batch: where it is in the file, "" where that is not known, and why


def read_ticks(
    path: str, batch: pa.RecordBatch, schema: SeriesSchema, row: int | np.ndarray
) -> tuple[np.ndarray, Wrong]:
    """int64 [n] ticks of a batch, NO_TIME where a row has none, and what is wrong with rows.

    Args:
      path: of its file.
      batch: that holds the columns of time, and BAD.
      schema: what the file must hold. Where rows count, they are numbered as in the file.
      row: of the file that the batch starts with; or int64 [n], of each.

    Raises:
      BadInput: at a time that makes the others doubtful.
    """
    wrong: Wrong = told(batch.column(BAD))
    if schema.time is None:
        return schema.time_units.rows(row if isinstance(row, int) else int(row[0]), batch.num_rows), wrong
    columns = [batch.column(name) for name in schema.time_columns]
    there = np.logical_and.reduce([column.is_valid().to_numpy(zero_copy_only=False) for column in columns])
    for at in np.flatnonzero(~there).tolist():
        wrong.setdefault(at, ("", "the time is missing"))
    ticks = np.full(batch.num_rows, NO_TIME)
    count = 0
    while count < _MOST_BAD_TIMES:
        rows = np.flatnonzero(there)
        some = columns if len(rows) == len(ticks) else [column.take(pa.array(rows)) for column in columns]
        try:
            if len(rows):
                ticks[rows] = schema.time_units.ticks(*some)
            return ticks, wrong
        except BadTime as first:
            for bad in (first, *first.others):
                at = int(rows[bad.row])
                if _is_doubtful(bad, schema):
                    place = place_of_row(path, row + at if isinstance(row, int) else int(row[at]), schema)
                    raise BadInput(path, place, bad.what) from None
                there[at] = False
                wrong.setdefault(at, ("", bad.what))
                count += 1
    raise BadInput(path, f"column {schema.time}", f"more than {_MOST_BAD_TIMES} values are no times: {wrong[at][1]}")


def _is_doubtful(bad: BadTime, schema: SeriesSchema) -> bool:
    """Whether a bad time says that the others may have been read wrongly: by another zone, or with day for month."""
    if bad.value is None:
        return "where clocks are put forward" in bad.reason
    try:
        read_times(pa.array([bad.value]), _OTHER_ORDER[schema.time_units.text or ""])
    except (BadTime, KeyError):
        return False
    return True


def _parquet_span(path: str, schema: SeriesSchema) -> tuple[list[Group], tuple[int, int]]:
    """The row groups, and the earliest and the latest time: by the footer, or else by the time column."""
    with open_parquet(path) as file:
        schema.check(path, file.schema_arrow)
        groups = row_groups(file)
        if schema.time is None:
            last = max((group.row + group.rows for group in groups), default=1) - 1
            return groups, (0, int(schema.time_units.rows(last, 1)[0]))
        if groups and (span := _span_of_footer(path, file, schema, groups)):
            return groups, span
    return _read_span(path, schema)


def _span_of_footer(
    path: str, file: pq.ParquetFile, schema: SeriesSchema, groups: Iterable[Group]
) -> tuple[int, int] | None:
    if schema.more_times:
        return None
    metadata, type_ = file.metadata, file.schema_arrow.field(schema.time).type
    leaf = file.schema_arrow.names.index(schema.time) if metadata.num_columns == len(file.schema_arrow) else None
    stored = _stored_type(type_)
    if leaf is None or stored is None:
        return None
    stats = [metadata.row_group(group.place).column(leaf).statistics for group in groups]
    if not all(s is not None and s.has_min_max and s.physical_type in ("INT32", "INT64", "DOUBLE") for s in stats):
        return None
    low, high = min(s.min_raw for s in stats), max(s.max_raw for s in stats)
    try:
        ticks = schema.time_units.ticks(pa.array([low, high], stored))
    except BadTime:  # the column says where
        return None
    return int(ticks[0]), int(ticks[1])


def _read_span(path: str, schema: SeriesSchema) -> tuple[list[Group], tuple[int, int]]:
    found: dict[int, Group] = {}
    lows, highs = [], []
    with naming_the_file(path):
        first_wrong: tuple[str, str] | None = None
        for group, row, batch in iter_batches(path, schema, [*(schema.time_columns or schema.names[:1]), BAD]):
            found[group.place] = group
            ticks, wrong = read_ticks(path, batch, schema, row)
            if wrong and first_wrong is None:
                at = min(wrong)
                first_wrong = wrong[at][0] or place_of_row(path, row + at, schema), wrong[at][1]
            if (ticks := ticks[ticks != NO_TIME]).size:
                lows.append(int(ticks.min()))
                highs.append(int(ticks.max()))
        if first_wrong is not None and not lows:
            raise BadInput(path, first_wrong[0], f"{first_wrong[1]}; no row has a time")
    return list(found.values()), (min(lows, default=0), max(highs, default=0))


def _stored_type(type_: pa.DataType) -> pa.DataType | None:
    """The type whose plain numbers a footer's statistics hold; None where they mean something else."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("ms") if type_.unit == "s" else type_  # Parquet knows no seconds
    if pa.types.is_signed_integer(type_) or pa.types.is_float64(type_):
        return type_
    return None


def asset_names(path: str, column: pa.Array, schema: SeriesSchema, row: int) -> pa.StringArray:
    """The asset column as strings; a missing name, or one that is not UTF-8, becomes BadInput."""
    name = f"column {schema.asset}"
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
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
        found = re.search(r"at string index (\d+)", str(error))
        place = place_in_file(path, row + int(found[1]), schema) if found else name
        raise BadInput(path, place, "the name of the asset is not UTF-8") from None
    return names
