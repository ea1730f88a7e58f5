"""Plans the work from descriptors alone: assets from slices of files, splits, and units of about 64 MB."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.timeseries.scan import FileSlice
from beamfeed.transforms.sources.timeseries.time_units import TimeUnits
from beamfeed.transforms.sources.timeseries.windowing import Windowing
from beamfeed.transforms.splits import assign_splits, split_of_value

UNIT_BYTES = 64 << 20  # of float32


@dataclass(frozen=True)
class Asset:
    """One asset of the fleet and how its rows fall into splits."""

    name: str
    slices: tuple[FileSlice, ...]  # in order of time
    split: SplitName | None  # of the whole asset; None where its rows are split
    cuts: tuple[int, int] | None = None  # with split: {by: time}: where eval and test start, in ticks
    sort: bool = False  # its rows are not in order of time: sort them in memory

    @property
    def rows(self) -> int:
        """Rows of all its files."""
        return sum(piece.rows for piece in self.slices)

    @property
    def splits(self) -> tuple[SplitName, ...]:
        """The splits that rows of this asset may be in."""
        return SPLITS if self.split is None else (self.split,)

    @property
    def files(self) -> str:
        """The paths of its files, for messages."""
        return ", ".join(piece.path for piece in self.slices)


@dataclass(frozen=True)
class Unit:
    """A run of an asset's rows that one worker reads and preprocesses: [start, end)."""

    asset: Asset
    index: int
    start: int
    end: int

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.end - self.start

    @property
    def is_last(self) -> bool:
        """Whether the asset ends with it."""
        return self.end >= self.asset.rows


def plan_assets(
    slices: Iterable[FileSlice], rejects: Iterable[Reject], job: Job, time_units: TimeUnits
) -> tuple[list[Asset], list[Reject]]:
    """Groups slices by asset, assigns splits, and sets aside the assets that cannot give a window.

    Returns the accepted assets in order of name, and the further rejects.
    """
    by_asset: dict[str, list[FileSlice]] = defaultdict(list)
    for piece in slices:
        by_asset[piece.asset].append(piece)
    broken = {reject.asset for reject in rejects if reject.asset is not None}
    # A rejected asset still has its place in the order, so that --max-assets and the splits do not hang on it.
    names = sorted(by_asset.keys() | broken)[: job.source.max_assets]
    assigned = assign_splits(names, job.split) if job.split.by == "asset" else {}
    assets, more = [], []
    for name in names:
        if name in broken:
            continue
        ordered = tuple(sorted(by_asset[name], key=lambda piece: (piece.first, piece.path)))
        rows = sum(piece.rows for piece in ordered)
        if job.prepare.resample is None and rows < job.windows.length:
            reason = f"has {rows} rows, a window needs {job.windows.length}"
            more.append(Reject(name, Asset(name, ordered, None).files, "file", reason))
            continue
        asset = Asset(name, ordered, assigned.get(name))
        values = sorted({piece.split_value for piece in ordered if piece.split_value is not None})
        if len(values) > 1:
            reason = f"the path puts it into more than one split: {job.split.column} is {' and '.join(values)}"
            more.append(Reject(name, asset.files, "path", reason))
        elif job.split.by == "time":
            assets.append(replace(asset, cuts=time_cuts(asset, job, time_units)))
        elif values:
            split = split_of_value(values[0], job.split)
            if split is not None:  # a value in no list: the user left the asset out
                assets.append(replace(asset, split=split))
        else:
            assets.append(asset)
    return assets, more


def time_cuts(asset: Asset, job: Job, time_units: TimeUnits) -> tuple[int, int]:
    """The times at which an asset's eval and test parts start, in ticks.

    Fractions of the asset's span of time. On a resampled grid they are moved to a
    step's start, so that no step gets rows of two splits.
    """
    first = min(piece.first for piece in asset.slices)
    span = max(piece.last for piece in asset.slices) - first + 1
    share = float(job.split.train), float(job.split.train) + float(job.split.eval)  # type: ignore[arg-type]
    cuts = [first + round(span * min(piece, 1.0)) for piece in share]
    if job.prepare.resample is not None:
        every = time_units.duration(job.prepare.resample.every, "prepare.resample.every")
        cuts = [-(-cut // every) * every for cut in cuts]
    return cuts[0], cuts[1]


def cut_units(asset: Asset, windowing: Windowing, features: int) -> Iterator[Unit]:
    """Cuts an asset into units of about 64 MB that start at absolute positions.

    Only rows that can be found without reading those before them are cut: whole
    Parquet files in order, without resampling. Another asset is one unit, which is
    streamed all the same.
    """
    step = windowing.block * max(1, UNIT_BYTES // (4 * features * windowing.block))
    divisible = not asset.sort and not windowing.resampled and all(piece.can_seek for piece in asset.slices)
    step = step if divisible else asset.rows
    for index, start in enumerate(range(0, asset.rows, step)):
        yield Unit(asset, index, start, min(start + step, asset.rows))
