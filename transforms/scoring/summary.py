"""What is kept of rows to compare them with others: bounded, and the same in whatever order it is put together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from beamfeed.transforms.statistics.hashes import hash_numbers, hash_texts
from beamfeed.transforms.statistics.moments import Moments
from beamfeed.transforms.statistics.quantiles import RowSample, capacity
from beamfeed.transforms.statistics.sums import add_fields
from beamfeed.transforms.statistics.value_counts import ValueCounts

MOST_VALUES = 10_000  # different ones of a column of texts; one with more names rows, and is not compared
TOGETHER = 60  # columns of a sample: of more there are several, so that each has thousands of rows
PLACE = 2  # columns of a sample that say where a row is: a number of its asset, and its position
OTHER = "(other)"  # stands for the values of a category that have no number of their own in a dataset
_CODES = np.uint64(1 << 24)  # whole numbers that float32 can tell apart


@dataclass(frozen=True)
class Columns:
    """What is summed up of rows.

    Attributes:
      numbers: names of columns of numbers.
      texts: of columns of texts, or of numbers that stand for categories.
      by_asset: whether rows come from assets, so that those of one are alike; else each stands for itself.
    """

    numbers: tuple[str, ...]
    texts: tuple[str, ...] = ()
    by_asset: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Numbers, then texts."""
        return (*self.numbers, *self.texts)

    @property
    def groups(self) -> list[slice]:
        """Those of `names` that are sampled together."""
        return [slice(first, first + TOGETHER) for first in range(0, len(self.names), TOGETHER)]


@dataclass(frozen=True, eq=False)
class Summary:
    """Of some rows; `a + b` is that of the rows of both.

    Attributes:
      columns: of the rows.
      moments: of the numbers, exact.
      counts: of each column of texts how often each value comes, exact, up to MOST_VALUES of them.
      missing: of each column of texts, how many rows have none.
      samples: of each of `columns.groups` a sample of rows: PLACE, then numbers, and of texts a number for each.
    """

    columns: Columns
    moments: Moments
    counts: tuple[ValueCounts, ...]
    missing: tuple[int, ...]
    samples: tuple[RowSample, ...]

    @classmethod
    def zero(cls, columns: Columns) -> "Summary":
        """Of no rows."""
        groups = [len(columns.names[group]) for group in columns.groups]
        return cls(
            columns,
            Moments.zero(len(columns.numbers)),
            tuple(ValueCounts.zero(MOST_VALUES) for _ in columns.texts),
            (0,) * len(columns.texts),
            tuple(RowSample.zero(PLACE + size) for size in groups),
        )

    @property
    def rows(self) -> int:
        return self.moments.rows

    def __add__(self, other: "Summary") -> "Summary":
        if self.columns != other.columns:
            raise ValueError(f"summaries of other columns: {self.columns.names} and {other.columns.names}")
        return add_fields(self, other, columns=self.columns)

    def extend(
        self, numbers: np.ndarray, texts: Mapping[str, pa.Array], places: pa.Array, positions: np.ndarray,
        once: np.ndarray | None = None,
    ) -> "Summary":  # fmt: skip
        """That with some rows more.

        Args:
          numbers: float32 `[rows, numbers]`; NaN is missing, as is infinite.
          texts: by column, strings `[rows]`; null is missing.
          places: strings `[rows]`, the asset of each row; or, where rows stand for themselves, its file.
          positions: int64 `[rows]`, of the rows there.
          once: bool `[rows]`, which of them count; None where all do.
        """
        if once is not None:
            numbers, places, positions = numbers[once], places.filter(pa.array(once)), positions[once]
            texts = {name: column.filter(pa.array(once)) for name, column in texts.items()}
        numbers = np.where(np.isfinite(numbers), numbers, np.float32(np.nan))
        columns = [texts[name] for name in self.columns.texts]
        place = hash_texts(places, 0)
        hashes = hash_numbers(positions, place)
        samples = []
        for sample, group in zip(self.samples, self.columns.groups, strict=True):
            few = np.arange(len(hashes))
            if len(sample) == capacity(sample.values.shape[1]):
                few = np.flatnonzero(hashes <= sample.hashes[-1])
            if not len(few):
                samples.append(sample)
                continue
            names = range(len(self.columns.names))[group]
            where = np.stack([(place[few] % _CODES).astype(np.float32), positions[few].astype(np.float32)])
            some, width = pa.array(few), numbers.shape[1]
            parts = [where, numbers[few][:, [at for at in names if at < width]].T]
            parts += [codes_of(columns[at - width].take(some))[None] for at in names if at >= width]
            samples.append(sample + RowSample(hashes[few], np.concatenate(parts).T))
        return replace(
            self,
            moments=self.moments + Moments.of(numbers),
            counts=tuple(
                before + ValueCounts.of(column, MOST_VALUES)
                for before, column in zip(self.counts, columns, strict=True)
            ),
            missing=tuple(before + column.null_count for before, column in zip(self.missing, columns, strict=True)),
            samples=tuple(samples),
        )

    def sampled(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Of a column, the sampled values float32 `[n]`, of texts their numbers, and their places `[n, PLACE]`."""
        at = self.columns.names.index(name)
        values = self.samples[at // TOGETHER].values
        return values[:, PLACE + at % TOGETHER], values[:, :PLACE]


def codes_of(texts: pa.Array | Sequence[str]) -> np.ndarray:
    """A whole number for each text, float32 `[n]`, that is the same everywhere; NaN of a missing one."""
    column = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())
    codes = (hash_texts(column, 1) % _CODES).astype(np.float32)
    codes[column.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return codes
