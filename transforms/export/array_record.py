"""ArrayRecord: a file for each shard, a tf.train.Example for each item, which can be read in any order."""

import os
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from typing import ClassVar

import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.errors import UserError
from beamfeed.transforms.export.base import Export, Format, ShardExport, target
from beamfeed.transforms.export.items import Items
from beamfeed.transforms.records.example_encoder import encode_examples
from beamfeed.transforms.sources.record_block import RecordBlock


class ArrayRecord(Format):
    """Files of the package array-record, as Grain reads them. An Example is a record of one window, see docs."""

    name: ClassVar[str] = "array_record"
    suffix: ClassVar[str] = ".array_record"

    def check(self, export: Export) -> None:
        if find_spec("array_record") is None:
            raise UserError("--to array_record: the package array-record is not installed; pip install array-record")

    def write(self, export: Export, shard: ShardExport, items: Iterator[Items]) -> None:
        from array_record.python.array_record_module import ArrayRecordWriter

        # The package writes to this machine alone.
        with tempfile.TemporaryDirectory(prefix="beamfeed-export-", ignore_cleanup_errors=True) as folder:
            path = os.path.join(folder, "shard")
            writer = ArrayRecordWriter(path, "group_size:1")
            for batch in items:
                for record in to_examples(export, batch):
                    writer.write(record)
            writer.close()
            storage.write_chunks(target(export, shard, self.suffix), storage.read_chunks(path))


def to_examples(export: Export, items: Items) -> Iterator[bytes]:
    """Each item as a serialized tf.train.Example: a record of the dataset's own layout that holds one window (row)."""
    length = export.manifest.windows.length if export.what == "windows" else 1
    fields = [
        item.field
        if item.time in (None, length)
        else item.field.model_copy(update={"per": "window", "shape": item.shape})  # a part of the window's rows
        for item in export.fields
    ]
    if not any(field.per == "row" for field in fields):  # a record tells its rows by one
        length, fields = 1, [field.model_copy(update={"per": "row"}) for field in fields]
    first = np.arange(items.count) * length
    values = {}
    for field in fields:
        column = items.values[field.name]
        values[field.name] = column.reshape(-1, *field.shape) if isinstance(column, np.ndarray) else column
    block = RecordBlock("", first, np.full_like(first, length), values)
    yield from encode_examples(block, fields, Windows(length=length, stride=length))
