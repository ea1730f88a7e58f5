r"""The Beam job that preprocesses a fleet.

    files -> scan -> plan -> validate -> judge -> statistics -> write -> verify -> publish

Only descriptors are shuffled, each an asset's or a unit's; nothing of the fleet's
size is one element. Every row is read twice, to check it and to write it: a second
read costs less than to hold or to shuffle the data.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import apache_beam as beam

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.errors import JobFailed
from beamfeed.contract.progress import Progress
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.beam_driver import GatherByName, OnBeam, Pack
from beamfeed.transforms.driver import Driver
from beamfeed.transforms.fleet import Fleet, Names, check_fleet, count_rows
from beamfeed.transforms.growth import NEW, Growth, Learned
from beamfeed.transforms.known_assets import iter_known, tails_of
from beamfeed.transforms.notes import sum_up
from beamfeed.transforms.packing import Packed, by_name, runs_of_small
from beamfeed.transforms.publish import Publish
from beamfeed.transforms.records.rewrite import Rule, copy_shards
from beamfeed.transforms.records.shard_plan import ShardPlan, Sized, bucket_of_work, plan_shards
from beamfeed.transforms.records.tfrecord import WriteToTFRecord, Written
from beamfeed.transforms.records.verify import VerifyShard
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.base import Source
from beamfeed.transforms.sources.checking import (
    LOST,
    NOTES,
    REJECTS,
    SHORT,
    VALUES,
    WAS_SHORT,
    PlanAsset,
    ScanFile,
    TakeApart,
    ValidateUnit,
    adding,
    judge_assets,
)
from beamfeed.transforms.sources.descriptors import Asset, CannotGoOn, KnownAsset, Piece, Reread, Verdict
from beamfeed.transforms.taken_over import each_shard

SMALL_BYTES = 1 << 20  # of files that are scanned, and of units that are checked, in one element
MOST_FILES, LEAST_RUNS = 256, 64  # in one element, and elements for all workers to share
KNOWN = "known"  # the tagged output of what later runs need to know of assets


@dataclass(frozen=True)
class PreprocessPipeline:
    """A job whose files are listed and whose source is known."""

    source: Source
    layout: DataLayout
    fingerprint: str
    files: int
    progress: Progress
    growth: Growth = NEW

    def check(self, pipeline: beam.Pipeline) -> "CheckedFiles":
        """Adds the steps that read all files once and decide what is to be read again."""
        job, source = self.source.job, self.source
        driver = OnBeam(pipeline, self.layout.scratch)
        planned = _plan_assets(self, pipeline, driver)
        verdicts = source.review(driver, _judge_assets(self, planned["assets"], driver))
        once = pipeline | "Once" >> beam.Create([None])
        judged = verdicts | "TakeApart" >> beam.ParDo(TakeApart()).with_outputs(REJECTS, NOTES, VALUES, main="accepted")
        rejects = (planned[REJECTS], planned[LOST], judged[REJECTS]) | "Rejects" >> beam.Flatten()
        counted = driver.add_up("CountAssets", driver.map("CountRows", verdicts, count_rows), Counter())
        fleet = once | "DecideFleet" >> beam.Map(
            self.decide,
            beam.pvalue.AsSingleton(counted),
            beam.pvalue.AsList(rejects),
            beam.pvalue.AsList(planned[WAS_SHORT]),
            *_values(job, planned[VALUES], judged[VALUES]),
        )
        works = judged["accepted"] | "Works" >> beam.FlatMap(self._works) | "GatherWorks" >> beam.CombinePerKey(Pack())
        shards = (
            once
            # The fleet is there as a barrier: nothing is written before it is decided on.
            | "PlanShards" >> beam.FlatMap(self._plan_shards, beam.pvalue.AsList(works), beam.pvalue.AsSingleton(fleet))
            | "SpreadShards" >> beam.Reshuffle()
        )
        notes = (planned[NOTES], judged[NOTES]) | "Notes" >> beam.Flatten()
        return CheckedFiles(
            driver, once, verdicts, judged["accepted"], fleet, rejects, shards, sum_up(driver, notes), planned[SHORT],
            planned[WAS_SHORT],
        )  # fmt: skip

    def build(self, pipeline: beam.Pipeline) -> None:
        """Adds the whole job to a pipeline."""
        job, source, progress = self.source.job, self.source, self.progress
        checked = self.check(pipeline)
        statistics, made_path, new_statistics = self._learn(checked)
        path = "" if made_path is None else beam.pvalue.AsSingleton(made_path)
        for_writers = "" if source.graph else path  # who has no graph to apply need not wait for it
        write = WriteToTFRecord(self.layout, source, progress)
        written = checked.shards | "WriteToTFRecord" >> beam.ParDo(
            write, for_writers, beam.pvalue.AsSingleton(statistics)
        )
        verify = VerifyShard(job.frame, job.output.compression, progress)
        verified = (
            written
            | "SpreadWritten" >> beam.Reshuffle()
            | "VerifyShard"
            >> beam.ParDo(verify, beam.pvalue.AsSingleton(statistics | "Fields" >> beam.Map(source.fields)))
        )
        with_windows = self.join_splits(checked.accepted, written | "SplitsByAsset" >> beam.FlatMap(_splits_by_asset))
        known = [with_windows[KNOWN], checked.short]
        if self.growth.job and source.knows_assets(job):
            known.append(checked.verdicts | "SetAside" >> beam.FlatMap(_if_set_aside))
        known = known | "Known" >> beam.Flatten() | "GatherKnown" >> GatherByName()
        _ = checked.once | "PublishManifest" >> beam.ParDo(
            Publish(source, self.fingerprint, self.layout, self.growth),
            beam.pvalue.AsSingleton(checked.fleet),
            beam.pvalue.AsList(checked.rejects),
            beam.pvalue.AsList(with_windows[REJECTS]),
            beam.pvalue.AsDict(with_windows["splits"] | "AssetsBySplit" >> beam.combiners.Count.PerElement()),
            beam.pvalue.AsList(checked.notes),
            beam.pvalue.AsList(verified),
            beam.pvalue.AsList(known),
            beam.pvalue.AsList(checked.was_short),
            beam.pvalue.AsSingleton(statistics),
            path,
            *new_statistics,
            *self._left(pipeline),
        )

    def _learn(self, checked: "CheckedFiles") -> tuple[beam.PCollection, beam.PCollection | None, list[Any]]:
        """Statistics, and what is made beside them; where a dataset has them, also what the new rows add up to."""
        driver, source = checked.driver, self.source
        if self.growth.published is None:
            return *source.learn(driver, checked.verdicts), []
        path = self.growth.before(self.layout.output).learned
        learned = driver.map("ReadLearned", driver.once("LearnedOnce"), lambda _: Learned.read(path).statistics)
        return learned, None, [driver.single(source.add_up(driver, checked.verdicts))]

    def _left(self, pipeline: beam.Pipeline) -> Iterator[beam.pvalue.AsList]:
        """Where assets or runs of the dataset are prepared again: what is left of each of its other shards."""
        growth, layout, field = self.growth, self.layout, self.source.asset_field
        if growth.published is None or not (growth.replaced or growth.redone):
            return
        rule = Rule(field, growth.replaced) if field is not None else Rule()
        yield beam.pvalue.AsList(
            pipeline
            | "BaseOnce" >> beam.Create([layout.base])
            | "BaseShards" >> beam.FlatMap(each_shard, layout.output, growth.redone)
            | "SpreadBaseShards" >> beam.Reshuffle()
            | "WithoutAssets" >> beam.FlatMap(copy_shards, layout, growth.published, rule)
        )

    def join_splits(self, accepted: beam.PCollection, splits: beam.PCollection) -> Any:
        """What became of the assets: 'splits' that hold something of each, and 'rejects' of those without any.

        Where the dataset grows, 'known' too: what later runs need to go on with them.

        Args:
          accepted: PCollection of Verdict.
          splits: PCollection of (asset's name, split that holds something of it).
        """
        source = self.source
        keeps = bool(self.growth.job) and source.knows_assets(source.job)
        return (
            {
                "empty": accepted
                | "WhyEmpty" >> beam.Map(_if_empty, source, keeps=keeps)
                | "GatherEmpty" >> GatherByName(),
                "splits": splits | "GatherSplits" >> GatherByName(),
            }
            | "JoinWindows" >> beam.CoGroupByKey()
            | "SplitsOfAsset" >> beam.ParDo(SplitsOfAsset()).with_outputs(REJECTS, KNOWN, main="splits")
        )

    def decide(
        self, _: None, counted: Counter[str], rejects: list[Reject], was_short: list[str], values: Sequence[str] = ()
    ) -> Fleet:
        """The fleet in numbers, if it is within the limits of the job and, by column, has the values of its splits.

        Raises:
          JobFailed, UserError
        """
        fleet, ordered = Fleet.of(self.files, rejects, **counted), sorted(set(rejects), key=str)
        whole = self.growth.whole_fleet(fleet, self.layout.output, was_short)
        # Which values there are is known of files of this run alone.
        check_fleet(whole, ordered, self.source.job, self.layout.rejects, None if self.growth.adds else values)
        return fleet

    def _works(self, verdict: Verdict) -> Iterator[tuple[int, Sized]]:
        for work, size in self.source.works(verdict):
            yield bucket_of_work(work, self.source.job.split.seed), (work, size)

    def _plan_shards(self, _: None, works: list[tuple[int, Packed]], fleet: Fleet) -> Iterator[ShardPlan]:
        job = self.source.job
        few = self.growth.adds  # else a dataset that grows every day would be of tiny files
        shards = list(plan_shards(works, job.output.shards, job.split.seed, few=few))
        self.progress.total("write", sum(shard.assets for shard in shards), sum(shard.rows for shard in shards))
        self.progress.total("verify", len(shards))
        yield from shards


@dataclass(frozen=True)
class CheckedFiles:
    """What the steps give that read all files once.

    Attributes:
      driver: that runs steps in the pipeline.
      once: PCollection of one None.
      verdicts: PCollection of Verdict.
      accepted: PCollection of those that go on, without statistics.
      fleet: PCollection of one Fleet, which is within the limits of the job.
      rejects: PCollection of Reject.
      shards: PCollection of ShardPlan: what is to be read again, for files of about one size.
      notes: PCollection of lines.
      short: PCollection of (name, KnownAsset), where the dataset grows: assets with too few rows by now.
      was_short: PCollection of names, likewise: assets that had too few in an earlier run.
    """

    driver: OnBeam
    once: beam.PCollection
    verdicts: beam.PCollection
    accepted: beam.PCollection
    fleet: beam.PCollection
    rejects: beam.PCollection
    shards: beam.PCollection
    notes: beam.PCollection
    short: beam.PCollection
    was_short: beam.PCollection


def _plan_assets(job: PreprocessPipeline, pipeline: beam.Pipeline, driver: Driver) -> dict[str, beam.PCollection]:
    """PCollections 'assets' of (bucket, Packed of Asset), 'lost', and what `PlanAsset` tags.

    No PTransform, so that a runner shows each step by its own name.
    """
    source, progress, layout = job.source, job.progress, job.layout
    scanned = (
        pipeline
        | "Listing" >> beam.Create([layout.listing])
        | "ReadListing" >> beam.FlatMap(read_listing)
        | "SpreadFiles" >> beam.Reshuffle()
        | "ScanFile" >> beam.ParDo(ScanFile(source, layout.scratch, progress)).with_outputs(LOST, main="pieces")
    )
    pieces, lost = scanned["pieces"], scanned[LOST]
    if job.growth.goes_on:
        path, but = job.growth.before(layout.output).assets, job.growth.replaced
        known = pipeline | "KnownAssets" >> beam.Create([path]) | "ReadKnown" >> beam.FlatMap(iter_known, but)
        pieces = (pieces, known) | "WithKnown" >> beam.Flatten()
        tails = (
            pieces
            | "JoinKnown" >> GatherByName()
            | "Tails" >> beam.FlatMap(tails_of)
            | "EachTail" >> beam.Distinct()
            | "StatTail" >> beam.Map(_stat_tail, layout.again)
            | "GatherTails" >> GatherByName()
            | "PackTails" >> beam.FlatMapTuple(_pack_files)
            | "SpreadTails" >> beam.Reshuffle()
            | "ScanTail" >> beam.ParDo(ScanFile(source, layout.scratch, Progress(None))).with_outputs(LOST, main="old")
        )
        pieces = (pieces, tails["old"] | "Reread" >> beam.MapTuple(_reread)) | "WithTails" >> beam.Flatten()
        lost = (lost, tails[LOST]) | "LostOfAll" >> beam.Flatten()
    gathered = pieces | "JoinPieces" >> GatherByName()
    names = gathered | "Names" >> beam.MapTuple(lambda _, named: Names.of({name for name, _ in named}, source.job))
    names = driver.add_up("AddUpNames", names, Names.of((), source.job))
    # Which splits have assets is told of the whole dataset when it is published.
    takes_all = job.growth.adds
    chosen = driver.map("ChooseNames", names, lambda names: None if takes_all else names.taking_part(source.job))
    planned = gathered | "PlanAsset" >> beam.ParDo(
        PlanAsset(source, is_mixed=job.growth.is_mixed, again=layout.again),
        beam.pvalue.AsSingleton(chosen),
        beam.pvalue.AsList(lost),
    ).with_outputs(REJECTS, NOTES, VALUES, SHORT, WAS_SHORT, main="assets")
    return {LOST: lost, **{tag: planned[tag] for tag in ("assets", REJECTS, NOTES, VALUES, SHORT, WAS_SHORT)}}


def _judge_assets(job: PreprocessPipeline, assets: beam.PCollection, driver: Driver) -> beam.PCollection:
    """PCollection of (bucket, Packed of Asset) -> PCollection of Verdict."""
    source, progress = job.source, job.progress
    single = driver.flat_map("EachAsset", assets, lambda gathered: gathered[1])
    counts = driver.map(
        "CountAsset",
        single,
        lambda asset: Counter(assets=1, rows=asset.rows - asset.first_new, counted=source.counted(asset)),
    )
    total = driver.map("Total", driver.add_up("AddUpAssets", counts, Counter()), _report_total, progress)
    assets = assets | "InFleet" >> beam.Map(_in_fleet, beam.pvalue.AsSingleton(total), source)
    reports = (
        assets
        | "Units" >> beam.FlatMapTuple(lambda _, members: _pack_units(members, source))
        | "SpreadUnits" >> beam.Reshuffle()
        | "ValidateUnit" >> beam.ParDo(ValidateUnit(source, progress))
        | "GatherReports" >> GatherByName()
    )
    return (
        {"assets": assets, "reports": reports}
        | "JoinReports" >> beam.CoGroupByKey()
        | "Judge" >> beam.FlatMap(judge_assets, source, job.layout.again)
    )


def _stat_tail(path: str, again: str) -> tuple[str, FileStat]:
    with adding(again):
        try:
            return path, storage.stat(path)
        except FileNotFoundError:
            raise CannotGoOn(f"{path} is gone, which holds the rows before new ones") from None


def _pack_files(_: int, named: Iterable[tuple[str, FileStat]]) -> Iterator[Packed]:
    return map(Packed, runs_of_small((stat for _, stat in sorted(named)), lambda stat: stat.size, SMALL_BYTES))


def _reread(name: str, part: Piece | Reject) -> tuple[str, Reread | Reject]:
    return name, Reread(part) if isinstance(part, Piece) else part


def _in_fleet(gathered: tuple[int, Packed], total: Counter[str], source: Source) -> tuple[int, Packed]:
    bucket, assets = gathered
    return bucket, Packed(source.in_fleet(asset, total["counted"]) for asset in assets)


def _pack_units(assets: Iterable[Asset], source: Source) -> Iterator[Packed]:
    return map(Packed, runs_of_small(chain.from_iterable(map(source.units, assets)), source.size, SMALL_BYTES))


def _report_total(total: Counter[str], progress: Progress) -> Counter[str]:
    progress.total("validate", total["assets"], total["rows"])
    return total


def _values(job: Job, *columns: beam.PCollection) -> Iterator[beam.pvalue.AsList]:
    """With split: {by: column}, a side input: the values of the column, each once."""
    if job.split.by == "column":
        yield beam.pvalue.AsList(columns | "Values" >> beam.Flatten() | "EachValue" >> beam.Distinct())


def _splits_by_asset(written: Written) -> Iterator[tuple[str, str]]:
    for asset, windows in written.tally.windows_by_asset.items():
        if windows:
            yield asset, written.split


@dataclass(frozen=True)
class IfEmpty:
    """What is reported of an asset if no shard holds anything of it.

    Attributes:
      reject: why.
      rows: of the asset.
      before: splits of the dataset that is added to which hold something of it.
      was_accepted: whether an earlier run took it, whatever is left of it.
      known: where a dataset grows, what later runs need to go on with it.
    """

    reject: Reject
    rows: int
    before: tuple[SplitName, ...]
    was_accepted: bool
    known: KnownAsset | None


def _if_empty(verdict: Verdict, source: Source, *, keeps: bool) -> tuple[str, IfEmpty]:
    """By name, what is reported of an accepted asset; `keeps`: whether the dataset keeps a list of them."""
    asset, known = verdict.asset, None
    reject = Reject(asset.name, asset.files, "file", source.why_empty(asset))
    before = () if asset.known is None else asset.known.splits
    if keeps:
        earlier = 0 if asset.known is None else asset.known.rejected_rows
        known = replace(source.known(asset), rejected_rows=earlier + verdict.rejected_rows)
    return asset.name, IfEmpty(reject, asset.rows, before, asset.known is not None and not asset.known.set_aside, known)


def _if_set_aside(verdict: Verdict) -> Iterator[tuple[str, KnownAsset]]:
    """By name, what later runs need to know of an asset all of whose rows were set aside by themselves."""
    if not verdict.accepted and verdict.rejected_rows:
        name = verdict.asset.name
        yield name, KnownAsset(name, verdict.counted_rows, rejected_rows=verdict.rejected_rows, set_aside=True)


class SplitsOfAsset(beam.DoFn):
    """(bucket, an IfEmpty of its assets, and the splits that shards hold of them) -> each asset's splits.

    Each of them once, and none that held something of it before. Tagged 'rejects', where an asset has none -> (Reject,
    the asset's rows). Tagged 'known' -> (name, KnownAsset).
    """

    def process(self, gathered: tuple[int, dict[str, Iterable[Packed]]]) -> Iterator[Any]:
        _, parts = gathered
        written = by_name(chain.from_iterable(parts["splits"]))
        for name, empty in chain.from_iterable(parts["empty"]):
            now = set(written.get(name, ()))
            yield from sorted(now.difference(empty.before))
            splits = tuple(sorted(now.union(empty.before)))
            is_accepted = splits or empty.was_accepted
            if not is_accepted:
                yield beam.pvalue.TaggedOutput(REJECTS, (empty.reject, empty.rows))
            if empty.known is not None:
                known = replace(empty.known, splits=splits)
                if not is_accepted:  # its rows do not count
                    known = KnownAsset(name, rejected_rows=known.rejected_rows, set_aside=True)
                yield beam.pvalue.TaggedOutput(KNOWN, (name, known))


def write_listing(layout: DataLayout, files: Sequence[FileStat]) -> None:
    """The files to read, kept out of the job's graph, which must stay small; a line for each run of small ones."""
    most = max(1, min(MOST_FILES, len(files) // LEAST_RUNS))
    runs = runs_of_small(files, lambda stat: stat.size, SMALL_BYTES, most)
    lines = (json.dumps([[stat.path, stat.size, stat.mtime] for stat in run]) for run in runs)
    storage.write_text(layout.listing, "".join(f"{line}\n" for line in lines))


def read_listing(path: str) -> Iterator[Packed]:
    """The runs of FileStats that `write_listing` wrote.

    Raises:
      JobFailed: if a worker does not see the folder of the output.
    """
    try:
        lines = storage.read_text(path).splitlines()
    except FileNotFoundError:
        raise JobFailed(
            f"output.path: a worker does not see {path}, which was written when the job was submitted; give a path "
            "that is the same folder on all machines, or gs://"
        ) from None
    for line in lines:
        yield Packed(FileStat(*stat) for stat in json.loads(line))
