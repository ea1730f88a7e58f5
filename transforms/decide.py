"""What is decided for the fleet as a whole, as steps of Beam: which assets take part, and whether the job goes on."""

from bisect import insort
from collections.abc import Iterable, Sequence

import apache_beam as beam

from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.transforms.fleet import Fleet, check_limits, keep_names, knows_values
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.splits import check_values, split_of_asset

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
        return keep_names({split: count for split, (count, _) in accumulator.items()}, names, self._split, self._most)


class DecideFleet(beam.DoFn):
    """What was counted, all rejects and, with split: {by: column}, the column's values, as side inputs -> Fleet.

    Stops the job if too much is rejected.
    """

    def __init__(self, job: Job, layout: DataLayout, files: int):
        self._job, self._layout, self._files = job, layout, files

    def process(
        self, _: None, counted: tuple[int, int, int, int], rejects: list[Reject], values: Sequence[str] = ()
    ) -> Iterable[Fleet]:
        assets, rows, rejected_rows = counted[1:]
        fleet = Fleet.of(self._files, assets, rows, rejects, rejected_rows)
        check_limits(fleet, sorted(set(rejects), key=str), self._job.limits, self._layout.rejects)
        if knows_values(self._job, fleet):
            check_values(values, self._job.split)
        yield fleet
