"""What preprocessing will make of files: its own kernels, asset by asset, without Beam, TensorFlow, or a dataset.

Each step is what the step of the same name in `beamfeed.pipelines.build` does, in one process. What a run would end
with is not raised but told, so that the rest is told, too.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa

from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Manifest, Shard, SplitInfo
from beamfeed.contract.errors import BeamfeedError, Unanswered
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.driver import Driver
from beamfeed.transforms.fleet import Fleet, Names, check_fleet, check_limits, count_rows
from beamfeed.transforms.notes import Note, sum_up
from beamfeed.transforms.outcome import (
    check_splits,
    count_targets,
    describe_splits,
    make_manifest,
)
from beamfeed.transforms.records.shard_plan import ShardPlan, plan_shards
from beamfeed.transforms.records.targets import Tally, TargetTally
from beamfeed.transforms.rejects import BadInput, Reject, check_name, printable
from beamfeed.transforms.sources.base import Source
from beamfeed.transforms.sources.descriptors import Asset, Piece, Statistics, Verdict
from beamfeed.transforms.sources.overview import Overview
from beamfeed.transforms.sources.planned import plan_asset

RECORD_OVERHEAD = 150  # bytes of a record that are no values: framing, names of fields, times


@dataclass
class Problems:
    """What a run would end with.

    Attributes:
      errors: by the lines that tell of them.
    """

    errors: dict[str, BeamfeedError] = field(default_factory=dict)

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Keeps what is raised inside, but for what ends the look itself."""
        try:
            yield
        except Unanswered:
            raise
        except BeamfeedError as error:
            self.errors.setdefault(error.reason, error)


@dataclass(frozen=True)
class AssetRows:
    """What becomes of the rows of an asset.

    Attributes:
      rows: that its files hold, as far as they can be read.
      counted: those that the manifest counts as read.
      set_aside: with it, or by themselves.
      rejected: whether it is set aside.
      splits: rows in each split.
      windows: in each split.
      share: about how much of its rows was read.
    """

    rows: int
    counted: int = 0
    set_aside: int = 0
    rejected: bool = False
    splits: Mapping[SplitName, int] = field(default_factory=dict)
    windows: Mapping[SplitName, int] = field(default_factory=dict)
    share: float = 1.0


@dataclass(frozen=True)
class Rehearsal:
    """What preprocessing will make of some files.

    Attributes:
      manifest: as it will be published, but for bytes and checksums of shards; None where it is not known, as a
        problem is in the way.
      rejects: what will be set aside.
      overview: what the files hold.
      assets: by name, what becomes of their rows.
      notes: what is left out or changed, a line each.
      problems: what the run will end with, by the lines that tell of it.
    """

    manifest: Manifest | None
    rejects: tuple[Reject, ...]
    overview: Overview
    assets: Mapping[str, AssetRows]
    notes: tuple[str, ...]
    problems: Mapping[str, BeamfeedError]


def rehearse(
    source: Source, files: Sequence[FileStat], scratch: str, fingerprint: str = "", data: str = "", *,
    complete: bool = True,
) -> Rehearsal:  # fmt: skip
    """What a run on these files will give.

    Args:
      source: of the job.
      files: to read.
      scratch: a folder for files that are needed until the end.
      fingerprint: of the data, and
      data: the folder of the shards below the output; for the manifest.
      complete: whether these are all files; of some it is not told which splits, or values, they lack.
    """
    run = _Run(source)
    assets = run.plan(run.scan(source.listed(files, scratch), scratch), complete=complete)
    verdicts, statistics = run.check(assets)
    accepted = [verdict for verdict in verdicts if verdict.accepted]
    rejects = sorted({*run.rejects, *run.lost}, key=str)
    fleet = Fleet.of(len(files), rejects, **sum(map(count_rows, verdicts), Counter()))
    with run.problems.collected():
        check_fleet(fleet, rejects, source.job, None, run.values if complete else None)
    overview = source.overview(
        [verdict.asset for verdict in accepted], source.zero if statistics is None else statistics
    )
    notes = (*(() if statistics is None else source.notes_of(statistics)), *sorted(sum_up(Driver(), run.notes)))
    manifest = None
    if statistics is not None and accepted:
        with run.problems.collected():
            splits, fields = run.count(accepted, statistics), source.fields(statistics)
            empty = [verdict.asset for verdict in accepted if not run.assets[verdict.asset.name].windows]
            fleet, rejects = fleet.without(
                rejects,
                [(Reject(asset.name, asset.files, "file", source.why_empty(asset)), asset.rows) for asset in empty],
            )
            with run.problems.collected():
                check_limits(fleet, rejects, source.job.limits, None)
                check_splits(source.job, fields, splits)
            manifest = make_manifest(source.job, fields, fingerprint, data, fleet.counts, notes, splits)
    return Rehearsal(manifest, tuple(rejects), overview, run.assets, notes, run.problems.errors)


