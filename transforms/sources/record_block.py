"""What a source gives and records are made from: the values of some records' fields, in columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class Ragged:
    """Values of any length, one after the other.

    Attributes:
      values: `[entries, ...]` of numbers; of strings a flat Arrow array of binary.
      lengths: int64 `[n]`, entries of each of the n values.
    """

    values: np.ndarray | pa.Array
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def edges(self) -> np.ndarray:
        """int64 `[n + 1]`: value i has the entries from `edges[i]` up to `edges[i + 1]`."""
        return np.concatenate([[0], np.cumsum(self.lengths)])


RECORD_BYTES = 64 << 10  # of a record, where the job does not say how many rows it has
_MOST_ROWS = 4096  # likewise


def rows_of_record(row_bytes: int) -> int:
    """How many rows of so many bytes a record has where the job does not say."""
    return max(1, min(_MOST_ROWS, RECORD_BYTES // row_bytes))


def cut_in_records(rows: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    """Cuts rows into records of `each`, but for the last one: int64 `[records]`, where each begins, and its rows."""
    first = np.arange(0, rows, each)
    return first, np.minimum(each, rows - first)


# n values of a field: of numbers an array [n, *shape], of strings a flat Arrow array of binary with n * width of them.
Values: TypeAlias = np.ndarray | pa.Array | Ragged


@dataclass(frozen=True)
class RecordBlock:
    """Some records of one asset: a few megabytes.

    Records are runs of the block's rows; two may share rows, as segments of windows do.

    Attributes:
      asset: its name.
      first: int64 `[records]`, the first row of each record.
      rows: int64 `[records]`, how many rows it has.
      values: by name of the field. Of a field per row, a value for each row of the block; per window, for each window
        of each record, in order; per record, for each record.
      place: of each row where it is in the files, and what is kept of it as it is there; None where fields say it.
    """

    asset: str
    first: np.ndarray
    rows: np.ndarray
    values: Mapping[str, Values]
    place: pa.RecordBatch | None = None

    def __len__(self) -> int:
        return len(self.first)
