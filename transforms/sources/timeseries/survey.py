"""What the rows of a part of an asset add up to, taken while they stream past."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SplitName
from beamfeed.transforms.rejects import MOST_ROWS, Reject
from beamfeed.transforms.sources.readers import BATCH_ROWS
from beamfeed.transforms.sources.timeseries.classes import Names, SeenClasses, add_names, see_classes
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset, Span
from beamfeed.transforms.sources.timeseries.read import Chunk, in_split
from beamfeed.transforms.sources.timeseries.sampling import empty_sample, part_of_rows
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema
from beamfeed.transforms.sources.timeseries.wide import place_in_file
from beamfeed.transforms.splits import split_of_value
from beamfeed.transforms.statistics.clumps import Clumps
from beamfeed.transforms.statistics.moments import Moments
from beamfeed.transforms.statistics.quantiles import RowSample
from beamfeed.transforms.statistics.scaling import Scaling
from beamfeed.transforms.statistics.sums import add_fields

# Rows of which the line is looked up where the reader does not tell it: it reads the file from its start.
_PLACES, _NEAR = 20, 4 * BATCH_ROWS
_UNLISTED = 20  # values of split.column that are kept for a note


@dataclass(frozen=True)
class SeriesStatistics:
    """What rows add up to.

    Attributes:
      moments: of the features of training rows; of an asset with a scale of its own, of its rows.
      classes: for each label, the classes that training rows name.
      sample: of the same rows as `moments`, with scale.how: robust.
      under_min: with scale.per: asset, for each feature how many assets have a divisor under min_divisor; how many of
        these are not constant; and how many assets there are.
      scaling: of the fleet, once it is known.
      clumps: how missing values of the same rows come together, of whole assets.
    """

    moments: Moments
    classes: Names
    sample: RowSample | None = None
    under_min: tuple[tuple[int, ...], ...] = ((), (), ())
    scaling: Scaling | None = None
    clumps: Clumps | None = None

    @classmethod
    def zero(cls, schema: SeriesSchema) -> "SeriesStatistics":
        """Of no rows."""
        return cls(Moments.zero(len(schema.features)), SeenClasses.zero(schema.labels).training)

    def __add__(self, other: "SeriesStatistics") -> "SeriesStatistics":
        return add_fields(self, other, classes=add_names(self.classes, other.classes))


@dataclass(frozen=True)
class Order:
    """In which order rows are that are not set aside; `a + b` is of the rows of `a` and those behind them.

    Attributes:
      first, last: time of the first row, and of the last; `first` is None where there is none.
      begins: the file and the row of the first.
      decrease: likewise of the first that is earlier than the row before.
      repeat: likewise of the first that has the time of the row before.
    """

    first: int | None = None
    last: int = 0
    begins: tuple[str, str] | None = None
    decrease: tuple[str, str] | None = None
    repeat: tuple[str, str] | None = None

    @classmethod
    def of(cls, chunk: Chunk) -> "Order":
        """Of the rows of a chunk, none of which is set aside."""
        if not len(chunk):
            return cls()
        step = np.diff(chunk.time)

        def first(rows: np.ndarray) -> tuple[str, str] | None:
            return place(1 + int(rows.argmax())) if rows.any() else None

        def place(at: int) -> tuple[str, str]:
            return chunk.path, f"row {chunk.file_row[at]}"

        return cls(int(chunk.time[0]), int(chunk.time[-1]), place(0), first(step < 0), first(step == 0))

    def __add__(self, behind: "Order") -> "Order":
        if self.first is None or behind.first is None:
            return behind if self.first is None else self
        decrease = self.decrease or (behind.begins if behind.first < self.last else behind.decrease)
        repeat = self.repeat or (behind.begins if behind.first == self.last else behind.repeat)
        return Order(self.first, behind.last, self.begins, decrease, repeat)


@dataclass
class Totals:
    """What rows add up to, one behind the other.

    Attributes:
      moments: of those that count for statistics.
      sample: of these, with scale.how: robust.
      outside: int64 [features], values out of their range.
      classes: the classes that labels name.
      rows: how many there were.
      order: of them.
      unlisted: rows by their value of split.column, where that is in no list.
      listed: values of split.column that are.
      unlabelled: by the column of a label, rows of any split in which it is missing.
      rejects: rows that are set aside: the first ones of each unit; and
      rejected: how many there are.
    """

    moments: Moments
    sample: RowSample | None
    outside: np.ndarray
    classes: SeenClasses
    rows: int = 0
    order: Order = Order()
    unlisted: Counter[str] = field(default_factory=Counter)
    listed: frozenset[str] = frozenset()
    unlabelled: Counter[str] = field(default_factory=Counter)
    rejects: list[Reject] = field(default_factory=list)
    rejected: int = 0

    def __add__(self, other: "Totals") -> "Totals":
        return add_fields(self, other, listed=self.listed | other.listed)

    @property
    def statistics(self) -> SeriesStatistics:
        """Of the rows."""
        return SeriesStatistics(self.moments, self.classes.training, self.sample)


class Survey:
    """Adds chunks up.

    Attributes:
      totals: what the rows add up to.
      spans: where the rows of each split are.
    """

    def __init__(self, asset: SeriesAsset, schema: SeriesSchema, job: Job):
        self._asset, self._schema, self._job = asset, schema, job
        features = len(schema.features)
        nothing = Moments.zero(features), empty_sample(features, job), np.zeros(features, np.int64)
        self.totals = Totals(*nothing, SeenClasses.zero(schema.labels))
        self.spans: dict[SplitName, Span] = {}
        self._part = part_of_rows(asset, features, job)

    def watch(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """The chunks as they are, each added up before it goes on."""
        for chunk in chunks:
            self._add(chunk)
            yield chunk

    def _add(self, chunk: Chunk) -> None:
        right = chunk.right
        of_right = chunk if not chunk.wrong else chunk.take(np.flatnonzero(right), chunk.position)
        self.totals.order += Order.of(of_right)
        self._set_aside(chunk)
        self.totals.rows += len(chunk)
        self.totals.outside += chunk.outside
        asset, split = self._asset, self._job.split
        rows = {name: in_split(chunk, asset, name, split) & right for name in asset.wanted(split)}
        for name, mask in rows.items():
            self._add_span(name, mask, chunk.position)
        none = np.zeros(len(chunk), bool)
        # An asset's own scale needs its own rows, also where it is there to test with.
        only = asset.split or asset.only if self._job.prepare.scale.per == "asset" else None
        counted = rows.get(only or "train", none)
        if counted.any():
            self._add_values_of(chunk, counted)
        if self._schema.labels:
            train, used = rows.get("train", none), np.logical_or.reduce([none, *rows.values()])
            self.totals.classes += see_classes(chunk, self._schema.labels, train, used)
            for column, label in zip(chunk.labels, self._schema.labels, strict=True):
                missing = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
                self.totals.unlabelled[label.column] += int((missing & used).sum())
        if chunk.split is not None:
            self._add_values(chunk.split.filter(pa.array(right)))

    def _set_aside(self, chunk: Chunk) -> None:
        self.totals.rejected += len(chunk.wrong)
        for row in sorted(chunk.wrong)[: MOST_ROWS - len(self.totals.rejects)]:
            place, reason = chunk.wrong[row]
            if not place:
                in_file = int(chunk.file_row[row])
                is_cheap = len(self.totals.rejects) < _PLACES and in_file < _NEAR
                place = place_in_file(chunk.path, in_file, self._schema) if is_cheap else f"row {in_file}"
            reject = Reject(self._asset.name, chunk.path, place, reason, of_row=True)
            if reject not in self.totals.rejects[-1:]:  # a row whose columns are times stands behind many
                self.totals.rejects.append(reject)

    def _add_values_of(self, chunk: Chunk, rows: np.ndarray) -> None:
        values = chunk.values if rows.all() else chunk.values[rows]
        self.totals.moments += Moments.of(values)
        if self.totals.sample is not None:
            positions = chunk.position + np.flatnonzero(rows)
            self.totals.sample = self.totals.sample.extend(values, self._asset.name, positions, self._part)

    def _add_span(self, name: SplitName, mask: np.ndarray, position: int) -> None:
        places = position + np.flatnonzero(mask)
        if len(places):
            before = self.spans.get(name, Span(int(places[0]), 0, 0))
            self.spans[name] = Span(before.start, int(places[-1]) + 1, before.rows + len(places))

    def _add_values(self, values: pa.Array) -> None:
        unlisted = self.totals.unlisted
        for entry in pc.value_counts(values).to_pylist():
            value = entry["values"]
            if value is not None and split_of_value(value, self._job.split) is not None:
                self.totals.listed |= {value}
                continue
            name = "missing" if value is None else value
            unlisted[name if name in unlisted or len(unlisted) < _UNLISTED else "others"] += entry["counts"]
