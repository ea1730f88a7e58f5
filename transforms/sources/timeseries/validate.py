"""Reads every row once, before anything is written: what is broken, and the statistics of the rest."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SPLITS
from beamfeed.transforms.rejects import BadInput, Reject
from beamfeed.transforms.sources.base import Report, Unit
from beamfeed.transforms.sources.timeseries.classes import Names, SeenClasses, SeriesVerdict, add_names, see_classes
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset
from beamfeed.transforms.sources.timeseries.read import Chunk, in_split, read_chunks
from beamfeed.transforms.sources.timeseries.sampling import empty_sample, part_of_rows, settle
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema
from beamfeed.transforms.statistics.moments import Moments
from beamfeed.transforms.statistics.quantiles import RowSample, add_samples


@dataclass(frozen=True)
class Disorder:
    """The first place where time does not increase."""

    decreases: bool  # False: two rows have one time
    file: str
    row: int


@dataclass(frozen=True)
class SeriesStatistics:
    """What rows add up to.

    Attributes:
      moments: of the features of training rows; of an asset with a scale of its own, of its rows.
      classes: for each label, the classes that training rows name.
      sample: of the same rows as `moments`, with scale.how: robust.
      under_floor: with scale.per: asset, for each feature how many assets have a divisor that scale.floor lifts.
    """

    moments: Moments
    classes: Names
    sample: RowSample | None = None
    under_floor: tuple[int, ...] = ()

    @classmethod
    def zero(cls, schema: SeriesSchema) -> "SeriesStatistics":
        """Of no rows."""
        return cls(Moments.zero(len(schema.features)), SeenClasses.zero(schema.labels).training)

    def __add__(self, other: "SeriesStatistics") -> "SeriesStatistics":
        return SeriesStatistics(
            self.moments + other.moments,
            add_names(self.classes, other.classes),
            add_samples(self.sample, other.sample),
        )


@dataclass(frozen=True)
class SeriesReport(Report[SeriesAsset]):
    """What was found in one unit."""

    first_time: int = 0
    last_time: int = 0
    decrease: Disorder | None = None
    repeat: Disorder | None = None
    seen: SeenClasses = field(kw_only=True)


def validate_unit(unit: Unit[SeriesAsset], schema: SeriesSchema, job: Job) -> SeriesReport:
    """Reads the rows of a unit and checks them; never raises for bad data."""
    report = SeriesReport(unit, SeriesStatistics.zero(schema), seen=SeenClasses.zero(schema.labels))
    last: int | None = None
    moments, seen = report.statistics.moments, report.seen
    features = len(schema.features)
    sample, part = empty_sample(features, job), part_of_rows(unit.asset, features, job)
    try:
        for chunk in read_chunks(unit.asset, schema, unit.start, unit.end):
            report = _check_order(report, chunk, last)
            last = int(chunk.time[-1])
            values, positions = _rows_for_statistics(chunk, unit.asset, job)
            moments += Moments.of(values)
            if sample is not None:
                sample = sample.extend(values, unit.asset.name, positions, part)
            if schema.labels:
                seen += _classes(chunk, unit.asset, schema, job)
    except BadInput as bad:
        return replace(report, reject=bad.reject(unit.asset.name))
    if unit.rows == unit.asset.rows:
        sample = settle(sample, unit.asset, features, job)
    statistics = SeriesStatistics(moments, seen.training, sample)
    return replace(report, statistics=statistics, seen=seen, last_time=last or 0)


def _classes(chunk: Chunk, asset: SeriesAsset, schema: SeriesSchema, job: Job) -> SeenClasses:
    train, *others = (in_split(chunk, asset, name, job.split) for name in SPLITS)
    place = chunk.path, chunk.file_row
    return see_classes(chunk.labels, schema.labels, train, train | others[0] | others[1], place)


def _check_order(report: SeriesReport, chunk: Chunk, last: int | None) -> SeriesReport:
    if last is None:
        report = replace(report, first_time=int(chunk.time[0]))
        last = int(chunk.time[0]) - 1
    step = np.diff(chunk.time, prepend=last)
    if report.decrease is None and (step < 0).any():
        row = chunk.file_row + int((step < 0).argmax())
        report = replace(report, decrease=Disorder(True, chunk.path, row))
    if report.repeat is None and (step == 0).any():
        row = chunk.file_row + int((step == 0).argmax())
        report = replace(report, repeat=Disorder(False, chunk.path, row))
    return report


def _rows_for_statistics(chunk: Chunk, asset: SeriesAsset, job: Job) -> tuple[np.ndarray, np.ndarray]:
    """The values of the training rows and their positions; with scale.per: asset, of all rows of a whole asset.

    An asset's own scale needs its own rows, also where it is there to test with.
    """
    positions = np.arange(chunk.position, chunk.position + len(chunk))
    if asset.split is not None:
        use_all = asset.split == "train" or job.prepare.scale.per == "asset"
        return (chunk.values, positions) if use_all else (chunk.values[:0], positions[:0])
    rows = in_split(chunk, asset, "train", job.split)
    return chunk.values[rows], positions[rows]


def judge(reports: Iterable[SeriesReport], schema: SeriesSchema, job: Job) -> SeriesVerdict:
    """Decides from the reports on all units of one asset.

    Rows out of order are sorted if they fit in limits.sort_memory_mb; an asset with
    two rows of one time is set aside, as nobody could say which one holds.
    """
    ordered = sorted(reports, key=lambda report: report.unit.index)
    asset = ordered[0].unit.asset
    seen = sum((report.seen for report in ordered), SeenClasses.zero(schema.labels))

    def reject(*why: Reject) -> SeriesVerdict:
        return SeriesVerdict(asset, SeriesStatistics.zero(schema), rejects=why, seen=seen)

    broken = tuple(report.reject for report in ordered if report.reject is not None)
    if broken:
        return reject(*broken)
    decrease, repeat = _disorder(ordered)
    if decrease is not None:
        size = asset.rows * (4 * len(schema.features) + 8 + sum(label.row_bytes for label in schema.labels))
        if size > job.limits.sort_memory_mb << 20:
            reason = (
                f"times decrease, and sorting {size / 2**20:.1f} MB is over "
                f"limits.sort_memory_mb: {job.limits.sort_memory_mb}"
            )
            return reject(_reject(asset, decrease, reason))
        repeat = _repeat_after_sorting(asset, schema)
        asset = replace(asset, sort=True)
    if repeat is not None:
        return reject(_reject(asset, repeat, "has the time of another row of its asset"))
    total = sum((report.statistics for report in ordered), SeriesStatistics.zero(schema))
    total = replace(total, sample=settle(total.sample, asset, len(schema.features), job))
    return SeriesVerdict(asset, total, seen=seen)


def _reject(asset: SeriesAsset, found: Disorder, reason: str) -> Reject:
    return Reject(asset.name, found.file, f"row {found.row}", reason)


def _disorder(ordered: list[SeriesReport]) -> tuple[Disorder | None, Disorder | None]:
    """The first decrease and the first repeat, inside units and from one to the next."""
    found: list[Disorder] = []
    for i, report in enumerate(ordered):
        if i and report.first_time <= ordered[i - 1].last_time:
            piece = _slice_at(report.unit)
            found.append(Disorder(report.first_time < ordered[i - 1].last_time, piece[0], piece[1]))
        found.extend(d for d in (report.decrease, report.repeat) if d is not None)
    return (
        next((d for d in found if d.decreases), None),
        next((d for d in found if not d.decreases), None),
    )


def _slice_at(unit: Unit[SeriesAsset]) -> tuple[str, int]:
    """The file and its row that a unit starts at."""
    offset = 0
    for piece in unit.asset.pieces:
        if unit.start < offset + piece.rows:
            return piece.path, unit.start - offset
        offset += piece.rows
    return unit.asset.pieces[-1].path, unit.asset.pieces[-1].rows


def _repeat_after_sorting(asset: SeriesAsset, schema: SeriesSchema) -> Disorder | None:
    """The first row whose time another row has, found by sorting the times alone."""
    chunks = list(read_chunks(asset, schema, values=False))
    time = np.concatenate([chunk.time for chunk in chunks])
    order = np.argsort(time, kind="stable")
    same = np.flatnonzero(np.diff(time[order]) == 0)
    if not len(same):
        return None
    position = int(order[same + 1].min())
    chunk = next(c for c in chunks if position < c.position + len(c))
    return Disorder(False, chunk.path, chunk.file_row + position - chunk.position)
