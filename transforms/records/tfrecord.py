"""Writes TFRecord files, one from each shard."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import apache_beam as beam

from beamfeed.contract import storage
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.progress import Progress
from beamfeed.contract.records import frames
from beamfeed.transforms.records.example_encoder import encode_examples
from beamfeed.transforms.records.shard_plan import ShardPlan
from beamfeed.transforms.records.targets import Tally
from beamfeed.transforms.sources.base import Source
from beamfeed.transforms.sources.checking import read_again
from beamfeed.transforms.sources.descriptors import Statistics

WRITE_BYTES = 1 << 20  # given to the file at a time


@dataclass(frozen=True)
class Written:
    """A shard that was written, not yet read back: `index` of `count` in its split."""

    split: SplitName
    index: int
    count: int
    path: str
    tally: Tally
    folder: str = ""  # of its partition


def write_file(path: str, temporary: str, records: Iterable[bytes], compression: str) -> None:
    """Streams records into a TFRecord file that appears under its name only when it is whole.

    Args:
      path: of the file, local or gs://
      temporary: a path that no other attempt uses, on the same file system.
      records: serialized, in order.
      compression: none or gzip.
    """
    packer = frames.packer(compression)
    with storage.open_output(path, temporary) as file:
        pieces: list[bytes] = []
        size = 0
        for record in records:
            pieces += frames.framed(record)
            size += len(record)
            if size >= WRITE_BYTES:
                file.write(packer.compress(b"".join(pieces)))
                pieces, size = [], 0
        file.write(packer.compress(b"".join(pieces)) + packer.flush())


def shard_records(shard: ShardPlan, source: Source, made: str, statistics: Statistics, tally: Tally) -> Iterator[bytes]:
    """The records of a shard, unit by unit; counts them in `tally`.

    Args:
      shard: what goes into it.
      source: that reads it.
      made: what the source made beside the statistics.
      statistics: of the training rows.
      tally: to count in.

    Raises:
      JobFailed: if a file changed since it was checked.
    """
    fields, windows = source.fields(statistics), source.job.frame
    for work in shard.work:
        for block in read_again(work, source.read(work, made, statistics)):
            tally.add(block, fields, windows)
            for record in encode_examples(block, fields, windows):
                tally.bytes += len(record)
                yield record


class WriteToTFRecord(beam.DoFn):
    """ShardPlan -> Written: the shard's records in one TFRecord file.

    Side inputs: the path of what the source made beside the statistics, empty where that is nothing, and the statistics
    of the training rows.

    Beam's transform of this name takes records; it writes a file for each bundle
    (neither sized nor the same from run to run; on a local runner as many as there
    are workers) or sends every byte through a GroupByKey. This one takes what
    records are made from: a shard is one item of work, and one worker streams it
    into one file, under a temporary name first. A bundle that is tried again writes
    the same bytes to the same name. Nothing is shuffled.

    Names are Beam's, `part-00002-of-00016.tfrecord` in the split's folder.

    Args:
      layout: names the shards.
      source: reads what a shard is made from.
      progress: of the job.
    """

    def __init__(self, layout: DataLayout, source: Source, progress: Progress):
        self._layout, self._source, self._progress = layout, source, progress
        self._windows = beam.metrics.Metrics.counter("beamfeed", "windows_written")

    def process(self, shard: ShardPlan, made: str, statistics: Statistics) -> Iterator[Written]:
        path = self._layout.shard(shard.split, shard.index, shard.count, shard.folder)
        temporary = self._layout.attempt(shard.split, shard.index)
        tally = Tally()
        records = shard_records(shard, self._source, made, statistics, tally)
        write_file(path, temporary, records, self._source.job.output.compression)
        self._windows.inc(tally.windows)
        self._progress.add("write", assets=shard.assets, rows=shard.rows)
        yield Written(shard.split, shard.index, shard.count, path, tally, shard.folder)
