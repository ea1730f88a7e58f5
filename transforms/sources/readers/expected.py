"""What a reader is told of the files of a job, and the runs of rows that they divide into."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from beamfeed.transforms.rejects import BadInput

BATCH_ROWS = 65_536
BATCH_BYTES = 8 << 20  # of a batch, by four bytes a value


@dataclass(frozen=True)
class Group:
    """Rows that can be read without those before them: a row group of Parquet, a block of text.

    Attributes:
      row: the file's row that it starts with.
      rows: how many there are.
      place: where it is: the number of a row group, or the byte that a block starts at.
      size: bytes of a block of text.
    """

    row: int
    rows: int
    place: int
    size: int = 0


class Expected(Protocol):
    """What every file of a job must hold."""

    @property
    def names(self) -> list[str]:
        """The columns, each once, in the order they are read."""

    @property
    def csv_types(self) -> dict[str, pa.DataType]:
        """The types that the columns of a CSV are parsed as."""

    def check(self, path: str, schema: pa.Schema) -> None:
        """Raises BadInput if a column is missing or of the wrong type."""


def require_columns(path: str, names: Sequence[str], found: Sequence[str]) -> None:
    """Raises BadInput if a file lacks one of the columns."""
    missing = [name for name in names if name not in found]
    if missing:
        raise BadInput(path, f"column {missing[0]}", f"is missing; the file has {', '.join(found)[:200]}")


def batch_rows(columns: int) -> int:
    """How many rows of so many columns are read at a time, so that a batch's memory does not grow with its width."""
    return max(1, min(BATCH_ROWS, BATCH_BYTES // (4 * max(1, columns))))
