"""Rows that were checked, put by split into a file of the job's own, so that each is decoded once.

What is written of a split later on reads its own rows alone. One file a unit; a
batch of the file's rows becomes a message of Arrow for each split that it has.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.split import SplitName
from beamfeed.transforms.sources.messages import read_messages


@dataclass(frozen=True)
class Run:
    """Rows of one split that stand together.

    Attributes:
      split: that they are in.
      folder: of the partition that they are in.
      rows: how many.
      place: the byte that they begin at.
      size: in bytes.
    """

    split: SplitName
    rows: int
    place: int
    size: int
    folder: str = ""


def read_runs(path: str, runs: Sequence[Run]) -> Iterator[pa.RecordBatch]:
    """The rows of some runs of a staged file."""
    return read_messages(path, ((run.place, run.size) for run in runs))


def by_bytes(rows: pa.RecordBatch, size: int, row: int = 0, multiple: int = 1) -> Iterator[pa.RecordBatch]:
    """The rows of a batch in parts of about so many bytes.

    Args:
      rows: the batch.
      size: of a part.
      row: bytes that a row will take at least.
      multiple: a part has a multiple of so many rows.
    """
    if not rows.num_rows:
        return
    bytes_of_a_row = max(row, rows.nbytes // rows.num_rows, 1)
    count = max(multiple, size // bytes_of_a_row // multiple * multiple)
    for first in range(0, rows.num_rows, count):
        yield rows.slice(first, count)


def pick(rows: pa.RecordBatch, places: np.ndarray) -> pa.RecordBatch:
    """Some rows of a batch; all of them as they are."""
    return rows if len(places) == rows.num_rows else rows.take(pa.array(places))
