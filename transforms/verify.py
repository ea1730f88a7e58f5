"""Reads written shards back: what the manifest says of them was seen in the file."""

from collections.abc import Iterator

import apache_beam as beam
import google_crc32c
import tensorflow as tf

from contract.errors import JobFailed
from contract.job import Windows
from contract.manifest import Shard as ShardInfo
from transforms.encode import VALUES
from transforms.progress import Progress
from transforms.tfrecord import Written

_CHUNK = 8 << 20  # bytes
_RECORDS = 16  # parsed at a time


def file_checksum(path: str) -> tuple[int, str]:
    """Size in bytes, and CRC-32C as 8 hex digits."""
    checksum, size = google_crc32c.Checksum(), 0
    with tf.io.gfile.GFile(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            checksum.update(chunk)
            size += len(chunk)
    return size, checksum.hexdigest().decode()


@tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
def _lengths(serialized: tf.Tensor) -> tf.Tensor:
    """int64 [records]: how many values each record holds. Traced once a process, not once a shard."""
    spec = {VALUES: tf.io.RaggedFeature(tf.float32, row_splits_dtype=tf.int64)}
    return tf.io.parse_example(serialized, spec)[VALUES].row_lengths()


def count_records(path: str, compression: str, features: int, windows: Windows) -> tuple[int, int, int]:
    """Records, windows and rows of a shard, by TensorFlow's own reader, which checks every record's CRC."""
    dataset = tf.data.TFRecordDataset(path, "GZIP" if compression == "gzip" else "", buffer_size=_CHUNK)
    records = found = rows = 0
    for batch in dataset.batch(_RECORDS):
        lengths = _lengths(batch).numpy()
        sizes = lengths // features
        if (lengths % features).any() or (sizes < windows.length).any():
            raise JobFailed(f"{path}: a record holds no whole windows")
        records += len(sizes)
        found += int(((sizes - windows.length) // windows.stride + 1).sum())
        rows += int(sizes.sum())
    return records, found, rows


def verify_shard(written: Written, file: str, features: int, windows: Windows, compression: str) -> ShardInfo:
    """Reads a shard back.

    Args:
      file: its name in the manifest.

    Raises:
      JobFailed: if it does not hold what was counted on the way in.
    """
    tally = written.tally
    try:
        size, checksum = file_checksum(written.path)
        found = count_records(written.path, compression, features, windows)
    except tf.errors.OpError as error:
        raise JobFailed(f"{written.path}: cannot be read back: {error.message}") from None
    expected = (tally.records, tally.windows, tally.rows)
    if found != expected:
        raise JobFailed(f"{written.path}: holds {found} records, windows and rows, {expected} were written")
    return ShardInfo(file=file, records=found[0], windows=found[1], rows=found[2], bytes=size, crc32c=checksum)


class VerifyShard(beam.DoFn):
    """Written -> (Written, contract.manifest.Shard)."""

    def __init__(self, root: str, features: int, windows: Windows, compression: str, progress: Progress):
        self._root, self._progress = root, progress
        self._args = features, windows, compression

    def process(self, written: Written) -> Iterator[tuple[Written, ShardInfo]]:
        file = written.path.removeprefix(self._root).lstrip("/")
        yield written, verify_shard(written, file, *self._args)
        self._progress.add("verify", assets=1, rows=written.tally.rows)
