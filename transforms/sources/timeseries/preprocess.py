"""Preprocesses units: rows are scaled, resampled, imputed and cut into segments, in a stream."""

from collections.abc import Iterator
from dataclasses import replace

from beamfeed.transforms.sources.base import Work
from beamfeed.transforms.sources.record_block import RecordBlock
from beamfeed.transforms.sources.timeseries.impute import impute
from beamfeed.transforms.sources.timeseries.labels import label_windows
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset
from beamfeed.transforms.sources.timeseries.read import read_chunks, read_sorted, to_rows
from beamfeed.transforms.sources.timeseries.records import record_block
from beamfeed.transforms.sources.timeseries.resample import resample_stream
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.spec import PreprocessSpec
from beamfeed.transforms.sources.timeseries.windowing import cut_segments, find_windows, iter_blocks
from beamfeed.transforms.statistics.scale import Scaler


def preprocess_unit(work: Work[SeriesAsset], spec: PreprocessSpec, scaler: Scaler) -> Iterator[RecordBlock]:
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
        runs, labels = find_windows(block, valid, windowing, (own[0], end)), None
        if job.label:
            runs, labels = label_windows(runs, block, job.label, windowing, spec.last_position(unit.asset))
        segments = cut_segments(runs, windowing)
        if len(segments):
            yield record_block(unit.asset.name, block, values, segments, job.label, labels)


def _read(work: Work[SeriesAsset], spec: PreprocessSpec) -> Iterator[Rows]:
    unit, windowing, split = work.unit, spec.windowing, spec.job.split
    if unit.asset.sort:
        chunks = read_sorted(unit.asset, spec.schema)
    else:
        start = max(0, unit.start - windowing.before)
        chunks = read_chunks(unit.asset, spec.schema, start, unit.end + windowing.after)
    for rows in to_rows(chunks, unit.asset, work.split, split, spec.max_gap, spec.schema.labels):
        if len(rows):
            yield rows
