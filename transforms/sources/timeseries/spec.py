"""The job as preprocessing of series reads it: columns, and durations in ticks and rows."""

from dataclasses import dataclass, replace

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.label import Label
from beamfeed.contract.config.sources.timeseries import TimeseriesSource
from beamfeed.transforms.sources.columns.labels import in_order
from beamfeed.transforms.sources.timeseries.ahead import RowsAhead, find_ahead
from beamfeed.transforms.sources.timeseries.classes import Names
from beamfeed.transforms.sources.timeseries.impute import reach
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset, given_cuts
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema
from beamfeed.transforms.sources.timeseries.windowing import Windowing


@dataclass(frozen=True)
class PreprocessSpec:
    """All that preprocessing needs to know of the job, in ticks and rows."""

    job: Job
    schema: SeriesSchema
    windowing: Windowing
    max_gap: int | None
    every: int | None  # the step of the grid, when resampling
    ahead: tuple[RowsAhead, ...] = ()

    def with_classes(self, names: Names) -> "PreprocessSpec":
        """With the classes that were found, for labels with classes: auto."""
        labels = tuple(
            replace(label, classes=in_order(classes)) if label.auto else label
            for label, classes in zip(self.schema.labels, names, strict=True)
        )
        return replace(self, schema=replace(self.schema, labels=labels))

    def last_position(self, asset: SeriesAsset) -> int:
        """Of the last row of an asset, or of the last step of its grid."""
        return asset.rows - 1 if self.every is None else asset.last // self.every

    @property
    def row_bytes(self) -> int:
        """Of one row in the records: its features, and what is to be forecast."""
        return 4 * (len(self.schema.features) + sum(len(label.places) for label in self.ahead))

    @property
    def own_labels(self) -> list[Label]:
        """The labels that are one value of a window each."""
        return [label for label in self.job.label if label.ahead is None]

    @property
    def source(self) -> TimeseriesSource:
        """The section `source` of the job."""
        assert isinstance(self.job.source, TimeseriesSource)
        return self.job.source

    @classmethod
    def of(cls, job: Job, schema: SeriesSchema) -> "PreprocessSpec":
        """The spec of a job whose columns are known.

        Raises:
          UserError: if a duration does not fit the time column, or a forecast is of what is no feature.
        """
        ahead = find_ahead(job.label, schema.features)
        prepare, time_units = job.prepare, schema.time_units
        given_cuts(job.split, time_units)  # whether they are times, in order
        every = None
        if prepare.resample is not None:
            every = time_units.duration(prepare.resample.every, "prepare.resample.every", whole=True)
        windowing = Windowing.of(
            job.frame,
            len(schema.features) + sum(len(label.places) for label in ahead),
            single=job.output.records == "windows",
            fill_rows=reach(prepare.missing),
            linear=prepare.missing.fill == "linear",
            resampled=every is not None,
            ahead=max((label.reach for label in job.label), default=0) - job.rows_ahead,
            targets=job.rows_ahead,
        )
        max_gap = None if prepare.max_gap is None else time_units.duration(prepare.max_gap, "prepare.max_gap")
        return cls(job, schema, windowing, max_gap, every, ahead)
