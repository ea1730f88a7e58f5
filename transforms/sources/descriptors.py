"""What passes between the steps: pieces, assets, units, and what becomes of them. They hold no data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.notes import Note
from beamfeed.transforms.rejects import Reject

Statistics = Any  # whatever adds up with `+`, to the last bit the same in whatever order


@dataclass(frozen=True)
class Piece:
    """The rows of one asset in one file.

    Attributes:
      asset: its name.
      path: of the file.
      rows: how many there are.
      split_value: with split: {by: column}, where the path tells it.
      file: as it was listed, where no step may go on with it once it is another one.
      share: about how much of the rows these are, in a look at parts of large files.
    """

    asset: str
    path: str
    rows: int
    split_value: str | None = field(default=None, kw_only=True)
    file: FileStat | None = field(default=None, kw_only=True)
    share: float = field(default=1.0, kw_only=True)


P = TypeVar("P", bound=Piece)


@dataclass(frozen=True)
class KnownAsset:
    """An asset of the dataset that a run adds to, as the runs before left it.

    Attributes:
      asset: its name.
      rows: how many it has.
      last: its latest time, in ticks.
      skipped: rows before those of `tail`.
      rejected_rows: how many were set aside by themselves.
      set_aside: whether it is among the rejects.
      splits: of which the dataset has something of it.
      tail: the paths of its last files, which hold all rows that records with new rows need; none where nothing can be
        added to it.
      short: whether it was set aside for too few rows; with more it is prepared whole, and `tail` are all its files.
    """

    asset: str
    rows: int = 0
    last: int = 0
    skipped: int = 0
    rejected_rows: int = 0
    set_aside: bool = False
    splits: tuple[SplitName, ...] = ()
    tail: tuple[str, ...] = ()
    short: bool = False


@dataclass(frozen=True)
class Reread:
    """A piece in a file that an earlier run prepared, which was scanned again for the sake of some assets in it."""

    piece: Piece


class CannotGoOn(Exception):
    """New rows cannot be added to an asset: what is there of it would be other. The message says why."""


@dataclass(frozen=True)
class Asset(Generic[P]):
    """What is accepted or rejected as a whole.

    Attributes:
      name: of it.
      pieces: of which it is made.
      split: of the whole asset; None where its rows are split.
      known: what is there of it, where only the rows behind that are prepared.
    """

    name: str
    pieces: tuple[P, ...]
    split: SplitName | None
    known: KnownAsset | None = field(default=None, kw_only=True)

    @property
    def piece(self) -> P:
        """Of a kind that makes an asset of each, the only one."""
        return self.pieces[0]

    @property
    def rows(self) -> int:
        """Rows of all its files."""
        return sum(piece.rows for piece in self.pieces)

    @property
    def first_new(self) -> int:
        """The first of its rows that is prepared: 0, but where it goes on."""
        return 0 if self.known is None else self.known.rows

    @property
    def splits(self) -> tuple[SplitName, ...]:
        """The splits that rows of this asset may be in."""
        return SPLITS if self.split is None else (self.split,)

    @property
    def files(self) -> str:
        """The paths of its first files, for messages."""
        more = len(self.pieces) - 3
        return ", ".join(piece.path for piece in self.pieces[:3]) + (f" and {more} more" if more > 0 else "")


A = TypeVar("A", bound=Asset)


@dataclass(frozen=True)
class Unit(Generic[A]):
    """A run of an asset's rows that one worker reads: [start, end).

    There are many of them, so that `asset` had best hold no more pieces than these rows need.
    """

    asset: A
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


@dataclass(frozen=True)
class Work(Generic[A]):
    """One unit's rows of one split, and with output.partition_by of one partition.

    Attributes:
      folder: of the partition, below the split's.
    """

    unit: Unit[A]
    split: SplitName
    folder: str = field(default="", kw_only=True)


W = TypeVar("W", bound=Work)


@dataclass(frozen=True)
class Report:
    """What was found in one unit."""

    index: int  # of the unit in its asset
    statistics: Statistics
    reject: Reject | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Verdict(Generic[A]):
    """What becomes of an asset: it goes on, or it is set aside.

    Attributes:
      asset: as it is to be read.
      statistics: of its rows that train.
      rejects: why it is set aside.
      left_out: no row of it takes part, and it is no rejected asset: all have values that are in no list of `split`, or
        were set aside by themselves.
      notes: what the user should know, see `beamfeed.transforms.notes`.
      row_rejects: rows that were set aside by themselves; the first ones.
      rejected_rows: how many these are.
      split_values: with split: {by: column} of the files, values of its rows: those in the lists, and some others.
    """

    asset: A
    statistics: Statistics
    rejects: tuple[Reject, ...] = field(default=(), kw_only=True)
    left_out: bool = field(default=False, kw_only=True)
    notes: tuple[Note, ...] = field(default=(), kw_only=True)
    row_rejects: tuple[Reject, ...] = field(default=(), kw_only=True)
    rejected_rows: int = field(default=0, kw_only=True)
    split_values: frozenset[str] = field(default=frozenset(), kw_only=True)

    @property
    def accepted(self) -> bool:
        """Whether it goes on."""
        return not self.rejects and not self.left_out

    @property
    def counted_rows(self) -> int:
        """How many rows `rejected_rows` are among: also where none is left, so that these count for limits."""
        return self.asset.rows - self.asset.first_new if self.accepted or self.rejected_rows else 0

    @property
    def split_rows(self) -> Mapping[SplitName, int]:
        """How many of its rows are in each split."""
        return {self.asset.split: self.asset.rows - self.rejected_rows} if self.asset.split else {}

    @property
    def trains(self) -> bool:
        """Whether rows of it train."""
        return self.asset.split in (None, "train")


V = TypeVar("V", bound=Verdict)
R = TypeVar("R", bound=Report | Verdict)
