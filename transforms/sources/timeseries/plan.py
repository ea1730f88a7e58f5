"""Plans the work from descriptors alone: an asset from slices of files, its splits by time, units of about 64 MB."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SplitName
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.base import Asset, Unit
from beamfeed.transforms.sources.timeseries.scan import FileSlice
from beamfeed.transforms.sources.timeseries.time_units import TimeUnits
from beamfeed.transforms.sources.timeseries.windowing import Windowing

UNIT_BYTES = 64 << 20  # of float32


@dataclass(frozen=True)
class SeriesAsset(Asset[FileSlice]):
    """One asset of the fleet, its slices in order of time, and how its rows fall into splits."""

    cuts: tuple[int, int] | None = None  # with split: {by: time}: where eval and test start, in ticks
    sort: bool = False  # its rows are not in order of time: sort them in memory
    fleet_rows: int = 0  # of all assets together, where a sample is to be taken of them


def gather(
    name: str, slices: Sequence[FileSlice], split: SplitName | None, job: Job, time_units: TimeUnits
) -> SeriesAsset | Reject:
    """The asset that some slices make up; a reject if it cannot give a window."""
    asset = SeriesAsset(name, tuple(sorted(slices, key=lambda piece: (piece.first, piece.path))), split)
    length, ahead = job.windows.length, max((label.ahead for label in job.label), default=0)
    if job.prepare.resample is None and asset.rows < length + ahead:
        what = f"a window and its label at horizon {ahead} need" if ahead else "a window needs"
        return Reject(name, asset.files, "file", f"has {asset.rows} rows, {what} {length + ahead}")
    if job.split.by == "time":
        return replace(asset, cuts=time_cuts(asset, job, time_units))
    return asset


def time_cuts(asset: SeriesAsset, job: Job, time_units: TimeUnits) -> tuple[int, int]:
    """The times at which an asset's eval and test parts start, in ticks.

    Fractions of the asset's span of time. On a resampled grid they are moved to a
    step's start, so that no step gets rows of two splits.
    """
    first = min(piece.first for piece in asset.pieces)
    span = max(piece.last for piece in asset.pieces) - first + 1
    share = float(job.split.train), float(job.split.train) + float(job.split.eval)  # type: ignore[arg-type]
    cuts = [first + round(span * min(piece, 1.0)) for piece in share]
    if job.prepare.resample is not None:
        every = time_units.duration(job.prepare.resample.every, "prepare.resample.every")
        cuts = [-(-cut // every) * every for cut in cuts]
    return cuts[0], cuts[1]


def cut_units(asset: SeriesAsset, windowing: Windowing, features: int) -> Iterator[Unit[SeriesAsset]]:
    """Cuts an asset into units of about 64 MB that start at absolute positions.

    Only rows that can be found without reading those before them are cut: whole
    Parquet files in order, without resampling. Another asset is one unit, which is
    streamed all the same.
    """
    step = windowing.block * max(1, UNIT_BYTES // (4 * features * windowing.block))
    divisible = not asset.sort and not windowing.resampled and all(piece.can_seek for piece in asset.pieces)
    step = step if divisible else asset.rows
    for index, start in enumerate(range(0, asset.rows, step)):
        yield Unit(asset, index, start, min(start + step, asset.rows))
