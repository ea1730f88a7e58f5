"""The fleet as a whole, in a few numbers: which assets there are, how they fall into splits, what is set aside."""

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import apache_beam as beam

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.output import Limits
from beamfeed.contract.config.split import SPLITS, Split
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.dataset.limits import over_limits
from beamfeed.contract.errors import JobFailed, UserError, near_miss
from beamfeed.transforms.rejects import Reject, to_jsonl
from beamfeed.transforms.splits import check_filled, first_names, split_of_asset

_NAMES = 1000  # of assets, that are kept for a message
_Held = dict[str, tuple[int, list[str]]]  # by split: how many names, and the first ones in order


class ChooseNames(beam.CombineFn):
    """Names of assets -> the frozenset of those to keep, with source.max_assets; None keeps all.

    Holds some names of each split, never all of the fleet.

    Raises:
      UserError: if a split gets no asset.
    """

    def __init__(self, job: Job):
        self._split, self._most = job.split, job.source.max_assets
        self._held = max(_NAMES, self._most or 0)

    def create_accumulator(self) -> _Held:
        return {}

    def add_input(self, accumulator: _Held, element: str) -> _Held:
        key = split_of_asset(element, self._split) if self._split.by == "asset" else ""
        count, names = accumulator.get(key, (0, []))
        if len(names) < self._held or element < names[-1]:
            insort(names, element)
            del names[self._held :]
        accumulator[key] = count + 1, names
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[_Held]) -> _Held:
        merged: _Held = {}
        for accumulator in accumulators:
            for key, (count, names) in accumulator.items():
                before, held = merged.get(key, (0, []))
                merged[key] = before + count, sorted([*held, *names])[: self._held]
        return merged

    def extract_output(self, accumulator: _Held) -> frozenset[str] | None:
        names = [name for _, held in accumulator.values() for name in held]
        if self._most is not None:
            return frozenset(first_names(names, self._split, self._most))
        if self._split.by == "asset" and names:
            sizes = {name: accumulator.get(name, (0, []))[0] for name in SPLITS}
            check_filled(sizes, sorted(names), self._split)
        return None


@dataclass(frozen=True)
class Fleet:
    """The outcome of checking in numbers.

    Attributes:
      files: listed.
      accepted: assets that go on.
      rows: of these.
      rejected_assets: set aside.
      rejected_files: of which something was set aside.
      nameless_files: set aside before they could tell their assets.
      rejected_rows: of accepted assets, set aside by themselves.
    """

    files: int
    accepted: int
    rows: int
    rejected_assets: int
    rejected_files: int
    nameless_files: int
    rejected_rows: int = 0

    @property
    def assets(self) -> int:
        """How many assets were found."""
        return self.accepted + self.rejected_assets

    @classmethod
    def of(cls, files: int, accepted: int, rows: int, rejects: Iterable[Reject], rejected_rows: int = 0) -> "Fleet":
        """The numbers of a fleet with these rejects."""
        rejects = [reject for reject in rejects if not reject.of_row]
        return cls(
            files=files,
            accepted=accepted,
            rows=rows,
            rejected_assets=len({reject.asset for reject in rejects if reject.asset is not None}),
            rejected_files=len({reject.file for reject in rejects}),
            nameless_files=len({reject.file for reject in rejects if reject.asset is None}),
            rejected_rows=rejected_rows,
        )

    def over(self, limits: Limits) -> str | None:
        """Which limit the rejects are over, if one."""
        return over_limits(
            limits,
            assets=self.assets,
            rejected_assets=self.rejected_assets,
            files=self.files,
            nameless_files=self.nameless_files,
            rows=self.rows,
            rejected_rows=self.rejected_rows,
        )


def check_limits(fleet: Fleet, rejects: Sequence[Reject], limits: Limits, layout: DataLayout) -> None:
    """Writes the rejects, and stops the job if they are too many, or nothing is left.

    Raises:
      JobFailed
    """
    if rejects:
        storage.write_text(layout.rejects, to_jsonl(rejects))
    over = fleet.over(limits)
    if over is None and fleet.accepted:
        return
    first = min(rejects, key=lambda r: (r.asset or "", r.file), default=None)
    such_as = f"; such as {first.file}: {first.place}: {first.reason}" if first else ""
    see = f", see {layout.rejects}" if rejects else ""
    raise JobFailed(f"{over or 'no asset can be used'}; {fleet.accepted} are left; nothing was published{see}{such_as}")


def check_values(found: Iterable[str], split: Split) -> None:
    """Refuses lists of `split` with a value that no row has.

    Raises:
      UserError
    """
    seen = sorted(set(found))
    for name in SPLITS:
        for value in getattr(split, name):
            if value not in seen:
                hint = near_miss(value, seen)
                some = ", ".join(seen[:10]) + (" ..." if len(seen) > 10 else "")
                raise UserError(f"split.{name}: {value!r} is not a value of {split.column}{hint} (it has: {some})")


class DecideFleet(beam.DoFn):
    """What was counted, all rejects and, with split: {by: column}, the column's values, as side inputs -> Fleet.

    Stops the job if too much is rejected.
    """

    def __init__(self, job: Job, layout: DataLayout, files: int):
        self._job, self._layout, self._files = job, layout, files

    def process(
        self, _: None, accepted: tuple[int, int, int], rejects: list[Reject], values: Sequence[str] = ()
    ) -> Iterable[Fleet]:
        assets, rows, rejected_rows = accepted
        fleet = Fleet.of(self._files, assets, rows, rejects, rejected_rows)
        check_limits(fleet, sorted(set(rejects), key=str), self._job.limits, self._layout)
        if self._job.split.by == "column" and self._job.source.max_assets is None and not fleet.rejected_files:
            check_values(values, self._job.split)
        yield fleet
