"""The steps that check the files, the same for every kind: each is a method of Source as a DoFn."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import apache_beam as beam

from beamfeed.contract import storage
from beamfeed.contract.errors import JobFailed
from beamfeed.contract.progress import Progress
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import BadInput, Reject
from beamfeed.transforms.sources.base import Source
from beamfeed.transforms.sources.descriptors import Report, Unit, Verdict
from beamfeed.transforms.sources.planned import plan_asset

REJECTS = "rejects"  # the tagged output of what is set aside
LOST = "lost"  # of files that are set aside and may hold rows of any asset
NOTES = "notes"
VALUES = "values"  # of split.column, as paths tell them
T = TypeVar("T")


def check_unchanged(files: Iterable[FileStat | None]) -> None:
    """Ends the job if a file is not as it was when it was listed: parts of it may have been read as they were before.

    Raises:
      JobFailed
    """
    for file in files:
        if file is None:
            continue
        try:
            now = storage.stat(file.path)
        except FileNotFoundError:
            raise JobFailed(f"{file.path} was removed while the job ran; run it again") from None
        if now != file:
            what = f"{file.size:,} bytes, now {now.size:,}" if now.size != file.size else "the same size, written later"
            raise JobFailed(f"{file.path} changed while the job ran ({what}); run it again when it is whole")


def reading(files: Iterable[FileStat | None], read: Callable[[], T]) -> T:
    """What `read` returns, if the files are the same after it; also a BadInput counts for the files as listed alone."""
    try:
        found = read()
    except BadInput:
        check_unchanged(files)
        raise
    check_unchanged(files)
    return found


class ScanFile(beam.DoFn):
    """FileStat -> (asset's name, Piece), one for each asset in the file.

    Of a file that is set aside, tagged 'rejects' -> (asset's name, Reject), or 'lost' -> Reject where it does not tell.
    """

    def __init__(self, source: Source, scratch: str, progress: Progress):
        self._source, self._scratch, self._progress = source, scratch, progress

    def process(self, file: FileStat) -> Iterator[Any]:
        try:
            for piece in reading([file], lambda: list(self._source.scan(file, self._scratch))):
                yield piece.asset, piece
        except BadInput as bad:
            reject = bad.reject(self._source.asset_of_path(file.path, self._source.job))
            named = reject.asset is not None
            yield (
                beam.pvalue.TaggedOutput(REJECTS, (reject.asset, reject))
                if named
                else beam.pvalue.TaggedOutput(LOST, reject)
            )
        self._progress.add("scan", assets=1)


class PlanAsset(beam.DoFn):
    """(asset's name, its pieces and early rejects) -> (name, Asset); tagged 'rejects', 'notes' and 'values'.

    Side inputs: the names to keep, or None for all, and the files that are set aside and may hold any asset.
    """

    def __init__(self, source: Source):
        self._source = source

    def process(
        self, found: tuple[str, Mapping[str, Iterable[Any]]], kept: frozenset[str] | None, lost: list[Reject]
    ) -> Iterator[Any]:
        name, parts = found
        if kept is not None and name not in kept:
            return
        planned = plan_asset(self._source, name, list(parts["pieces"]), list(parts["rejects"]), lost)
        for tag, some in ((VALUES, planned.values), (NOTES, planned.notes), (REJECTS, planned.rejects)):
            for one in some:
                yield beam.pvalue.TaggedOutput(tag, one)
        if planned.asset is not None:
            yield name, planned.asset


class ValidateUnit(beam.DoFn):
    """Unit -> (asset's name, Report)."""

    def __init__(self, source: Source, progress: Progress):
        self._source, self._progress = source, progress
        self._rows = beam.metrics.Metrics.counter("beamfeed", "rows_checked")

    def process(self, unit: Unit) -> Iterator[tuple[str, Report]]:
        report = reading([piece.file for piece in unit.asset.pieces], lambda: self._source.validate(unit))
        self._rows.inc(unit.rows)
        self._progress.add("validate", assets=int(unit.is_last), rows=unit.rows)
        yield unit.asset.name, report


class Judge(beam.DoFn):
    """(asset's name, the asset and the reports on its units) -> Verdict."""

    def __init__(self, source: Source):
        self._source = source

    def process(self, found: tuple[str, Mapping[str, Iterable[Any]]]) -> Iterator[Verdict]:
        _, parts = found
        (asset,) = parts["asset"]
        yield self._source.judge(asset, parts["reports"])


class Outcome(beam.DoFn):
    """Verdict -> the same without statistics, if it is accepted; tagged 'rejects', 'notes' and 'values'."""

    def process(self, verdict: Verdict) -> Iterator[Any]:
        if verdict.accepted:
            yield replace(verdict, statistics=None, row_rejects=())
        rejects = (*verdict.rejects, *verdict.row_rejects)
        for tag, found in ((REJECTS, rejects), (NOTES, verdict.notes), (VALUES, verdict.split_values)):
            for one in found:
                yield beam.pvalue.TaggedOutput(tag, one)
