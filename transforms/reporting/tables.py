"""What a model says, read back: some rows of its predictions, and those with the largest and smallest errors."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beamfeed.contract import storage
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.layout import SHARD_PREFIX
from beamfeed.contract.splits import SPLITS

BATCH = 65_536
MOST_FILES = 256  # that a sample is taken of
NUMBER = re.compile(rf"(?:^|/){SHARD_PREFIX}-(\d+)-of-\d+[^/]*$")


@dataclass(frozen=True)
class Place:
    """Which window a row is of: the shard of its split, and its number in there."""

    split: SplitName
    shard: int
    number: int


Extreme = tuple[float, Place, np.ndarray]  # an error, whose, and what is kept of the row


@dataclass(frozen=True)
class Predictions:
    """Predictions for a dataset.

    Attributes:
      folder: where they are.
      description: what `_export.json` says of them.
    """

    folder: str
    description: Mapping[str, Any]

    @property
    def splits(self) -> list[SplitName]:
        """Those with a row."""
        return [split for split in SPLITS if self.description["items"].get(split)]

    def files(self, split: SplitName) -> list[str]:
        """The names of the files of a split, below the folder."""
        return sorted(name for name in self.description["files"] if name.startswith(f"{split}/"))

    def schema(self) -> pa.Schema:
        """The columns."""
        name = next(name for split in self.splits for name in self.files(split))
        with storage.open_input(storage.join(self.folder, name)) as file:
            return pq.read_schema(file)

    def batches(
        self, split: SplitName, names: Sequence[str], columns: Sequence[str]
    ) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """The rows of some files of a split: the shard they are of, the number of the first of them, and they."""
        for name in names:
            matched = NUMBER.search(name)
            shard, before = int(matched[1]) if matched else -1, 0
            with storage.open_input(storage.join(self.folder, name)) as file:
                for batch in pq.ParquetFile(file).iter_batches(BATCH, columns=list(columns)):
                    yield shard, before, batch
                    before += batch.num_rows

    def some(self, split: SplitName, columns: Sequence[str], most: int, seed: int = 0) -> pa.Table:
        """About `most` rows of a split at the most, chosen by chance, from at most MOST_FILES of its files."""
        rng = np.random.default_rng(seed)
        names = self.files(split)
        chosen = [names[at] for at in sorted(rng.permutation(len(names))[:MOST_FILES])]
        share = min(1.0, most / max(1, self.description["items"][split]) * len(names) / max(1, len(chosen)))
        parts = [
            batch if share == 1 else batch.filter(pa.array(rng.random(batch.num_rows) < share))
            for _, _, batch in self.batches(split, chosen, columns)
        ]
        return pa.Table.from_batches(parts).combine_chunks()

    def extremes(
        self, split: SplitName, columns: Sequence[str], error: Callable[[pa.RecordBatch], np.ndarray], count: int,
        details: Sequence[str] = (),
    ) -> tuple[list["Extreme"], list["Extreme"], np.ndarray]:  # fmt: skip
        """The rows with the largest errors, the largest first, and with the smallest; and errors, some thousands.

        Args:
          split: all of whose rows are looked at.
          columns: that `error` needs.
          error: of rows, float64 `[rows]`; those that are no number are passed over.
          count: of each.
          details: columns of numbers that are given for each row.
        """
        highest = np.empty(0, [("error", "f8"), ("shard", "i8"), ("number", "i8"), ("details", "f4", (len(details),))])
        lowest, sampled, rng = highest.copy(), np.empty(0), np.random.default_rng(0)
        share = min(1.0, 20_000 / max(1, self.description["items"][split]))
        for shard, before, batch in self.batches(split, self.files(split), [*columns, *details]):
            errors = error(batch)
            rows = np.empty(len(errors), highest.dtype)
            rows["error"], rows["shard"], rows["number"] = errors, shard, before + np.arange(len(errors))
            rows["details"] = matrix(batch, details)
            rows = rows[np.isfinite(errors)]
            highest = np.sort(np.concatenate([highest, rows]), order="error")[-count:]
            lowest = np.sort(np.concatenate([lowest, rows]), order="error")[:count]
            sampled = np.concatenate([sampled, rows["error"][rng.random(len(rows)) < share]])
        worst, best = (
            [(float(row["error"]), Place(split, int(row["shard"]), int(row["number"])), row["details"]) for row in rows]
            for rows in (highest[::-1], lowest)
        )
        return worst, best, sampled


def matrix(batch: pa.RecordBatch | pa.Table, columns: Sequence[str]) -> np.ndarray:
    """Columns of numbers, float64 `[rows, columns]`; what is null is NaN."""
    parts = [_float(batch.column(name)) for name in columns]
    return np.stack(parts, axis=1) if parts else np.empty((batch.num_rows, 0))


def lists(batch: pa.RecordBatch | pa.Table, column: str) -> np.ndarray:
    """A column of lists of one length, float64 `[rows, n]`."""
    values = batch.column(column)
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return _float(values.flatten()).reshape(len(values), -1)


def _float(column: pa.Array) -> np.ndarray:
    return np.asarray(column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy(),
                      np.float64)  # fmt: skip
