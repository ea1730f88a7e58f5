"""What a kind of source says of a job.

A kind is a folder beside this file whose `source.py` names a `Source` as SOURCE.
Everything around it (listing, limits, splits, shards, writing, reading back,
publishing) exists once and knows none of them.

A source works on *pieces* (the rows of an asset in one file), *assets* (what is
accepted, rejected and split as a whole) and *units* (what one worker reads at a
time). These are descriptors: they hold no data, and only they are shuffled.
"""

import pickle
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, Generic, Protocol, cast

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.raw_rows import RawRows
from beamfeed.contract.dataset.raw_values import RawValues
from beamfeed.contract.errors import UserError
from beamfeed.contract.imports import Later
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.driver import Collection, Driver
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.descriptors import (
    A,
    Asset,
    CannotGoOn,
    KnownAsset,
    P,
    R,
    Report,
    Statistics,
    Unit,
    V,
    Verdict,
    W,
    Work,
)
from beamfeed.transforms.sources.overview import Overview
from beamfeed.transforms.sources.record_block import RecordBlock, Values
from beamfeed.transforms.splits import first_names, split_of_asset, split_of_value
from beamfeed.transforms.statistics.marks import Learned


class Transform(Protocol):
    """The transform graph of a dataset.

    Attributes:
      inputs: the names of what it takes.
    """

    inputs: frozenset[str]

    def __call__(self, columns: Mapping[str, np.ndarray | pa.Array]) -> dict[str, Values]:
        """Columns `[rows, ...]` by name -> fields; a string that is null is empty."""
        ...


@lru_cache(maxsize=1)
def _packed(source: "Source[Any, Any, Any, Any, Any]") -> bytes:
    """A source, which never changes, in bytes: nearly every step holds it, and a job may name thousands of columns."""
    return zlib.compress(pickle.dumps((type(source), vars(source))))


@lru_cache(maxsize=4)
def unpacked(packed: bytes) -> "Source[Any, Any, Any, Any, Any]":
    """The source of some bytes, once for all steps of a process."""
    return _made(*pickle.loads(zlib.decompress(packed)))  # noqa: S301 - of the job's own steps


def _made(
    kind: "type[Source[Any, Any, Any, Any, Any]]", attributes: Mapping[str, Any]
) -> "Source[Any, Any, Any, Any, Any]":
    source = object.__new__(kind)
    vars(source).update(attributes)
    return source


