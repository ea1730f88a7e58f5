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
from beamfeed.contract.dataset.manifest import Manifest, Shard
from beamfeed.contract.errors import BeamfeedError
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
from beamfeed.transforms.rejects import BadInput, Reject
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
        """Keeps what is raised inside."""
        try:
            yield
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


@dataclass
class _Facts:
    """What was found on the way."""

    rejects: list[Reject] = field(default_factory=list)
    lost: list[Reject] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    values: set[str] = field(default_factory=set)
    assets: dict[str, AssetRows] = field(default_factory=dict)


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
    facts, problems = _Facts(), Problems()
    listed = source.listed(files, scratch)
    assets = _plan(source, _scan(source, listed, scratch, facts), facts, problems, complete=complete)
    verdicts, statistics = _check(source, assets, facts, problems)
    accepted = [verdict for verdict in verdicts if verdict.accepted]
    rejects = sorted({*facts.rejects, *facts.lost}, key=str)
    fleet = Fleet.of(len(files), rejects, **sum(map(count_rows, verdicts), Counter()))
    with problems.collected():
        check_fleet(fleet, rejects, source.job, None, facts.values if complete else None)
    overview = source.overview(
        [verdict.asset for verdict in accepted], source.zero if statistics is None else statistics
    )
    notes = (*(() if statistics is None else source.notes_of(statistics)), *sorted(sum_up(Driver(), facts.notes)))
    if statistics is None or not accepted:
        return Rehearsal(None, tuple(rejects), overview, facts.assets, notes, problems.errors)
    manifest, every = _count(source, accepted, statistics, fleet, rejects, notes, problems, fingerprint, data, facts)
    return Rehearsal(manifest, tuple(every), overview, facts.assets, notes, problems.errors)


def _scan(
    source: Source, files: Iterable[FileStat], scratch: str, facts: _Facts
) -> dict[str, tuple[list[Piece], list[Reject]]]:
    """By asset its pieces, and the rejects of its files."""
    by_asset: dict[str, tuple[list[Piece], list[Reject]]] = defaultdict(lambda: ([], []))
    for file in files:
        try:
            for piece in list(source.scan(file, scratch)):
                by_asset[piece.asset][0].append(piece)
        except BadInput as bad:
            reject = bad.reject(source.asset_of_path(file.path, source.job))
            if reject.asset is None:
                facts.lost.append(reject)
            else:
                by_asset[reject.asset][1].append(reject)
    return by_asset


def _plan(
    source: Source, by_asset: dict[str, tuple[list[Piece], list[Reject]]], facts: _Facts, problems: Problems, *,
    complete: bool,
) -> list[Asset]:  # fmt: skip
    names = None
    if complete or source.job.source.max_assets is not None:
        with problems.collected():
            names = Names.of(by_asset, source.job).taking_part(source.job)
    assets = []
    for name in sorted(by_asset if names is None else names):
        with problems.collected():
            planned = plan_asset(source, name, *by_asset[name], facts.lost)
            facts.rejects += planned.rejects
            facts.notes += planned.notes
            facts.values |= {*planned.values}
            pieces = by_asset[name][0]
            rows = source.rows_in(pieces) if planned.asset is None else planned.asset.rows
            rejected = bool(planned.rejects)
            available = sum(piece.rows / piece.share for piece in pieces)
            share = sum(piece.rows for piece in pieces) / available if available else 1.0
            facts.assets[name] = AssetRows(rows, set_aside=rows * rejected, rejected=rejected, share=share)
            if planned.asset is not None:
                assets.append(planned.asset)
    rows = sum(map(source.counted, assets))
    return [source.in_fleet(asset, rows) for asset in assets]


def _check(
    source: Source, assets: Sequence[Asset], facts: _Facts, problems: Problems
) -> tuple[Sequence[Verdict], Statistics | None]:
    """The verdicts, and the statistics of the training rows; None where nothing can be learned from them."""
    verdicts: Sequence[Verdict] = [
        source.judge(asset, [source.validate(unit) for unit in source.units(asset)]) for asset in assets
    ]
    statistics, driver = None, Driver()
    with problems.collected():
        verdicts = source.review(driver, verdicts)
        learned, _ = source.learn(driver, verdicts)
        statistics = driver.single(learned)
    for verdict in verdicts:
        facts.rejects += [*verdict.rejects, *verdict.row_rejects]
        facts.notes += verdict.notes
        facts.values |= verdict.split_values
        before, rejected = facts.assets[verdict.asset.name], bool(verdict.rejects)
        facts.assets[verdict.asset.name] = replace(
            before, counted=verdict.counted_rows, rejected=rejected,
            set_aside=before.rows if rejected else verdict.rejected_rows,
            splits=dict(verdict.split_rows) if verdict.accepted else {},
        )  # fmt: skip
    return verdicts, statistics


def _count(
    source: Source, accepted: Sequence[Verdict], statistics: Statistics, fleet: Fleet, rejects: Sequence[Reject],
    notes: Sequence[str], problems: Problems, fingerprint: str, data: str,
    facts: _Facts,
) -> tuple[Manifest | None, Sequence[Reject]]:  # fmt: skip
    """The manifest, and the rejects with the assets that give no window."""
    job = source.job
    with problems.collected():
        fields = source.fields(statistics)
        works = [sized for verdict in accepted for sized in source.works(verdict)]
        shards: dict[SplitName, list[tuple[Shard, Mapping[str, TargetTally]]]] = {name: [] for name in SPLITS}
        of_asset: dict[str, Counter[SplitName]] = {verdict.asset.name: Counter() for verdict in accepted}
        for plan in plan_shards(works, job.output.shards, job.split.seed):
            tally, strings = _tally(plan, source, statistics, fields)
            shards[plan.split].append((_shard(plan, tally, fields, strings), tally.targets))
            for name, windows in tally.windows_by_asset.items():
                if windows:
                    of_asset[name][plan.split] += windows
        empty = [verdict.asset for verdict in accepted if not of_asset[verdict.asset.name]]
        for name, counts in of_asset.items():
            before = facts.assets[name]
            facts.assets[name] = (
                replace(before, windows=counts)
                if counts
                else replace(before, counted=0, rejected=True, set_aside=before.rows, splits={})
            )
        fleet, every = fleet.without(
            rejects,
            [(Reject(asset.name, asset.files, "file", source.why_empty(asset)), asset.rows) for asset in empty],
        )
        assets = Counter(name for names in of_asset.values() for name in names)
        infos = {name: [shard for shard, _ in counted] for name, counted in shards.items()}
        targets = {name: [tallies for _, tallies in counted] for name, counted in shards.items()}
        splits = describe_splits(assets, infos, count_targets(fields, targets))
        with problems.collected():
            check_limits(fleet, every, job.limits, None)
            check_splits(job, fields, splits)
        return make_manifest(job, fields, fingerprint, data, fleet.counts, notes, splits), every
    return None, rejects


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
