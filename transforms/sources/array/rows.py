"""Rows of all arrays side by side: which can be used, and in which split each is."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.section import class_name
from beamfeed.contract.config.split import Split
from beamfeed.transforms.rejects import MOST_ROWS
from beamfeed.transforms.sources.array.plan import ArrayBlock
from beamfeed.transforms.sources.array.read import read_rows
from beamfeed.transforms.sources.array.schema import ArrayColumn, ArraySchema
from beamfeed.transforms.splits import NONE, cut_rows, places_by_hash, places_by_value
from beamfeed.transforms.statistics.hashes import SPREAD, hash_numbers, mix

CHUNK_BYTES = 8 << 20  # of rows that are in memory at a time


@dataclass
class ArrayRows:
    """n rows that follow each other.

    Attributes:
      first: the number of the first one.
      values: of each array that was read, by its name, `[n, *shape]`.
      places: int8 `[n]`, of each row's split among SPLITS, or NONE.
      bad: bool `[n]`, rows that are set aside, and
      wrong: by place among the rows, the array and why; of the first ones.
      unlabelled: bool `[n]`, rows of which a number to tell is not known.
    """

    first: int
    values: dict[str, np.ndarray]
    places: np.ndarray
    bad: np.ndarray
    unlabelled: np.ndarray
    wrong: dict[int, tuple[str, str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def usable(self) -> np.ndarray:
        """Bool `[n]`: rows that are right, labelled and in a split."""
        return (self.places != NONE) & ~self.unlabelled & ~self.bad

    def set_aside(self, mask: np.ndarray, array: str, why: Callable[[int], str]) -> None:
        """Sets rows aside, bool `[n]`, for what is in an array; `why` tells of one of them."""
        for at in np.flatnonzero(mask & ~self.bad)[: MOST_ROWS - len(self.wrong)].tolist():
            self.wrong[at] = array, why(at)
        self.bad |= mask


def iter_rows(
    block: ArrayBlock, schema: ArraySchema, split: Split, rows_per_record: int, names: Sequence[str]
) -> Iterator[ArrayRows]:
    """The rows of a block, some megabytes at a time.

    Args:
      block: of rows.
      schema: the arrays.
      split: of the job.
      rows_per_record: all but the last come in multiples of so many rows.
      names: of the arrays that are wanted beside those that rows are checked by.

    Raises:
      BadInput: if a file no longer holds its rows.
    """
    read = [
        column for column in schema.columns if column.is_checked or column.name in names or column.name == schema.split
    ]
    pieces = {column.name: block.pieces_of(column.name) for column in read}
    size = max(1, CHUNK_BYTES // schema.row_bytes // rows_per_record) * rows_per_record
    for first in range(block.first, block.first + block.count, size):
        end = min(first + size, block.first + block.count)
        values = {}
        for name, pieces_of in pieces.items():
            parts = [
                read_rows(
                    piece.stored, piece.at + max(first, piece.first) - piece.first, piece.at + until - piece.first
                )
                for piece in pieces_of
                if (until := min(end, piece.first + piece.rows)) > max(first, piece.first)
            ]
            values[name] = parts[0] if len(parts) == 1 else np.concatenate(parts)
        places = split_places(first, end - first, schema, split, values)
        rows = ArrayRows(first, values, places, np.zeros(end - first, bool), np.zeros(end - first, bool))
        for column in read:
            if column.is_checked:
                _check(column, rows)
        yield rows


def split_places(
    first: int, count: int, schema: ArraySchema, split: Split, values: dict[str, np.ndarray]
) -> np.ndarray:
    """int8 `[count]`: the place of the split of each row from `first` on among SPLITS, or NONE.

    By hash a row's split depends on its number alone, so that arrays that grow move none.
    """
    numbers = np.arange(first, first + count)
    if split.by == "rows":
        to_eval, to_test, end = cut_rows(schema.rows, split)
        places = np.searchsorted([to_eval, to_test], numbers, side="right").astype(np.int8)
        places[numbers >= end] = NONE
        return places
    if split.by == "column":
        assert schema.split is not None
        texts, inverse = unique_texts(values[schema.split])
        return places_by_value(pa.array(texts, pa.string()), split)[inverse]
    (of_seed,) = mix(np.array([split.seed % 2**64], np.uint64) + SPREAD)
    return places_by_hash(hash_numbers(numbers, of_seed), split)


def unique_texts(values: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The different values `[n, ...]` of one number or text each, as names of classes; and which one each row has."""
    unique, inverse = np.unique(values.reshape(-1), return_inverse=True)
    items = unique.tolist()
    if unique.dtype.kind == "S":
        return [item.decode("utf-8", "backslashreplace") for item in items], inverse
    return [class_name(item) for item in items], inverse


def _check(column: ArrayColumn, rows: ArrayRows) -> None:
    """Marks the rows that cannot be used for what is in an array."""
    values, name = rows.values[column.name], column.name
    if column.classes is not None:
        texts, inverse = unique_texts(values)
        rows.unlabelled |= np.array([not text for text in texts], bool)[inverse]
        if not column.auto:
            allowed = ", ".join(column.classes)
            wrong = np.array([bool(text) and text not in column.classes for text in texts], bool)[inverse]
            rows.set_aside(
                wrong, name, lambda at: f"{name} is {texts[inverse[at]]!r}, which is not in its classes ({allowed})"
            )
        return
    if not column.is_float:
        return
    # Models compute in float32: what is too large for it is infinite, in inputs of float64 that are not scaled, too.
    finite = np.isfinite(as_float32(values)).reshape(len(values), -1).all(axis=1)
    if column.role == "target":
        rows.unlabelled |= ~finite
        return
    rows.set_aside(~finite, name, lambda at: f"{name} holds {_not_finite(values[at])}")


def _not_finite(values: np.ndarray) -> str:
    """What keeps the values of a row from being used."""
    if not np.isfinite(values).all():
        return "NaN or infinity"
    wide = values[~np.isfinite(as_float32(values))]
    return f"{wide.reshape(-1)[0]}, which is too large for float32"


def as_float32(values: np.ndarray) -> np.ndarray:
    """The values as float32, complex ones as complex64; what is too large becomes infinity, without a warning."""
    with np.errstate(over="ignore"):
        return values.astype(np.complex64 if values.dtype.kind == "c" else np.float32, copy=False)
