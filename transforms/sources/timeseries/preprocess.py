"""Prepares units: rows are scaled, resampled, filled, cut into segments and encoded, in a stream."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from beamfeed.contract.config.job import Job, SplitName
from beamfeed.transforms.records.example_encoder import encode
from beamfeed.transforms.sources.timeseries.impute import fill, reach
from beamfeed.transforms.sources.timeseries.plan import Unit
from beamfeed.transforms.sources.timeseries.read import read_chunks, read_sorted, to_rows
from beamfeed.transforms.sources.timeseries.resample import resample_stream
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.schema import Columns
from beamfeed.transforms.sources.timeseries.windowing import Framing, find_segments, iter_blocks
from beamfeed.transforms.statistics.scale import Scaler


@dataclass(frozen=True)
class Recipe:
    """All that preparing needs to know of the job, in ticks and rows."""

    job: Job
    columns: Columns
    framing: Framing
    max_gap: int | None
    every: int | None  # the step of the grid, when resampling

    @classmethod
    def of(cls, job: Job, columns: Columns) -> "Recipe":
        """
        Raises:
          UserError: if a duration does not fit the time column.
        """
        prepare, clock = job.prepare, columns.clock
        every = None
        if prepare.resample is not None:
            every = clock.duration(prepare.resample.every, "prepare.resample.every")
        framing = Framing.of(
            job.windows,
            len(columns.features),
            single=job.output.records == "windows",
            fill_rows=reach(prepare.missing),
            linear=prepare.missing.fill == "linear",
            resampled=every is not None,
        )
        max_gap = None if prepare.max_gap is None else clock.duration(prepare.max_gap, "prepare.max_gap")
        return cls(job, columns, framing, max_gap, every)


@dataclass(frozen=True)
class Work:
    """One unit's rows of one split."""

    unit: Unit
    split: SplitName


@dataclass(frozen=True)
class Prepared:
    """The records of a block, to be streamed, and how many there are."""

    stream: Iterator[bytes]
    records: int
    windows: int
    rows: int


def prepare_unit(work: Work, recipe: Recipe, scaler: Scaler) -> Iterator[Prepared]:
    """Streams the records of a unit; memory holds a block of it at a time.

    Raises:
      BadInput: if a file no longer is as it was when it was checked.
    """
    unit, framing, job = work.unit, recipe.framing, recipe.job
    rows: Iterator[Rows] = (replace(rows, values=scaler(rows.values, unit.asset.name)) for rows in _read(work, recipe))
    whole = framing.resampled or unit.asset.sort
    if recipe.every is not None:
        assert job.prepare.resample is not None
        limit = 0 if job.prepare.missing.fill == "drop" else job.prepare.missing.limit
        rows = resample_stream(rows, recipe.every, job.prepare.resample.how, limit)
    for block, own in iter_blocks(rows, framing, None if whole else unit.start):
        values, valid = fill(block, job.prepare.missing)
        end = own[1] if whole or unit.is_last else min(own[1], unit.end)
        segments = find_segments(block, valid, framing, (own[0], end))
        if len(segments):
            records = encode(unit.asset.name, block, values, segments)
            yield Prepared(records, len(segments), segments.windows(framing), int(segments.rows.sum()))


def _read(work: Work, recipe: Recipe) -> Iterator[Rows]:
    unit, framing, split = work.unit, recipe.framing, recipe.job.split
    if unit.asset.sort:
        chunks = read_sorted(unit.asset, recipe.columns)
    else:
        start = max(0, unit.start - framing.before)
        chunks = read_chunks(unit.asset, recipe.columns, start, unit.end + framing.after)
    for rows in to_rows(chunks, unit.asset, work.split, split, recipe.max_gap):
        if len(rows):
            yield rows
