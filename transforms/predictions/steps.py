"""Predictions as Parquet: of the windows of a dataset, shard by shard, and of files that no dataset was made of."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import apache_beam as beam
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.layout import REJECTS, DataLayout, shard_name
from beamfeed.contract.progress import Progress
from beamfeed.transforms.export.base import Export, Format, ShardExport, complete, target
from beamfeed.transforms.export.items import Items, cut_items, item_fields
from beamfeed.transforms.export.parquet import KEY, write_batches
from beamfeed.transforms.fleet import Fleet, check_limits
from beamfeed.transforms.predictions.columns import answer_columns, join, key_columns
from beamfeed.transforms.predictions.model import Exported, Model, load
from beamfeed.transforms.records.shard_plan import ShardPlan
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.base import Source
from beamfeed.transforms.sources.checking import read_again
from beamfeed.transforms.sources.record_block import Values

COUNTS = b"beamfeed_counts"  # of the metadata of a file that is whole
WORKING = "_working"  # the folder of what is needed on the way


@dataclass(frozen=True)
class Fields:
    """What is asked of windows.

    Attributes:
      fields: of these, all that are read.
      windows: how they lie in the rows of records.
    """

    fields: tuple[Field, ...]
    windows: Windows

    @classmethod
    def of(cls, fields: Sequence[Field], windows: Windows, *, targets: bool) -> "Fields":
        """Those of a dataset: inputs, keys and, where they are there, targets."""
        roles = ("input", "key", "target") if targets else ("input", "key")
        return cls(tuple(field for field in fields if field.role in roles), windows)

    @property
    def inputs(self) -> list[Field]:
        return [field for field in self.fields if field.role == "input"]

    @property
    def identifying(self) -> list[Field]:
        """Those that say whose answers they are."""
        return [field for field in self.fields if field.role != "input"]

    @property
    def length(self) -> int:
        """Rows of a window that a model gets."""
        whole = self.windows.length
        return max((field.rows_of(whole)[1] for field in self.inputs if field.per == "row"), default=whole)


def predict(model: Model, items: Items, fields: Fields, place: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
    """The answers for some windows, in order, some at a time.

    Args:
      model: that is asked.
      items: the windows.
      fields: of them.
      place: see `RecordBlock`, of the block that they are of.
    """
    first = 0
    while first < items.count:
        part = slice(first, first + model.calls.next(items.count - first))
        first = part.stop
        some = items.part(part)
        began = time.perf_counter()
        answers = model.answer(some.values, fields.inputs)
        model.calls.took(some.count, time.perf_counter() - began)
        keys = key_columns(fields.identifying, some, fields.length, place)
        yield join(keys, answer_columns(answers, model.description, some.values, fields.inputs))


def write_described(
    path: str, parts: Iterable[tuple[str, int, Iterable[pa.RecordBatch]]], content: Mapping[str, object]
) -> Counter[str]:
    """Writes a Parquet file whose metadata says what its rows are; no file where there is no row.

    One that an attempt before this one has written stays as it is.

    Args:
      path: of the file.
      parts: of its rows: their asset, how many there are, and the rows.
      content: what decides on the rows.

    Returns:
      how many it has of each asset.
    """
    if (counts := counts_in(path, content)) is not None:
        return counts
    counts = Counter()

    def batches() -> Iterator[pa.RecordBatch]:
        for asset, count, rows in parts:
            counts[asset] += count
            yield from rows

    every = batches()
    if (first := next(every, None)) is not None:
        schema = first.schema.with_metadata({KEY: json.dumps(content).encode()})
        rows = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in chain([first], every))
        write_batches(path, schema, rows, lambda: {COUNTS: json.dumps(counts).encode()})
    return counts


def counts_in(path: str, content: Mapping[str, object]) -> Counter[str] | None:
    """What `write_described` gave for a file; None where there is no whole file of this content."""
    import pyarrow.parquet as pq

    try:
        with storage.open_input(path) as file:
            facts = pq.read_metadata(file).metadata or {}
    except (FileNotFoundError, pa.ArrowInvalid):
        return None
    is_same = facts.get(KEY) == json.dumps(content).encode()
    return Counter(json.loads(facts[COUNTS])) if is_same and COUNTS in facts else None


class Predictions(Format):
    """Predictions for the windows of a dataset, a file for each shard.

    Args:
      model: that is asked.
    """

    name: ClassVar[str] = "predictions"
    suffix: ClassVar[str] = ".parquet"

    def __init__(self, model: Exported):
        self._model = model

    @property
    def content(self) -> dict[str, object]:
        return {"model": self._model.folder, "model_crc32c": self._model.crc32c}

    def write(self, export: Export, shard: ShardExport, items: Iterator[Items]) -> None:
        model = load(self._model)
        named = [field for field in export.manifest.fields if field.name in export.names]
        fields = Fields.of(named, export.manifest.windows, targets=True)
        parts = (("", part.count, predict(model, part, fields, None)) for part in items)
        write_described(target(export, shard, self.suffix), parts, self.content)

    def finish(self, export: Export, shards: Sequence[ShardExport]) -> list[str]:
        return [shard.file(self.suffix) for shard in shards if shard.items]


@dataclass(frozen=True)
class Written:
    """A file of predictions: its name, and how many it has of each asset."""

    name: str
    counts: Counter[str]


@dataclass(frozen=True)
class FilePredictions:
    """Predictions for files that no dataset was made of.

    Attributes:
      source: that reads them.
      fields: of the dataset that the model was trained on.
      model: that is asked.
      out: the folder that is written.
      content: what decides on the files that are written: of two that are equal, the files are.
    """

    source: Source
    fields: Fields
    model: Exported
    out: str
    content: dict[str, object]

    @property
    def layout(self) -> "FileLayout":
        """The names of what is needed on the way."""
        return FileLayout(self.out, WORKING)

    def write(self, shard: ShardPlan) -> Written:
        """Writes the predictions of a shard.

        Raises:
          JobFailed: if a file changed since it was checked.
        """
        name = "/".join(part for part in (shard.folder, shard_name(shard.index, shard.count, ".parquet")) if part)
        model = load(self.model)
        parts = (
            (asset, part.count, predict(model, part, self.fields, place))
            for asset, part, place in self._items(shard, model)
        )
        return Written(name, write_described(storage.join(self.out, name), parts, self.content))

    def _items(self, shard: ShardPlan, model: Model) -> Iterator[tuple[str, Items, pa.RecordBatch | None]]:
        transform = model.transform
        items = item_fields(self.fields.fields, self.fields.windows, "windows")
        for work in shard.work:
            for block in read_again(work, self.source.read_with(work, transform or _Nothing())):
                for part in cut_items(block, items, self.fields.windows, "windows"):
                    yield block.asset, part, block.place


class FileLayout(DataLayout):
    """What is needed on the way lies in a folder of its own; what is set aside is listed beside the predictions."""

    @property
    def rejects(self) -> str:
        return storage.join(self.output, REJECTS)


class _Nothing:
    """The transform of a dataset that has none."""

    inputs: frozenset[str] = frozenset()

    def __call__(self, columns: object) -> dict[str, Values]:
        return {}


class PredictShard(beam.DoFn):
    """ShardPlan -> Written."""

    def __init__(self, predictions: FilePredictions, progress: Progress):
        self._predictions, self._progress = predictions, progress
        self._windows = beam.metrics.Metrics.counter("beamfeed", "windows_predicted")

    def process(self, shard: ShardPlan) -> Iterator[Written]:
        written = self._predictions.write(shard)
        self._windows.inc(written.counts.total())
        self._progress.add("write", assets=shard.assets, rows=shard.rows)
        yield written


def publish(
    _: None, predictions: FilePredictions, fleet: Fleet, rejects: list[Reject], notes: list[str],
    empty: list[tuple[Reject, int]], written: list[tuple[str, int]],
) -> None:  # fmt: skip
    """Says that all is there.

    Raises:
      JobFailed: if more was set aside than the job allows.
    """
    fleet, rejects = fleet.without(rejects, empty)
    check_limits(fleet, rejects, predictions.source.job.limits, predictions.layout.rejects)
    complete(
        predictions.out,
        predictions.content,
        counts=fleet.counts.model_dump(),
        notes=sorted(notes),
        items={"all": sum(count for _, count in written)},
        files=sorted(name for name, count in written if count),
    )