class _Run:
    """The steps of a run, and what is found on the way."""

    def __init__(self, source: Source):
        self._source, self.problems = source, Problems()
        self.rejects, self.lost, self.notes = list[Reject](), list[Reject](), list[Note]()
        self.values = set[str]()
        self.assets: dict[str, AssetRows] = {}

    def scan(self, files: Iterable[FileStat], scratch: str) -> dict[str, tuple[list[Piece], list[Reject]]]:
        """By asset its pieces, and the rejects of its files."""
        source = self._source
        by_asset: dict[str, tuple[list[Piece], list[Reject]]] = defaultdict(lambda: ([], []))
        for file in files:
            try:
                check_name(file.path)
                for piece in list(source.scan(file, scratch)):
                    by_asset[piece.asset][0].append(piece)
            except BadInput as bad:
                reject = bad.reject(source.asset_of_path(printable(file.path), source.job))
                if reject.asset is None:
                    self.lost.append(reject)
                else:
                    by_asset[reject.asset][1].append(reject)
        return by_asset

    def plan(self, by_asset: dict[str, tuple[list[Piece], list[Reject]]], *, complete: bool) -> list[Asset]:
        """The assets that pieces make up and that take part."""
        source, names = self._source, None
        if complete or source.job.source.max_assets is not None:
            with self.problems.collected():
                names = Names.of(by_asset, source.job).taking_part(source.job)
        assets = []
        for name in sorted(by_asset if names is None else names):
            with self.problems.collected():
                planned = plan_asset(source, name, *by_asset[name], self.lost)
                self.rejects += planned.rejects
                self.notes += planned.notes
                self.values |= {*planned.values}
                pieces = by_asset[name][0]
                rows = source.rows_in(pieces) if planned.asset is None else planned.asset.rows
                rejected = bool(planned.rejects)
                available = sum(piece.rows / piece.share for piece in pieces)
                share = sum(piece.rows for piece in pieces) / available if available else 1.0
                self.assets[name] = AssetRows(rows, set_aside=rows * rejected, rejected=rejected, share=share)
                if planned.asset is not None:
                    assets.append(planned.asset)
        rows = sum(map(source.counted, assets))
        return [source.in_fleet(asset, rows) for asset in assets]

    def check(self, assets: Sequence[Asset]) -> tuple[Sequence[Verdict], Statistics | None]:
        """The verdicts, and the statistics of the training rows; None where nothing can be learned from them."""
        source, statistics, driver = self._source, None, Driver()
        verdicts: Sequence[Verdict] = [
            source.judge(asset, [source.validate(unit) for unit in source.units(asset)]) for asset in assets
        ]
        with self.problems.collected():
            verdicts = source.review(driver, verdicts)
            learned, _ = source.learn(driver, verdicts)
            statistics = driver.single(learned)
        for verdict in verdicts:
            self.rejects += [*verdict.rejects, *verdict.row_rejects]
            self.notes += verdict.notes
            self.values |= verdict.split_values
            before, rejected = self.assets[verdict.asset.name], bool(verdict.rejects)
            self.assets[verdict.asset.name] = replace(
                before, counted=verdict.counted_rows, rejected=rejected,
                set_aside=before.rows if rejected else verdict.rejected_rows,
                splits=dict(verdict.split_rows) if verdict.accepted else {},
            )  # fmt: skip
        return verdicts, statistics

    def count(self, accepted: Sequence[Verdict], statistics: Statistics) -> dict[SplitName, SplitInfo]:
        """What the splits will hold; also of each asset, which is set aside if that is nothing."""
        source = self._source
        job, fields = source.job, source.fields(statistics)
        works = [sized for verdict in accepted for sized in source.works(verdict)]
        shards: dict[SplitName, list[Shard]] = {name: [] for name in SPLITS}
        targets: dict[SplitName, list[Mapping[str, TargetTally]]] = {name: [] for name in SPLITS}
        of_asset: dict[str, Counter[SplitName]] = {verdict.asset.name: Counter() for verdict in accepted}
        for plan in plan_shards([(0, works)], job.output.shards, job.split.seed):
            tally, strings = _tally(plan, source, statistics, fields)
            shards[plan.split].append(_shard(plan, tally, fields, strings))
            targets[plan.split].append(tally.targets)
            for name, windows in tally.windows_by_asset.items():
                if windows:
                    of_asset[name][plan.split] += windows
        for name, counts in of_asset.items():
            before = self.assets[name]
            self.assets[name] = (
                replace(before, windows=counts)
                if counts
                else replace(before, counted=0, rejected=True, set_aside=before.rows, splits={})
            )
        assets = Counter(name for names in of_asset.values() for name in names)
        return describe_splits(assets, shards, count_targets(fields, targets))


def _tally(
    plan: ShardPlan, source: Source, statistics: Statistics, fields: Sequence[Field]
) -> tuple[Tally, dict[str, int]]:
    """What a shard will hold; and of the fields of strings that are known by now, how many bytes these have."""
    tally, strings = Tally(), Counter[str]()
    for work in plan.work:
        for block in source.read(work, None, statistics):
            tally.add(block, [field for field in fields if field.name in block.values], source.job.frame)
            strings.update({name: value.nbytes for name, value in block.values.items() if isinstance(value, pa.Array)})
    return tally, strings


def _shard(plan: ShardPlan, tally: Tally, fields: Sequence[Field], strings: dict[str, int]) -> Shard:
    """As the manifest will list it; its bytes are about those before they are packed, and it has no checksum."""
    count = {"row": tally.rows, "window": tally.windows, "record": tally.records}
    guessed = sum(count[field.per] * _bytes(field) for field in fields if field.name not in strings)
    size = tally.records * RECORD_OVERHEAD + guessed + sum(strings.values())
    return Shard(
        records=tally.records, windows=tally.windows, rows=tally.rows, bytes=size, crc32c="0" * 8, folder=plan.folder
    )


def _bytes(field: Field) -> int:
    """About how many bytes a value takes in a record, where small integers take one."""
    return field.width if field.dtype == "int64" and field.role != "key" else field.bytes or 64
