"""Reads every row once, before anything is written: what is broken, where windows are, the statistics of the rest."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import reduce
from operator import add

import numpy as np

from beamfeed.contract.config.split import SplitName, counts_rows
from beamfeed.transforms.notes import LACKING, UNUSED, Note
from beamfeed.transforms.rejects import BadInput, Reject
from beamfeed.transforms.sources.descriptors import CannotGoOn, Report, Unit
from beamfeed.transforms.sources.timeseries.classes import SeenClasses
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset, Span, rows_needed
from beamfeed.transforms.sources.timeseries.preprocess import find_all, in_order
from beamfeed.transforms.sources.timeseries.read import Chunk, read_chunks, sort_bytes
from beamfeed.transforms.sources.timeseries.sampling import settle
from beamfeed.transforms.sources.timeseries.spec import PreprocessSpec
from beamfeed.transforms.sources.timeseries.survey import SeriesStatistics, Survey, Totals
from beamfeed.transforms.sources.timeseries.verdict import SeriesVerdict, UnitFacts
from beamfeed.transforms.splits import cut_rows
from beamfeed.transforms.statistics.clumps import Clumps


@dataclass(frozen=True)
class SeriesReport(Report):
    """What was found in one unit; its statistics are `Totals`, none of one that is rejected.

    Attributes:
      start: its first row.
      spans: where the rows of each split are.
      windows: the splits of which it holds a window.
      looked: the splits of which all rows were looked at for that.
    """

    _: KW_ONLY
    start: int = 0
    spans: Mapping[SplitName, Span] = field(default_factory=dict)
    windows: frozenset[SplitName] = frozenset()
    looked: frozenset[SplitName] = frozenset()


def validate_unit(unit: Unit[SeriesAsset], spec: PreprocessSpec) -> SeriesReport:
    """Checks the rows of a unit; never raises for bad data."""
    try:
        report = survey_unit(unit, read_chunks(unit.asset, spec.schema, unit.start, unit.end), spec)
    except BadInput as bad:
        return SeriesReport(unit.index, None, reject=bad.reject(unit.asset.name))
    if unit.rows == unit.asset.rows:
        report.statistics.sample = settle(report.statistics.sample, unit.asset, len(spec.schema.features), spec.job)
    return report


def survey_unit(unit: Unit[SeriesAsset], chunks: Iterator[Chunk], spec: PreprocessSpec) -> SeriesReport:
    """Adds all rows of a unit up, and looks for a window of each split while they stream past.

    A split's search ends at its first window, so that most rows are not looked at. The next one begins with the chunk
    at which the one before ended.

    Raises:
      BadInput: where a file breaks.
    """
    survey = Survey(unit.asset, spec.schema, spec.job)
    stream = survey.watch(chunks)
    last: list[Chunk] = []

    def again() -> Iterator[Chunk]:
        if last:
            yield last[0]
        for chunk in stream:
            last[:] = [chunk]
            order = survey.totals.order
            if order.decrease is not None or (order.repeat is not None and spec.every is None):
                return  # they will be put in order first
            yield chunk

    windows, looked = set(), set()
    margin = 0 if unit.is_last or spec.every is None else 1  # the last step of the grid may not be whole
    for number, name in enumerate(unit.asset.wanted(spec.job.split)):
        if any(found.ends_before(margin, spec.windowing) for found in find_all(again(), unit.asset, name, spec)):
            windows.add(name)
        elif number == 0:
            looked.add(name)
    for _ in stream:
        pass
    return SeriesReport(
        unit.index, survey.totals, start=unit.start, spans=survey.spans, windows=frozenset(windows),
        looked=frozenset(looked),
    )  # fmt: skip


def judge(asset: SeriesAsset, reports: Iterable[SeriesReport], spec: PreprocessSpec) -> SeriesVerdict:
    """Decides from the reports on all units of one asset.

    Rows out of order are sorted if they fit in limits.sort_memory_mb, rows of one time become one as
    prepare.duplicates says, and an asset without a window is set aside: what remains is what will be written.

    Raises:
      CannotGoOn: of an asset that goes on, for whatever would make what is there of it other.
    """
    ordered = sorted(reports, key=lambda report: report.index)
    if asset.known is not None:
        return _judge_new_rows(asset, ordered, spec)
    no_classes, nothing = SeenClasses.zero(spec.schema.labels), SeriesStatistics.zero(spec.schema)

    def reject(*why: Reject) -> SeriesVerdict:
        return SeriesVerdict(asset, nothing, rejects=why, classes=no_classes)

    if broken := [report.reject for report in ordered if report.reject is not None]:
        return reject(*broken)
    totals = _totals(ordered)
    row_rejects, rejected_rows = tuple(totals.rejects), totals.rejected
    if row_rejects and rejected_rows == asset.rows:
        return reject(replace(row_rejects[0], of_row=False, reason=f"no row can be used: {row_rejects[0].reason}"))
    decrease, repeat = totals.order.decrease, totals.order.repeat
    merges = spec.job.prepare.duplicates != "reject"
    if decrease is not None:
        size, most = sort_bytes(asset, spec.schema), spec.job.limits.sort_memory_mb
        if size > most << 20:
            reason = f"times decrease, and sorting takes {size / 2**20:.1f} MB, over limits.sort_memory_mb: {most}"
            return reject(Reject(asset.name, *decrease, reason))
        asset = replace(asset, sort=True)
    # Rows of one time do no harm where they end in one step of the grid.
    if (decrease is not None or repeat is not None) and merges and spec.every is None:
        asset = replace(asset, merge=True)
    if asset.sort or asset.merge:
        try:
            if asset.merge and asset.row_cuts is not None and not counts_rows(spec.job.split.train):
                # Fractions are of the rows as they are written, so these are counted first.
                asset = replace(asset, row_cuts=cut_rows(sum(map(len, in_order(asset, spec))), spec.job.split))
            ordered = [survey_unit(Unit(asset, 0, 0, asset.rows), in_order(asset, spec), spec)]
        except BadInput as bad:
            return reject(bad.reject(asset.name))
        totals = ordered[0].statistics
        repeat = totals.order.repeat
    if repeat is not None and not merges:
        return reject(Reject(asset.name, *repeat, "has the time of another row of its asset"))
    merged = asset.rows - totals.rows
    asset = replace(asset, total=totals.rows)
    windows = frozenset().union(*(report.windows for report in ordered))
    looked = ordered[0].looked if len(ordered) == 1 else frozenset()
    units = _facts(ordered, totals.order.last)
    windows |= _look_again(asset, units, windows | looked, spec)
    notes = [*_notes(asset, totals, units, merged, spec)]
    values = totals.listed | set(totals.unlisted)
    if not any(unit.spans for unit in units):  # all rows have values in no list of split
        return replace(
            reject(), left_out=True, notes=tuple(notes), split_values=values, row_rejects=row_rejects,
            rejected_rows=rejected_rows,
        )  # fmt: skip
    if not windows:
        reason = why_empty(spec)
        if rejected_rows:
            first = row_rejects[0]
            reason += f"; {rejected_rows} rows were set aside, such as {first.file}: {first.place}: {first.reason}"
        return replace(reject(Reject(asset.name, asset.files, "file", reason)), split_values=values)
    lacking = [name for name in asset.wanted(spec.job.split) if name not in windows]
    if spec.job.split.by == "column":  # there a split that an asset has no rows of is nothing to speak of
        lacking = [name for name in lacking if any(name in unit.spans for unit in units)]
    notes += [Note(f"{LACKING} {name}", asset.name) for name in lacking]
    classes, moments = totals.classes, totals.moments
    if "train" not in windows:
        classes = replace(classes, training=no_classes.training)
    counts = np.array([[moments.rows, *(moments.rows - count for count in moments.count)]])
    settled = settle(totals.sample, asset, len(spec.schema.features), spec.job)
    statistics = replace(totals.statistics, sample=settled, clumps=Clumps.of(counts))
    return SeriesVerdict(
        asset, statistics, notes=tuple(notes), split_values=values, classes=classes, splits=windows, units=units,
        row_rejects=row_rejects, rejected_rows=rejected_rows,
    )  # fmt: skip


def _judge_new_rows(asset: SeriesAsset, ordered: Sequence[SeriesReport], spec: PreprocessSpec) -> SeriesVerdict:
    """As `judge`, of an asset that goes on, whose windows are there already but for those with new rows."""
    for report in ordered:
        if report.reject is not None:
            why = f"{report.reject.file}: {report.reject.place}: {report.reject.reason}"
            raise CannotGoOn(f"asset {asset.name}, which is there, would be set aside: {why}")
    totals = _totals(ordered)
    units = _facts(ordered, totals.order.last)
    disorder = totals.order.decrease
    if spec.every is None or spec.job.prepare.duplicates == "reject":
        disorder = disorder or totals.order.repeat
    if disorder is not None:
        file, place = disorder
        raise CannotGoOn(f"{file}: {place}: is not behind the rows of asset {asset.name} before it")
    return SeriesVerdict(
        asset,
        totals.statistics,
        notes=tuple(_notes(asset, totals, units, 0, spec)),
        classes=totals.classes,
        splits=frozenset(name for unit in units for name in unit.spans),
        units=units,
        row_rejects=tuple(totals.rejects),
        rejected_rows=totals.rejected,
    )


def _totals(reports: Sequence[SeriesReport]) -> Totals:
    """What the rows of some units add up to."""
    return reduce(add, (report.statistics for report in reports))


def _facts(ordered: Sequence[SeriesReport], last: int) -> tuple[UnitFacts, ...]:
    """The facts of all units, where one whose rows are all set aside has the time of the next row that is not.

    Behind the last such row there is none: its time, `last`, stands for those units, so that the windows up to it are
    of the units before.
    """
    time, units = last, list[UnitFacts]()
    for report in reversed(ordered):
        first = report.statistics.order.first
        time = time if first is None else first
        units.append(UnitFacts(report.start, time, report.spans))
    return tuple(units[::-1])


def why_empty(spec: PreprocessSpec) -> str:
    """Why an asset gives no window."""
    needed, whose = rows_needed(spec.job)
    more = f" ({whose})" if needed > spec.job.windows.length else ""
    unknown = ", or with no label that is known" if spec.job.label else ""
    return f"has no {needed} rows in a row without a gap or a missing value{more}{unknown}"


def _look_again(
    asset: SeriesAsset, facts: Sequence[UnitFacts], known_splits: frozenset[SplitName], spec: PreprocessSpec
) -> frozenset[SplitName]:
    """The other splits that have a window, where one may reach from one unit into the next: all rows are read again."""
    splits = set()
    for name in {name for fact in facts for name in fact.spans} - known_splits:
        spans = [fact.spans[name] for fact in facts if name in fact.spans]
        if spec.every is None and sum(span.rows for span in spans) < spec.windowing.length + spec.windowing.ahead:
            continue
        chunks = in_order(asset, spec, spans[0].start, spans[-1].end)
        if next(find_all(chunks, asset, name, spec), None) is not None:
            splits.add(name)
    return frozenset(splits)


def _notes(
    asset: SeriesAsset, totals: Totals, units: Sequence[UnitFacts], merged: int, spec: PreprocessSpec
) -> Iterator[Note]:
    prepare, column = spec.job.prepare, spec.job.split.column
    if merged:
        yield Note(
            f"rows of a time that another row has, made one (duplicates: {prepare.duplicates})", asset.name, merged
        )
    for place, low, high in spec.schema.ranges:
        if count := int(totals.outside[place]):
            text = f"values of {spec.schema.features[place]} outside of [{low:g}, {high:g}], now missing"
            yield Note(text, asset.name, count)
    if asset.apart and len(asset.pieces) > 1:
        yield Note("no window goes from one file to the next, as a file that was set aside may lie between", asset.name)
    remaining = totals.rows - totals.rejected  # what is set aside is told as such
    unused = remaining - sum(span.rows for unit in units for span in unit.spans.values())
    if unused and spec.job.split.by in ("rows", "time"):
        yield Note(UNUSED, asset.name, unused)
    for label, count in totals.unlabelled.items():
        if count:
            yield Note(f"rows without a value of the label {label}", asset.name, count)
    if asset.empty:
        yield Note("files without rows", asset.name, asset.empty)
    unlisted = totals.unlisted + Counter(dict(asset.left_out))
    for value, count in sorted(unlisted.items()):
        yield Note(f"rows left out, as {column} is {value!r}, in no list of split", asset.name, count)
