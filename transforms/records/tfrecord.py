"""Writes TFRecord files, one from each shard."""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import apache_beam as beam
import tensorflow as tf

from beamfeed.contract import storage
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.progress import Progress
from beamfeed.transforms.records.example_encoder import encode_examples
from beamfeed.transforms.records.shard_plan import ShardPlan
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.timeseries.preprocess import PreprocessSpec, SegmentedBlock, preprocess_unit
from beamfeed.transforms.statistics.scale import Scaler, load_scaler


@dataclass
class Tally:
    """What went into a file, counted on the way."""

    records: int = 0
    windows: int = 0
    rows: int = 0
    windows_by_asset: Counter[str] = field(default_factory=Counter)

    def add(self, block: SegmentedBlock) -> None:
        """Counts what a block is encoded to."""
        self.records += len(block.segments)
        self.windows += block.windows
        self.rows += int(block.segments.rows.sum())
        self.windows_by_asset[block.asset] += block.windows


@dataclass(frozen=True)
class Written:
    """A shard that was written, not yet read back."""

    shard: ShardPlan
    path: str
    tally: Tally


def write_file(path: str, temporary: str, records: Iterable[bytes], compression: str) -> None:
    """Streams records into a TFRecord file that appears under its name only when it is whole.

    Args:
      path: of the file, local or gs://
      temporary: a path that no other attempt uses, on the same file system.
      records: serialized, in order.
      compression: none or gzip.
    """
    if not storage.is_remote(path):  # a bucket has no folders: TensorFlow would ask for them and leave empty objects
        for name in (path, temporary):
            tf.io.gfile.makedirs(name.rpartition("/")[0])
    options = tf.io.TFRecordOptions("GZIP" if compression == "gzip" else "")
    try:
        with tf.io.TFRecordWriter(temporary, options) as writer:
            for record in records:
                writer.write(record)
        tf.io.gfile.rename(temporary, path, overwrite=True)
    except BaseException:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.remove(temporary)
        raise


def shard_records(shard: ShardPlan, spec: PreprocessSpec, scaler: Scaler, tally: Tally) -> Iterator[bytes]:
    """The records of a shard, unit by unit; counts them in `tally`.

    Raises:
      JobFailed: if a file changed since it was checked.
    """
    for work in shard.work:
        try:
            for block in preprocess_unit(work, spec, scaler):
                tally.add(block)
                yield from encode_examples(block.asset, block.rows, block.values, block.segments)
        except BadInput as bad:
            raise JobFailed(f"{bad.file} changed while the job ran: {bad.place} {bad.reason}") from None


class WriteToTFRecord(beam.PTransform):
    """PCollection of ShardPlan -> PCollection of Written: each shard's records in one TFRecord file.

    Beam's transform of this name takes records; it writes a file for each bundle
    (neither sized nor the same from run to run; on a local runner as many as there
    are workers) or sends every byte through a GroupByKey. This one takes what
    records are made from: a shard is one item of work, and one worker streams it
    into one file, under a temporary name first. A bundle that is tried again writes
    the same bytes to the same name. Nothing is shuffled.

    Names are Beam's, `part-00002-of-00016.tfrecord` in the split's folder.

    Args:
      transform_fn: PCollection of one path, the folder of the transform graph.
    """

    def __init__(self, layout: DataLayout, spec: PreprocessSpec, transform_fn: beam.PCollection, progress: Progress):
        super().__init__()
        self._layout, self._spec, self._transform_fn, self._progress = layout, spec, transform_fn, progress

    def expand(self, shards: beam.PCollection) -> beam.PCollection:
        writer = _WriteShard(self._layout, self._spec, self._progress)
        return shards | "WriteShard" >> beam.ParDo(writer, beam.pvalue.AsSingleton(self._transform_fn))


class _WriteShard(beam.DoFn):
    def __init__(self, layout: DataLayout, spec: PreprocessSpec, progress: Progress):
        self._layout, self._spec, self._progress = layout, spec, progress
        self._windows = beam.metrics.Metrics.counter("beamfeed", "windows_written")

    def process(self, shard: ShardPlan, transform_fn: str) -> Iterator[Written]:
        path = self._layout.shard(shard.split, shard.index, shard.count)
        name = f"{shard.split}-{shard.index:05d}-{uuid.uuid4().hex}"
        temporary = f"{self._layout.temporary}/{name}"
        scaler = load_scaler(transform_fn, self._spec.job.prepare.scale.per == "asset")
        tally = Tally()
        records = shard_records(shard, self._spec, scaler, tally)
        write_file(path, temporary, records, self._spec.job.output.compression)
        self._windows.inc(tally.windows)
        self._progress.add(
            "write",
            assets=sum(work.unit.is_last for work in shard.work),
            rows=sum(work.unit.rows for work in shard.work),
        )
        yield Written(shard, path, tally)
