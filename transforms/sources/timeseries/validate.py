"""Reads every row once, before anything is written: what is broken, where windows are, the statistics of the rest."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from beamfeed.contract.config.split import SplitName, counts_rows
from beamfeed.transforms.notes import LACKING, Note
from beamfeed.transforms.rejects import BadInput, Reject
from beamfeed.transforms.sources.descriptors import CannotGoOn, Report, Unit
from beamfeed.transforms.sources.timeseries.classes import SeenClasses
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset, rows_needed
from beamfeed.transforms.sources.timeseries.preprocess import find_all, in_order
from beamfeed.transforms.sources.timeseries.read import Chunk, read_chunks, sort_bytes
from beamfeed.transforms.sources.timeseries.sampling import settle
from beamfeed.transforms.sources.timeseries.spec import PreprocessSpec
from beamfeed.transforms.sources.timeseries.survey import SeriesStatistics, Survey, Totals
from beamfeed.transforms.sources.timeseries.verdict import SeriesVerdict, UnitFacts
from beamfeed.transforms.splits import cut_rows, wanted_splits
from beamfeed.transforms.statistics.clumps import Clumps


@dataclass(frozen=True)
class SeriesReport(Report):
    """What was found in one unit.

    Attributes:
      facts: where it is, and where the rows of each split are in it.
      totals: what its rows add up to.
      windows: the splits of which it holds a window.
      looked: the splits of which all rows were looked at for that.
    """

    facts: UnitFacts = field(kw_only=True)
    totals: Totals = field(kw_only=True)
    windows: frozenset[SplitName] = field(default=frozenset(), kw_only=True)
    looked: frozenset[SplitName] = field(default=frozenset(), kw_only=True)


def validate_unit(unit: Unit[SeriesAsset], spec: PreprocessSpec) -> SeriesReport:
    """Checks the rows of a unit; never raises for bad data."""
    survey = Survey(unit.asset, spec.schema, spec.job)
    windows, looked = frozenset[SplitName](), frozenset[SplitName]()
    reject = None
    try:
        chunks = read_chunks(unit.asset, spec.schema, unit.start, unit.end)
        windows, looked = survey_rows(survey, chunks, unit.asset, spec, ends=unit.is_last)
    except BadInput as bad:
        reject = bad.reject(unit.asset.name)
    totals = survey.totals
    if unit.rows == unit.asset.rows:
        totals.sample = settle(totals.sample, unit.asset, len(spec.schema.features), spec.job)
    facts = UnitFacts(unit.start, totals.first_time, totals.spans)
    return SeriesReport(unit.index, None, reject=reject, facts=facts, totals=totals, windows=windows, looked=looked)


def survey_rows(
    survey: Survey, chunks: Iterator[Chunk], asset: SeriesAsset, spec: PreprocessSpec, *, ends: bool = True
) -> tuple[frozenset[SplitName], frozenset[SplitName]]:
    """Adds all rows up, and looks for a window of each split while they stream past.

    A split's search ends at its first window, so that most rows are not looked at. The next one begins with the chunk
    at which the one before ended.

    Args:
      survey: of the asset.
      chunks: its rows, or those of a unit.
      asset: whose rows.
      spec: of the job.
      ends: whether the asset ends with them; else their last step of the grid may not be whole.

    Returns:
      the splits with a window, and those of which every row was looked at.
    """
    stream = survey.watch(chunks)
    last: list[Chunk] = []

    def again() -> Iterator[Chunk]:
        if last:
            yield last[0]
        for chunk in stream:
            last[:] = [chunk]
            if survey.totals.decrease is not None or (survey.totals.repeat is not None and spec.every is None):
                return  # they will be put in order first
            yield chunk

    names = wanted_splits(spec.job.split) if asset.split is None else [asset.split]
    windows, looked = set(), set()
    for number, name in enumerate(names):
        margin = 0 if ends or spec.every is None else 1
        if any(window.ends_before(margin, spec.windowing) for window in find_all(again(), asset, name, spec)):
            windows.add(name)
        elif number == 0:
            looked.add(name)
    for _ in stream:
        pass
    return frozenset(windows), frozenset(looked)


def judge(asset: SeriesAsset, reports: Iterable[SeriesReport], spec: PreprocessSpec) -> SeriesVerdict:
    """Decides from the reports on all units of one asset.

    Rows out of order are sorted if they fit in limits.sort_memory_mb, rows of one time become one as
    prepare.duplicates says, and an asset without a window is set aside: what remains is what will be written.

    Raises:
      CannotGoOn: of an asset that goes on, for whatever would make what is there of it other.
    """
    ordered = sorted(reports, key=lambda report: report.index)
    of_units = [report.totals for report in ordered]

    if asset.known is not None:
        return _judge_new_rows(asset, ordered, spec)

    def reject(*why: Reject) -> SeriesVerdict:
        classes = sum((each.classes for each in of_units), SeenClasses.zero(spec.schema.labels))
        return SeriesVerdict(asset, SeriesStatistics.zero(spec.schema), rejects=why, classes=classes)

    if broken := [report.reject for report in ordered if report.reject is not None]:
        return reject(*broken)
    wrong = tuple(row for each in of_units for row in each.wrong)
    count = sum(each.rejected for each in of_units)
    if wrong and count == asset.rows:
        return reject(replace(wrong[0], of_row=False, reason=f"no row can be used: {wrong[0].reason}"))
    decrease, repeat = _disorder(asset, ordered)
    merges = spec.job.prepare.duplicates != "reject"
    if decrease is not None:
        size, most = sort_bytes(asset, spec.schema), spec.job.limits.sort_memory_mb
        if size > most << 20:
            reason = f"times decrease, and sorting takes {size / 2**20:.1f} MB, over limits.sort_memory_mb: {most}"
            return reject(Reject(asset.name, *decrease, reason))
        asset = replace(asset, sort=True)
    elif repeat is not None and not merges:
        return reject(Reject(asset.name, *repeat, "has the time of another row of its asset"))
    # Rows of one time do no harm where they end in one step of the grid.
    if (decrease is not None or repeat is not None) and merges and spec.every is None:
        asset = replace(asset, merge=True)
    if asset.sort or asset.merge:
        try:
            if asset.merge and asset.row_cuts is not None and not counts_rows(spec.job.split.train):
                # Fractions are of the rows as they are written, so these are counted first.
                asset = replace(asset, row_cuts=cut_rows(sum(map(len, in_order(asset, spec))), spec.job.split))
            survey = Survey(asset, spec.schema, spec.job)
            windows, looked = survey_rows(survey, in_order(asset, spec), asset, spec)
        except BadInput as bad:
            return reject(bad.reject(asset.name))
        totals = survey.totals
        if totals.repeat is not None and not merges:
            return reject(Reject(asset.name, *totals.repeat, "has the time of another row of its asset"))
        merged = asset.rows - totals.rows
        asset = replace(asset, total=totals.rows)
        facts, of_units = [UnitFacts(0, totals.first_time, totals.spans)], [totals]
    else:
        merged = 0
        windows = frozenset().union(*(report.windows for report in ordered))
        looked = ordered[0].looked if len(ordered) == 1 else frozenset[SplitName]()
        facts = _with_times(ordered)
    windows |= _look_again(asset, facts, windows | looked, spec)
    notes = [*_notes(asset, of_units, merged, spec)]
    values = frozenset().union(*(each.listed | set(each.unlisted) for each in of_units))
    if not any(fact.spans for fact in facts):  # all rows have values in no list of split
        return replace(
            reject(), left_out=True, notes=tuple(notes), split_values=values, row_rejects=wrong, rejected_rows=count
        )
    if not windows:
        reason = why_empty(spec)
        if count:
            reason += f"; {count} rows were set aside, such as {wrong[0].file}: {wrong[0].place}: {wrong[0].reason}"
        return replace(reject(Reject(asset.name, asset.files, "file", reason)), split_values=values)
    splits = wanted_splits(spec.job.split) if asset.split is None else [asset.split]
    by_column = spec.job.split.by == "column"  # there a split that an asset has no rows of is nothing to speak of
    rows_of = {name for fact in facts for name in fact.spans} if by_column else set(splits)
    notes += [Note(f"{LACKING} {name}", asset.name) for name in splits if name in rows_of - windows]
    classes = sum((each.classes for each in of_units), SeenClasses.zero(spec.schema.labels))
    if "train" not in windows:
        classes = replace(classes, training=SeenClasses.zero(spec.schema.labels).training)
    statistics = sum((each.statistics for each in of_units), SeriesStatistics.zero(spec.schema))
    sample = of_units[0].sample if len(of_units) == 1 else statistics.sample  # a sum has nothing settled
    moments = statistics.moments
    counts = np.array([[moments.rows, *(moments.rows - count for count in moments.count)]])
    settled = settle(sample, asset, len(spec.schema.features), spec.job)
    statistics = replace(statistics, sample=settled, clumps=Clumps.of(counts))
    return SeriesVerdict(
        asset, statistics, notes=tuple(notes), split_values=values, classes=classes, splits=windows, units=tuple(facts),
        row_rejects=wrong, rejected_rows=count,
    )  # fmt: skip


def _judge_new_rows(asset: SeriesAsset, ordered: Sequence[SeriesReport], spec: PreprocessSpec) -> SeriesVerdict:
    """As `judge`, of an asset that goes on, whose windows are there already but for those with new rows."""
    of_units = [report.totals for report in ordered]
    for report in ordered:
        if report.reject is not None:
            why = f"{report.reject.file}: {report.reject.place}: {report.reject.reason}"
            raise CannotGoOn(f"asset {asset.name}, which is there, would be set aside: {why}")
    decrease, repeat = _disorder(asset, ordered)
    if decrease is not None or (repeat is not None and (spec.every is None or spec.job.prepare.duplicates == "reject")):
        file, place = decrease or repeat or ("", "")
        raise CannotGoOn(f"{file}: {place}: is not behind the rows of asset {asset.name} before it")
    facts = _with_times(ordered)
    return SeriesVerdict(
        asset,
        sum((each.statistics for each in of_units), SeriesStatistics.zero(spec.schema)),
        notes=tuple(_notes(asset, of_units, 0, spec)),
        classes=sum((each.classes for each in of_units), SeenClasses.zero(spec.schema.labels)),
        splits=frozenset(name for fact in facts for name in fact.spans),
        units=tuple(facts),
        row_rejects=tuple(row for each in of_units for row in each.wrong),
        rejected_rows=sum(each.rejected for each in of_units),
    )


def _with_times(ordered: Sequence[SeriesReport]) -> list[UnitFacts]:
    """The facts of all units, where one whose rows are all set aside has the time of the next row that is not.

    Behind the last such row there is none: its time stands for those units, so that the windows up to it are
    of the units before.
    """
    time = max((report.totals.last_time for report in ordered if report.totals.timed), default=0)
    facts = list[UnitFacts]()
    for report in reversed(ordered):
        time = report.facts.first_time if report.totals.timed else time
        facts.append(replace(report.facts, first_time=time))
    return facts[::-1]


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


def _notes(asset: SeriesAsset, of_units: Sequence[Totals], merged: int, spec: PreprocessSpec) -> Iterator[Note]:
    prepare, column = spec.job.prepare, spec.job.split.column
    outside = sum((each.outside for each in of_units), np.zeros(len(spec.schema.features), np.int64))
    if merged:
        yield Note(
            f"rows of a time that another row has, made one (duplicates: {prepare.duplicates})", asset.name, merged
        )
    for place, low, high in spec.schema.ranges:
        if outside[place]:
            text = f"values of {spec.schema.features[place]} outside of [{low:g}, {high:g}], now missing"
            yield Note(text, asset.name, int(outside[place]))
    if asset.apart and len(asset.pieces) > 1:
        yield Note("no window goes from one file to the next, as a file that was set aside may lie between", asset.name)
    remaining = sum(each.rows - each.rejected for each in of_units)  # what is set aside is told as such
    unused = remaining - sum(span.rows for each in of_units for span in each.spans.values())
    if unused and spec.job.split.by in ("rows", "time"):
        yield Note("rows in no split, left out", asset.name, unused)
    for label, count in sum((each.unlabelled for each in of_units), Counter[str]()).items():
        yield Note(f"rows without a value of the label {label}", asset.name, count)
    if asset.empty:
        yield Note("files without rows", asset.name, asset.empty)
    unlisted = sum((each.unlisted for each in of_units), Counter(dict(asset.left_out)))
    for value, count in sorted(unlisted.items()):
        yield Note(f"rows left out, as {column} is {value!r}, in no list of split", asset.name, count)


def _disorder(
    asset: SeriesAsset, ordered: Sequence[SeriesReport]
) -> tuple[tuple[str, str] | None, tuple[str, str] | None]:
    """The file and row of the first decrease and of the first repeat, inside units and from one to the next."""
    decreases, repeats = list[tuple[str, str] | None](), list[tuple[str, str] | None]()
    ordered = [report for report in ordered if report.totals.timed]
    for i, report in enumerate(ordered):
        if i and report.totals.first_time <= (before := ordered[i - 1].totals.last_time):
            of_seam = decreases if report.totals.first_time < before else repeats
            of_seam.append(_place_of(asset, report.facts.start))
        decreases.append(report.totals.decrease)
        repeats.append(report.totals.repeat)
    return next(filter(None, decreases), None), next(filter(None, repeats), None)


def _place_of(asset: SeriesAsset, position: int) -> tuple[str, str]:
    """The file and its row at a position."""
    offset = 0
    for piece in asset.pieces:
        if position < offset + piece.rows:
            return piece.path, f"row {position - offset}"
        offset += piece.rows
    return asset.pieces[-1].path, f"row {asset.pieces[-1].rows}"
