"""Reads what planning needs of a file, and no more: of Parquet the footer, of CSV the time column.

Where a column names the assets, that column is read too.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beamfeed.contract.config.sources.timeseries import AssetFrom
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.base import Piece
from beamfeed.transforms.sources.readers import is_parquet, iter_batches, open_parquet
from beamfeed.transforms.sources.timeseries.assets import asset_of_path, path_columns
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema
from beamfeed.transforms.sources.timeseries.time_units import BadTime, TimeUnits


@dataclass(frozen=True)
class FileSlice(Piece):
    """The rows of one asset in one file, and when they are."""

    first: int  # earliest time, in ticks
    last: int  # latest time, in ticks
    row_groups: tuple[int, ...]  # of Parquet: which to read
    group_rows: tuple[int, ...]  # and how many of the rows each holds
    whole: bool  # every row of the row groups is the asset's

    @property
    def can_seek(self) -> bool:
        """Whether rows can be found without reading those before them."""
        return self.whole and bool(self.row_groups)


def scan_file(path: str, asset: AssetFrom, schema: SeriesSchema, split_column: str | None) -> list[FileSlice]:
    """The slices of a file, one for each asset in it.

    Args:
      path: of the file, local or gs://
      asset: which rows belong to one asset.
      schema: what the file must hold.
      split_column: the column of the path that splits the assets, if one does.

    Raises:
      BadInput: if the file cannot be used at all.
    """
    split_value = path_columns(path, asset).get(split_column) if split_column else None
    if split_column and split_value is None:
        raise BadInput(path, "path", f"source.asset.pattern finds no {split_column!r} in it")
    if schema.asset is not None:
        return _slices_by_column(path, schema, split_value)
    name = asset_of_path(path, asset)
    if name is None:
        raise BadInput(path, "path", "source.asset.pattern finds no 'asset' in it")
    if is_parquet(path):
        return [_parquet_slice(path, name, schema, split_value)]
    rows, lows, highs = 0, [], []
    for batch in iter_batches(path, schema, [schema.time]):
        if batch.num_rows:
            ticks = read_ticks(path, batch.column(schema.time), schema.time_units, rows)
            lows.append(int(ticks.min()))
            highs.append(int(ticks.max()))
            rows += batch.num_rows
    if not rows:
        raise BadInput(path, "file", "holds no rows")
    return [FileSlice(name, path, rows, min(lows), max(highs), (), (), True, split_value=split_value)]


def read_ticks(path: str, column: pa.Array, time_units: TimeUnits, row: int) -> np.ndarray:
    """Ticks of a batch that starts at `row` of its file; a bad time becomes BadInput."""
    try:
        return time_units.ticks(column)
    except BadTime as bad:
        first, _, reason = str(bad).partition(": ")
        raise BadInput(path, f"row {row + int(first.removeprefix('row '))}", reason) from None


def _parquet_slice(path: str, name: str, schema: SeriesSchema, split_value: str | None) -> FileSlice:
    with open_parquet(path) as file:
        schema.check(path, file.schema_arrow)
        metadata = file.metadata
        if metadata.num_rows == 0:
            raise BadInput(path, "file", "holds no rows")
        groups = tuple(range(metadata.num_row_groups))
        group_rows = tuple(metadata.row_group(i).num_rows for i in groups)
        first, last = _time_range(path, file, schema)
    return FileSlice(name, path, metadata.num_rows, first, last, groups, group_rows, True, split_value=split_value)


def _time_range(path: str, file: pq.ParquetFile, schema: SeriesSchema) -> tuple[int, int]:
    """The earliest and the latest time by the footer's statistics; by reading the column where there are none."""
    metadata, type_ = file.metadata, file.schema_arrow.field(schema.time).type
    leaf = file.schema_arrow.names.index(schema.time) if metadata.num_columns == len(file.schema_arrow) else None
    stored = _stored_type(type_)
    if leaf is not None and stored is not None:
        stats = [metadata.row_group(i).column(leaf).statistics for i in range(metadata.num_row_groups)]
        if all(s is not None and s.has_min_max and s.physical_type in ("INT32", "INT64", "DOUBLE") for s in stats):
            low, high = min(s.min_raw for s in stats), max(s.max_raw for s in stats)
            ticks = read_ticks(path, pa.array([low, high], stored), schema.time_units, 0)
            return int(ticks[0]), int(ticks[1])
    lows, highs, row = [], [], 0
    for batch in file.iter_batches(columns=[schema.time], use_threads=False):
        if batch.num_rows:
            ticks = read_ticks(path, batch.column(0), schema.time_units, row)
            lows.append(int(ticks.min()))
            highs.append(int(ticks.max()))
            row += batch.num_rows
    return min(lows), max(highs)


def _stored_type(type_: pa.DataType) -> pa.DataType | None:
    """The type whose plain numbers a footer's statistics hold; None where they mean something else."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("ms") if type_.unit == "s" else type_  # Parquet knows no seconds
    if pa.types.is_signed_integer(type_) or pa.types.is_float64(type_):
        return type_
    return None


def _slices_by_column(path: str, schema: SeriesSchema, split_value: str | None) -> list[FileSlice]:
    """One piece for each value of the asset column, with the row groups that hold it."""
    assert schema.asset is not None
    groups: list[int | None] = [None]
    if is_parquet(path):
        with open_parquet(path) as file:
            groups = list(range(file.metadata.num_row_groups))
    found: dict[str, list[tuple[int | None, int, int, int]]] = {}
    row = 0
    for group in groups:
        picked = None if group is None else [group]
        for batch in iter_batches(path, schema, [schema.asset, schema.time], picked):
            names = asset_names(path, batch.column(schema.asset), row)
            ticks = read_ticks(path, batch.column(schema.time), schema.time_units, row)
            encoded = names.dictionary_encode()
            codes = encoded.indices.to_numpy()
            for code, name in enumerate(encoded.dictionary.to_pylist()):
                own = ticks[codes == code]
                found.setdefault(name, []).append((group, len(own), int(own.min()), int(own.max())))
            row += batch.num_rows
    if not found:
        raise BadInput(path, "file", "holds no rows")
    return [_merge(path, name, pieces, split_value) for name, pieces in sorted(found.items())]


def _merge(path: str, name: str, pieces: list[tuple[int | None, int, int, int]], split_value: str | None) -> FileSlice:
    by_group: dict[int, int] = {}
    for group, rows, _, _ in pieces:
        if group is not None:
            by_group[group] = by_group.get(group, 0) + rows
    return FileSlice(
        asset=name,
        path=path,
        rows=sum(piece[1] for piece in pieces),
        first=min(piece[2] for piece in pieces),
        last=max(piece[3] for piece in pieces),
        row_groups=tuple(by_group),
        group_rows=tuple(by_group.values()),
        whole=False,
        split_value=split_value,
    )


def asset_names(path: str, column: pa.Array, row: int) -> pa.StringArray:
    """The asset column as strings; a missing name becomes BadInput."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count:
        at = row + pc.index(column.is_null(), True).as_py()
        raise BadInput(path, f"row {at}", "the asset is missing")
    return column.cast(pa.string())
