"""Reads the rows of an asset, or of a part of it, as NumPy chunks: as the files have them, or put in order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.split import SPLITS, Split, SplitName
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.labels import (
    LabelColumn,
    label_numbers,
    read_label,
    without,
    words_for_no_class,
)
from beamfeed.transforms.sources.columns.numbers import is_text, pack, plain
from beamfeed.transforms.sources.columns.time_units import NO_TIME
from beamfeed.transforms.sources.readers import BAD, Group, batch_rows, iter_batches
from beamfeed.transforms.sources.timeseries.mixed import iter_copy
from beamfeed.transforms.sources.timeseries.own_steps import made_by_steps
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset
from beamfeed.transforms.sources.timeseries.row_keys import Wrong, read_ticks
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.scan import FileSlice
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema


@dataclass(frozen=True)
class Chunk:
    """n rows as they stand in one file.

    Attributes:
      path: of the file.
      file_row: int64 [n], of each row, for errors.
      position: of the first row among the asset's rows.
      time: int64 [n] ticks.
      values: float32 [n, features]; NaN is missing.
      outside: int64 [features], how many values were out of `prepare.range`, and are missing now.
      split: string [n], with split: {by: column} of the files.
      labels: of each label with a column, see `read_label`.
      part: int64 [n], the number of the slice that each row is of, where that matters.
      wrong: by row, why it is set aside, see `read_ticks`. It keeps its position, and has no values.
    """

    path: str
    file_row: np.ndarray
    position: int
    time: np.ndarray
    values: np.ndarray
    outside: np.ndarray
    split: pa.Array | None = None
    labels: tuple[pa.Array, ...] = ()
    part: np.ndarray | None = None
    wrong: Wrong = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.time)

    @property
    def right(self) -> np.ndarray:
        """Bool [n]: the rows that are not set aside."""
        right = np.ones(len(self), bool)
        right[list(self.wrong)] = False
        return right

    def take(self, rows: slice | np.ndarray, position: int) -> "Chunk":
        """Some of the rows, a slice or int64 of their places, the first of them at `position` of the asset."""
        order = np.arange(len(self))[rows] if isinstance(rows, slice) else rows
        picked = pa.array(order)
        return Chunk(
            self.path,
            self.file_row[rows],
            position,
            self.time[rows],
            self.values[rows],
            self.outside,
            None if self.split is None else self.split.take(picked),
            tuple(column.take(picked) for column in self.labels),
            None if self.part is None else self.part[rows],
            {new: self.wrong[old] for new, old in enumerate(order.tolist()) if old in self.wrong} if self.wrong else {},
        )


def read_chunks(asset: SeriesAsset, schema: SeriesSchema, start: int = 0, end: int | None = None) -> Iterator[Chunk]:
    """Streams the rows [start, end) of an asset in the order of its files.

    Args:
      asset: whose rows; of its pieces those are needed that hold the rows.
      schema: the columns to read.
      start: the first row.
      end: the row after the last one; None reads all.

    Raises:
      BadInput: where a file breaks, or holds another number of rows than when it was planned.
    """
    end = asset.end if end is None else min(end, asset.end)
    with_part = asset.apart or asset.by_path
    offset = asset.offset
    for piece in asset.pieces:
        low, high = max(start - offset, 0), min(end - offset, piece.rows)
        if low < high:
            before = NO_TIME
            for chunk in _read_slice(piece, schema, low, high, offset):
                if chunk.wrong:
                    chunk = replace(chunk, time=_filled(chunk.time, before))
                before = int(chunk.time[-1])
                yield replace(chunk, part=np.full(len(chunk), piece.number)) if with_part else chunk
        offset += piece.rows


def _filled(time: np.ndarray, before: int) -> np.ndarray:
    """Times, those that are not known as in the row before; `before` is that of the row before the first."""
    has_time = time != NO_TIME
    place = np.maximum.accumulate(np.where(has_time, np.arange(len(time)), -1))
    first = time[has_time.argmax()] if before == NO_TIME else before
    return np.where(place < 0, first, time[place])


def _read_slice(piece: FileSlice, schema: SeriesSchema, low: int, high: int, offset: int) -> Iterator[Chunk]:
    """Rows [low, high) of a piece; `offset` is the position of its first row."""
    row, groups = 0, []
    for group in piece.groups:  # those that hold them
        if row + group.rows > low and row < high:
            groups.append(group)
        elif not groups:
            offset, low, high = offset + group.rows, low - group.rows, high - group.rows
            continue
        row += group.rows
    row = 0
    last_rows = high - sum(group.rows for group in groups[:-1])
    for file_row, batch in _batches(piece, schema, groups or None, last_rows if groups else None):
        first, last = max(low - row, 0), min(high - row, batch.num_rows)
        if first < last:
            rows = batch.slice(first, last - first)
            yield _chunk(piece.path, file_row[first:last], offset + row + first, rows, schema)
        row += batch.num_rows
        if row >= high and groups:
            return
    if row < high or (row > piece.rows and not groups):
        raise BadInput(piece.path, "file", f"held {piece.rows} rows when it was planned and {row} when it was read")


def _batches(
    piece: FileSlice, schema: SeriesSchema, groups: Sequence[Group] | None, last_rows: int | None
) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
    if piece.copy is not None:
        yield from iter_copy(piece.copy, schema.names, groups or ([] if piece.whole is None else [piece.whole]))
    else:
        for _, row, batch in iter_batches(piece.path, schema, [*schema.names, BAD], groups, last_rows):
            yield np.arange(row, row + batch.num_rows), batch


def _chunk(path: str, file_row: np.ndarray, position: int, batch: pa.RecordBatch, schema: SeriesSchema) -> Chunk:
    first = int(file_row[0])
    time, wrong = read_ticks(path, batch, schema, file_row)
    if schema.time is None:  # counted among the asset's rows, and not among those of the file
        time = schema.time_units.rows(position, batch.num_rows)
    split = None
    if schema.split is not None:
        split = plain(batch.column(schema.split)).cast(pa.string())
    if schema.inputs is not None:
        batch = made_by_steps(
            batch.select(schema.names), schema, f"rows {first:,} to {first + batch.num_rows - 1:,} of {path}"
        )
    try:
        packed = pack(batch, schema.features)
        labels = tuple(_label(batch.column(label.column), label, path, schema) for label in schema.labels)
    except pa.ArrowException as error:  # such as a number that no float32 can hold
        raise BadInput(path, f"row {first}", f"cannot be read as numbers: {error}") from None
    if wrong:
        packed[list(wrong)] = np.nan
    outside = clear_outside(packed, schema.ranges)
    return Chunk(path, file_row, position, time, packed, outside, split, labels, wrong=wrong)


def _label(column: pa.Array, label: LabelColumn, path: str, schema: SeriesSchema) -> pa.Array:
    """What a step of the user's own calls a class is none of the file's words."""
    words = schema.text.null_words(path) if schema.inputs is None else ()
    if words and label.classes is not None and is_text(column.type):
        column = without(plain(column).cast(pa.string()), words_for_no_class(label, words))
    return read_label(column, label)


def clear_outside(values: np.ndarray, ranges: Sequence[tuple[int, float, float]]) -> np.ndarray:
    """Makes values out of their range missing, in place; returns how many, int64 [features].

    Args:
      values: float32 [n, features].
      ranges: column, lowest and highest value.
    """
    outside = np.zeros(values.shape[1], np.int64)
    for column, low, high in ranges:
        bad = (values[:, column] < np.float32(low)) | (values[:, column] > np.float32(high))
        outside[column] = bad.sum()
        values[bad, column] = np.nan
    return outside


def sort_bytes(asset: SeriesAsset, schema: SeriesSchema) -> int:
    """Memory that `read_sorted` takes at most: the rows once, their times and places, one batch; labels twice."""
    labels = sum(label.row_bytes for label in schema.labels) + (24 if schema.split else 0)
    return asset.end * (4 * len(schema.features) + 8 + 8 + 8 + 2 * labels)


def _owned(column: pa.Array) -> pa.Array:
    """The same values in memory of their own: a slice would hold all columns of what was read with it."""
    return pa.concat_arrays([column, column.slice(0, 0)])


def read_sorted(asset: SeriesAsset, schema: SeriesSchema) -> Iterator[Chunk]:
    """All rows of an asset in order of time, sorted in memory; rows of one time stay in the order of the files."""
    rows, features = asset.end, len(schema.features)
    time, values = np.empty(rows, np.int64), np.empty((rows, features), np.float32)
    file_row, part = np.empty(rows, np.int64), None
    outside = np.zeros(features, np.int64)
    splits, labels = [], []
    wrong: Wrong = {}
    for chunk in read_chunks(asset, schema):
        wrong |= {chunk.position + row: why for row, why in chunk.wrong.items()}
        span = slice(chunk.position, chunk.position + len(chunk))
        time[span], values[span], file_row[span] = chunk.time, chunk.values, chunk.file_row
        outside += chunk.outside
        if chunk.part is not None:
            part = np.empty(rows, np.int64) if part is None else part
            part[span] = chunk.part
        splits.append(None if chunk.split is None else _owned(chunk.split))
        labels.append(tuple(map(_owned, chunk.labels)))
    split = None if schema.split is None else pa.chunked_array(splits).combine_chunks()
    joined_labels = tuple(pa.chunked_array(columns).combine_chunks() for columns in zip(*labels, strict=True))
    del splits, labels
    order = np.argsort(time, kind="stable")
    every = Chunk(asset.files, file_row, 0, time, values, outside, split, joined_labels, part, wrong)
    step = batch_rows(features)
    for at in range(0, rows, step):
        yield every.take(order[at : at + step], at)
        every = replace(every, outside=np.zeros_like(outside))


def in_split(chunk: Chunk, asset: SeriesAsset, name: SplitName, split: Split) -> np.ndarray:
    """Which rows, bool [n]: those of a chunk that belong to the split `name`."""
    if asset.split is not None:
        return np.full(len(chunk), asset.split == name)
    cuts, place = (asset.cuts, chunk.time) if asset.cuts is not None else (asset.row_cuts, None)
    if cuts is not None:
        place = np.arange(chunk.position, chunk.position + len(chunk)) if place is None else place
        bounds = [-(2**63), *cuts, *([] if len(cuts) == 3 else [2**63 - 1])]
        at = SPLITS.index(name)
        return (bounds[at] <= place) & (place < bounds[at + 1])
    if asset.by_path:
        assert chunk.part is not None
        parts = [piece.number for piece in asset.pieces if piece.split == name]
        return np.isin(chunk.part, parts)
    mask = pc.is_in(chunk.split, value_set=pa.array(getattr(split, name), pa.string()))
    return pc.fill_null(mask, False).to_numpy(zero_copy_only=False)


def to_rows(
    chunks: Iterator[Chunk], asset: SeriesAsset, name: SplitName, split: Split, max_gap: int | None,
    labels: Sequence[LabelColumn] = (),
) -> Iterator[Rows]:  # fmt: skip
    """The rows of one split, each marked where it does not continue the one before."""
    last_time: int | None = None
    last_kept, last_part = False, None
    for chunk in chunks:
        keep = in_split(chunk, asset, name, split)
        if chunk.wrong:
            keep = keep & chunk.right
        gap = np.zeros(len(chunk), bool)
        gap[0] = last_time is None
        if max_gap is not None:
            step = np.diff(chunk.time, prepend=chunk.time[0] if last_time is None else last_time)
            gap |= step > max_gap
        if asset.apart and chunk.part is not None:
            gap |= np.diff(chunk.part, prepend=chunk.part[0] if last_part is None else last_part) != 0
            last_part = chunk.part[-1]
        gap[0] |= not last_kept
        gap[1:] |= ~keep[:-1]
        last_time, last_kept = int(chunk.time[-1]), bool(keep[-1])
        position = np.arange(chunk.position, chunk.position + len(chunk))
        numbers = label_numbers(chunk.labels, labels, len(chunk))
        rows = Rows(position, chunk.time, chunk.values, gap, numbers)
        yield rows if keep.all() else rows.take(keep)
