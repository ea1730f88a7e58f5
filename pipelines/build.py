r"""The Beam job that preprocesses a fleet.

    files -> scan -> plan -> validate -> judge -> statistics -> transform graph
                                            \-> shards -> write -> verify -> publish

Only descriptors are shuffled. Every row is read twice, to check it and to write it:
a second read costs less than to hold or to shuffle the data.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import apache_beam as beam

from beamfeed.contract import storage
from beamfeed.contract.dataset.fingerprint import shard_multiple
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.transforms.progress import Progress
from beamfeed.transforms.publish import Fleet, Publish, check_limit
from beamfeed.transforms.records.shard_plan import ShardPlan, plan_shards
from beamfeed.transforms.records.tfrecord import WriteToTFRecord
from beamfeed.transforms.records.verify import VerifyShard
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.base import Source, Verdict
from beamfeed.transforms.sources.checking import REJECTS, PlanAssets, ScanFile, ValidateUnit
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
        scanned = (
            pipeline
            | "Listing" >> beam.Create([self.layout.listing])
            | "ReadListing" >> beam.FlatMap(read_listing)
            | "SpreadFiles" >> beam.Reshuffle()
            | "ScanFile" >> beam.ParDo(ScanFile(source, progress)).with_outputs(REJECTS, main="pieces")
        )
        planned = _single(pipeline, "Plan") | "PlanAssets" >> beam.ParDo(
            PlanAssets(source, progress),
            beam.pvalue.AsList(scanned["pieces"]),
            beam.pvalue.AsList(scanned[REJECTS]),
        ).with_outputs(REJECTS, main="units")
        judged = (
            planned["units"]
            | "SpreadUnits" >> beam.Reshuffle()
            | "ValidateUnit" >> beam.ParDo(ValidateUnit(source, progress))
            | "GroupByAsset" >> beam.GroupByKey()
            | "Judge" >> beam.MapTuple(lambda _, reports: source.judge(reports))
        )
        verdicts = source.review(judged)
        statistics, transform_fn = source.learn(verdicts)
        transform_written = transform_fn | "WriteTransformFn" >> WriteTransformFn(self.layout.root)
        outcome = verdicts | "DropStatistics" >> beam.Map(lambda verdict: replace(verdict, statistics=None))
        early = (scanned[REJECTS], planned[REJECTS]) | "EarlyRejects" >> beam.Flatten()
        fleet = _single(pipeline, "Decide") | "DecideFleet" >> beam.ParDo(
            _DecideFleet(self), beam.pvalue.AsList(outcome), beam.pvalue.AsList(early)
        )
        fields = statistics | "Fields" >> beam.Map(source.fields)
        written = WriteToTFRecord(self.layout, source, transform_fn[0], statistics, progress)
        verify = VerifyShard(job.windows, job.output.compression, progress)
        verified = (
            fleet
            | "PlanShards" >> beam.FlatMap(self._plan_shards)
            | "SpreadShards" >> beam.Reshuffle()
            | "WriteToTFRecord" >> written
            | "SpreadWritten" >> beam.Reshuffle()
            | "VerifyShard" >> beam.ParDo(verify, beam.pvalue.AsSingleton(fields))
        )
        _ = _single(pipeline, "Publish") | "PublishManifest" >> beam.ParDo(
            Publish(source, self.fingerprint, self.layout),
            beam.pvalue.AsSingleton(fleet),
            beam.pvalue.AsList(verified),
            beam.pvalue.AsSingleton(statistics),
            beam.pvalue.AsList(transform_written),
        )

    def _plan_shards(self, fleet: Fleet) -> Iterator[ShardPlan]:
        shards = list(plan_shards(fleet.accepted, self.source, shard_multiple(self.source.job)))
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


class _DecideFleet(beam.DoFn):
    """All verdicts and early rejects, as side inputs -> Fleet; stops the job if too much is rejected."""

    def __init__(self, job: PreprocessPipeline):
        self._job = job

    def process(self, _: None, verdicts: list[Verdict], early: list[Reject]) -> Iterator[Fleet]:
        accepted = sorted((v.asset for v in verdicts if not v.rejects), key=lambda asset: asset.name)
        rejects = {*early, *(reject for verdict in verdicts for reject in verdict.rejects)}
        fleet = Fleet(self._job.files, tuple(accepted), tuple(sorted(rejects, key=str)))
        check_limit(fleet, self._job.source.job.limits.max_rejected_fraction, self._job.layout)
        yield fleet
