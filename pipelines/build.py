r"""The Beam job that preprocesses a fleet.

    files -> scan -> plan -> validate -> judge -> statistics -> transform graph
                                            \-> shards -> write -> verify -> publish

Only descriptors are shuffled. Every row is read twice, to check it and to write it:
a second read costs less than to hold or to shuffle the data.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam

from beamfeed.contract import storage
from beamfeed.contract.dataset.fingerprint import shard_multiple
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.transforms.progress import Progress
from beamfeed.transforms.publish import Fleet, Publish, check_limit
from beamfeed.transforms.records.example_encoder import record_fields
from beamfeed.transforms.records.shard_plan import ShardPlan, plan_shards
from beamfeed.transforms.records.tfrecord import WriteToTFRecord
from beamfeed.transforms.records.verify import VerifyShard
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.timeseries.plan import Asset, cut_units, plan_assets
from beamfeed.transforms.sources.timeseries.preprocess import PreprocessSpec
from beamfeed.transforms.sources.timeseries.scan import FileSlice, ScanFile
from beamfeed.transforms.sources.timeseries.validate import ValidateUnit, Verdict, judge
from beamfeed.transforms.statistics.moments import AddMoments, Moments
from beamfeed.transforms.statistics.scale import BuildTransform, Table
from beamfeed.transforms.statistics.transform_fn import WriteTransformFn


@dataclass(frozen=True)
class PreprocessPipeline:
    """A job whose files are listed and whose columns are known."""

    spec: PreprocessSpec
    layout: DataLayout
    fingerprint: str
    files: int
    progress: Progress

    def build(self, pipeline: beam.Pipeline) -> None:
        """Adds the whole job to a pipeline."""
        job, schema, progress = self.spec.job, self.spec.schema, self.progress
        features = len(schema.features)
        scan = ScanFile(job.source.asset, schema, self._split_column(), progress)
        scanned = (
            pipeline
            | "Listing" >> beam.Create([self.layout.listing])
            | "ReadListing" >> beam.FlatMap(read_listing)
            | "SpreadFiles" >> beam.Reshuffle()
            | "ScanFile" >> beam.ParDo(scan).with_outputs(ScanFile.REJECTS, main="slices")
        )
        planned = _single(pipeline, "Plan") | "PlanAssets" >> beam.ParDo(
            _PlanAssets(self.spec, progress),
            beam.pvalue.AsList(scanned["slices"]),
            beam.pvalue.AsList(scanned[ScanFile.REJECTS]),
        ).with_outputs(_PlanAssets.REJECTS, main="units")
        verdicts = (
            planned["units"]
            | "SpreadUnits" >> beam.Reshuffle()
            | "ValidateUnit" >> beam.ParDo(ValidateUnit(schema, job, progress))
            | "GroupByAsset" >> beam.GroupByKey()
            | "Judge" >> beam.MapTuple(lambda _, reports: judge(reports, schema, job))
        )
        moments, table = self._learn(verdicts, features)
        transform_fn = table | "BuildTransform" >> BuildTransform(job.prepare.scale, features)
        transform_written = transform_fn | "WriteTransformFn" >> WriteTransformFn(self.layout.root)
        outcome = verdicts | "DropMoments" >> beam.Map(lambda v: replace(v, moments=Moments.zero(features)))
        early = (scanned[ScanFile.REJECTS], planned[_PlanAssets.REJECTS]) | "EarlyRejects" >> beam.Flatten()
        fleet = _single(pipeline, "Decide") | "DecideFleet" >> beam.ParDo(
            _DecideFleet(self), beam.pvalue.AsList(outcome), beam.pvalue.AsList(early)
        )
        verified = (
            fleet
            | "PlanShards" >> beam.FlatMap(self._plan_shards)
            | "SpreadShards" >> beam.Reshuffle()
            | "WriteToTFRecord" >> WriteToTFRecord(self.layout, self.spec, transform_fn[0], progress)
            | "SpreadWritten" >> beam.Reshuffle()
            | "VerifyShard" >> beam.ParDo(
                VerifyShard(features, job.windows, job.output.compression, progress)
            )
        )  # fmt: skip
        _ = _single(pipeline, "Publish") | "PublishManifest" >> beam.ParDo(
            Publish(job, record_fields(schema.features), self.fingerprint, self.layout),
            beam.pvalue.AsSingleton(fleet),
            beam.pvalue.AsList(verified),
            beam.pvalue.AsSingleton(moments),
            beam.pvalue.AsList(transform_written),
        )

    def _split_column(self) -> str | None:
        split = self.spec.job.split
        return split.column if split.by == "column" and self.spec.schema.split is None else None

    def _learn(self, verdicts: beam.PCollection, features: int) -> tuple[beam.PCollection, beam.PCollection]:
        """The moments of all training rows, and what the transform graph holds."""
        scale = self.spec.job.prepare.scale
        fleet = (
            verdicts
            | "TrainingRows" >> beam.Filter(lambda v: v.asset.split in (None, "train"))
            | "TheirMoments" >> beam.Map(lambda v: v.moments)
            | "AddMoments" >> beam.CombineGlobally(AddMoments(features))
        )
        by_asset = (
            verdicts
            | "Accepted" >> beam.Filter(lambda v: scale.per == "asset" and not v.rejects)
            | "MomentsByAsset" >> beam.Map(lambda v: (v.asset.name, v.moments))
        )
        table = fleet | "MakeTable" >> beam.Map(
            lambda moments, assets: Table.of(moments, dict(assets), scale.how), beam.pvalue.AsList(by_asset)
        )
        return fleet, table

    def _plan_shards(self, fleet: Fleet) -> Iterator[ShardPlan]:
        shards = list(plan_shards(fleet.accepted, self.spec, shard_multiple(self.spec.job)))
        works = [work.unit for shard in shards for work in shard.work]
        self.progress.total("write", sum(unit.is_last for unit in works), sum(unit.rows for unit in works))
        self.progress.total("verify", len(shards))
        yield from shards


def _single(pipeline: beam.Pipeline, name: str) -> beam.PCollection:
    """One element, for a step that takes everything as side inputs."""
    return pipeline | f"{name}Once" >> beam.Create([None])


def write_listing(layout: DataLayout, paths: list[str]) -> None:
    """The files to read, kept out of the job's graph, which must stay small."""
    storage.write_text(layout.listing, "".join(json.dumps(path) + "\n" for path in paths))


