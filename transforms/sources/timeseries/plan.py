"""Plans the work from descriptors alone: an asset from slices of files, its splits by time or rows, its units."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import Split, SplitName
from beamfeed.contract.errors import UserError
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.columns.time_units import TimeUnits
from beamfeed.transforms.sources.descriptors import Asset, Unit
from beamfeed.transforms.sources.timeseries.scan import FileSlice
from beamfeed.transforms.sources.timeseries.windowing import Windowing
from beamfeed.transforms.splits import cut_rows, cut_span, split_of_value, wanted_splits

UNIT_BYTES = 64 << 20  # of float32


@dataclass(frozen=True)
class Span:
    """The rows of a split in a part of an asset: `rows` of those at positions [start, end)."""

    start: int
    end: int
    rows: int


@dataclass(frozen=True)
class SeriesAsset(Asset[FileSlice]):
    """One asset of the fleet, its slices in order of time, and how its rows fall into splits.

    Attributes:
      total: rows of the asset.
      last: its latest time, in ticks.
      offset: the position of the first row of `pieces`, where these are not all.
      cuts: with split: {by: time}, the times at which eval and test begin, in ticks.
      row_cuts: with split: {by: rows}, the positions at which eval and test begin, and at which test ends.
      by_path: its files are in several splits, or some of them in none.
      only: with by_path, the split of all its files that are in one, where it is the same.
      sort: its rows are not in order of time: they are sorted in memory.
      merge: it has rows of one time, of which prepare.duplicates makes one; positions count what is left.
      apart: rows may be missing between its files, so that no window goes from one to the next.
      empty: how many of its files hold no rows.
      left_out: with by_path, how many rows are in no split, by their value.
      fleet_rows: about how many train of all assets together, where a sample is to be taken of them.
    """

    total: int = 0
    last: int = 0
    offset: int = 0
    cuts: tuple[int, int] | None = None
    row_cuts: tuple[int, int, int] | None = None
    by_path: bool = False
    only: SplitName | None = None
    sort: bool = False
    merge: bool = False
    apart: bool = False
    empty: int = 0
    left_out: tuple[tuple[str, int], ...] = ()
    fleet_rows: int = 0

    @property
    def rows(self) -> int:
        """Rows of all its files."""
        return self.total

    @property
    def end(self) -> int:
        """The position after the last row of `pieces`, where none of them is left out by merging."""
        return self.offset + sum(piece.rows for piece in self.pieces)

    @property
    def divides(self) -> bool:
        """Whether some of its rows can be read without those before them."""
        return not self.sort and not self.merge and all(piece.groups for piece in self.pieces)

    def wanted(self, split: Split) -> list[SplitName]:
        """The splits that are to hold something of it."""
        return wanted_splits(split) if self.split is None else [self.split]


def gather(
    name: str, slices: Sequence[FileSlice], split: SplitName | None, job: Job, time_units: TimeUnits, *, merged: bool
) -> SeriesAsset | Reject:
    """The asset that some slices make up; a reject if it cannot give a window."""
    ordered = sorted((piece for piece in slices if piece.rows), key=lambda piece: (piece.first, piece.path))
    if time_units.kind == "row":
        ordered = in_order_of_paths(ordered, time_units)
    pieces = tuple(replace(piece, number=number) for number, piece in enumerate(ordered))
    rows = sum(piece.rows for piece in pieces)
    last = max((piece.last for piece in pieces), default=0)
    asset = SeriesAsset(name, pieces, split, total=rows, last=last, apart=merged, empty=len(slices) - len(pieces))
    if not rows:
        return Reject(name, replace(asset, pieces=tuple(slices)).files, "file", "holds no rows")
    needed, whose = rows_needed(job)
    if job.prepare.resample is None and rows < needed:
        verb = "need" if " and " in whose else "needs"
        reason = f"has {rows} rows, {whose} {verb} {needed} (windows.length)"
        return Reject(name, asset.files, "file", reason, short=True)
    if job.split.by == "time":
        return replace(asset, cuts=time_cuts(asset, job, time_units))
    return replace(asset, row_cuts=cut_rows(rows, job.split)) if job.split.by == "rows" else asset


def rows_needed(job: Job) -> tuple[int, str]:
    """How many rows a window and its labels need, and what needs them, for messages."""
    ahead = max((label.reach for label in job.label), default=0)
    whose = f"a window and its label at horizon {ahead}" if ahead else "a window"
    if job.rows_ahead == ahead > 0:
        whose = f"a window and the {ahead} rows behind it"
    return job.windows.length + ahead, whose


def in_order_of_paths(pieces: Sequence[FileSlice], time_units: TimeUnits) -> list[FileSlice]:
    """The slices of an asset whose rows count on from file to file."""
    slices, row = [], 0
    for piece in sorted(pieces, key=lambda piece: piece.path):
        first, last = time_units.rows(row, 1)[0], time_units.rows(row + piece.rows - 1, 1)[0]
        slices.append(replace(piece, first=int(first), last=int(last)))
        row += piece.rows
    return slices


def given_cuts(split: Split, time_units: TimeUnits) -> dict[str, int]:
    """The cuts that the job gives, in ticks, by their keys.

    Raises:
      UserError: if one is no time, or they come in the wrong order.
    """
    cuts = {
        key: time_units.instant(value, f"split.{key}")
        for key, value in (("eval_from", split.eval_from), ("test_from", split.test_from))
        if value is not None
    }
    if len(cuts) == 2 and cuts["test_from"] <= cuts["eval_from"]:
        raise UserError(
            f"split.test_from: {split.test_from} must be later than split.eval_from, which is {split.eval_from}"
        )
    return cuts


def time_cuts(asset: SeriesAsset, job: Job, time_units: TimeUnits) -> tuple[int, int]:
    """The times at which an asset's eval and test parts start, in ticks.

    Those that the job gives, or fractions of the asset's span of time. On a resampled grid they are moved to a
    step's start, so that no step gets rows of two splits.
    """
    if given := given_cuts(job.split, time_units):
        to_test = given.get("test_from", 2**62)
        cuts = [given.get("eval_from", to_test), to_test]
    else:
        first = min(piece.first for piece in asset.pieces)
        span = max(piece.last for piece in asset.pieces) - first + 1
        cuts = [first + cut for cut in cut_span(span, job.split)]
    if job.prepare.resample is not None:
        every = time_units.duration(job.prepare.resample.every, "prepare.resample.every", whole=True)
        cuts = [-(-cut // every) * every for cut in cuts]
    return cuts[0], cuts[1]


def split_by_path(asset: SeriesAsset, split: Split) -> SeriesAsset | Reject:
    """An asset whose files are in several splits: the past in train/, the future in test/.

    Files in no split's list hold rows of no split, which part those before from those after. Where they lie in the
    time of others they are left out. A reject if two splits overlap in time: one would hold rows of the other.
    """
    named = [replace(piece, split=split_of_value(piece.split_value or "", split)) for piece in asset.pieces]
    ends: dict[SplitName, FileSlice] = {}  # of each split the file so far that ends last
    for piece in named:
        if piece.split is None:
            continue
        for name, end in ends.items():
            if name != piece.split and piece.first <= end.last:
                reason = f"is {piece.split} and overlaps in time with {end.path}, which is {name}"
                return Reject(asset.name, piece.path, "path", reason)
        if piece.split not in ends or piece.last > ends[piece.split].last:
            ends[piece.split] = piece
    used = [piece for piece in named if piece.split is not None]
    inside = [
        piece
        for piece in named
        if piece.split is not None or not any(end.first <= piece.last and piece.first <= end.last for end in used)
    ]
    pieces = tuple(replace(piece, number=number) for number, piece in enumerate(inside))
    total, last = sum(piece.rows for piece in pieces), max(piece.last for piece in pieces)
    left_out = Counter[str]()
    for piece in named:
        if piece.split is None:
            left_out[piece.split_value or "missing"] += piece.rows
    only = used[0].split if len({piece.split for piece in used}) == 1 else None
    return replace(
        asset, pieces=pieces, total=total, last=last, by_path=True, only=only, left_out=tuple(sorted(left_out.items()))
    )


@dataclass(frozen=True)
class GroupIndex:
    """Where the groups of an asset's files are among its rows."""

    asset: SeriesAsset

    @cached_property
    def _groups(self) -> list[tuple[int, int]]:
        """The piece and the group of it, one after the other."""
        return [(p, g) for p, piece in enumerate(self.asset.pieces) for g in range(len(piece.groups) or 1)]

    @cached_property
    def starts(self) -> np.ndarray:
        """int64 [groups + 1]: the position of each group's first row, and of the end."""
        rows = [group.rows for piece in self.asset.pieces for group in piece.groups or (piece,)]
        return self.asset.offset + np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)

    def narrow(self, start: int, end: int) -> SeriesAsset:
        """The asset with no more groups than rows [start, end) need."""
        low = int(np.searchsorted(self.starts, start, "right")) - 1
        high = int(np.searchsorted(self.starts, end, "left"))
        by_piece: dict[int, list[int]] = {}
        for of, group in self._groups[low:high]:
            by_piece.setdefault(of, []).append(group)
        pieces = []
        for number, groups in by_piece.items():
            piece = self.asset.pieces[number]
            if piece.groups:
                chosen = tuple(piece.groups[group] for group in groups)
                piece = replace(piece, groups=chosen, rows=sum(group.rows for group in chosen))
            pieces.append(piece)
        return replace(self.asset, pieces=tuple(pieces), offset=int(self.starts[low]))


def cut_units(asset: SeriesAsset, windowing: Windowing, features: int) -> Iterator[Unit[SeriesAsset]]:
    """Cuts an asset into units of about 64 MB that start where a group of rows does.

    A unit reads a little of the next one, for its last windows; so that this stays little, it is several times as
    long. An asset that does not divide is one unit, which is streamed all the same.
    """
    cuts = [asset.first_new]
    if asset.divides:
        index = GroupIndex(asset)
        step = max(1, UNIT_BYTES // (4 * features), 4 * (windowing.context + windowing.span))
        if windowing.resampled:  # how many rows a step of the grid takes is not known
            step = max(1, UNIT_BYTES // (4 * features))
        for start in map(int, index.starts[1:-1]):
            if start - cuts[-1] >= step and asset.rows - start >= step // 2:
                cuts.append(start)
    if len(cuts) == 1:
        yield Unit(asset, 0, asset.first_new, asset.rows)
        return
    for number, (start, end) in enumerate(zip(cuts, [*cuts[1:], asset.rows], strict=True)):
        yield Unit(index.narrow(start, end), number, start, end)
