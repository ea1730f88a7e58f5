"""Serialized tf.train.Examples -> a block of records, as sources give and `records` encodes: the way back."""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from beamfeed.contract import storage
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import LENGTHS, Field
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.errors import JobFailed, first_line
from beamfeed.contract.records.examples import features_of
from beamfeed.contract.records.frames import Counted, Damaged, read_frames, unpacked
from beamfeed.contract.records.pieces import add_up
from beamfeed.transforms.export.base import ShardExport
from beamfeed.transforms.export.items import bytes_of
from beamfeed.transforms.records.example_encoder import FEATURE_TYPES
from beamfeed.transforms.records.verify import count_rows
from beamfeed.transforms.sources.record_block import Ragged, RecordBlock, Values

BLOCK_BYTES = 4 << 20  # of serialized records that are decoded at a time


class Decoder:
    """Decodes records of a dataset.

    Args:
      fields: what each holds; none of them is a feature list of a SequenceExample.
      windows: of the dataset.
    """

    def __init__(self, fields: Sequence[Field], windows: Windows):
        self._fields, self._windows = fields, windows
        features, schema = features_of(fields), schema_pb2.Schema()
        for feature in features:
            schema.feature.add(name=feature.name, type=FEATURE_TYPES[feature.listed])
        self._columns = {feature.key: feature.name for feature in features}
        self._decoder = ExamplesToRecordBatchDecoder(schema.SerializeToString())

    def decode(self, serialized: Sequence[bytes]) -> RecordBlock:
        """The records as one block, whose rows are theirs, one record after the other.

        Raises:
          JobFailed: if they do not hold what the fields say.
        """
        try:
            batch = self._decoder.DecodeBatch([record for record in serialized if record])  # one of no byte is no row
        except Exception as error:  # tfx_bsl's own have no type
            raise JobFailed(f"a record is not of the manifest's fields: {first_line(error)}") from None
        lists = {name: batch.column(batch.schema.names.index(column)) for name, column in self._columns.items()}
        counts = {name: _list_lengths(column) for name, column in lists.items()}
        for field in self._fields:
            name, of_lengths = field.name, field.name + LENGTHS
            if _has_lengths(field):
                counts[f"{of_lengths}.sum"] = add_up(_numbers(lists[of_lengths]), counts[of_lengths])
            elif field.is_ragged:  # the whole list is the value
                counts[of_lengths] = np.ones_like(counts[name])
                counts[f"{of_lengths}.sum"] = counts[name] // field.width
            elif field.default is not None:
                counts[name] = np.where(counts[name] == 0, field.width, counts[name])
        rows, wrong = count_rows(counts, self._fields, self._windows)
        if wrong:
            raise JobFailed(wrong)
        values = {field.name: self._values(lists, field) for field in self._fields}
        return RecordBlock("", np.cumsum(rows) - rows, rows, values)

    def _values(self, lists: dict[str, Any], field: Field) -> Values:
        column = lists[field.name]
        entries = column.flatten() if field.default is None else _with_default(column, field)
        stored: np.ndarray | pa.Array = entries
        if field.is_raw:
            stored = _from_memory(entries, field)
        elif field.dtype != "bytes":
            numbers = _class_numbers(entries, field) if field.spelled else entries
            stored = numbers.to_numpy(zero_copy_only=False).reshape(-1, *(size for size in field.shape if size))
        if not field.is_ragged:
            return stored
        if _has_lengths(field):
            return Ragged(stored, _numbers(lists[field.name + LENGTHS]))
        return Ragged(stored, _list_lengths(column) // field.width)


def _list_lengths(column: Any) -> np.ndarray:
    """How many entries each list has, int64; 0 where there is none."""
    return pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)


def _class_numbers(names: pa.Array, field: Field) -> pa.Array:
    """The numbers of classes by their names.

    Raises:
      JobFailed: if there is no such class.
    """
    numbers = pc.index_in(names, pa.array([name.encode() for name in field.classes], names.type))
    if numbers.null_count:
        raise JobFailed(f"a record holds a class of {field.name!r} that the manifest does not have")
    return numbers.cast(pa.int64())


def _has_lengths(field: Field) -> bool:
    """Whether records hold the lengths of its values as a feature."""
    return field.is_ragged and field.stored == "rows"


def _with_default(column: Any, field: Field) -> Any:
    """The entries of a column of lists, with the default in the place of lists that hold nothing."""
    sizes, entries, width = _list_lengths(column), column.flatten(), field.width
    default = field.default.encode() if isinstance(field.default, str) else field.default
    joined = pa.concat_arrays([entries, pa.array([default] * width, entries.type)])
    first = np.where(sizes == 0, len(entries), np.cumsum(sizes) - sizes)
    return joined.take(pa.array((first[:, None] + np.arange(width)).ravel()))


def _numbers(column: Any) -> np.ndarray:
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False), np.int64)


def _from_memory(strings: Any, field: Field) -> np.ndarray:
    """Values that are stored as the strings of their memory.

    Raises:
      JobFailed: if one is too short or too long.
    """
    if not pc.all(pc.equal(pc.binary_length(strings), field.bytes), min_count=0).as_py():
        raise JobFailed(f"a record holds no whole values of {field.name!r}")
    dtype = np.dtype(field.dtype)
    return bytes_of(strings).view(dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(-1, *field.shape)


def read_blocks(shard: ShardExport, manifest: Manifest, fields: Sequence[Field]) -> Iterator[RecordBlock]:
    """The records of a shard, some at a time.

    Args:
      shard: to read.
      manifest: of its dataset.
      fields: of a record.

    Raises:
      JobFailed: if the shard is damaged, or does not hold what the fields say.
    """
    decoder = Decoder(fields, manifest.windows)
    batch = max(1, BLOCK_BYTES * shard.records // max(1, shard.bytes))
    with naming_the_shard(shard.path), storage.open_stream(shard.path) as file:
        for records in read_frames(unpacked(Counted(file), manifest.compression)):
            for first in range(0, len(records), batch):
                yield decoder.decode(records[first : first + batch])


@contextmanager
def naming_the_shard(path: str) -> Iterator[None]:
    """What goes wrong with a shard is said of it.

    Raises:
      JobFailed
    """
    try:
        yield
    except JobFailed as failed:
        raise JobFailed(f"{path}: {failed.reason}") from None
    except Damaged as damaged:
        raise JobFailed(f"{path}: damaged: {damaged}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise JobFailed(f"{path}: cannot be read: {first_line(error)}") from None
