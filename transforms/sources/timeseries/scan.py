"""Reads what planning needs of a file: of Parquet the footer, of others the time column.

Where a column names the assets, that column is read too. Rows that are read anyway may be copied, see `RowCopies`.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beamfeed.contract.config.sources.timeseries import AssetFrom
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.time_units import NO_TIME, BadTime
from beamfeed.transforms.sources.descriptors import Piece
from beamfeed.transforms.sources.messages import file_for
from beamfeed.transforms.sources.readers import (
    BAD,
    Group,
    batch_rows,
    divides,
    is_parquet,
    iter_batches,
    naming_the_file,
    open_parquet,
    place_of_row,
    row_groups,
)
from beamfeed.transforms.sources.timeseries.assets import asset_of_path, path_columns
from beamfeed.transforms.sources.timeseries.copies import NotCopied, RowCopies, Rows
from beamfeed.transforms.sources.timeseries.mixed import copy_in_order, look_at_assets
from beamfeed.transforms.sources.timeseries.row_keys import read_ticks
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema


@dataclass(frozen=True)
class FileSlice(Piece):
    """The rows of one asset in one file, and when they are.

    Attributes:
      first, last: the earliest and the latest time, in ticks.
      groups: that hold these rows and no others; none where the file can only be read from its start. In a copy they
        divide the rows as the file does, so that units do not depend on whether there is one.
      whole: where all rows are in a copy of a file that does not divide.
      copy: a file that holds the rows in their place, as the file itself mixes assets, is parsed, or is small.
      number: of the slice in its asset, in order of time.
      split: with split: {by: column} of the path, where the files of an asset are in several.
    """

    first: int
    last: int
    groups: tuple[Group, ...] = ()
    copy: str | None = field(default=None, kw_only=True)
    whole: Group | None = field(default=None, kw_only=True)
    number: int = field(default=0, kw_only=True)
    split: SplitName | None = field(default=None, kw_only=True)

    def in_copy(self, copy: str, groups: Sequence[Group], divided: bool) -> "FileSlice":
        """The slice with its rows in the groups of a copy, which stand one behind the other."""
        if divided:
            return replace(self, copy=copy, groups=tuple(groups))
        size = sum(group.size for group in groups)
        return replace(self, copy=copy, whole=replace(groups[0], rows=self.rows, size=size))


def scan_file(
    file: FileStat, asset: AssetFrom, schema: SeriesSchema, split_column: str | None, scratch: str,
    copies: RowCopies | None = None,
) -> list[FileSlice]:  # fmt: skip
    """The slices of a file, one for each asset in it.

    Args:
      file: local or gs://
      asset: which rows belong to one asset.
      schema: what the file must hold.
      split_column: the column of the path that splits the assets, if one does.
      scratch: a folder for a copy of a file that mixes assets.
      copies: where the rows of others may be copied to.

    Raises:
      BadInput: if the file cannot be used at all.
    """
    path = file.path
    split_value = path_columns(path, asset).get(split_column) if split_column else None
    if split_column and split_value is None:
        raise BadInput(path, "path", f"names no {split_column!r}, which split.column is")
    if schema.asset is not None:
        return _slices_by_column(file, schema, split_value, scratch, copies)
    name = asset_of_path(path, asset)
    if name is None:
        flaw = "source.asset.pattern finds no 'asset' in it" if asset.pattern else f"has no folder {asset.column}=..."
        raise BadInput(path, "path", flaw)
    copied: list[Group] = []
    if copies is not None and copies.takes(file):
        groups, span, copied = _copy_and_read_span(path, schema, copies)
    else:
        groups, span = _parquet_span(path, schema) if is_parquet(path) else _read_span(path, schema)
        is_small = len(groups) == 1 and groups[0].rows <= batch_rows(len(schema.names))
        if copies is not None and copies.are_many and is_small:
            *_, copied = _copy_and_read_span(path, schema, copies)
    rows = sum(group.rows for group in groups)
    first, last = span if rows else (0, 0)
    piece = FileSlice(name, path, rows, first, last, split_value=split_value, file=file)
    divided = divides(path, schema)
    if copies is not None and copied:
        return [piece.in_copy(copies.path, copied, divided)]
    return [replace(piece, groups=tuple(groups) if divided else ())]


def _copy_and_read_span(
    path: str, schema: SeriesSchema, copies: RowCopies
) -> tuple[list[Group], tuple[int, int], list[Group]]:
    """As `_read_span`; and the groups in the copy, of the same rows, none where they cannot be copied."""
    copied: dict[int, Group] = {}
    try:
        return *_span_of(path, schema, copies.add(path, schema, copied)), list(copied.values())
    except (BadInput, NotCopied):  # who checks the rows says what is wrong with them
        return *_read_span(path, schema), []


def _slices_by_column(
    file: FileStat, schema: SeriesSchema, split_value: str | None, scratch: str, copies: RowCopies | None
) -> list[FileSlice]:
    """As `scan_file`, of a file whose asset column names the assets; `split_value` is what the path tells."""
    path, divided = file.path, divides(file.path, schema)
    assets, are_apart = look_at_assets(path, schema)
    slices = {
        name: FileSlice(name, path, rows.rows, rows.first, rows.last, split_value=split_value, file=file)
        for name, rows in sorted(assets.items())
    }
    if not are_apart:
        copy = file_for(scratch, path)
        in_order = copy_in_order(path, schema, list(slices), copy)
        return [replace(piece, groups=tuple(in_order[name]), copy=copy, file=None) for name, piece in slices.items()]
    if copies is not None and copies.takes(file):
        copied: dict[int, Group] = {}
        with suppress(BadInput, NotCopied):  # as above
            for _ in copies.add(path, schema, copied):
                pass
            return [
                piece.in_copy(copies.path, [copied[place] for place in assets[name].groups], divided)
                for name, piece in slices.items()
            ]
    return [
        replace(piece, groups=tuple(assets[name].groups.values()) if divided else ()) for name, piece in slices.items()
    ]


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
    names = [*(schema.time_columns or schema.names[:1]), BAD]
    return _span_of(path, schema, iter_batches(path, schema, names))


def _span_of(path: str, schema: SeriesSchema, batches: Iterable[Rows]) -> tuple[list[Group], tuple[int, int]]:
    """The groups of some batches, which hold the columns of time and BAD; the earliest and the latest time."""
    groups: dict[int, Group] = {}
    lows, highs = [], []
    with naming_the_file(path):
        first_wrong: tuple[str, str] | None = None
        for group, row, batch in batches:
            groups[group.place] = group
            ticks, wrong = read_ticks(path, batch, schema, np.arange(row, row + batch.num_rows))
            if first_wrong is None and (untimed := [at for at in wrong if ticks[at] == NO_TIME]):
                at = min(untimed)
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
