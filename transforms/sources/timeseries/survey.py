"""What the rows of a part of an asset add up to, taken while they stream past."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.readers import BATCH_ROWS
from beamfeed.transforms.sources.timeseries.classes import Names, SeenClasses, add_names, see_classes
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset, Span
from beamfeed.transforms.sources.timeseries.read import Chunk, in_split
from beamfeed.transforms.sources.timeseries.sampling import empty_sample, part_of_rows
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema
from beamfeed.transforms.sources.timeseries.wide import place_in_file
from beamfeed.transforms.splits import split_of_value, wanted_splits
from beamfeed.transforms.statistics.clumps import Clumps
from beamfeed.transforms.statistics.moments import Moments
from beamfeed.transforms.statistics.quantiles import RowSample
from beamfeed.transforms.statistics.scaling import Scaling
from beamfeed.transforms.statistics.sums import add_known

MOST_REJECTS = 1000  # rows of a unit that are told one by one; all are counted
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
        return SeriesStatistics(
            self.moments + other.moments,
            add_names(self.classes, other.classes),
            add_known(self.sample, other.sample),
            clumps=add_known(self.clumps, other.clumps),
        )


@dataclass
class Totals:
    """What rows add up to.

    Attributes:
      moments: of those that count for statistics.
      sample: of these, with scale.how: robust.
      rows: how many there were.
      first_time, last_time: of the first and the last row.
      decrease: the file and the row where time first goes back.
      repeat: likewise of the first that has the time of the row before.
      spans: where the rows of each split are.
      outside: int64 [features], values out of their range.
      unlisted: rows by their value of split.column, where that is in no list.
      listed: values of split.column that are.
      classes: the classes that labels name.
      unlabelled: by the column of a label, rows of any split in which it is missing.
      timed: whether a row is not set aside, so that the times are those of such rows.
      wrong: rows that are set aside: the first ones; and
      rejected: how many there are.
    """

    moments: Moments
    sample: RowSample | None
    outside: np.ndarray
    classes: SeenClasses
    rows: int = 0
    first_time: int = 0
    last_time: int = 0
    decrease: tuple[str, str] | None = None
    repeat: tuple[str, str] | None = None
    spans: dict[SplitName, Span] = field(default_factory=dict)
    unlisted: Counter[str] = field(default_factory=Counter)
    listed: set[str] = field(default_factory=set)
    unlabelled: Counter[str] = field(default_factory=Counter)
    timed: bool = False
    wrong: list[Reject] = field(default_factory=list)
    rejected: int = 0

    @property
    def statistics(self) -> SeriesStatistics:
        """Of the rows."""
        return SeriesStatistics(self.moments, self.classes.training, self.sample)


class Survey:
    """Adds chunks up in `totals`."""

    def __init__(self, asset: SeriesAsset, schema: SeriesSchema, job: Job):
        self._asset, self._schema, self._job = asset, schema, job
        features = len(schema.features)
        nothing = Moments.zero(features), empty_sample(features, job), np.zeros(features, np.int64)
        self.totals = Totals(*nothing, SeenClasses.zero(schema.labels))
        self._part = part_of_rows(asset, features, job)

    def watch(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """The chunks as they are, each added up before it goes on."""
        for chunk in chunks:
            self._add(chunk)
            yield chunk

    def _add(self, chunk: Chunk) -> None:
        right = chunk.right
        self._check_order(chunk if not chunk.wrong else chunk.take(np.flatnonzero(right), chunk.position))
        self._set_aside(chunk)
        self.totals.rows += len(chunk)
        self.totals.outside += chunk.outside
        asset, split = self._asset, self._job.split
        names = wanted_splits(split) if asset.split is None else [asset.split]
        rows = {name: in_split(chunk, asset, name, split) & right for name in names}
        for name, mask in rows.items():
            self._add_span(name, mask, chunk.position)
        # An asset's own scale needs its own rows, also where it is there to test with.
        only = asset.split or asset.only if self._job.prepare.scale.per == "asset" else None
        train = rows.get(only or "train")
        if train is not None and train.any():
            self._add_values_of(chunk, train)
        if self._schema.labels:
            nothing = np.zeros(len(chunk), bool)
            train = rows.get("train", nothing)
            used = np.logical_or.reduce([rows.get(name, nothing) for name in SPLITS])
            self.totals.classes += see_classes(chunk, self._schema.labels, train, used)
            for column, label in zip(chunk.labels, self._schema.labels, strict=True):
                missing = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
                self.totals.unlabelled[label.column] += int((missing & used).sum())
        if chunk.split is not None:
            self._add_values(chunk.split.filter(pa.array(right)))

    def _set_aside(self, chunk: Chunk) -> None:
        self.totals.rejected += len(chunk.wrong)
        for row in sorted(chunk.wrong)[: MOST_REJECTS - len(self.totals.wrong)]:
            place, reason = chunk.wrong[row]
            if not place:
                in_file = chunk.row(row)
                is_cheap = len(self.totals.wrong) < _PLACES and in_file < _NEAR
                place = place_in_file(chunk.path, in_file, self._schema) if is_cheap else f"row {in_file}"
            reject = Reject(self._asset.name, chunk.path, place, reason, of_row=True)
            if reject not in self.totals.wrong[-1:]:  # a row whose columns are times stands behind many
                self.totals.wrong.append(reject)

    def _add_values_of(self, chunk: Chunk, rows: np.ndarray) -> None:
        values = chunk.values if rows.all() else chunk.values[rows]
        self.totals.moments += Moments.of(values)
        if self.totals.sample is not None:
            positions = chunk.position + np.flatnonzero(rows)
            self.totals.sample = self.totals.sample.extend(values, self._asset.name, positions, self._part)

    def _add_span(self, name: SplitName, mask: np.ndarray, position: int) -> None:
        rows_in = np.flatnonzero(mask)
        if not len(rows_in):
            return
        start, end, rows = position + int(rows_in[0]), position + int(rows_in[-1]) + 1, len(rows_in)
        before = self.totals.spans.get(name)
        self.totals.spans[name] = (
            Span(start, end, rows) if before is None else Span(before.start, end, before.rows + rows)
        )

    def _add_values(self, values: pa.Array) -> None:
        unlisted = self.totals.unlisted
        for entry in pc.value_counts(values).to_pylist():
            value = entry["values"]
            if value is not None and split_of_value(value, self._job.split) is not None:
                self.totals.listed.add(value)
                continue
            name = "missing" if value is None else value
            unlisted[name if name in unlisted or len(unlisted) < _UNLISTED else "others"] += entry["counts"]

    def _check_order(self, chunk: Chunk) -> None:
        if not len(chunk):
            return
        if not self.totals.timed:
            self.totals.first_time = int(chunk.time[0])
        step = np.diff(chunk.time, prepend=self.totals.last_time if self.totals.timed else self.totals.first_time - 1)
        self.totals.timed = True
        self.totals.last_time = int(chunk.time[-1])
        lowest = int(step.min())
        if lowest > 0:
            return
        if lowest < 0 and self.totals.decrease is None:
            self.totals.decrease = chunk.path, f"row {chunk.row(int((step < 0).argmax()))}"
        same = step == 0
        if self.totals.repeat is None and same.any():
            self.totals.repeat = chunk.path, f"row {chunk.row(int(same.argmax()))}"
