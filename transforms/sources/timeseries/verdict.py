"""What becomes of an asset, and the work that follows from it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise

from beamfeed.contract.config.label import MOST_CLASSES
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.windows import first_window
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.columns.label_counts import too_many_classes
from beamfeed.transforms.sources.columns.labels import LabelColumn
from beamfeed.transforms.sources.descriptors import Unit, Verdict
from beamfeed.transforms.sources.timeseries.classes import Names, SeenClasses, add_names
from beamfeed.transforms.sources.timeseries.ongoing import seam
from beamfeed.transforms.sources.timeseries.plan import GroupIndex, SeriesAsset, Span
from beamfeed.transforms.sources.timeseries.preprocess import SeriesWork
from beamfeed.transforms.sources.timeseries.spec import PreprocessSpec
from beamfeed.transforms.statistics.scaling import Scaling


@dataclass(frozen=True)
class UnitFacts:
    """A unit that was read: its first row, the time of that, and where the rows of each split are."""

    start: int
    first_time: int
    spans: Mapping[SplitName, Span]


@dataclass(frozen=True)
class SeriesVerdict(Verdict[SeriesAsset]):
    """With what its units hold.

    Attributes:
      classes: the classes that its rows name.
      splits: those of which it has a window.
      units: of the asset, in order.
      scaling: the asset's own, where each that is accepted has one.
    """

    classes: SeenClasses = field(kw_only=True)
    splits: frozenset[SplitName] = field(default=frozenset(), kw_only=True)
    units: tuple[UnitFacts, ...] = field(default=(), kw_only=True)
    scaling: Scaling | None = field(default=None, kw_only=True)

    @property
    def split_rows(self) -> Mapping[SplitName, int]:
        rows = Counter[SplitName]()
        for unit in self.units:
            rows.update({name: span.rows for name, span in unit.spans.items()})
        return rows

    @property
    def trains(self) -> bool:
        """Whether rows of it train."""
        return "train" in self.splits


def divide(verdict: SeriesVerdict, spec: PreprocessSpec) -> Iterator[tuple[SeriesWork, int]]:
    """The work of an accepted asset, each with about how many bytes it becomes in records.

    A unit owns the windows that begin from its first row on, but for those that need rows before it: these belong to
    the unit before, which reads on for them. So no unit reads rows before its own, for which a whole group of rows
    might have to be decoded. Of a split nothing is read but what lies between its rows, and where an asset goes on
    the rows before the first new one that windows with that need.
    """
    asset, windowing, units = verdict.asset, spec.windowing, verdict.units
    row_bytes = spec.row_bytes
    if windowing.windows_per_segment == 1:  # each row is written as often as there are windows over it
        row_bytes = max(1, row_bytes * windowing.length // windowing.stride)
    index = GroupIndex(asset)
    edges: list[int | None] = [None, *(_begin(unit, spec) for unit in units[1:]), None]
    first_row = 0
    if asset.known is not None:
        first_row, edges[0] = seam(asset, spec)
    for number, (unit, owned) in enumerate(zip(units, pairwise(edges), strict=True)):
        begin, next_begin = owned
        if begin is not None and next_begin is not None and begin >= next_begin:
            continue  # the unit before, or the next one, owns the windows that begin in it
        start, end = unit.start, asset.end if next_begin is None else _end(number, next_begin, verdict, spec)
        for name in sorted(verdict.splits):
            spans = [later.spans[name] for later in units[number:] if name in later.spans and later.start < end]
            low = min((max(span.start, start) for span in spans), default=end)
            if spans and not number and asset.known is not None:
                low = first_row
            high = max((min(span.end, end) for span in spans), default=start)
            if low >= high or (spec.every is None and high - low < windowing.length + windowing.ahead):
                continue
            part = index.narrow(low, high) if asset.divides else asset
            rows = unit.spans[name].rows if name in unit.spans else high - low
            yield (
                SeriesWork(Unit(part, number, low, high), name, owned=owned, scaling=verdict.scaling),
                rows * row_bytes,
            )


def _begin(unit: UnitFacts, spec: PreprocessSpec) -> int:
    """The first position at which a unit's own windows begin."""
    position = unit.start if spec.every is None else unit.first_time // spec.every + 1  # a step that is not cut off
    span = spec.windowing.span
    return int(first_window(position + spec.windowing.before, span)) * span


def _end(number: int, next_begin: int, verdict: SeriesVerdict, spec: PreprocessSpec) -> int:
    """The row after the last one that a unit's windows need, where those of the next unit begin at `next_begin`."""
    last = next_begin + spec.windowing.after
    if spec.every is None:
        return min(last, verdict.asset.end)
    for unit in verdict.units[number + 1 :]:
        if unit.first_time // spec.every > last:
            return unit.start
    return verdict.asset.end


def accepted_classes(verdict: SeriesVerdict) -> list[tuple[str, SeenClasses]]:
    """Of an accepted asset, its name and the classes that it has; of all assets they are in one place."""
    return [(verdict.asset.name, verdict.classes)] if verdict.accepted else []


def find_unseen(every: Iterable[tuple[str, SeenClasses]], labels: Sequence[LabelColumn]) -> dict[str, Reject]:
    """By name, the assets whose eval or test rows have a class that no training row of the others left has.

    Setting an asset aside takes its training rows away, too, so that it is done until nothing changes.

    Raises:
      JobFailed: if there are more classes than are supported.
    """
    remaining = dict(every)
    rejects: dict[str, Reject] = {}
    while True:
        of_assets = {classes.training for classes in remaining.values()}  # most have the same
        trained = reduce(add_names, of_assets, SeenClasses.zero(labels).training)
        for names, label in zip(trained, labels, strict=True):
            if len(names) > MOST_CLASSES:
                raise too_many_classes(f"label.column: {label.column!r}")
        more = {
            name: reject for name, classes in remaining.items() if (reject := _unseen(name, classes, trained, labels))
        }
        if not more:
            return rejects
        rejects |= more
        remaining = {name: classes for name, classes in remaining.items() if name not in more}


def _unseen(asset: str, classes: SeenClasses, trained: Names, labels: Sequence[LabelColumn]) -> Reject | None:
    for elsewhere, names, label in zip(classes.elsewhere, trained, labels, strict=True):
        for name in sorted(elsewhere.keys() - names):
            path, row = elsewhere[name]
            return Reject(asset, path, f"row {row}", f"{label.column} is {name!r}, which is in no training row")
    return None


def set_aside(verdict: SeriesVerdict, unseen: Mapping[str, Reject], nothing: SeenClasses) -> SeriesVerdict:
    """A verdict, where `unseen` has rejects by name; `nothing` are the classes of no rows."""
    verdict = replace(verdict, classes=nothing)  # has been looked at, and a thousand names are much for a descriptor
    reject = unseen.get(verdict.asset.name)
    return verdict if reject is None else replace(verdict, splits=frozenset(), rejects=(reject,))
