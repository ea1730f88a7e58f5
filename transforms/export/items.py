"""What is exported, one after the other: the windows of records, or their rows. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.windows import count_windows, first_row
from beamfeed.contract.records.pieces import ranges
from beamfeed.transforms.sources.record_block import Ragged, RecordBlock, Values

What = Literal["windows", "rows"]
ITEMS_BYTES = 8 << 20  # made at a time: windows share rows, and so take more than their records
STRING_BYTES = 64  # of a string, about, where it must be guessed


@dataclass(frozen=True)
class ItemField:
    """A field of what is exported.

    Attributes:
      field: of the dataset.
      time: rows of a window, where a value is of several; else None.
      begin: the first of these.
    """

    field: Field
    time: int | None = None
    begin: int = 0

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Of an item's value."""
        return self.field.shape if self.time is None else (self.time, *self.field.shape)

    @property
    def of_one(self) -> int:
        """Values of the dataset in one of an item."""
        return self.time or 1


@dataclass(frozen=True)
class Items:
    """Some items.

    Attributes:
      count: how many.
      values: by name of the field. Numbers `[count, *shape]`; strings a flat Arrow array of all of them; of any length
        `Ragged`, with `count * of_one` lengths.
      row: int64 `[count]`, the row of the block at which each begins.
      in_record: int64 `[count, 2]`, the row of its record at which each begins, and how many rows that has.
    """

    count: int
    values: Mapping[str, Values]
    row: np.ndarray
    in_record: np.ndarray

    def part(self, part: slice) -> "Items":
        """Some of them, that follow each other."""
        values = {name: _part(column, part, self.count) for name, column in self.values.items()}
        return Items(part.stop - part.start, values, self.row[part], self.in_record[part])


def item_fields(fields: Sequence[Field], windows: Windows, what: What) -> list[ItemField]:
    """The fields of what is exported. Rows have no field that is per window, unless windows are of one row.

    How records of others store them is no longer said of them.
    """
    parts = [field.rows_of(windows.length) for field in fields]
    plain = {"feature": "", "stored": "rows", "spelled": False, "default": None, "part": None}
    fields = [field.model_copy(update=plain) for field in fields]
    if what == "rows" and not is_single(windows):
        return [ItemField(field) for field in fields if field.per != "window"]
    return [
        ItemField(field, end - begin, begin) if field.per == "row" and windows.length > 1 else ItemField(field)
        for field, (begin, end) in zip(fields, parts, strict=True)
    ]


def is_single(windows: Windows) -> bool:
    """Whether each row is a window."""
    return windows.length == windows.stride == 1


def cut_items(block: RecordBlock, fields: Sequence[ItemField], windows: Windows, what: What) -> Iterator[Items]:
    """The items of a block, record after record, some megabytes at a time.

    Args:
      block: of records.
      fields: see `item_fields`.
      windows: of the dataset.
      what: windows, or rows. Of rows that two records share, each record gives its own.
    """
    length, stride = (windows.length, windows.stride) if what == "windows" else (1, 1)
    counts = count_windows(block.rows, length, stride)
    record = np.repeat(np.arange(len(block)), counts)
    offset = first_row(ranges(0, counts), stride)
    starts = block.first[record] + offset
    in_record = np.stack([offset, block.rows[record]], axis=1)
    step = max(1, ITEMS_BYTES // max(1, sum(map(_guessed_bytes, fields))))
    for first in range(0, len(record), step):
        part = slice(first, first + step)
        at = {"record": record[part], "window": np.arange(len(record))[part], "row": starts[part]}
        values = {}
        for column in fields:
            place = at[column.field.per]
            rows = place if column.time is None else (place[:, None] + column.begin + np.arange(column.time)).ravel()
            values[column.field.name] = _take(block.values[column.field.name], column, rows)
        yield Items(len(at["record"]), values, starts[part], in_record[part])


def _guessed_bytes(field: ItemField) -> int:
    size = field.field.bytes
    return field.of_one * (field.field.width * STRING_BYTES if size is None else size)


def _part(values: Values, part: slice, count: int) -> Values:
    of_one = len(values) // count
    some = slice(part.start * of_one, part.stop * of_one)
    if not isinstance(values, Ragged):
        return values[some]
    edges = values.edges
    return Ragged(values.values[edges[some.start] : edges[some.stop]], values.lengths[some])


def _take(values: Values, column: ItemField, at: np.ndarray) -> Values:
    field = column.field
    if isinstance(values, Ragged):
        lengths = values.lengths[at]
        return Ragged(_take_entries(values.values, ranges(values.edges[at], lengths), field.width), lengths)
    taken = _take_entries(values, at, field.width)
    if isinstance(taken, np.ndarray) and column.time is not None:
        return taken.reshape(-1, column.time, *field.shape)
    return taken


def _take_entries(values: np.ndarray | pa.Array, at: np.ndarray, width: int) -> np.ndarray | pa.Array:
    if isinstance(values, np.ndarray):
        return np.take(values, at, axis=0)
    return values.take(pa.array((at[:, None] * width + np.arange(width)).ravel()))


def fixed_shape(field: ItemField) -> tuple[int, ...]:
    """The shape of a value; of one of any length, that of an entry."""
    shape = field.field.shape[1:] if field.field.is_ragged else field.shape
    return tuple(size or 1 for size in shape)


def bytes_of(strings: pa.Array) -> np.ndarray:
    """All bytes of strings, one after the other, uint8."""
    strings = strings.cast(pa.large_binary())
    _, offsets, data = strings.buffers()
    edges = np.frombuffer(offsets, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    return np.frombuffer(data or b"", np.uint8)[edges[0] : edges[-1]] if len(edges) else np.empty(0, np.uint8)
