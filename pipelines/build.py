r"""The Beam job that preprocesses a fleet.

    files -> scan -> plan -> validate -> judge -> statistics -> transform graph
                                            \-> shards -> write -> verify -> publish

Only descriptors are shuffled, each an asset's or a unit's; nothing of the fleet's
size is one element. Every row is read twice, to check it and to write it: a second
read costs less than to hold or to shuffle the data.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.progress import Progress
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.decide import ChooseNames, DecideFleet
from beamfeed.transforms.fleet import Fleet
from beamfeed.transforms.publish import Publish
from beamfeed.transforms.records.shard_plan import ShardPlan, Sized, plan_shards
from beamfeed.transforms.records.tfrecord import WriteToTFRecord, Written
from beamfeed.transforms.records.verify import VerifyShard
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.base import Source
from beamfeed.transforms.sources.checking import (
    LOST,
    NOTES,
    REJECTS,
    VALUES,
    Judge,
    Outcome,
    PlanAsset,
    ScanFile,
    ValidateUnit,
)
from beamfeed.transforms.sources.descriptors import Asset
from beamfeed.transforms.statistics.sums import CountRows
from beamfeed.transforms.statistics.transform_fn import WriteTransformFn
from beamfeed.transforms.sum_up import SumUp


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
        once = pipeline | "Once" >> beam.Create([None])
        if transform_fn is None:
            graph = transform_written = once | "NoGraph" >> beam.Map(lambda _: "")
        else:
            graph, _ = transform_fn
            transform_written = transform_fn | "WriteTransformFn" >> WriteTransformFn(self.layout.root)
        judged = verdicts | "Outcome" >> beam.ParDo(Outcome()).with_outputs(REJECTS, NOTES, VALUES, main="accepted")
        accepted = judged["accepted"]
        rejects = (planned[REJECTS], planned[LOST], judged[REJECTS]) | "Rejects" >> beam.Flatten()
        counted = (
            verdicts
            | "CountAssets"
            >> beam.CombineGlobally(
                CountRows(
                    lambda verdict: verdict.accepted,
                    lambda verdict: verdict.counted_rows,
                    lambda verdict: verdict.rejected_rows,
                )
            ).without_defaults()
        )
        fleet = once | "DecideFleet" >> beam.ParDo(
            DecideFleet(job, self.layout, self.files),
            beam.pvalue.AsSingleton(counted, default_value=(0, 0, 0, 0)),
            beam.pvalue.AsList(rejects),
            *_values(job, planned[VALUES], judged[VALUES]),
        )
        works = accepted | "Works" >> beam.FlatMap(source.works)
        written = (
            once
            # The fleet is there as a barrier: nothing is written before it is decided on.
            | "PlanShards" >> beam.FlatMap(self._plan_shards, beam.pvalue.AsIter(works), beam.pvalue.AsSingleton(fleet))
            | "SpreadShards" >> beam.Reshuffle()
            | "WriteToTFRecord" >> WriteToTFRecord(self.layout, source, graph, statistics, progress)
        )
        verify = VerifyShard(job.windows, job.output.compression, progress)
        verified = (
            written
            | "SpreadWritten" >> beam.Reshuffle()
            | "VerifyShard"
            >> beam.ParDo(verify, beam.pvalue.AsSingleton(statistics | "Fields" >> beam.Map(source.fields)))
        )
        with_windows = (
            {
                "assets": accepted | "AcceptedByName" >> beam.Map(lambda verdict: (verdict.asset.name, verdict.asset)),
                "splits": written | "SplitsByAsset" >> beam.FlatMap(_splits_by_asset),
            }
            | "JoinWindows" >> beam.CoGroupByKey()
            | "SplitsOfAsset" >> beam.ParDo(SplitsOfAsset(source)).with_outputs(REJECTS, main="splits")
        )
        _ = once | "PublishManifest" >> beam.ParDo(
            Publish(source, self.fingerprint, self.layout),
            beam.pvalue.AsSingleton(fleet),
            beam.pvalue.AsList(rejects),
            beam.pvalue.AsList(with_windows[REJECTS]),
            beam.pvalue.AsDict(with_windows["splits"] | "AssetsBySplit" >> beam.combiners.Count.PerElement()),
            beam.pvalue.AsList((planned[NOTES], judged[NOTES]) | "Notes" >> beam.Flatten() | "SumUpNotes" >> SumUp()),
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
    """PCollections 'assets' of (asset's name, Asset), 'rejects', 'lost', 'notes' and 'values'.

    No PTransform, so that a runner shows each step by its own name.
    """
    source, progress, layout = job.source, job.progress, job.layout
    scanned = (
        pipeline
        | "Listing" >> beam.Create([layout.listing])
        | "ReadListing" >> beam.FlatMap(read_listing)
        | "SpreadFiles" >> beam.Reshuffle()
        | "ScanFile"
        >> beam.ParDo(ScanFile(source, layout.scratch, progress)).with_outputs(REJECTS, LOST, main="pieces")
    )
    found = {
        "pieces": scanned["pieces"],
        "rejects": scanned[REJECTS],
    } | "JoinPieces" >> beam.CoGroupByKey()
    kept = (
        found
        | "Names" >> beam.Keys()
        | "ChooseNames" >> beam.CombineGlobally(ChooseNames(source.job)).without_defaults()
    )
    planned = found | "PlanAsset" >> beam.ParDo(
        PlanAsset(source), beam.pvalue.AsSingleton(kept, default_value=None), beam.pvalue.AsList(scanned[LOST])
    ).with_outputs(REJECTS, NOTES, VALUES, main="assets")
    return {
        "assets": planned["assets"],
        REJECTS: planned[REJECTS],
        LOST: scanned[LOST],
        NOTES: planned[NOTES],
        VALUES: planned[VALUES],
    }


def _check_assets(job: PreprocessPipeline, assets: beam.PCollection) -> beam.PCollection:
    """PCollection of (asset's name, Asset) -> PCollection of Verdict."""
    source, progress = job.source, job.progress
    total = (
        assets
        | "CountRows"
        >> beam.CombineGlobally(
            CountRows(lambda found: found[1].rows, lambda found: source.counted(found[1]))
        ).without_defaults()
        | "Total" >> beam.Map(_tell_total, progress)
    )
    assets = assets | "InFleet" >> beam.Map(
        lambda found, total: (found[0], source.in_fleet(found[1], total[2])), beam.pvalue.AsSingleton(total)
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


def _tell_total(total: tuple[int, ...], progress: Progress) -> tuple[int, ...]:
    progress.total("validate", *total[:2])
    return total


def _values(job: Job, *found: beam.PCollection) -> Iterator[beam.pvalue.AsList]:
    """With split: {by: column}, a side input: the values of the column, each once."""
    if job.split.by == "column":
        yield beam.pvalue.AsList(found | "Values" >> beam.Flatten() | "EachValue" >> beam.Distinct())


def _splits_by_asset(written: Written) -> Iterator[tuple[str, str]]:
    for asset, windows in written.tally.windows_by_asset.items():
        if windows:
            yield asset, written.split


class SplitsOfAsset(beam.DoFn):
    """(asset's name, the asset and the splits that shards hold of it) -> each of these splits once.

    Tagged 'rejects', where there is none -> (Reject, the asset's rows).
    """

    def __init__(self, source: Source):
        self._source = source

    def process(self, found: tuple[str, dict[str, Any]]) -> Iterator[Any]:
        name, parts = found
        splits = set(parts["splits"])
        yield from sorted(splits)
        asset: Asset
        for asset in () if splits else parts["assets"]:
            reject = Reject(name, asset.files, "file", self._source.why_empty(asset))
            yield beam.pvalue.TaggedOutput(REJECTS, (reject, asset.rows))


def write_listing(layout: DataLayout, files: Sequence[FileStat]) -> None:
    """The files to read, kept out of the job's graph, which must stay small."""
    lines = (json.dumps([stat.path, stat.size, stat.mtime]) + "\n" for stat in files)
    storage.write_text(layout.listing, "".join(lines))


def read_listing(path: str) -> Iterator[FileStat]:
    """The files that `write_listing` wrote."""
    for line in storage.read_text(path).splitlines():
        yield FileStat(*json.loads(line))
