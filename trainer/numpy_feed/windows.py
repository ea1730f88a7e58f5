"""The values of records -> batches of windows, as NumPy arrays."""

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.records.pieces import Pieces
from beamfeed.trainer.feed.fields import FieldSelection
from beamfeed.trainer.numpy_feed.columns import Columns, InPlace, RaggedColumn

Strings: TypeAlias = list  # of bytes, or of such lists: an axis each


class Ragged(NamedTuple):
    """Values of any length of some windows, as arrays or PyTorch's tensors.

    Attributes:
      values: all entries one after the other, `[entries, *shape[1:]]`; of strings a list.
      lengths: int64 `[windows]`, or `[windows, time]` of the rows of a window: how many entries each value has.
    """

    values: Any
    lengths: Any


Values: TypeAlias = np.ndarray | Strings | Ragged


def gather(columns: Columns, place: np.ndarray, selection: FieldSelection) -> dict[str, Values]:
    """Some windows: for each field `[windows, time, *shape]`, or `[windows, *shape]`.

    Those of rows have the axis of time, unless windows are of one row. What is not there is zeros, empty strings and
    values without entries.

    Args:
      columns: the values.
      place: int64 `[windows]`, which of their windows; -1 where there is none.
      selection: the fields.
    """
    present, length = place >= 0, selection.windows.length
    known = np.maximum(place, 0)
    at = {"window": known}
    if len(columns.starts):
        at |= {"row": columns.starts[known], "record": columns.record[known]}
    else:  # nothing of this batch is there
        at |= {"row": known, "record": known}
    windows: dict[str, Values] = {}
    for field in selection.fields:
        values = columns.values[field.name]
        if isinstance(values, InPlace):
            windows[field.name] = _take_in_place(columns, field, values, known, present, length)
            continue
        rows = at[field.per]
        if field.per == "row" and length > 1:
            rows = rows[:, None] + np.arange(*field.rows_of(length))
        windows[field.name] = _take(columns, field, values, rows, present)
    return windows


def _take(
    columns: Columns, field: Field, values: np.ndarray | Pieces | RaggedColumn, at: np.ndarray, present: np.ndarray
) -> Values:
    if isinstance(values, RaggedColumn):
        return _take_ragged(columns, field, values, at, present)
    if isinstance(values, Pieces):
        return _strings(columns.buffer, values, at, _fixed(field), present)
    if not len(values):
        return np.zeros((*at.shape, *values.shape[1:]), values.dtype)
    taken = _take_rows(values, at) if at.ndim > 1 else np.take(values, at, axis=0)
    if not present.all():
        taken[~present] = 0
    return taken


def _take_in_place(
    columns: Columns, field: Field, values: InPlace, window: np.ndarray, present: np.ndarray, length: int
) -> np.ndarray:
    """The values of windows from where they were read: each window is copied as one element."""
    begin, end = field.rows_of(length)
    time = (end - begin,) if field.per == "row" and length > 1 else ()
    shape = (len(window), *time, *_fixed(field))
    if not len(columns.starts):
        return np.zeros(shape, np.float32)
    size = values.bytes * math.prod(time)
    first = values.first[columns.record[window]]
    if field.per != "record":
        first = first + (columns.in_record[window, 0 if field.per == "row" else 1] + begin) * values.bytes
    every = np.ndarray((len(columns.buffer) - size + 1,), f"V{size}", columns.buffer, strides=(1,))
    taken = every[first].view("<f4").reshape(shape)
    if not present.all():
        taken[~present] = 0
    return taken.astype(np.float32, copy=False)


def _take_rows(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Rows that follow each other, `[windows, time]`: each window is copied as one element."""
    windows, length = at.shape
    row = values.nbytes // len(values)
    every = np.ndarray((len(values) - length + 1,), f"V{length * row}", values, strides=(row,))
    return every[at[:, 0]].view(values.dtype).reshape(windows, length, *values.shape[1:])


def _take_ragged(columns: Columns, field: Field, values: RaggedColumn, at: np.ndarray, present: np.ndarray) -> Ragged:
    if len(values.splits) > 1:
        first, end = values.splits[at], values.splits[at + 1]
        lengths = np.where(present.reshape(-1, *[1] * (at.ndim - 1)), end - first, 0)
    else:
        first = lengths = np.zeros(at.shape, np.int64)
    sizes = lengths.ravel()
    entries = np.repeat(first.ravel() - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    if isinstance(values.values, Pieces):
        every = np.ones(len(entries), bool)
        return Ragged(_strings(columns.buffer, values.values, entries, _fixed(field), every), lengths)
    return Ragged(values.values[entries], lengths)


def _fixed(field: Field) -> tuple[int, ...]:
    """The shape of a value; of one of any length, that of an entry."""
    return tuple(size for size in field.shape if size is not None)


def _strings(
    buffer: np.ndarray, strings: Pieces, at: np.ndarray, shape: tuple[int, ...], present: np.ndarray
) -> Strings:
    """The strings of values of this shape at these places, as nested lists."""
    axes = (*at.shape[1:], *shape)
    places = at[..., None] * math.prod(shape) + np.arange(math.prod(shape))
    if len(strings.first):
        inside = present.reshape(-1, *[1] * (places.ndim - 1))
        first, size = strings.first[places], np.where(inside, strings.sizes[places], 0)
        memory = buffer.data
        edges = zip(first.ravel().tolist(), (first + size).ravel().tolist(), strict=True)
        texts: Strings = [memory[start:end].tobytes() for start, end in edges]
    else:
        texts = [b""] * places.size
    for size in reversed(axes):
        texts = [texts[place : place + size] for place in range(0, len(texts), size)]
    return texts
