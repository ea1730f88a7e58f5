"""Serialized tf.train.Examples -> a block of records, as sources give and `records` encodes: the way back."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import LENGTHS, Field, Listed
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.records.example_encoder import features_of
from beamfeed.transforms.records.verify import count_rows
from beamfeed.transforms.sources.record_block import Ragged, RecordBlock, Values

BLOCK_BYTES = 4 << 20  # of serialized records that are decoded at a time
READ_BYTES = 8 << 20  # of a shard
_TYPES: dict[Listed, "schema_pb2.FeatureType"] = {
    "bytes": schema_pb2.BYTES,
    "float32": schema_pb2.FLOAT,
    "int64": schema_pb2.INT,
}


class Decoder:
    """Decodes records of a dataset.

    Args:
      fields: what each holds.
      windows: of the dataset.
    """

    def __init__(self, fields: Sequence[Field], windows: Windows):
        self._fields, self._windows = fields, windows
        schema = schema_pb2.Schema()
        for name, dtype in features_of(fields):
            schema.feature.add(name=name, type=_TYPES[dtype])
        self._decoder = ExamplesToRecordBatchDecoder(schema.SerializeToString())

    def decode(self, serialized: Sequence[bytes]) -> RecordBlock:
        """The records as one block, whose rows are theirs, one record after the other.

        Raises:
          JobFailed: if they do not hold what the fields say.
        """
        try:
            batch = self._decoder.DecodeBatch(list(serialized))
        except Exception as error:  # tfx_bsl's own have no type
            raise JobFailed(f"a record is not of the manifest's fields: {str(error).splitlines()[0]}") from None
        lists = {name: batch.column(number) for number, name in enumerate(batch.schema.names)}
        counts, sums = {}, {}
        for name, column in lists.items():
            counts[name] = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
            if name.endswith(LENGTHS):
                ends = np.cumsum(counts[name])
                total = np.concatenate([[0], np.cumsum(_numbers(column))])
                sums[f"{name}.sum"] = total[ends] - total[ends - counts[name]]
        rows, wrong = count_rows({**counts, **sums}, self._fields, self._windows)
        if wrong:
            raise JobFailed(wrong)
        values = {field.name: self._values(lists, field) for field in self._fields}
        return RecordBlock("", np.cumsum(rows) - rows, rows, values)

    def _values(self, lists: dict[str, Any], field: Field) -> Values:
        entries = lists[field.name].flatten()
        found: np.ndarray | pa.Array
        if field.is_raw:
            found = _from_memory(entries, field)
        elif field.dtype == "bytes":
            found = entries
        else:
            shape = field.shape[1:] if field.is_ragged else field.shape
            found = entries.to_numpy(zero_copy_only=False).reshape(-1, *shape)
        return Ragged(found, _numbers(lists[field.name + LENGTHS])) if field.is_ragged else found


def _numbers(column: Any) -> np.ndarray:
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False), np.int64)


def _from_memory(strings: Any, field: Field) -> np.ndarray:
    """Values that are stored as the strings of their memory.

    Raises:
      JobFailed: if one is too short or too long.
    """
    if not pc.all(pc.equal(pc.binary_length(strings), field.bytes), min_count=0).as_py():
        raise JobFailed(f"a record holds no whole values of {field.name!r}")
    _, offsets, data = strings.buffers()
    first = np.frombuffer(offsets, np.int64 if pa.types.is_large_binary(strings.type) else np.int32)[strings.offset]
    memory = np.frombuffer(data or b"", np.uint8)[first : first + len(strings) * (field.bytes or 0)]
    dtype = np.dtype(field.dtype)
    return memory.view(dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(-1, *field.shape)


def read_blocks(
    path: str, compression: str, fields: Sequence[Field], windows: Windows, batch: int
) -> Iterator[RecordBlock]:
    """The records of a shard, some at a time.

    Args:
      path: of the shard.
      compression: none or gzip.
      fields: of a record.
      windows: of the dataset.
      batch: records to decode at a time.

    Raises:
      JobFailed: if the shard is damaged, or does not hold what the fields say.
    """
    decoder = Decoder(fields, windows)
    shard = tf.data.TFRecordDataset(path, "GZIP" if compression == "gzip" else "", buffer_size=READ_BYTES)
    try:
        for serialized in shard.batch(batch):
            try:
                yield decoder.decode(serialized.numpy().tolist())
            except JobFailed as failed:
                raise JobFailed(f"{path}: {str(failed).removeprefix(JobFailed.MARK).strip()}") from None
    except tf.errors.DataLossError as error:
        raise JobFailed(f"{path}: damaged: {error.message.split('}}')[-1].split(' [Op:')[0].strip()}") from None
    except tf.errors.OpError as error:
        raise JobFailed(f"{path}: cannot be read: {error.message}") from None
