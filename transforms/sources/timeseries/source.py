"""Sensor series as a kind of source: which of the folder's steps does what."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import apache_beam as beam

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.sources.timeseries import TimeseriesSource
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.errors import JobFailed
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.base import Source, Unit, Work
from beamfeed.transforms.sources.record_block import RecordBlock
from beamfeed.transforms.sources.timeseries.assets import asset_of_path
from beamfeed.transforms.sources.timeseries.classes import RejectUnseen, SeriesVerdict, check_most
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset, cut_units, gather
from beamfeed.transforms.sources.timeseries.preprocess import preprocess_unit
from beamfeed.transforms.sources.timeseries.records import check_names, record_fields
from beamfeed.transforms.sources.timeseries.sampling import scaling_of, with_fleet_rows
from beamfeed.transforms.sources.timeseries.scan import FileSlice, scan_file
from beamfeed.transforms.sources.timeseries.schema import resolve_schema
from beamfeed.transforms.sources.timeseries.spec import PreprocessSpec
from beamfeed.transforms.sources.timeseries.validate import SeriesReport, SeriesStatistics, judge, validate_unit
from beamfeed.transforms.statistics.moments import Moments
from beamfeed.transforms.statistics.scale import BuildTransform, load_scaler
from beamfeed.transforms.statistics.scaling import CountUnderFloor, Scaling


class Timeseries(Source[FileSlice, SeriesAsset, SeriesReport]):
    """Series of rows with a time; an asset's rows are divided into units of about 64 MB where files allow."""

    def __init__(self, spec: PreprocessSpec):
        super().__init__(spec.job)
        self._spec = spec

    @classmethod
    def of(cls, job: Job, files: Sequence[FileStat]) -> "Timeseries":
        check_names(job.label)
        return cls(PreprocessSpec.of(job, resolve_schema(job, files)))

    @classmethod
    def asset_of_path(cls, path: str, job: Job) -> str | None:
        assert isinstance(job.source, TimeseriesSource)
        return None if job.source.asset.column is not None else asset_of_path(path, job.source.asset)

    def scan(self, path: str) -> Iterable[FileSlice]:
        split, schema = self.job.split, self._spec.schema
        by_path = split.column if split.by == "column" and schema.split is None else None
        return scan_file(path, self._spec.source.asset, schema, by_path)

    def gather(self, name: str, pieces: Sequence[FileSlice], split: SplitName | None) -> SeriesAsset | Reject:
        return gather(name, pieces, split, self.job, self._spec.schema.time_units)

    def plan(self, pieces: Iterable[FileSlice], rejects: Iterable[Reject]) -> tuple[list[SeriesAsset], list[Reject]]:
        """As every kind does.

        Raises:
          JobFailed: where labels follow from the end of an asset, and a file that cannot be read may hold that of any.
        """
        rejects = list(rejects)
        derived = [label for label in self.job.label if label.derive]
        if derived and (lost := [reject for reject in rejects if reject.asset is None]):
            raise JobFailed(
                f"label.derive: {derived[0].derive} needs all rows of each asset, and {lost[0].file} may hold the last "
                f"ones of any: {lost[0].reason}; mend the file or leave it out"
            )
        assets, more = super().plan(pieces, rejects)
        return with_fleet_rows(assets, self.job), more

    def units(self, asset: SeriesAsset) -> Iterator[Unit[SeriesAsset]]:
        return cut_units(asset, self._spec.windowing, len(self._spec.schema.features))

    def size(self, unit: Unit[SeriesAsset]) -> int:
        windowing, rows = self._spec.windowing, unit.rows * 4 * len(self._spec.schema.features)
        return rows * windowing.length // windowing.stride if windowing.windows_per_segment == 1 else rows

    @property
    def zero(self) -> SeriesStatistics:
        return SeriesStatistics.zero(self._spec.schema)

    def validate(self, unit: Unit[SeriesAsset]) -> SeriesReport:
        return validate_unit(unit, self._spec.schema, self.job)

    def judge(self, reports: Iterable[SeriesReport]) -> SeriesVerdict:
        return judge(reports, self._spec.schema, self.job)

    def review(self, verdicts: beam.PCollection) -> beam.PCollection:
        labels = self._spec.schema.labels
        return verdicts | RejectUnseen(labels, self.zero) if any(label.auto for label in labels) else verdicts

    def learn(self, verdicts: beam.PCollection) -> tuple[beam.PCollection, tuple]:
        scale, features = self.job.prepare.scale, len(self._spec.schema.features)
        found = self.add_up(verdicts) | "CheckClasses" >> beam.Map(self._checked)
        fleet = found | "ScaleOfFleet" >> beam.Map(lambda found: scaling_of(found.moments, found.sample, scale.how))
        statistics = found | "DropSample" >> beam.Map(lambda found: replace(found, sample=None))
        if scale.per == "fleet":
            return statistics, fleet | "BuildTransform" >> BuildTransform(scale, features)
        assets = (
            verdicts
            | "Accepted" >> beam.Filter(lambda verdict: not verdict.rejects)
            | "ScaleOfAsset" >> beam.Map(lambda verdict: (verdict.asset.name, self._own_scaling(verdict.statistics)))
        )
        under = assets | "CountUnderFloor" >> CountUnderFloor(fleet, scale.floor, features)
        statistics = statistics | "NoteUnderFloor" >> beam.Map(
            lambda found, under: replace(found, under_floor=under), beam.pvalue.AsSingleton(under)
        )
        return statistics, fleet | "BuildTransform" >> BuildTransform(scale, features, assets)

    def _own_scaling(self, statistics: SeriesStatistics) -> Scaling:
        return scaling_of(statistics.moments, statistics.sample, self.job.prepare.scale.how, settled=True)

    def _checked(self, statistics: SeriesStatistics) -> SeriesStatistics:
        check_most(statistics.classes, self._spec.schema.labels)
        return statistics

    def read(self, work: Work[SeriesAsset], transform: str, statistics: SeriesStatistics) -> Iterator[RecordBlock]:
        scaler = load_scaler(transform, self.job.prepare.scale.per == "asset")
        return preprocess_unit(work, self._spec.with_classes(statistics.classes), scaler)

    def fields(self, statistics: SeriesStatistics) -> list[Field]:
        schema = self._spec.with_classes(statistics.classes).schema
        return record_fields(schema.features, self.job.label, schema.labels)

    def stats(self, statistics: SeriesStatistics) -> dict[str, Any]:
        moments = statistics.moments
        found = feature_stats(moments, self._spec.schema.features)
        for name, assets in zip(found, statistics.under_floor, strict=False):
            found[name]["assets_under_floor"] = assets
        return {"rows": moments.rows, "features": found}

    def why_empty(self, asset: SeriesAsset) -> str:
        ahead = self._spec.windowing.ahead
        rows = f"{self.job.windows.length + ahead} rows in a row without a gap or a missing value"
        label = f" (a window and its label at horizon {ahead})" if ahead else ""
        return f"has no {rows}{label}" + (", or with no label that is known" if self.job.label else "")


def feature_stats(moments: Moments, features: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Statistics of the training rows before scaling, for each feature."""
    mean, std = moments.mean(), moments.std()
    found: dict[str, dict[str, Any]] = {}
    for i, name in enumerate(features):
        some = moments.count[i] > 0
        found[name] = {
            "count": moments.count[i],
            "missing": moments.rows - moments.count[i],
            "mean": float(mean[i]) if some else None,
            "std": float(std[i]) if some else None,
            "min": moments.low[i] if some else None,
            "max": moments.high[i] if some else None,
            "constant": bool(some and moments.low[i] == moments.high[i]),
        }
    return found


SOURCE = Timeseries