class Source(ABC, Generic[P, A, R, V, W]):
    """A kind of source on the files of a job.

    It goes to the workers, whose threads share it: it holds little, can be pickled, and never changes.

    Args:
      job: whose section `source` is of this kind.
    """

    def __init__(self, job: Job):
        self.job = job

    def __reduce__(self) -> tuple[Any, ...]:
        if self.job.own_code:  # each thread has steps of its own
            return _made, (type(self), vars(self))
        return unpacked, (_packed(self),)

    # At the start, where the job is submitted.

    @classmethod
    @abstractmethod
    def of(cls, job: Job, files: Sequence[FileStat]) -> "Source[P, A, R, V, W]":
        """The source of a job; looks into a sample of its files for what they hold.

        Raises:
          UserError: if the job does not fit them.
        """

    @classmethod
    def asset_of_path(cls, path: str, job: Job) -> str | None:
        """The asset of a file by its path: its name without the suffix; None where the path does not tell."""
        return job.source.stem(path)

    @classmethod
    def knows_assets(cls, job: Job) -> bool:
        """Whether a dataset that grows lists its assets: where they may go on, or paths and records name them."""
        return cls.asset_field is not None or cls.may_go_on(job)

    @classmethod
    def why_not_behind(cls, job: Job, files: Sequence[FileStat], new: Sequence[FileStat]) -> str | None:
        """Of a kind whose rows are numbered through all files: why new ones cannot come behind the others.

        Empty where they can. By default None: new files hold assets of their own.

        Args:
          job: whose files they are.
          files: all of them.
          new: those of them that are added to a dataset.
        """
        return None

    def reading_as(self, raw: RawValues | None) -> "Source[P, A, R, V, W]":
        """The same, of a dataset that says how its files wrote their values; by default it makes no difference."""
        return self

    @property
    def numbered_rows(self) -> int:
        """How many rows all files have, of a kind that numbers them through."""
        return 0

    def adding(self, new: Sequence[FileStat], rows: int) -> "Source[P, A, R, V, W]":
        """The same, of a run that adds files to a dataset; by default it makes no difference.

        Args:
          new: these of its files.
          rows: `numbered_rows` of the dataset.

        Raises:
          CannotGoOn: if the other files no longer have so many.
        """
        return self

    @classmethod
    def first_files(cls, job: Job, files: Sequence[FileStat]) -> list[FileStat]:
        """The files of the first `source.max_assets` assets, as far as paths tell them."""
        if job.source.max_assets is None:
            return list(files)
        names = [cls.asset_of_path(stat.path, job) or "" for stat in files]
        chosen = set(first_names(names, job.split, job.source.max_assets))
        return [stat for stat, name in zip(files, names, strict=True) if name in chosen]

    def part(self, most: int) -> "tuple[Source[P, A, R, V, W], float] | None":
        """For a look at large files: the source of some of their rows, and which share of all rows these are.

        By default None: who looks reads some of the files.

        Args:
          most: bytes of the files that are to be read.
        """
        return None

    def excerpt(self, most: int) -> "Source[P, A, R, V, W] | None":
        """For a look at large files: the source of about so many bytes of each, whose pieces say which share that is.

        By default None: files are read whole.
        """
        return None

    def stratum(self, path: str) -> str:
        """What a path tells of the split of its rows; the same of all paths where they do not tell."""
        split = self.job.split
        if split.by == "asset":
            name = self.asset_of_path(path, self.job)
            return "" if name is None else split_of_asset(name, split)
        value = self.value_of_path(path)
        return "" if value is None else split_of_value(value, split) or "none"

    def value_of_path(self, path: str) -> str | None:
        """What a path says of `split.column`; None where files say it."""
        return None

    def rows_in(self, pieces: Sequence[P]) -> int:
        """How many rows pieces of an asset have."""
        return sum(piece.rows for piece in pieces)

    @property
    def remarks(self) -> Sequence[str]:
        """What was found out of the files that the user did not say, a line each."""
        return ()

    # From files to units, without their data.

    def listed(self, files: Sequence[FileStat], scratch: str) -> Sequence[FileStat]:
        """The files that are scanned, each by itself; by default those of the listing.

        A kind of many small files may write what is known of runs of them into files of its own, and give these.

        Args:
          files: of the listing, or a sample of it.
          scratch: a folder for files that the job needs until its end.

        Raises:
          UserError: if the job does not fit the files.
        """
        return files

    @abstractmethod
    def scan(self, file: FileStat, scratch: str) -> Iterable[P]:
        """The pieces of a file, one for each asset in it; reads no more than that needs.

        Args:
          file: as it was listed; for the pieces.
          scratch: a folder for files that the job needs until its end.

        Raises:
          BadInput: if the file cannot be used at all.
        """

    @contextmanager
    def scanning(self, files: Sequence[FileStat], scratch: str) -> Iterator[Callable[[FileStat], Iterable[P]]]:
        """While it is open, `scan` for files that one worker scans one after the other; several of them are small.

        A kind may put what it reads of them into one file of its own in `scratch`, which is whole when this is closed.
        """
        yield lambda file: self.scan(file, scratch)

    def plan(self, name: str, pieces: Sequence[P], lost: Sequence[Reject] = ()) -> "A | Reject | None":
        """The asset that some pieces make up, in its split; None if it is in none; a reject if it cannot be used.

        Args:
          name: of the asset.
          pieces: in any order.
          lost: the files that are set aside and may hold rows of any asset.
        """
        split = self.job.split
        asset = self.gather(name, pieces, split_of_asset(name, split) if split.by == "asset" else None, lost)
        values = sorted({piece.split_value for piece in pieces if piece.split_value is not None})
        if isinstance(asset, Reject) or not values:
            return asset
        splits = {split_of_value(value, split) for value in values}
        if len(splits) > 1:
            reason = f"the path puts it into more than one split: {split.column} is {' and '.join(values)}"
            return Reject(name, asset.files, "path", reason)
        (only,) = splits
        return None if only is None else replace(asset, split=only)

    def gather(self, name: str, pieces: Sequence[P], split: SplitName | None, lost: Sequence[Reject]) -> A | Reject:
        """The asset that some pieces make up, or why it cannot be used; by default an `Asset` of them.

        Args:
          name: of the asset.
          pieces: in any order.
          split: of the whole asset; None where a column says, or a part of its rows.
          lost: the files that are set aside and may hold rows of any asset.
        """
        return cast(A, Asset(name, tuple(pieces), split))

    @classmethod
    def may_go_on(cls, job: Job) -> bool:
        """Whether new files may add rows to assets of a dataset without a look at all of the old ones; by default not.

        A kind of which this is true also says `go_on` and `known`.
        """
        return False

    def go_on(self, known: KnownAsset, tail: Sequence[P], new: Sequence[P]) -> A:
        """The asset that goes on behind what is known of it.

        Args:
          known: of the asset.
          tail: its pieces in the files of `known.tail`.
          new: its pieces in new files.

        Raises:
          CannotGoOn: if the new rows are not all behind the others.
        """
        raise CannotGoOn(f"{new[0].path} goes on with asset {known.asset}")

    def known(self, asset: A) -> KnownAsset:
        """What later runs need to go on with an accepted asset, but for its splits; by default they cannot."""
        return KnownAsset(asset.name, asset.rows)

    def counted(self, asset: A) -> int:
        """About how many rows of an asset count for statistics; by default all."""
        return asset.rows

    def in_fleet(self, asset: A, rows: int) -> A:
        """The asset in a fleet of which so many rows count for statistics; by default the same."""
        return asset

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
        """Reads the rows of a unit and checks them; never raises for bad data.

        Of a kind whose assets are one unit each, this is the verdict.
        """

    def judge(self, asset: A, reports: Iterable[R]) -> V:
        """Decides from the reports on all units of one asset; by default the report on the only one is the verdict.

        Raises:
          CannotGoOn: of an asset that goes on, if it cannot with these rows.
        """
        (verdict,) = reports
        return cast(V, verdict)

    def notes_of(self, statistics: Statistics) -> list[str]:
        """What the user should know of the statistics that `learn` gives, a line each; by default nothing."""
        return []

    def review(self, driver: Driver, verdicts: Collection) -> Collection:
        """Collection of Verdict -> the same, where some depend on the other assets; by default none does.

        Raises:
          JobFailed: if they cannot be together.
        """
        return verdicts

    def add_up(self, driver: Driver, verdicts: Collection) -> Collection:
        """Collection of Verdict -> a collection of one, the statistics of the training rows."""
        training = driver.flat_map("TrainingRows", verdicts, lambda verdict: [verdict.statistics] * verdict.trains)
        return driver.add_up("AddUp", training, self.zero)

    def learn(self, driver: Driver, verdicts: Collection) -> tuple[Collection, Collection | None]:
        """Statistics, and what has to be made of all assets beside them; by default nothing.

        Args:
          driver: that runs the steps: in Beam, or for `beamfeed check` in this process.
          verdicts: Collection of Verdict.

        Returns:
          a collection of one, the statistics of the training rows, and what `driver.made` gives; None where nothing is
          made.

        Raises:
          JobFailed: if nothing can be learned from the statistics.
        """
        return driver.map("CheckCounts", self.add_up(driver, verdicts), self.checked), None

    def checked(self, statistics: Statistics) -> Statistics:
        """The statistics of the training rows, where something can be learned from them; by default as they are.

        Raises:
          JobFailed: if nothing can be.
        """
        return statistics

    # The transform graph, which serving runs; workers do the same in arrays.

    asset_field: ClassVar[str | None] = None  # of the records, which names their asset as paths do
    time_field: ClassVar[str | None] = None  # of the records, which has the time of their last row

    @property
    def graph(self) -> Later | None:
        """What writes the graph to a folder, with marks for what will be learned; None where there is none to trace.

        It is pickled and called in a process apart, which loads TensorFlow; what it holds is loaded there, too.
        """
        return None

    def learned(self, statistics: Statistics, made: str) -> Learned:
        """What fills the graph.

        Args:
          statistics: of the training rows.
          made: the path that `learn` gives beside them; empty where it gives none.
        """
        return {}

    # And once more to write it.

    @abstractmethod
    def works(self, verdict: V) -> Iterator[tuple[W, int]]:
        """What is to be written of an accepted asset, each with about how many bytes it becomes in records."""

    @abstractmethod
    def read(self, work: W, made: str | None, statistics: Statistics) -> Iterator[RecordBlock]:
        """The records of a unit's rows of one split, in order, a block at a time.

        Args:
          work: what to read.
          made: as for `learned`. None, before anything is learned, gives the same rows, windows and targets; other
            values may be left out.
          statistics: of the training rows.

        Raises:
          BadInput: if a file no longer is as it was when it was checked.
        """

    # For a model that was trained on a dataset like this one.

    def keeping(self, names: Sequence[str], files: Sequence[FileStat]) -> "Source[P, A, R, V, W]":
        """The same, which reads rows for predictions alone, and with them columns as the files have them.

        Args:
          names: of the columns.
          files: of the job.

        Raises:
          UserError: if they have none of that name. By default none can be kept.
        """
        if names:
            raise UserError(f"--keep {names[0]}: goes with tables, whose rows are predicted one by one")
        return self

    def read_with(self, work: W, transform: Transform) -> Iterator[RecordBlock]:
        """As `read`, of a job without labels, with the transform graph of the dataset that a model was trained on.

        Args:
          work: what to read.
          transform: that graph.

        Raises:
          UserError: by default.
        """
        raise UserError(
            f"--files: source.kind: {self.job.source.kind} does not read files for predictions; preprocess them"
        )

    # Before it is preprocessed, without Beam and TensorFlow.

    def overview(self, assets: Sequence[A], statistics: Statistics) -> Overview:
        """What some assets hold, for the user; by default nothing is told.

        Args:
          assets: that can be read.
          statistics: of the training rows.
        """
        return Overview()

    # What is told of the dataset.

    @abstractmethod
    def fields(self, statistics: Statistics) -> list[Field]:
        """What a record holds."""

    @abstractmethod
    def stats(self, statistics: Statistics) -> Any:
        """The statistics of the training rows as JSON."""

    @property
    def raw_values(self) -> RawValues | None:
        """What the values of the files become before the transform graph gets them; None where it takes them so."""
        return None

    def raw_rows(self, statistics: Statistics, made: str) -> RawRows | None:
        """Some rows as a file has them, and what is made of them; None where the graph takes windows.

        Args: as for `learned`.
        """
        return None

    def why_empty(self, asset: A) -> str:
        """Why an asset that was accepted gave no record."""
        return "has no row that can be used"


class PlainSource(Source[P, A, Report, Verdict[A], Work[A]], Generic[P, A]):
    """A kind that sets an asset aside for one reject, and writes each unit as it was checked."""

    def judge(self, asset: A, reports: Iterable[Report]) -> Verdict[A]:
        ordered = sorted(reports, key=lambda report: report.index)
        rejects = tuple(report.reject for report in ordered if report.reject is not None)
        statistics = [] if rejects else [report.statistics for report in ordered]
        return Verdict(asset, sum(statistics, self.zero), rejects=rejects)

    def works(self, verdict: Verdict[A]) -> Iterator[tuple[Work[A], int]]:
        for unit in self.units(verdict.asset):
            for name in verdict.asset.splits:
                if verdict.asset.split is not None or getattr(self.job.split, name):
                    yield Work(unit, name), self.size(unit)
