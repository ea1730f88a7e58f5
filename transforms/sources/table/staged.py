"""Rows that were checked, put by split into a file of the job's own, so that each is decoded once.

What is written of a split later on reads its own rows alone. One file a unit; a
batch of the file's rows becomes a message of Arrow for each split that it has.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.split import SplitName


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


class Staging:
    """Writes runs into an open file.

    Attributes:
      runs: that were written.
    """

    def __init__(self, target: Any):
        self._target, self._started = target, False
        self.runs: list[Run] = []

    def add(self, split: SplitName, rows: pa.RecordBatch, folder: str = "") -> None:
        """Some rows of a split, and of a partition."""
        if not self._started:
            self._target.write(rows.schema.serialize())
            self._started = True
        place, message = self._target.tell(), rows.serialize()
        self._target.write(message)
        self.runs.append(Run(split, rows.num_rows, place, message.size, folder))


def read_runs(path: str, runs: Sequence[Run]) -> Iterator[pa.RecordBatch]:
    """The rows of some runs of a staged file."""
    with storage.open_input(path) as file:
        schema = pa.ipc.read_schema(file)
        for run in runs:
            message = pa.ipc.read_message(pa.py_buffer(file.read_at(run.size, run.place)))
            yield pa.ipc.read_record_batch(message, schema)


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