def read_listing(path: str) -> Iterator[str]:
    """The paths that `write_listing` wrote."""
    for line in storage.read_text(path).splitlines():
        yield json.loads(line)


class _PlanAssets(beam.DoFn):
    """All slices and rejects of scanning, as side inputs -> Unit; tagged 'rejects' -> Reject."""

    REJECTS = "rejects"

    def __init__(self, spec: PreprocessSpec, progress: Progress):
        self._spec, self._progress = spec, progress

    def process(self, _: None, slices: list[FileSlice], rejects: list[Reject]) -> Iterator[Any]:
        spec = self._spec
        assets, more = plan_assets(slices, rejects, spec.job, spec.schema.time_units)
        self._progress.total("validate", len(assets), sum(asset.rows for asset in assets))
        for reject in more:
            yield beam.pvalue.TaggedOutput(self.REJECTS, reject)
        for asset in assets:
            yield from cut_units(asset, spec.windowing, len(spec.schema.features))


class _DecideFleet(beam.DoFn):
    """All verdicts and early rejects, as side inputs -> Fleet; stops the job if too much is rejected."""

    def __init__(self, job: PreprocessPipeline):
        self._job = job

    def process(self, _: None, verdicts: list[Verdict], early: list[Reject]) -> Iterator[Fleet]:
        accepted: list[Asset] = sorted((v.asset for v in verdicts if not v.rejects), key=lambda asset: asset.name)
        rejects = {*early, *(reject for verdict in verdicts for reject in verdict.rejects)}
        fleet = Fleet(self._job.files, tuple(accepted), tuple(sorted(rejects, key=str)))
        check_limit(fleet, self._job.spec.job.limits.max_rejected_fraction, self._job.layout)
        yield fleet
