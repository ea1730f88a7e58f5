"""The steps that check the files, the same for every kind: each is a method of Source as a DoFn."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any

import apache_beam as beam

from beamfeed.contract import storage
from beamfeed.contract.errors import JobFailed
from beamfeed.contract.progress import Progress
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.packing import Packed, by_name
from beamfeed.transforms.rejects import BadInput, Reject, check_name, check_same, printable
from beamfeed.transforms.sources.base import Source
from beamfeed.transforms.sources.descriptors import CannotGoOn, KnownAsset, Piece, Report, Reread, Verdict, Work
from beamfeed.transforms.sources.planned import plan_any
from beamfeed.transforms.sources.record_block import RecordBlock

REJECTS = "rejects"  # the tagged output of what is set aside
LOST = "lost"  # of files that are set aside and may hold rows of any asset
NOTES = "notes"
VALUES = "values"  # of split.column, as paths tell them
SHORT, WAS_SHORT = "short", "was_short"  # of assets that have too few rows by now, and that had


def check_unchanged(files: Iterable[FileStat | None]) -> None:
    """As `check_same`, of files that are looked at now, where a step may not go on with other ones.

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
        check_same(now, file)


@contextmanager
def unchanged(files: Sequence[FileStat | None]) -> Iterator[None]:
    """Ends the job if files are not the same after what is done; also a BadInput counts for those as listed alone."""
    try:
        yield
    except BadInput:
        check_unchanged(files)
        raise
    check_unchanged(files)


def read_again(work: Work, blocks: Iterable[RecordBlock]) -> Iterator[RecordBlock]:
    """What a source gives of a work whose files were checked.

    Raises:
      JobFailed: if one changed since then.
    """
    try:
        yield from blocks
    except BadInput as bad:
        raise JobFailed(f"{bad.file} changed while the job ran: {bad.place} {bad.reason}") from None
    check_unchanged(piece.file for piece in work.unit.asset.pieces)


@contextmanager
def adding(again: str) -> Iterator[None]:
    """Ends a job that cannot add to the dataset that is there.

    Args:
      again: where it is written why, for a run that prepares all files again.

    Raises:
      JobFailed
    """
    try:
        yield
    except CannotGoOn as error:
        storage.write_text(again, f"{error}\n")
        raise JobFailed(f"{error}; run it again, and all files are prepared again") from None


class ScanFile(beam.DoFn):
    """Packed FileStats -> (asset's name, Piece), one for each asset in each file.

    Of a file that is set aside -> (asset's name, Reject), or tagged 'lost' -> Reject where it does not tell.
    """

    def __init__(self, source: Source, scratch: str, progress: Progress):
        self._source, self._scratch, self._progress = source, scratch, progress

    def process(self, packed: Packed) -> Iterator[Any]:
        files, scanned = list(packed), list[Any]()
        with self._source.scanning(files, self._scratch) as scan:
            for file in files:
                try:
                    check_name(file.path)
                    with unchanged([file]):
                        pieces = list(scan(file))
                    scanned += [(piece.asset, piece) for piece in pieces]
                except BadInput as bad:
                    reject = bad.reject(self._source.asset_of_path(printable(file.path), self._source.job))
                    named = reject.asset is not None
                    scanned.append((reject.asset, reject) if named else beam.pvalue.TaggedOutput(LOST, reject))
        yield from scanned
        self._progress.add("scan", assets=len(files))


class PlanAsset(beam.DoFn):
    """(bucket, Packed of (asset's name, Piece or early Reject)) -> (bucket, Packed of Asset).

    Tagged 'rejects', 'notes' and 'values'; where a dataset grows also 'short' -> (name, KnownAsset) of those with too
    few rows, and 'was_short' -> name of those that an earlier run set aside for that. Side inputs: the names to keep,
    or None for all, and the files that are set aside and may hold any asset. Among the pieces may be the KnownAssets of
    a dataset that is added to.

    Args:
      source: of the job.
      is_mixed: whether a file may hold any asset.
      again: see `adding`.
    """

    def __init__(self, source: Source, *, is_mixed: bool = False, again: str = ""):
        self._source, self._is_mixed, self._again = source, is_mixed, again

    def process(
        self, gathered: tuple[int, Packed], taking_part: frozenset[str] | None, lost: list[Reject]
    ) -> Iterator[Any]:
        bucket, named = gathered
        assets = Packed()
        for name, parts in by_name(named).items():
            if taking_part is not None and name not in taking_part:
                continue
            with adding(self._again):
                planned = plan_any(self._source, name, parts, lost, is_mixed=self._is_mixed)
            yield from _tagged((REJECTS, planned.rejects), (NOTES, planned.notes), (VALUES, planned.values))
            if planned.was_short:
                yield beam.pvalue.TaggedOutput(WAS_SHORT, name)
            if planned.asset is not None:
                assets.append(planned.asset)
            elif any(reject.short for reject in planned.rejects):
                pieces = (part.piece if isinstance(part, Reread) else part for part in parts)
                paths = sorted(piece.path for piece in pieces if isinstance(piece, Piece))
                yield beam.pvalue.TaggedOutput(
                    SHORT, (name, KnownAsset(name, set_aside=True, tail=tuple(paths), short=True))
                )
        if len(assets):
            yield bucket, assets


class ValidateUnit(beam.DoFn):
    """Packed units -> (asset's name, Report) of each."""

    def __init__(self, source: Source, progress: Progress):
        self._source, self._progress = source, progress
        self._rows = beam.metrics.Metrics.counter("beamfeed", "rows_checked")

    def process(self, units: Packed) -> Iterator[tuple[str, Report | Verdict]]:
        assets = rows = 0
        for unit in units:
            with unchanged([piece.file for piece in unit.asset.pieces]):
                report = self._source.validate(unit)
            yield unit.asset.name, report
            assets, rows = assets + unit.is_last, rows + unit.rows
        self._rows.inc(rows)
        self._progress.add("validate", assets=assets, rows=rows)


def judge_assets(gathered: tuple[int, Mapping[str, Iterable[Packed]]], source: Source, again: str) -> Iterator[Verdict]:
    """(bucket, its assets and the reports on their units) -> Verdict of each asset; `again` as of `adding`."""
    _, parts = gathered
    reports = by_name(chain.from_iterable(parts["reports"]))
    for asset in chain.from_iterable(parts["assets"]):
        with adding(again):
            verdict = source.judge(asset, reports.pop(asset.name, ()))
        yield verdict


class TakeApart(beam.DoFn):
    """Verdict -> the same without statistics, if it is accepted; tagged 'rejects', 'notes' and 'values'."""

    def process(self, verdict: Verdict) -> Iterator[Any]:
        if verdict.accepted:
            yield replace(verdict, statistics=None, row_rejects=())
        rejects = (*verdict.rejects, *verdict.row_rejects)
        yield from _tagged((REJECTS, rejects), (NOTES, verdict.notes), (VALUES, verdict.split_values))


def _tagged(*outputs: tuple[str, Iterable[Any]]) -> Iterator[beam.pvalue.TaggedOutput]:
    for tag, items in outputs:
        for item in items:
            yield beam.pvalue.TaggedOutput(tag, item)
