"""What a model says, read back: some rows of its predictions, and those with the largest and smallest errors."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beamfeed.contract import storage
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.layout import SHARD_PREFIX
from beamfeed.contract.splits import SPLITS
from beamfeed.transforms.scoring.spool import read_batches

MOST_FILES = 256  # that a sample is taken of
NUMBER = re.compile(rf"(?:^|/){SHARD_PREFIX}-(\d+)-of-\d+[^/]*$")
ERROR = "error_"  # begins the columns of errors of each column of the input
Batch: TypeAlias = "pa.RecordBatch | pa.Table"
Extreme = tuple[float, tuple[int, int], np.ndarray]  # an error, whose: a shard and a number there, and what is kept


@dataclass(frozen=True)
class Predictions:
    """Predictions in a folder, for a dataset or for new files.

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

    def files(self, split: SplitName | None = None) -> list[str]:
        """The paths of the files, or of those of a dataset's split."""
        names = sorted(name for name in self.description["files"] if split is None or name.startswith(f"{split}/"))
        return [storage.join(self.folder, name) for name in names]

    def schema(self) -> pa.Schema:
        """The columns; none where there are no predictions."""
        for path in self.files():
            with storage.open_input(path) as file:
                return pq.read_schema(file)
        return pa.schema([])

    def errors(self, score: str = "score") -> list[str]:
        """The columns of the error of each column of the input: behind the score; labels before it may be called so."""
        names = self.schema().names
        return [name for name in names[names.index(score) + 1 :] if name.startswith(ERROR)] if score in names else []

    def some(self, split: SplitName, columns: Sequence[str], most: int) -> pa.Table:
        """About `most` rows of a split at the most, chosen by chance, from at most MOST_FILES of its files."""
        rng = np.random.default_rng(0)
        paths = self.files(split)
        chosen = [paths[at] for at in sorted(rng.permutation(len(paths))[:MOST_FILES])]
        share = min(1.0, most / max(1, self.description["items"][split]) * len(paths) / max(1, len(chosen)))
        parts = [
            batch if share == 1 else batch.filter(pa.array(rng.random(batch.num_rows) < share))
            for batch in read_batches(chosen, columns)
        ]
        return pa.Table.from_batches(parts).combine_chunks()

    def extremes(
        self, split: SplitName, columns: Sequence[str], error: Callable[[pa.RecordBatch], np.ndarray], count: int,
        details: Sequence[str] = (),
    ) -> tuple[list[Extreme], list[Extreme], np.ndarray]:  # fmt: skip
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
        for shard, before, batch in _numbered(self.files(split), [*columns, *details]):
            errors = error(batch)
            rows = np.empty(len(errors), highest.dtype)
            rows["error"], rows["shard"], rows["number"] = errors, shard, before + np.arange(len(errors))
            rows["details"] = matrix(batch, details)
            rows = rows[np.isfinite(errors)]
            highest = np.sort(np.concatenate([highest, rows]), order="error")[-count:]
            lowest = np.sort(np.concatenate([lowest, rows]), order="error")[:count]
            sampled = np.concatenate([sampled, rows["error"][rng.random(len(rows)) < share]])
        worst, best = (
            [(float(row["error"]), (int(row["shard"]), int(row["number"])), row["details"]) for row in rows]
            for rows in (highest[::-1], lowest)
        )
        return worst, best, sampled


def _numbered(paths: Iterable[str], columns: Sequence[str]) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """The rows of some files, of each a shard: its number, that of the first of the rows, and they."""
    for path in paths:
        matched = NUMBER.search(path)
        shard, before = int(matched[1]) if matched else -1, 0
        for batch in read_batches([path], columns):
            yield shard, before, batch
            before += batch.num_rows


def matrix(batch: Batch, columns: Sequence[str]) -> np.ndarray:
    """Columns of numbers, float64 `[rows, columns]`; what is null is NaN."""
    parts = [_float(batch.column(name)) for name in columns]
    return np.stack(parts, axis=1) if parts else np.empty((batch.num_rows, 0))


def numbers_of(batch: Batch, column: str) -> np.ndarray:
    """A column of numbers, or of lists of n numbers, float64 `[rows, n]`."""
    values = batch.column(column)
    if not pa.types.is_nested(values.type):
        return matrix(batch, [column])
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return _float(values.flatten()).reshape(len(values), -1)


def _float(column: pa.Array) -> np.ndarray:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
