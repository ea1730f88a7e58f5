"""Files that mix assets: their rows are put together by asset once, on disk, so that each is read no more than once.

A file whose groups of rows hold one asset each is left as it is where that costs no more to read.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.numbers import plain
from beamfeed.transforms.sources.columns.time_units import NO_TIME
from beamfeed.transforms.sources.messages import MessageWriter, read_messages
from beamfeed.transforms.sources.readers import BAD, Group, batch_rows, divides, naming_the_file
from beamfeed.transforms.sources.timeseries.row_keys import Wrong, asset_names, read_ticks
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema
from beamfeed.transforms.sources.timeseries.wide import iter_rows

RUN_BYTES = 64 << 20  # of rows that are put in order in memory
ROW = "\x00row"  # the column of a copy that says which row of the file one was


@dataclass
class AssetRows:
    """The rows of an asset in a file."""

    rows: int = 0
    first: int = 2**63 - 1
    last: int = -(2**63)
    groups: dict[int, Group] = field(default_factory=dict)


class AssetsOfFile:
    """What the asset and time columns of a file hold, while `add` is called with its rows.

    Attributes:
      by_name: the rows of each asset.
      divides: whether its groups can be read each by itself.
      are_apart: whether no group of rows mixes assets, nor the file, where it does not divide.
    """

    def __init__(self, path: str, schema: SeriesSchema):
        self._path, self._schema, self._owner = path, schema, dict[int, str]()
        self.by_name: dict[str, AssetRows] = {}
        self.divides = divides(path, schema)
        self.are_apart = schema.wide is None

    def add(self, group: Group, row: int, batch: pa.RecordBatch) -> None:
        """Counts rows, of which the first is the row `row` of the file.

        Raises:
          BadInput: if one does not tell its asset.
        """
        assert self._schema.asset is not None
        path, column = self._path, batch.column(self._schema.asset)
        ticks, wrong = read_ticks(path, batch, self._schema, row)
        _check_names(path, column, wrong)
        names = asset_names(path, column, self._schema, row).dictionary_encode()
        codes = names.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        rows = np.diff(starts, append=len(codes))
        lows = np.minimum.reduceat(np.where(ticks == NO_TIME, 2**63 - 1, ticks)[order], starts)
        highs = np.maximum.reduceat(ticks[order], starts)
        for name, count, low, high in zip(names.dictionary.to_pylist(), rows, lows, highs, strict=True):
            asset = self.by_name.setdefault(name, AssetRows())
            asset.rows += int(count)
            asset.first, asset.last = min(asset.first, int(low)), max(asset.last, int(high))
            asset.groups[group.place] = group
            place = group.place if self.divides else 0
            self.are_apart &= self._owner.setdefault(place, name) == name


def look_at_assets(path: str, schema: SeriesSchema) -> AssetsOfFile:
    """What the asset and time columns of a file hold."""
    assert schema.asset is not None
    assets = AssetsOfFile(path, schema)
    with naming_the_file(path):
        for group, row, batch in iter_rows(path, schema, [schema.asset, *schema.time_columns, BAD]):
            if batch.num_rows:
                assets.add(group, row, batch)
    return assets


def _check_names(path: str, names: pa.Array, wrong: Wrong) -> None:
    """Raises BadInput at a row that is so broken that it does not tell its asset: any may lack it."""
    for at in sorted(wrong) if names.null_count else ():
        place, reason = wrong[at]
        if place and not names[at].is_valid:
            raise BadInput(path, place, f"{reason}; which asset it is of is not known")


def copy_in_order(path: str, schema: SeriesSchema, copy: str) -> tuple[AssetsOfFile, dict[str, list[Group]]]:
    """Writes the rows of a file by asset, each in the file's order; what it holds, and where the rows of each are.

    The rows of a run are put in order in memory; where there are several runs, they wait in temporary files.
    """
    assets, groups = AssetsOfFile(path, schema), dict[str, list[Group]]()
    with ExitStack() as stack, naming_the_file(path):
        runs = []
        for table, is_only in _tables(path, schema, assets):
            run = _put_together(path, table, schema)
            runs.append(run if is_only else replace(run, table=_to_disk(run.table, copy, stack)))
        target = stack.enter_context(storage.open_output(copy))
        writer = MessageWriter(target)
        for name in sorted(assets.by_name):
            rows = pa.concat_tables([run.rows_of(name) for run in runs if name in run.spans])
            step = batch_rows(rows.num_columns)
            if assets.are_apart:  # units begin where they do in the file
                sizes = [group.rows for group in assets.by_name[name].groups.values()]
            else:
                sizes = [min(step, rows.num_rows - row) for row in range(0, rows.num_rows, step)]
            groups[name] = _write_groups(writer, rows, sizes, step)
    return assets, groups


def _write_groups(writer: MessageWriter, rows: pa.Table, sizes: Sequence[int], step: int) -> list[Group]:
    """Writes the rows of an asset, of which there may be more than fit into memory, in groups of so many."""
    groups, row = [], 0
    for size in sizes:
        messages = [
            writer.write(batch)
            for at in range(row, row + size, step)
            for batch in rows.slice(at, min(step, row + size - at)).combine_chunks().to_batches()
        ]
        groups.append(Group(row, size, messages[0][0], sum(bytes_ for _, bytes_ in messages)))
        row += size
    return groups


def _tables(path: str, schema: SeriesSchema, assets: AssetsOfFile) -> Iterator[tuple[pa.Table, bool]]:
    """The rows of a file in tables of about RUN_BYTES, each with whether it is the only one."""
    batches: list[pa.RecordBatch] = []
    size, is_only = 0, True
    for group, row, batch in iter_rows(path, schema, [*schema.names, BAD]):
        if not batch.num_rows:
            continue
        assets.add(group, row, batch)
        columns = map(plain, batch)
        rows = pa.array(np.arange(row, row + batch.num_rows))
        batches.append(pa.RecordBatch.from_arrays([*columns, rows], names=[*batch.schema.names, ROW]))
        size += batches[-1].nbytes
        if size >= RUN_BYTES:
            is_only = False
            yield pa.Table.from_batches(batches), is_only
            batches, size = [], 0
    if batches:
        yield pa.Table.from_batches(batches), is_only


@dataclass(frozen=True)
class _Run:
    """Some rows, put together by asset: the first of each, and how many they are, by name."""

    table: pa.Table
    spans: dict[str, tuple[int, int]]

    def rows_of(self, name: str) -> pa.Table:
        return self.table.slice(*self.spans[name])


def _put_together(path: str, table: pa.Table, schema: SeriesSchema) -> _Run:
    names = asset_names(path, table.column(schema.asset).combine_chunks(), schema, 0).dictionary_encode()
    codes = names.indices.to_numpy()
    if (np.diff(codes) < 0).any():
        table = table.take(pa.array(np.argsort(codes, kind="stable")))
    counts = np.bincount(codes)
    starts = (np.cumsum(counts) - counts).tolist()
    return _Run(table, dict(zip(names.dictionary.to_pylist(), zip(starts, counts.tolist(), strict=True), strict=True)))


def _to_disk(table: pa.Table, copy: str, stack: ExitStack) -> pa.Table:
    """The same table in a temporary file beside the copy, if that is local; memory holds what is being read of it."""
    folder = None if storage.is_remote(copy) else os.path.dirname(copy)
    if folder is not None:
        os.makedirs(folder, exist_ok=True)
    file = stack.enter_context(tempfile.NamedTemporaryFile(suffix=".arrow", dir=folder))  # noqa: SIM115
    with pa.OSFile(file.name, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_file(stack.enter_context(pa.memory_map(file.name))).read_all()


def iter_copy(
    copy: str, names: Sequence[str], groups: Sequence[Group]
) -> Iterator[tuple[int | np.ndarray, pa.RecordBatch]]:
    """Which rows of the file some rows of a copy were, int64 [n] or the first one, and their columns and BAD."""
    batches = read_messages(copy, ((group.place, group.size) for group in groups))
    for group in groups:
        at = group.row
        while at < group.row + group.rows:
            batch = next(batches)
            yield batch.column(ROW).to_numpy() if ROW in batch.schema.names else at, batch.select([*names, BAD])
            at += batch.num_rows
