"""What a kind of source says of a job, and the descriptors that pass between the steps.

A kind is a folder beside this file whose `source.py` names a `Source` as SOURCE.
Everything around it (listing, limits, splits, shards, writing, reading back,
publishing) exists once and knows none of them.

A source works on *pieces* (the rows of an asset in one file), *assets* (what is
accepted, rejected and split as a whole) and *units* (what one worker reads at a
time). These are descriptors: they hold no data, and only they are shuffled.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import apache_beam as beam

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.record_block import RecordBlock
from beamfeed.transforms.splits import assign_splits, split_of_value
from beamfeed.transforms.statistics.sums import AddUp

Statistics = Any  # whatever adds up with `+`, to the last bit the same in whatever order


@dataclass(frozen=True)
class Piece:
    """The rows of one asset in one file."""

    asset: str
    path: str
    rows: int
    split_value: str | None = field(default=None, kw_only=True)  # with split: {by: column}, where the path tells it


P = TypeVar("P", bound=Piece)


@dataclass(frozen=True)
class Asset(Generic[P]):
    """What is accepted or rejected as a whole."""

    name: str
    pieces: tuple[P, ...]
    split: SplitName | None  # of the whole asset; None where its rows are split

    @property
    def rows(self) -> int:
        """Rows of all its files."""
        return sum(piece.rows for piece in self.pieces)

    @property
    def splits(self) -> tuple[SplitName, ...]:
        """The splits that rows of this asset may be in."""
        return SPLITS if self.split is None else (self.split,)

    @property
    def files(self) -> str:
        """The paths of its files, for messages."""
        return ", ".join(piece.path for piece in self.pieces)


A = TypeVar("A", bound=Asset)


@dataclass(frozen=True)
class Unit(Generic[A]):
    """A run of an asset's rows that one worker reads: [start, end)."""

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
    """One unit's rows of one split."""

    unit: Unit[A]
    split: SplitName


@dataclass(frozen=True)
class Report(Generic[A]):
    """What was found in one unit."""

    unit: Unit[A]
    statistics: Statistics
    reject: Reject | None = field(default=None, kw_only=True)


R = TypeVar("R", bound=Report)


@dataclass(frozen=True)
class Verdict(Generic[A]):
    """What becomes of an asset: it goes on, or it is set aside."""

    asset: A
    statistics: Statistics
    rejects: tuple[Reject, ...] = field(default=(), kw_only=True)


