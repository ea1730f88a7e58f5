r"""The Beam job that preprocesses a fleet.

    files -> scan -> plan -> validate -> judge -> statistics -> transform graph
                                            \-> shards -> write -> verify -> publish

Only descriptors are shuffled, each an asset's or a unit's; nothing of the fleet's
size is one element. Every row is read twice, to check it and to write it: a second
read costs less than to hold or to shuffle the data.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam

from beamfeed.contract import storage
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.fleet import ChooseNames, DecideFleet, Fleet
from beamfeed.transforms.notes import SumUp
from beamfeed.transforms.progress import Progress
from beamfeed.transforms.publish import Publish
from beamfeed.transforms.records.shard_plan import ShardPlan, Sized, plan_shards
from beamfeed.transforms.records.tfrecord import WriteToTFRecord, Written
from beamfeed.transforms.records.verify import VerifyShard
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.base import Asset, Source
from beamfeed.transforms.sources.checking import NOTES, REJECTS, VALUES, Judge, PlanAsset, ScanFile, ValidateUnit
from beamfeed.transforms.statistics.transform_fn import WriteTransformFn


@dataclass(frozen=True)
class PreprocessPipeline:
    """A job whose files are listed and whose source is known."""

    source: Source
    layout: DataLayout
    fingerprint: str
    files: int
    progress: Progress

    def build(self, pipeline: beam.Pipeline) -> None:
        """Adds the whole job to a pipeline."""
        job, source, progress = self.source.job, self.source, self.progress
        planned = _plan_assets(self, pipeline)
        verdicts = _check_assets(self, planned["assets"])
        statistics, transform_fn = source.learn(verdicts)
        transform_written = transform_fn | "WriteTransformFn" >> WriteTransformFn(self.layout.root)
        outcome = verdicts | "DropStatistics" >> beam.Map(lambda verdict: replace(verdict, statistics=None))
        accepted = outcome | "AcceptedAssets" >> beam.Filter(lambda verdict: verdict.accepted)
        rejects = (
            planned[REJECTS],
            outcome | "TheirRejects" >> beam.FlatMap(lambda verdict: verdict.rejects),
        ) | "Rejects" >> beam.Flatten()
        values = (
            planned[VALUES],
            outcome | "TheirValues" >> beam.FlatMap(lambda verdict: verdict.split_values),
        ) | "Values" >> beam.Flatten()
        notes = (
            planned[NOTES],
            outcome | "TheirNotes" >> beam.FlatMap(lambda verdict: verdict.notes),
        ) | "Notes" >> beam.Flatten()
        counted = accepted | "AssetsAndRows" >> beam.Map(lambda verdict: (1, verdict.asset.rows))
        fleet = _single(pipeline, "Decide") | "DecideFleet" >> beam.ParDo(
            DecideFleet(job, self.layout, self.files),
            beam.pvalue.AsSingleton(counted | "CountAssets" >> beam.CombineGlobally(_add_pairs)),
            beam.pvalue.AsList(rejects),
            beam.pvalue.AsList(values | "EachValue" >> beam.Distinct()),
        )
        works = accepted | "Works" >> beam.FlatMap(source.works)
        written = (
            _single(pipeline, "Shards")
            # The fleet is there as a barrier: nothing is written before it is decided on.
            | "PlanShards" >> beam.FlatMap(self._plan_shards, beam.pvalue.AsIter(works), beam.pvalue.AsSingleton(fleet))
            | "SpreadShards" >> beam.Reshuffle()
            | "WriteToTFRecord" >> WriteToTFRecord(self.layout, source, transform_fn[0], statistics, progress)
        )
        fields = statistics | "Fields" >> beam.Map(source.fields)
        verify = VerifyShard(job.windows, job.output.compression, progress)
        verified = (
            written
            | "SpreadWritten" >> beam.Reshuffle()
            | "VerifyShard" >> beam.ParDo(verify, beam.pvalue.AsSingleton(fields))
        )
        with_windows = written | "AssetsOfShards" >> beam.FlatMap(_split_and_asset) | "EachAsset" >> beam.Distinct()
        by_split = with_windows | "SplitOfEach" >> beam.Keys() | "AssetsBySplit" >> beam.combiners.Count.PerElement()
        empty = (
            {
                "assets": accepted | "AcceptedByName" >> beam.Map(lambda verdict: (verdict.asset.name, verdict.asset)),
                "windows": with_windows | "WindowsByAsset" >> beam.Map(lambda found: (found[1], None)),
            }
            | "JoinWindows" >> beam.CoGroupByKey()
            | "WithoutWindow" >> beam.FlatMap(_without_window, source)
        )
        _ = _single(pipeline, "Publish") | "PublishManifest" >> beam.ParDo(
            Publish(source, self.fingerprint, self.layout),
            beam.pvalue.AsSingleton(fleet),
            beam.pvalue.AsList(rejects),
            beam.pvalue.AsList(empty),
            beam.pvalue.AsDict(by_split),
            beam.pvalue.AsList(notes | "SumUpNotes" >> SumUp()),
            beam.pvalue.AsList(verified),
            beam.pvalue.AsSingleton(statistics),
            beam.pvalue.AsList(transform_written),
        )

    def _plan_shards(self, _: None, works: Any, fleet: Fleet) -> Iterator[ShardPlan]:
        job = self.source.job
        found: list[Sized] = list(works)
        units = [work.unit for work, _ in found]
        self.progress.total("write", sum(unit.is_last for unit in units), sum(unit.rows for unit in units))
        shards = list(plan_shards(found, job.output.shards, job.split.seed))
        self.progress.total("verify", len(shards))
        yield from shards


def _plan_assets(job: PreprocessPipeline, pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
    """PCollections 'assets' of (asset's name, Asset), 'rejects', 'notes' and 'values'.

    No PTransform, so that a runner shows each step by its own name.
    """
    source, progress, layout = job.source, job.progress, job.layout
    scanned = (
        pipeline
        | "Listing" >> beam.Create([layout.listing])
        | "ReadListing" >> beam.FlatMap(read_listing)
        | "SpreadFiles" >> beam.Reshuffle()
        | "ScanFile" >> beam.ParDo(ScanFile(source, layout.scratch, progress)).with_outputs(REJECTS, main="pieces")
    )
    lost = scanned[REJECTS] | "Nameless" >> beam.Filter(lambda reject: reject.asset is None)
    named = scanned[REJECTS] | "Named" >> beam.Filter(lambda reject: reject.asset is not None)
    found = {
        "pieces": scanned["pieces"] | "ByAsset" >> beam.Map(lambda piece: (piece.asset, piece)),
        "rejects": named | "RejectsByAsset" >> beam.Map(lambda reject: (reject.asset, reject)),
    } | "JoinPieces" >> beam.CoGroupByKey()
    kept = found | "Names" >> beam.Keys() | "ChooseNames" >> beam.CombineGlobally(ChooseNames(source.job))
    planned = found | "PlanAsset" >> beam.ParDo(
        PlanAsset(source), beam.pvalue.AsSingleton(kept), beam.pvalue.AsList(lost)
    ).with_outputs(REJECTS, NOTES, VALUES, main="assets")
    rejects = (lost, planned[REJECTS]) | "EarlyRejects" >> beam.Flatten()
    return {"assets": planned["assets"], REJECTS: rejects, NOTES: planned[NOTES], VALUES: planned[VALUES]}


def _check_assets(job: PreprocessPipeline, assets: beam.PCollection) -> beam.PCollection:
    """PCollection of (asset's name, Asset) -> PCollection of Verdict."""
    source, progress = job.source, job.progress
    total = (
        assets
        | "TheirRows" >> beam.MapTuple(lambda _, asset: (1, asset.rows))
        | "CountRows" >> beam.CombineGlobally(_add_pairs)
        | "Total" >> beam.Map(_tell_total, progress)
    )
    assets = assets | "InFleet" >> beam.Map(
        lambda found, total: (found[0], source.in_fleet(found[1], total[1])), beam.pvalue.AsSingleton(total)
    )
    reports = (
        assets
        | "Units" >> beam.FlatMapTuple(lambda _, asset: source.units(asset))
        | "SpreadUnits" >> beam.Reshuffle()
        | "ValidateUnit" >> beam.ParDo(ValidateUnit(source, progress))
    )
    judged = (
        {"asset": assets, "reports": reports}
        | "JoinReports" >> beam.CoGroupByKey()
        | "Judge" >> beam.ParDo(Judge(source))
    )
    return source.review(judged)


def _tell_total(total: tuple[int, int], progress: Progress) -> tuple[int, int]:
    progress.total("validate", *total)
    return total


def _add_pairs(pairs: Any) -> tuple[int, int]:
    assets, rows = 0, 0
    for more_assets, more_rows in pairs:
        assets, rows = assets + more_assets, rows + more_rows
    return assets, rows


def _split_and_asset(written: Written) -> Iterator[tuple[str, str]]:
    for asset, windows in written.tally.windows_by_asset.items():
        if windows:
            yield written.split, asset


def _without_window(found: tuple[str, dict[str, Any]], source: Source) -> Iterator[tuple[Reject, int]]:
    """Of an asset without a window the reject and its rows."""
    name, parts = found
    asset: Asset
    for asset in parts["assets"]:
        if not list(parts["windows"]):
            yield Reject(name, asset.files, "file", source.why_empty(asset)), asset.rows


def _single(pipeline: beam.Pipeline, name: str) -> beam.PCollection:
    """One element, for a step that takes everything as side inputs."""
    return pipeline | f"{name}Once" >> beam.Create([None])


def write_listing(layout: DataLayout, files: list[FileStat]) -> None:
    """The files to read, kept out of the job's graph, which must stay small."""
    lines = (json.dumps([stat.path, stat.size, stat.mtime]) + "\n" for stat in files)
    storage.write_text(layout.listing, "".join(lines))


def read_listing(path: str) -> Iterator[FileStat]:
    """The files that `write_listing` wrote."""
    for line in storage.read_text(path).splitlines():
        yield FileStat(*json.loads(line))
