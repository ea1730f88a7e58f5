"""The Beam job that exports a dataset: a shard is one unit of work, and what tells that all is there comes last.

shards -> (measure) -> prepare -> write -> publish
"""

from collections import Counter
from collections.abc import Iterator

import apache_beam as beam

from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.export.array_record import ArrayRecord
from beamfeed.transforms.export.base import Export, Format, ShardExport, complete
from beamfeed.transforms.export.decode import read_blocks
from beamfeed.transforms.export.items import Items, cut_items
from beamfeed.transforms.export.numpy_files import NumpyFiles
from beamfeed.transforms.export.parquet import Parquet
from beamfeed.transforms.export.webdataset import WebDataset

FORMATS: dict[str, type[Format]] = {form.name: form for form in (Parquet, WebDataset, ArrayRecord, NumpyFiles)}
VERSION = 1  # of what DESCRIPTION holds


def read_items(export: Export, shard: ShardExport) -> Iterator[Items]:
    """The items of a shard, some megabytes at a time.

    Raises:
      JobFailed: if it is damaged, or does not hold what the manifest says.
    """
    manifest, count = export.manifest, 0
    fields = export.fields
    stored = [field for field in manifest.fields if field.stored != "steps"]
    for block in read_blocks(shard, manifest, stored):
        for items in cut_items(block, fields, manifest.windows, export.what):
            count += items.count
            yield items
    if count != shard.items:
        raise JobFailed(f"{shard.path}: holds {count} {export.what}, the manifest says {shard.items}")


def export_dataset(pipeline: beam.Pipeline, export: Export, form: Format) -> beam.PCollection:
    """Of one, what DESCRIPTION says of the export, when all of it is written.

    Args:
      pipeline: that exports.
      export: what is exported and where to.
      form: the format.
    """
    once = pipeline | "Once" >> beam.Create([None])
    shards = once | "ListShards" >> beam.FlatMap(lambda _: export.shards())
    measured = shards | "SpreadShards" >> beam.Reshuffle() | "MeasureShard" >> beam.Map(measure, export, form)
    written = (
        once
        | "Prepare" >> beam.FlatMap(prepare, export, form, beam.pvalue.AsDict(measured))
        | "SpreadPrepared" >> beam.Reshuffle()
        | "WriteShard" >> beam.ParDo(WriteShard(export, form))
    )
    return once | "Publish" >> beam.Map(publish, export, form, beam.pvalue.AsList(written))


def measure(shard: ShardExport, export: Export, form: Format) -> tuple[str, dict[str, int]]:
    """A shard's path, and what it puts into each file of its split."""
    return shard.path, form.measure(export, read_items(export, shard))


def prepare(_: None, export: Export, form: Format, measured: dict[str, dict[str, int]]) -> list[ShardExport]:
    """The shards, as they are to be written."""
    return form.prepare(export, export.shards(), measured)


class WriteShard(beam.DoFn):
    """ShardExport -> the same, when it is written."""

    def __init__(self, export: Export, form: Format):
        self._export, self._form = export, form
        self._items = beam.metrics.Metrics.counter("beamfeed", "items_exported")

    def process(self, shard: ShardExport) -> Iterator[ShardExport]:
        self._form.write(self._export, shard, read_items(self._export, shard))
        self._items.inc(shard.items)
        yield shard


def publish(_: None, export: Export, form: Format, written: list[ShardExport]) -> dict[str, object]:
    """Says that all is there."""
    shards = sorted(written, key=lambda shard: shard.path)
    files = form.finish(export, shards)
    counts: Counter[str] = Counter()
    for shard in shards:
        counts[shard.split] += shard.items
    return complete(export.out, describe(export, form), items=dict(counts), files=sorted(files))


def describe(export: Export, form: Format) -> dict[str, object]:
    """What decides on the files of an export: of two that are equal, the files are."""
    return {
        "version": VERSION,
        "name": export.manifest.name,
        "to": export.to,
        "splits": list(export.splits),
        **export.content,
        **form.content,
    }
