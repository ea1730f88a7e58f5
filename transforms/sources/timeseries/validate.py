"""Reads every row once, before anything is written: what is broken, and the statistics of the rest."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import apache_beam as beam
import numpy as np

from beamfeed.contract.config.job import Job
from beamfeed.transforms.progress import Progress
from beamfeed.transforms.rejects import BadInput, Reject
from beamfeed.transforms.sources.timeseries.plan import Asset, Unit
from beamfeed.transforms.sources.timeseries.read import Chunk, in_split, read_chunks
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema
from beamfeed.transforms.statistics.moments import Moments


@dataclass(frozen=True)
class Disorder:
    """The first place where time does not increase."""

    decreases: bool  # False: two rows have one time
    file: str
    row: int


@dataclass(frozen=True)
class Report:
    """What was found in one unit."""

    unit: Unit
    moments: Moments  # of the rows that statistics are taken of
    first_time: int = 0
    last_time: int = 0
    decrease: Disorder | None = None
    repeat: Disorder | None = None
    reject: Reject | None = None


@dataclass(frozen=True)
class Verdict:
    """What becomes of an asset: it is preprocessed, or it is set aside."""

    asset: Asset
    moments: Moments
    rejects: tuple[Reject, ...] = ()


def validate_unit(unit: Unit, schema: SeriesSchema, job: Job) -> Report:
    """Reads the rows of a unit and checks them; never raises for bad data."""
    features = len(schema.features)
    report = Report(unit, Moments.zero(features))
    last: int | None = None
    total = report.moments
    try:
        for chunk in read_chunks(unit.asset, schema, unit.start, unit.end):
            report = _check_order(report, chunk, last)
            last = int(chunk.time[-1])
            total += Moments.of(_rows_for_statistics(chunk, unit.asset, job))
    except BadInput as bad:
        return Report(unit, Moments.zero(features), reject=bad.reject(unit.asset.name))
    return replace(report, moments=total, last_time=last or 0)


def _check_order(report: Report, chunk: Chunk, last: int | None) -> Report:
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


def _rows_for_statistics(chunk: Chunk, asset: Asset, job: Job) -> np.ndarray:
    """Training rows; with scale.per: asset, all rows of an asset that is in one split as a whole.

    An asset's own scale needs its own rows, also where it is there to test with.
    """
    if asset.split is not None:
        use_all = asset.split == "train" or job.prepare.scale.per == "asset"
        return chunk.values if use_all else chunk.values[:0]
    return chunk.values[in_split(chunk, asset, "train", job.split)]


def judge(reports: Iterable[Report], schema: SeriesSchema, job: Job) -> Verdict:
    """Decides from the reports on all units of one asset.

    Rows out of order are sorted if they fit in limits.sort_memory_mb; an asset with
    two rows of one time is set aside, as nobody could say which one holds.
    """
    ordered = sorted(reports, key=lambda report: report.unit.index)
    asset = ordered[0].unit.asset
    nothing = Moments.zero(len(schema.features))
    broken = tuple(report.reject for report in ordered if report.reject is not None)
    if broken:
        return Verdict(asset, nothing, broken)
    decrease, repeat = _disorder(ordered)
    if decrease is not None:
        size = asset.rows * (4 * len(schema.features) + 8)
        if size > job.limits.sort_memory_mb << 20:
            reason = (
                f"times decrease, and sorting {size / 2**20:.1f} MB is over "
                f"limits.sort_memory_mb: {job.limits.sort_memory_mb}"
            )
            return Verdict(asset, nothing, (_reject(asset, decrease, reason),))
        repeat = _repeat_after_sorting(asset, schema)
        asset = replace(asset, sort=True)
    if repeat is not None:
        return Verdict(asset, nothing, (_reject(asset, repeat, "has the time of another row of its asset"),))
    return Verdict(asset, sum((report.moments for report in ordered), nothing))


def _reject(asset: Asset, found: Disorder, reason: str) -> Reject:
    return Reject(asset.name, found.file, f"row {found.row}", reason)


def _disorder(ordered: list[Report]) -> tuple[Disorder | None, Disorder | None]:
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


def _slice_at(unit: Unit) -> tuple[str, int]:
    """The file and its row that a unit starts at."""
    offset = 0
    for piece in unit.asset.slices:
        if unit.start < offset + piece.rows:
            return piece.path, unit.start - offset
        offset += piece.rows
    return unit.asset.slices[-1].path, unit.asset.slices[-1].rows


def _repeat_after_sorting(asset: Asset, schema: SeriesSchema) -> Disorder | None:
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


class ValidateUnit(beam.DoFn):
    """Unit -> (asset's name, Report)."""

    def __init__(self, schema: SeriesSchema, job: Job, progress: Progress):
        self._schema, self._job, self._progress = schema, job, progress
        self._rows = beam.metrics.Metrics.counter("beamfeed", "rows_checked")

    def process(self, unit: Unit) -> Iterator[tuple[str, Report]]:
        report = validate_unit(unit, self._schema, self._job)
        self._rows.inc(unit.rows)
        self._progress.add("validate", assets=int(unit.is_last), rows=unit.rows)
        yield unit.asset.name, report
