"""The steps that check the files, the same for every kind: each is a method of Source as a DoFn."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from beamfeed.transforms.progress import Progress
from beamfeed.transforms.rejects import BadInput, Reject
from beamfeed.transforms.sources.base import Piece, Report, Source, Unit

REJECTS = "rejects"  # the tagged output of what is set aside before its data are read


class ScanFile(beam.DoFn):
    """Path -> Piece, one for each asset in the file; tagged 'rejects' -> Reject."""

    def __init__(self, source: Source, progress: Progress):
        self._source, self._progress = source, progress

    def process(self, path: str) -> Iterator[Any]:
        try:
            yield from self._source.scan(path)
        except BadInput as bad:
            reject = bad.reject(self._source.asset_of_path(path, self._source.job))
            yield beam.pvalue.TaggedOutput(REJECTS, reject)
        self._progress.add("scan", assets=1)


class PlanAssets(beam.DoFn):
    """All pieces and rejects of scanning, as side inputs -> Unit; tagged 'rejects' -> Reject."""

    def __init__(self, source: Source, progress: Progress):
        self._source, self._progress = source, progress

    def process(self, _: None, pieces: list[Piece], rejects: list[Reject]) -> Iterator[Any]:
        assets, more = self._source.plan(pieces, rejects)
        self._progress.total("validate", len(assets), sum(asset.rows for asset in assets))
        for reject in more:
            yield beam.pvalue.TaggedOutput(REJECTS, reject)
        for asset in assets:
            yield from self._source.units(asset)


class ValidateUnit(beam.DoFn):
    """Unit -> (asset's name, Report)."""

    def __init__(self, source: Source, progress: Progress):
        self._source, self._progress = source, progress
        self._rows = beam.metrics.Metrics.counter("beamfeed", "rows_checked")

    def process(self, unit: Unit) -> Iterator[tuple[str, Report]]:
        report = self._source.validate(unit)
        self._rows.inc(unit.rows)
        self._progress.add("validate", assets=int(unit.is_last), rows=unit.rows)
        yield unit.asset.name, report
