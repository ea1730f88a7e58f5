"""Reads the rows of an asset, or of a unit of it, as NumPy chunks in the order of the files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.split import Split, SplitName
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers import BATCH_ROWS, iter_batches
from beamfeed.transforms.sources.timeseries.columns import pack
from beamfeed.transforms.sources.timeseries.label_columns import LabelColumn, label_numbers, read_label
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.scan import FileSlice, asset_names, read_ticks
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema


@dataclass(frozen=True)
class Chunk:
    """n rows as they stand in one file."""

    path: str
    file_row: int  # of the first row; for errors
    position: int  # of the first row among the asset's rows
    time: np.ndarray  # int64 [n] ticks
    values: np.ndarray  # float32 [n, features]; NaN is missing
    split: pa.Array | None  # string [n], with split: {by: column} of the files
    labels: tuple[pa.Array, ...] = ()  # of each label with a column, see `read_label`

    def __len__(self) -> int:
        return len(self.time)


def read_chunks(
    asset: SeriesAsset, schema: SeriesSchema, start: int = 0, end: int | None = None, *, values: bool = True
) -> Iterator[Chunk]:
    """Streams the rows [start, end) of an asset.

    Args:
      asset: whose rows.
      schema: the columns to read.
      start: the first row.
      end: the row after the last one; None reads all.
      values: False reads the times alone, and leaves `Chunk.values` without columns.

    Raises:
      BadInput: where a file breaks, or holds another number of rows than when it was planned.
    """
    end = asset.rows if end is None else min(end, asset.rows)
    offset = 0
    for piece in asset.pieces:
        low, high = max(start - offset, 0), min(end - offset, piece.rows)
        if low < high:
            yield from _read_slice(piece, schema, low, high, offset, values)
        offset += piece.rows


def _read_slice(
    piece: FileSlice, schema: SeriesSchema, low: int, high: int, offset: int, values: bool
) -> Iterator[Chunk]:
    """Rows [low, high) of a piece; `offset` is the position of its first row."""
    names = schema.names if values else [n for n in (schema.time, schema.asset, schema.split) if n]
    row, groups = 0, None
    if piece.row_groups:
        row, groups = _groups_between(piece, low, high)
    file_row = row  # differs from row where other assets' rows lie between
    for batch in iter_batches(piece.path, schema, names, groups):
        size = batch.num_rows
        if not piece.whole:
            batch = _only(batch, piece, schema, file_row)
        first, last = max(low - row, 0), min(high - row, batch.num_rows)
        if first < last:
            yield _chunk(piece.path, file_row + first, offset + row + first, batch.slice(first, last - first), schema,
                         values)  # fmt: skip
        row += batch.num_rows
        file_row += size
        if row >= high and piece.can_seek:
            return
    if row < high or (row > piece.rows and not piece.can_seek):
        raise BadInput(piece.path, "file", f"held {piece.rows} rows when it was planned and {row} when it was read")


def _groups_between(piece: FileSlice, low: int, high: int) -> tuple[int, Sequence[int]]:
    """The row groups that hold rows [low, high) of a piece, and the piece's row that the first starts at."""
    if not piece.whole:
        return 0, piece.row_groups
    starts = np.cumsum((0, *piece.group_rows))
    first = int(np.searchsorted(starts, low, "right")) - 1
    last = int(np.searchsorted(starts, high, "left"))
    return int(starts[first]), piece.row_groups[first:last]


def _only(batch: pa.RecordBatch, piece: FileSlice, schema: SeriesSchema, file_row: int) -> pa.RecordBatch:
    names = asset_names(piece.path, batch.column(schema.asset), file_row)
    return batch.filter(pc.equal(names, piece.asset))


def _chunk(path: str, file_row: int, position: int, batch: pa.RecordBatch, schema: SeriesSchema, values: bool) -> Chunk:
    time = read_ticks(path, batch.column(schema.time), schema.time_units, file_row)
    split = None
    if schema.split is not None:
        split = batch.column(schema.split)
        if pa.types.is_dictionary(split.type):
            split = split.dictionary_decode()
        split = split.cast(pa.string())
    try:
        packed = pack(batch, schema.features if values else ())
        labels = tuple(read_label(batch.column(one.column), one) for one in schema.labels if values)
    except pa.ArrowException as error:  # such as a number that no float32 can hold
        raise BadInput(path, f"row {file_row}", f"cannot be read as numbers: {error}") from None
    return Chunk(path, file_row, position, time, packed, split, labels)


def read_sorted(asset: SeriesAsset, schema: SeriesSchema) -> Iterator[Chunk]:
    """All rows of an asset in order of time, sorted in memory."""
    chunks = list(read_chunks(asset, schema))
    time = np.concatenate([chunk.time for chunk in chunks])
    values = np.concatenate([chunk.values for chunk in chunks])
    split = None
    if schema.split is not None:
        split = pa.chunked_array([chunk.split for chunk in chunks]).combine_chunks()
    their = [chunk.labels for chunk in chunks]
    labels = [pa.chunked_array(columns).combine_chunks() for columns in zip(*their, strict=True)]
    del chunks, their
    order = np.argsort(time, kind="stable")
    for at in range(0, len(time), BATCH_ROWS):
        rows = order[at : at + BATCH_ROWS]
        picked = None if split is None else split.take(pa.array(rows))
        told = tuple(column.take(pa.array(rows)) for column in labels)
        yield Chunk(asset.files, at, at, time[rows], values[rows], picked, told)


def in_split(chunk: Chunk, asset: SeriesAsset, name: SplitName, split: Split) -> np.ndarray:
    """Which rows, bool [n]: those of a chunk that belong to the split `name`."""
    if asset.split is not None:
        return np.full(len(chunk), asset.split == name)
    if asset.cuts is not None:
        to_eval, to_test = asset.cuts
        if name == "train":
            return chunk.time < to_eval
        return (to_eval <= chunk.time) & (chunk.time < to_test) if name == "eval" else chunk.time >= to_test
    wanted = pc.is_in(chunk.split, value_set=pa.array(getattr(split, name), pa.string()))
    return pc.fill_null(wanted, False).to_numpy(zero_copy_only=False)


def to_rows(
    chunks: Iterator[Chunk], asset: SeriesAsset, name: SplitName, split: Split, max_gap: int | None,
    labels: Sequence[LabelColumn] = (),
) -> Iterator[Rows]:  # fmt: skip
    """The rows of one split, each marked where it does not continue the one before."""
    last_time: int | None = None
    last_kept = False
    for chunk in chunks:
        keep = in_split(chunk, asset, name, split)
        gap = np.zeros(len(chunk), bool)
        gap[0] = last_time is None
        if max_gap is not None:
            step = np.diff(chunk.time, prepend=chunk.time[0] if last_time is None else last_time)
            gap |= step > max_gap
        gap[0] |= not last_kept
        gap[1:] |= ~keep[:-1]
        last_time, last_kept = int(chunk.time[-1]), bool(keep[-1])
        position = np.arange(chunk.position, chunk.position + len(chunk))
        numbers = label_numbers(chunk.labels, labels, len(chunk))
        rows = Rows(position, chunk.time, chunk.values, gap, numbers)
        yield rows if keep.all() else rows.take(keep)