class Source(ABC, Generic[P, A, R]):
    """A kind of source on the files of a job. It goes to the workers, so it holds little and can be pickled.

    Args:
      job: whose section `source` is of this kind.
    """

    def __init__(self, job: Job):
        self.job = job

    # At the start, where the job is submitted.

    @classmethod
    @abstractmethod
    def of(cls, job: Job, files: Sequence[FileStat]) -> "Source[P, A, R]":
        """The source of a job; looks into a sample of its files for what they hold.

        Raises:
          UserError: if the job does not fit them.
        """

    @classmethod
    def asset_of_path(cls, path: str, job: Job) -> str | None:
        """The asset of a file by its path: its name without the suffix; None where the path does not tell."""
        return job.source.stem(path)

    @classmethod
    def first_files(cls, job: Job, files: Sequence[FileStat]) -> list[FileStat]:
        """The files of the first `source.max_assets` assets, as far as paths tell them."""
        if job.source.max_assets is None:
            return list(files)
        names = [cls.asset_of_path(stat.path, job) or "" for stat in files]
        kept = set(sorted(set(names))[: job.source.max_assets])
        return [stat for stat, name in zip(files, names, strict=True) if name in kept]

    # From files to units, without their data.

    @abstractmethod
    def scan(self, path: str) -> Iterable[P]:
        """The pieces of a file, one for each asset in it; reads no more than that needs.

        Raises:
          BadInput: if the file cannot be used at all.
        """

    def plan(self, pieces: Iterable[P], rejects: Iterable[Reject]) -> tuple[list[A], list[Reject]]:
        """Groups pieces by asset, assigns splits, and sets aside the assets that cannot be used.

        Returns the assets in order of name, and the further rejects.
        """
        split = self.job.split
        by_asset: dict[str, list[P]] = defaultdict(list)
        for piece in pieces:
            by_asset[piece.asset].append(piece)
        broken = {reject.asset for reject in rejects if reject.asset is not None}
        # A rejected asset still has its place in the order, so that --max-assets and the splits do not hang on it.
        names = sorted(by_asset.keys() | broken)[: self.job.source.max_assets]
        assigned = assign_splits(names, split) if split.by == "asset" else {}
        assets: list[A] = []
        more: list[Reject] = []
        for name in names:
            if name in broken:
                continue
            asset = self.gather(name, by_asset[name], assigned.get(name))
            values = sorted({piece.split_value for piece in by_asset[name] if piece.split_value is not None})
            if isinstance(asset, Reject):
                more.append(asset)
            elif len(values) > 1:
                reason = f"the path puts it into more than one split: {split.column} is {' and '.join(values)}"
                more.append(Reject(name, asset.files, "path", reason))
            elif not values:
                assets.append(asset)
            elif (found := split_of_value(values[0], split)) is not None:
                assets.append(replace(asset, split=found))
            # else a value in no list: the user left the asset out
        return assets, more

    @abstractmethod
    def gather(self, name: str, pieces: Sequence[P], split: SplitName | None) -> A | Reject:
        """The asset that some pieces make up, or why it cannot be used.

        Args:
          name: of the asset.
          pieces: in any order.
          split: of the whole asset; None where a column says, or a part of its rows.
        """

    def units(self, asset: A) -> Iterator[Unit[A]]:
        """Cuts an asset into what one worker reads at a time; by default into one."""
        yield Unit(asset, 0, 0, asset.rows)

    @abstractmethod
    def size(self, unit: Unit[A]) -> int:
        """About how many bytes a unit becomes in records."""

    # Every row is read once to check it.

    @property
    @abstractmethod
    def zero(self) -> Statistics:
        """The statistics of no rows."""

    @abstractmethod
    def validate(self, unit: Unit[A]) -> R:
        """Reads the rows of a unit and checks them; never raises for bad data."""

    def judge(self, reports: Iterable[R]) -> Verdict[A]:
        """Decides from the reports on all units of one asset; by default one reject sets it aside."""
        ordered = sorted(reports, key=lambda report: report.unit.index)
        rejects = tuple(report.reject for report in ordered if report.reject is not None)
        kept = [] if rejects else [report.statistics for report in ordered]
        return Verdict(ordered[0].unit.asset, sum(kept, self.zero), rejects=rejects)

    def review(self, verdicts: beam.PCollection) -> beam.PCollection:
        """PCollection of Verdict -> the same, where some depend on the other assets; by default none does."""
        return verdicts

    def add_up(self, verdicts: beam.PCollection) -> beam.PCollection:
        """PCollection of Verdict -> a PCollection of one, the statistics of the training rows."""
        return (
            verdicts
            | "TrainingRows" >> beam.Filter(lambda verdict: verdict.asset.split in (None, "train"))
            | "TheirStatistics" >> beam.Map(lambda verdict: verdict.statistics)
            | "AddUp" >> beam.CombineGlobally(AddUp(self.zero))
        )

    @abstractmethod
    def learn(self, verdicts: beam.PCollection) -> tuple[beam.PCollection, tuple]:
        """Statistics, and the transform graph that they become.

        Args:
          verdicts: PCollection of Verdict.

        Returns:
          a PCollection of one, the statistics of the training rows, and tensorflow-transform's (saved model folder,
          metadata).
        """

    # And once more to write it.

    @abstractmethod
    def read(self, work: Work[A], transform: str, statistics: Statistics) -> Iterator[RecordBlock]:
        """The records of a unit's rows of one split, in order, a block at a time.

        Args:
          work: what to read.
          transform: the folder of the transform graph.
          statistics: of the training rows.

        Raises:
          BadInput: if a file no longer is as it was when it was checked.
        """

    # What is told of the dataset.

    @abstractmethod
    def fields(self, statistics: Statistics) -> list[Field]:
        """What a record holds."""

    @abstractmethod
    def stats(self, statistics: Statistics) -> Any:
        """The statistics of the training rows as JSON."""

    def why_empty(self, asset: A) -> str:
        """Why an asset that was accepted gave no record."""
        return "has no row that can be used"
