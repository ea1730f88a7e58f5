"""The values of records -> windows. Windows are indices until the last step, `gather`."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import LENGTHS, Field, Per
from beamfeed.contract.dataset.windows import MISMATCH, count_windows, first_row
from beamfeed.trainer.feed.fields import PLACE, FieldSelection
from beamfeed.trainer.feed.graph import search
from beamfeed.trainer.feed.order import Round
from beamfeed.trainer.feed.parsing import Parsed, checked

SPLITS = ".splits"  # ends the name under which it stands where the values of a field of any length begin

Columns = dict[str, tf.Tensor]
Places = dict[Per, tf.Tensor]


class Rows(NamedTuple):
    """The values of some blocks, and where windows are in them.

    Attributes:
      columns: the values of each wanted field, as `Parsed.columns` has them, but with int64 `[values + 1]` under
        `<name>.splits`, where each value of any length begins, in the place of lengths.
      starts: int64 `[windows]`, the rows at which windows start.
      record: int64 `[windows]`, the records that they are in, among those that are there; None if no field is of those.
      first: int64 `[blocks]`, how many windows are before each block's.
      windows: int64 `[blocks]`, how many each block has.
      piece: int64 scalar, rows that can be copied as one: all windows start and end at multiples of it.
      zeros: whether there is a window of zeros behind all values, see `add_zeros`.
    """

    columns: Columns
    starts: tf.Tensor
    record: tf.Tensor | None
    first: tf.Tensor
    windows: tf.Tensor
    piece: tf.Tensor
    zeros: bool = False


def find_windows(parsed: Parsed, records: tf.Tensor, selection: FieldSelection) -> Rows:
    """Where the windows of some blocks are.

    Args:
      parsed: the records of the blocks.
      records: of each block, int64 `[blocks]`; records after the last block's have no rows.
      selection: which fields they hold, and where windows are.
    """
    frame = selection.windows
    in_record = count_windows(parsed.rows, frame.length, frame.stride)
    begins = tf.cumsum(parsed.rows, exclusive=True)  # the row at which each record begins
    # Windows before each record, and before the end; the row at which each window starts.
    before, starts = tf.raw_ops.RaggedRange(
        starts=begins, limits=begins + first_row(in_record, frame.stride), deltas=tf.constant(frame.stride, tf.int64)
    )
    ends = tf.cumsum(records)  # of the blocks, among the records
    first = tf.gather(before, ends - records)
    columns, record = dict(parsed.columns), None
    if PLACE in selection.fields or selection.of("record"):
        # Found in the splits, as value_rowids makes a mask of the records by the most windows that one has.
        record = search(before[1:], tf.range(tf.size(starts, tf.int64)), tf.int64)
    if PLACE in selection.fields:
        places = starts - tf.gather(begins, record), tf.gather(parsed.rows, record)
        columns[PLACE.name] = tf.stack(places, axis=1)
    if selection.of("record"):
        record = tf.gather(tf.cumsum(parsed.present, exclusive=True), record)
    for field in selection.fields:
        if field.is_ragged:
            columns[field.name + SPLITS] = tf.concat([[0], tf.cumsum(columns.pop(field.name + LENGTHS))], 0)
    edges_inside = [edge for field in selection.of("row") for edge in field.rows_of(frame.length)]
    piece = piece_rows(parsed.rows, frame, edges_inside)
    return Rows(columns, starts, record, first, tf.gather(before, ends) - first, piece)


def piece_rows(counts: tf.Tensor, frame: Windows, edges: Sequence[int]) -> tf.Tensor:
    """The rows that can be copied as one piece: all windows start and end at multiples of it.

    A segment holds the rows of its windows and no more, so this is the greatest
    common divisor of length, stride and where the parts of windows begin and end (`edges`), unless somebody else wrote
    the records.
    """
    piece = math.gcd(frame.length, frame.stride, *edges)
    if piece == 1:
        return tf.constant(1, tf.int64)
    return tf.where(tf.reduce_all(counts % piece == 0), tf.constant(piece, tf.int64), tf.constant(1, tf.int64))


def locate_windows(rows: Rows, round_: Round) -> tuple[tf.Tensor, tf.Tensor]:
    """Which windows of the rows a round's are, int64 `[windows]`, and whether each is there, bool `[windows]`.

    The rows are those of the round's blocks.
    """
    present = round_.present & (round_.place < tf.gather(round_.first + rows.windows, round_.block))
    return tf.where(present, round_.place + tf.gather(rows.first - round_.first, round_.block), 0), present


def replace_missing(place: tf.Tensor, present: tf.Tensor) -> tf.Tensor:
    """Puts the windows that are there in the place of those that are not, in turn.

    Raises:
      tf.errors.InvalidArgumentError: if none is there.
    """
    present_places = tf.boolean_mask(place, present)
    count = tf.size(present_places, tf.int64)
    with checked((count > 0, MISMATCH)):
        others = tf.gather(present_places, tf.range(tf.size(place, tf.int64)) % count)
    return tf.where(present, place, others)


def places(rows: Rows, place: tf.Tensor, selection: FieldSelection) -> Places:
    """Where in the values each window's are, int64 `[windows]`, for fields of rows, windows and records.

    `place` says which of the windows of the rows; it is 0 where there is none.
    """
    of: Places = {"row": rows.starts, "record": rows.record}
    # One window more: where there is no window at all, the place 0 is looked up in it.
    result = {per: tf.gather(tf.concat([values, [0]], 0), place) for per, values in of.items() if selection.of(per)}
    return {**result, "window": place} if selection.of("window") else result


def add_zeros(rows: Rows, selection: FieldSelection) -> Rows:
    """The same with a window of zeros (empty strings, values without entries) behind all values."""
    columns = dict(rows.columns)
    for field in selection.fields:
        more = _window_of_zeros(field, selection)
        if field.is_ragged:
            splits = columns[field.name + SPLITS]
            columns[field.name + SPLITS] = tf.concat([splits, tf.repeat(splits[-1:], more)], 0)
        else:
            values = columns[field.name]
            columns[field.name] = tf.concat([values, tf.zeros([more, *values.shape[1:]], values.dtype)], 0)
    return rows._replace(columns=columns, zeros=True)


def point_to_zeros(rows: Rows, at: Places, present: tf.Tensor, selection: FieldSelection) -> Places:
    """The places `at` of windows in rows as `add_zeros` gives them; of windows that are not there, those of zeros."""
    result = {}
    for per, place in at.items():
        field = selection.of(per)[0]
        splits = rows.columns.get(field.name + SPLITS)
        end = tf.shape(rows.columns[field.name], tf.int64)[0] if splits is None else tf.size(splits, tf.int64) - 1
        result[per] = tf.where(present, place, end - _window_of_zeros(field, selection))
    return result


def _window_of_zeros(field: Field, selection: FieldSelection) -> int:
    return selection.windows.length if field.per == "row" else 1


def gather(columns: Columns, at: Places, piece: tf.Tensor, selection: FieldSelection) -> dict[str, tf.Tensor]:
    """The windows at these places: for each field `[windows, length, *shape]`, or `[windows, *shape]`.

    Those of rows have the axis of time, unless windows are of one row.
    """
    length = selection.windows.length
    return {
        field.name: _gather_rows(columns, field, at["row"], piece, field.rows_of(length))
        if field.per == "row" and length > 1
        else tf.gather(_values(columns, field), at[field.per])
        for field in selection.fields
    }


def _gather_rows(
    columns: Columns, field: Field, starts: tf.Tensor, piece: tf.Tensor, part: tuple[int, int]
) -> tf.Tensor:
    """Copies pieces and not rows: with length 64 and stride 16, 4 a window; of its rows those in [part[0], part[1])."""
    length = part[1] - part[0]
    if part[0]:
        starts += part[0]
    if field.is_ragged:
        rows = tf.reshape(tf.expand_dims(starts, 1) + tf.range(length, dtype=tf.int64), [-1])
        return tf.RaggedTensor.from_uniform_row_length(tf.gather(_values(columns, field), rows), length)
    pieces = tf.reshape(columns[field.name], tf.stack([-1, piece * field.width]))
    index = tf.expand_dims(starts // piece, 1) + tf.range(length // piece)
    return tf.reshape(tf.gather(pieces, index), [-1, length, *field.shape])


def _values(columns: Columns, field: Field) -> tf.Tensor | tf.RaggedTensor:
    """The values of a field, `[values, *shape]`."""
    values = columns[field.name]
    if not field.is_ragged:
        return values
    return tf.RaggedTensor.from_row_splits(values, columns[field.name + SPLITS], validate=False)
