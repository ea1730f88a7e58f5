"""Files that mix assets: their rows are put together by asset once, on disk, so that each is read no more than once.

A file whose row groups hold one asset each is left as it is. One whose columns are times never is.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

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


class AssetRows(NamedTuple):
    """The rows of an asset in a file: how many, the earliest and latest time, the groups where none mixes assets."""

    rows: int
    first: int
    last: int
    groups: dict[int, Group]


def look_at_assets(path: str, schema: SeriesSchema) -> tuple[dict[str, AssetRows], bool]:
    """What the asset and time columns hold; and whether no group of rows mixes assets."""
    assert schema.asset is not None
    places: dict[str, int] = {}  # of the assets in the columns of `seen`
    seen = np.zeros((3, 0), np.int64)  # of each its rows, first and last
    owner: dict[int, str] = {}
    groups: dict[str, dict[int, Group]] = {}
    pure, divided = schema.wide is None, divides(path, schema)
    with naming_the_file(path):
        for group, row, batch in iter_rows(path, schema, [schema.asset, *schema.time_columns, BAD]):
            if not batch.num_rows:
                continue
            ticks, wrong = read_ticks(path, batch, schema, np.arange(row, row + batch.num_rows))
            _check_names(path, batch.column(schema.asset), wrong)
            names = asset_names(path, batch.column(schema.asset), schema, row).dictionary_encode()
            codes = names.indices.to_numpy()
            order = np.argsort(codes, kind="stable")
            starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
            rows = np.diff(starts, append=len(codes))
            lows = np.minimum.reduceat(np.where(ticks == NO_TIME, 2**63 - 1, ticks)[order], starts)
            highs = np.maximum.reduceat(ticks[order], starts)
            of_batch = names.dictionary.to_pylist()
            at = np.array([places.setdefault(name, len(places)) for name in of_batch])
            if new := len(places) - seen.shape[1]:
                seen = np.concatenate([seen, np.full((3, new), [[0], [2**63 - 1], [NO_TIME]])], axis=1)
            seen[0, at] += rows
            seen[1, at] = np.minimum(seen[1, at], lows)
            seen[2, at] = np.maximum(seen[2, at], highs)
            pure = pure and len(at) == 1 and owner.setdefault(group.place if divided else 0, of_batch[0]) == of_batch[0]
            if pure:
                groups.setdefault(of_batch[0], {})[group.place] = group
    seen[1:, seen[2] == NO_TIME] = 0  # no row has a time
    counts, firsts, lasts = seen.tolist()
    return {
        name: AssetRows(counts[at], firsts[at], lasts[at], groups.get(name, {})) for name, at in places.items()
    }, pure


def _check_names(path: str, names: pa.Array, wrong: Wrong) -> None:
    """Raises BadInput at a row that is so broken that it does not tell its asset: any may lack it."""
    for at in sorted(wrong) if names.null_count else ():
        place, reason = wrong[at]
        if place and not names[at].is_valid:
            raise BadInput(path, place, f"{reason}; which asset it is of is not known")


def copy_in_order(path: str, schema: SeriesSchema, names: Sequence[str], copy: str) -> dict[str, list[Group]]:
    """Writes the rows of a file by asset, each in the file's order; returns where the rows of each are.

    The rows of a run are put in order in memory; where there are several runs, they wait in temporary files.
    """
    groups: dict[str, list[Group]] = {name: [] for name in names}
    with ExitStack() as stack:
        runs = []
        for table, is_only in _tables(path, schema):
            rows, spans = _put_together(path, table, schema)
            runs.append((rows if is_only else _to_disk(rows, copy, stack), spans))
        target = stack.enter_context(storage.open_output(copy))
        writer = MessageWriter(target)
        for name in names:
            holding = [rows.slice(*spans[name]) for rows, spans in runs if name in spans]
            if not holding:  # the file changed; who reads the rows says so
                continue
            rows = pa.concat_tables(holding)
            step = batch_rows(rows.num_columns)
            for row in range(0, rows.num_rows, step):  # an asset may be larger than memory
                for batch in rows.slice(row, step).combine_chunks().to_batches():
                    groups[name].append(Group(row, batch.num_rows, *writer.write(batch)))
    return groups


def _tables(path: str, schema: SeriesSchema) -> Iterator[tuple[pa.Table, bool]]:
    """The rows of a file in tables of about RUN_BYTES, each with whether it is the only one."""
    batches: list[pa.RecordBatch] = []
    size, is_only = 0, True
    for _, row, batch in iter_rows(path, schema, [*schema.names, BAD]):
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


def _put_together(path: str, table: pa.Table, schema: SeriesSchema) -> tuple[pa.Table, dict[str, tuple[int, int]]]:
    """Rows put together by asset; of each, by its name, the first one, and how many they are."""
    names = asset_names(path, table.column(schema.asset).combine_chunks(), schema, 0).dictionary_encode()
    codes = names.indices.to_numpy()
    if (np.diff(codes) < 0).any():
        table = table.take(pa.array(np.argsort(codes, kind="stable")))
    counts = np.bincount(codes)
    starts = (np.cumsum(counts) - counts).tolist()
    return table, dict(zip(names.dictionary.to_pylist(), zip(starts, counts.tolist(), strict=True), strict=True))


def _to_disk(table: pa.Table, copy: str, stack: ExitStack) -> pa.Table:
    """The same table in a temporary file beside the copy, if that is local; memory holds what is being read of it."""
    folder = None if storage.is_remote(copy) else os.path.dirname(copy)
    if folder is not None:
        os.makedirs(folder, exist_ok=True)
    with tempfile.NamedTemporaryFile(suffix=".arrow", dir=folder) as file:  # what is mapped outlives its name
        with pa.OSFile(file.name, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return pa.ipc.open_file(stack.enter_context(pa.memory_map(file.name))).read_all()


def iter_copy(copy: str, names: Sequence[str], groups: Sequence[Group]) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
    """Which rows of the file some rows of a copy were, int64 [n], and their columns and BAD."""
    batches = read_messages(copy, ((group.place, group.size) for group in groups))
    for group in groups:
        at = group.row
        while at < group.row + group.rows:
            batch = next(batches)
            rows = np.arange(at, at + batch.num_rows)
            yield batch.column(ROW).to_numpy() if ROW in batch.schema.names else rows, batch.select([*names, BAD])
            at += batch.num_rows
