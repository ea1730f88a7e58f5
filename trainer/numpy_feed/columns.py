"""The lists of records -> the values of their fields, checked against each other, and where windows are in them."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from beamfeed.contract.dataset.fields import LENGTHS, Field
from beamfeed.contract.dataset.windows import MISMATCH, count_windows, first_row
from beamfeed.contract.errors import UserError
from beamfeed.contract.records.entries import divided, entries_of
from beamfeed.contract.records.examples import Lists
from beamfeed.contract.records.pieces import Pieces, add_up, find_numbers
from beamfeed.trainer.feed.fields import PLACE, FieldSelection


class RaggedColumn(NamedTuple):
    """Values of any length.

    Attributes:
      values: their entries one after the other, `[entries, *shape[1:]]`.
      splits: int64 `[values + 1]`, where the entries of each begin.
    """

    values: "np.ndarray | Pieces"
    splits: np.ndarray


class InPlace(NamedTuple):
    """Numbers that stay where they were read: the memory of a list of floats is that of the array.

    Attributes:
      first: int64 `[records]`, where the values of each record begin in the buffer.
      bytes: of one value.
    """

    first: np.ndarray
    bytes: int


# `[values, *shape]` of numbers; of strings `[values * width]`, where each is in the buffer.
Column: TypeAlias = "np.ndarray | InPlace | Pieces | RaggedColumn"


class Columns(NamedTuple):
    """The values of some records, those of each after those of the one before it.

    Attributes:
      buffer: uint8, which holds the strings.
      values: by name of the field.
      starts: int64 `[windows]`, the rows at which windows start.
      record: int64 `[windows]`, the records that they are in.
      in_record: int64 `[windows, 2]`, which of its rows each starts at, and which of its windows it is.
      first: int64 `[records + 1]`, the first window of each record.
    """

    buffer: np.ndarray
    values: Mapping[str, Column]
    starts: np.ndarray
    record: np.ndarray
    in_record: np.ndarray
    first: np.ndarray


def read_columns(lists: Lists, selection: FieldSelection, remedy: str) -> Columns:
    """The values of the wanted fields, and where windows are.

    Raises:
      UserError: if a field has not a whole value for each row, window, or the record.
    """
    by_name, counts = {}, {}
    for field in selection.parsed:
        try:
            by_name[field.name], counts[field.name] = _column(lists, field)
        except ValueError:
            raise UserError(f"{MISMATCH}: field {field.name}; {remedy}") from None
    rows = counts[selection.rows_of.name]
    framed = count_windows(rows, selection.windows.length, selection.windows.stride)
    expected = {"row": rows, "window": framed, "record": np.ones_like(rows)}
    for field in selection.parsed:
        if (counts[field.name] != expected[field.per]).any():
            raise UserError(f"{MISMATCH}: field {field.name}; {remedy}")
    record = np.repeat(np.arange(len(rows)), framed)
    first = np.concatenate([[0], np.cumsum(framed)])
    number = np.arange(len(record)) - first[record]
    start = first_row(number, selection.windows.stride)
    values: dict[str, Column] = {field.name: by_name[field.name] for field in selection.stored}
    if PLACE in selection.fields:
        values[PLACE.name] = np.stack([start, rows[record]], axis=1)
    starts = start + (np.cumsum(rows) - rows)[record]
    return Columns(lists.buffer, values, starts, record, np.stack([start, number], axis=1), first)


def _column(lists: Lists, field: Field) -> tuple[Column, np.ndarray]:
    """The values of a field, and how many each record has.

    Raises:
      ValueError: if a value has a part missing, or an entry is of none.
    """
    if field.dtype == "float32" and not field.is_ragged:
        pieces, size = lists.pieces[field.name], 4 * field.width
        return InPlace(pieces.first, size), divided(pieces.sizes, size)
    entries, counts = entries_of(lists, field)
    if not field.is_ragged:
        return entries, divided(counts, field.listed_width)
    if field.stored != "rows":  # a record is a row, and its whole list is the value
        lengths = divided(counts, field.width)[lists.present]
        return RaggedColumn(entries, np.concatenate([[0], np.cumsum(lengths)])), lists.present.astype(np.int64)
    lengths, of_record = find_numbers(lists.buffer, lists.pieces[field.name + LENGTHS])
    if (lengths < 0).any() or (add_up(lengths, of_record) != divided(counts, field.width)).any():
        raise ValueError
    return RaggedColumn(entries, np.concatenate([[0], np.cumsum(lengths)])), of_record
