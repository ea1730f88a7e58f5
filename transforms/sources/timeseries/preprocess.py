"""Preprocesses units: rows are scaled, resampled, imputed and cut into segments, in a stream."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SplitName
from beamfeed.transforms.sources.timeseries.impute import impute, reach
from beamfeed.transforms.sources.timeseries.plan import Unit
from beamfeed.transforms.sources.timeseries.read import read_chunks, read_sorted, to_rows
from beamfeed.transforms.sources.timeseries.resample import resample_stream
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema
from beamfeed.transforms.sources.timeseries.windowing import Segments, Windowing, find_segments, iter_blocks
from beamfeed.transforms.statistics.scale import Scaler


@dataclass(frozen=True)
class PreprocessSpec:
    """All that preprocessing needs to know of the job, in ticks and rows."""

    job: Job
    schema: SeriesSchema
    windowing: Windowing
    max_gap: int | None
    every: int | None  # the step of the grid, when resampling

    @classmethod
    def of(cls, job: Job, schema: SeriesSchema) -> "PreprocessSpec":
        """The spec of a job whose columns are known.

        Raises:
          UserError: if a duration does not fit the time column.
        """
        prepare, time_units = job.prepare, schema.time_units
        every = None
        if prepare.resample is not None:
            every = time_units.duration(prepare.resample.every, "prepare.resample.every")
        windowing = Windowing.of(
            job.windows,
            len(schema.features),
            single=job.output.records == "windows",
            fill_rows=reach(prepare.missing),
            linear=prepare.missing.fill == "linear",
            resampled=every is not None,
        )
        max_gap = None if prepare.max_gap is None else time_units.duration(prepare.max_gap, "prepare.max_gap")
        return cls(job, schema, windowing, max_gap, every)


@dataclass(frozen=True)
class Work:
    """One unit's rows of one split."""

    unit: Unit
    split: SplitName


@dataclass(frozen=True)
class SegmentedBlock:
    """Rows of one asset that are ready to be encoded, and the segments that they are cut into.

    Attributes:
      asset: its name.
      rows: the rows of the block.
      values: float32 `[rows, features]`, scaled and without missing values where segments are.
      segments: runs of these rows; each becomes a record.
      windows: how many the segments hold.
    """

    asset: str
    rows: Rows
    values: np.ndarray
    segments: Segments
    windows: int


def preprocess_unit(work: Work, spec: PreprocessSpec, scaler: Scaler) -> Iterator[SegmentedBlock]:
    """Streams a unit, a block at a time; memory holds no more than one.

    Raises:
      BadInput: if a file no longer is as it was when it was checked.
    """
    unit, windowing, job = work.unit, spec.windowing, spec.job
    rows: Iterator[Rows] = (replace(rows, values=scaler(rows.values, unit.asset.name)) for rows in _read(work, spec))
    whole = windowing.resampled or unit.asset.sort
    if spec.every is not None:
        assert job.prepare.resample is not None
        limit = 0 if job.prepare.missing.fill == "drop" else job.prepare.missing.limit
        rows = resample_stream(rows, spec.every, job.prepare.resample.how, limit)
    for block, own in iter_blocks(rows, windowing, None if whole else unit.start):
        values, valid = impute(block, job.prepare.missing)
        end = own[1] if whole or unit.is_last else min(own[1], unit.end)
        segments = find_segments(block, valid, windowing, (own[0], end))
        if len(segments):
            yield SegmentedBlock(unit.asset.name, block, values, segments, segments.windows(windowing))


def _read(work: Work, spec: PreprocessSpec) -> Iterator[Rows]:
    unit, windowing, split = work.unit, spec.windowing, spec.job.split
    if unit.asset.sort:
        chunks = read_sorted(unit.asset, spec.schema)
    else:
        start = max(0, unit.start - windowing.before)
        chunks = read_chunks(unit.asset, spec.schema, start, unit.end + windowing.after)
    for rows in to_rows(chunks, unit.asset, work.split, split, spec.max_gap):
        if len(rows):
            yield rows
