"""Sensor series as a kind of source: which of the folder's steps does what."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.sources.timeseries import TimeseriesSource
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.base import Source, Unit, Verdict, Work
from beamfeed.transforms.sources.record_block import RecordBlock
from beamfeed.transforms.sources.timeseries.assets import asset_of_path
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset, cut_units, gather
from beamfeed.transforms.sources.timeseries.preprocess import preprocess_unit
from beamfeed.transforms.sources.timeseries.records import record_fields
from beamfeed.transforms.sources.timeseries.scan import FileSlice, scan_file
from beamfeed.transforms.sources.timeseries.schema import resolve_schema
from beamfeed.transforms.sources.timeseries.spec import PreprocessSpec
from beamfeed.transforms.sources.timeseries.validate import SeriesReport, judge, validate_unit
from beamfeed.transforms.statistics.moments import Moments
from beamfeed.transforms.statistics.scale import BuildTransform, Table, load_scaler
from beamfeed.transforms.statistics.sums import AddUp


class Timeseries(Source[FileSlice, SeriesAsset, SeriesReport]):
    """Series of rows with a time; an asset's rows are divided into units of about 64 MB where files allow."""

    split_by = ("asset", "time", "column")

    def __init__(self, spec: PreprocessSpec):
        super().__init__(spec.job)
        self._spec = spec

    @classmethod
    def of(cls, job: Job, files: Sequence[FileStat]) -> "Timeseries":
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

    def units(self, asset: SeriesAsset) -> Iterator[Unit[SeriesAsset]]:
        return cut_units(asset, self._spec.windowing, len(self._spec.schema.features))

    def size(self, unit: Unit[SeriesAsset]) -> int:
        windowing, rows = self._spec.windowing, unit.rows * 4 * len(self._spec.schema.features)
        return rows * windowing.length // windowing.stride if windowing.windows_per_segment == 1 else rows

    @property
    def zero(self) -> Moments:
        return Moments.zero(len(self._spec.schema.features))

    def validate(self, unit: Unit[SeriesAsset]) -> SeriesReport:
        return validate_unit(unit, self._spec.schema, self.job)

    def judge(self, reports: Iterable[SeriesReport]) -> Verdict[SeriesAsset]:
        return judge(reports, self._spec.schema, self.job)

    def learn(self, verdicts: beam.PCollection) -> tuple[beam.PCollection, tuple]:
        scale, features = self.job.prepare.scale, len(self._spec.schema.features)
        fleet = (
            verdicts
            | "TrainingRows" >> beam.Filter(lambda v: v.asset.split in (None, "train"))
            | "TheirStatistics" >> beam.Map(lambda v: v.statistics)
            | "AddUp" >> beam.CombineGlobally(AddUp(self.zero))
        )
        by_asset = (
            verdicts
            | "Accepted" >> beam.Filter(lambda v: scale.per == "asset" and not v.rejects)
            | "MomentsByAsset" >> beam.Map(lambda v: (v.asset.name, v.statistics))
        )
        table = fleet | "MakeTable" >> beam.Map(
            lambda moments, assets: Table.of(moments, dict(assets), scale.how), beam.pvalue.AsList(by_asset)
        )
        return fleet, table | "BuildTransform" >> BuildTransform(scale, features)

    def read(self, work: Work[SeriesAsset], transform: str, statistics: Moments) -> Iterator[RecordBlock]:
        return preprocess_unit(work, self._spec, load_scaler(transform, self.job.prepare.scale.per == "asset"))

    def fields(self, statistics: Moments) -> list[Field]:
        return record_fields(self._spec.schema.features)

    def stats(self, statistics: Moments) -> dict[str, Any]:
        return {"rows": statistics.rows, "features": feature_stats(statistics, self._spec.schema.features)}

    def why_empty(self, asset: SeriesAsset) -> str:
        return f"has no {self.job.windows.length} rows in a row without a gap or a missing value"


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
