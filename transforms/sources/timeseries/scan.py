"""Reads what planning needs of a file, and no more: of Parquet the footer, of text the time column.

Where a column names the assets, that column is read too.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from beamfeed.contract import storage
from beamfeed.contract.config.sources.timeseries import AssetFrom
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.time_units import NO_TIME, BadTime
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
    row_groups,
)
from beamfeed.transforms.sources.timeseries.assets import asset_of_path, path_columns
from beamfeed.transforms.sources.timeseries.mixed import copy_in_order, look_at_assets
from beamfeed.transforms.sources.timeseries.row_keys import read_ticks
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema


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
        return _slices_by_column(file, schema, split_value, scratch)
    name = asset_of_path(path, asset)
    if name is None:
        flaw = "source.asset.pattern finds no 'asset' in it" if asset.pattern else f"has no folder {asset.column}=..."
        raise BadInput(path, "path", flaw)
    groups, span = _parquet_span(path, schema) if is_parquet(path) else _read_span(path, schema)
    rows = sum(group.rows for group in groups)
    listed = groups if divides(path, schema) else ()
    first, last = span if rows else (0, 0)
    return [FileSlice(name, path, rows, first, last, tuple(listed), split_value=split_value, file=file)]


def _slices_by_column(file: FileStat, schema: SeriesSchema, split_value: str | None, scratch: str) -> list[FileSlice]:
    """One slice for each value of the asset column.

    Args:
      file: local or gs://
      schema: what it must hold.
      split_value: as the path tells it.
      scratch: a folder for the copy.

    Raises:
      BadInput: if the file cannot be used at all.
    """
    path, assets, pure = file.path, *look_at_assets(file.path, schema)
    copies: dict[str, list[Group]] = {}
    copy = None
    if not pure:
        copy = storage.join(scratch, hashlib.blake2b(path.encode(), digest_size=16).hexdigest() + ".arrow")
        copies = copy_in_order(path, schema, sorted(assets), copy)
    slices = []
    for name, rows in sorted(assets.items()):
        groups = copies.get(name) or (list(rows.groups.values()) if divides(path, schema) else [])
        slices.append(
            FileSlice(name, path, rows.rows, rows.first, rows.last, tuple(groups), copy=copy, split_value=split_value,
                      file=None if copy else file)
        )  # fmt: skip
    return slices


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
    groups: dict[int, Group] = {}
    lows, highs = [], []
    with naming_the_file(path):
        first_wrong: tuple[str, str] | None = None
        for group, row, batch in iter_batches(path, schema, [*(schema.time_columns or schema.names[:1]), BAD]):
            groups[group.place] = group
            ticks, wrong = read_ticks(path, batch, schema, row)
            if wrong and first_wrong is None:
                at = min(wrong)
                first_wrong = wrong[at][0] or place_of_row(path, row + at, schema), wrong[at][1]
            if (ticks := ticks[ticks != NO_TIME]).size:
                lows.append(int(ticks.min()))
                highs.append(int(ticks.max()))
        if first_wrong is not None and not lows:
            raise BadInput(path, first_wrong[0], f"{first_wrong[1]}; no row has a time")
    return list(groups.values()), (min(lows, default=0), max(highs, default=0))


def _stored_type(type_: pa.DataType) -> pa.DataType | None:
    """The type whose plain numbers a footer's statistics hold; None where they mean something else."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("ms") if type_.unit == "s" else type_  # Parquet knows no seconds
    if pa.types.is_signed_integer(type_) or pa.types.is_float64(type_):
        return type_
    return None
