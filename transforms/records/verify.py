"""Reads written shards back: what the manifest says of them was seen in the file."""

from collections.abc import Iterator

import apache_beam as beam
import google_crc32c
import numpy as np
import tensorflow as tf

from beamfeed.contract.config.job import Windows
from beamfeed.contract.dataset.manifest import Shard as ShardInfo
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.progress import Progress
from beamfeed.transforms.records.blocks import cut_blocks
from beamfeed.transforms.records.example_encoder import VALUES
from beamfeed.transforms.records.tfrecord import Written

_CHUNK = 8 << 20  # bytes
_BATCH_BYTES = 1 << 20  # of records that are parsed at a time


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
    """int64 [2, records]: bytes, and how many values each record holds. Traced once a process, not once a shard."""
    spec = {VALUES: tf.io.RaggedFeature(tf.float32, row_splits_dtype=tf.int64)}
    values = tf.io.parse_example(serialized, spec)[VALUES].row_lengths()
    return tf.stack([tf.cast(tf.strings.length(serialized), tf.int64), values])


def measure_records(
    path: str, compression: str, features: int, windows: Windows, batch: int
) -> tuple[np.ndarray, np.ndarray]:
    """Bytes and rows of each record of a shard, by TensorFlow's own reader, which checks every record's CRC.

    Args:
      batch: records to parse at a time.
    """
    dataset = tf.data.TFRecordDataset(path, "GZIP" if compression == "gzip" else "", buffer_size=_CHUNK)
    found = [np.empty([2, 0], np.int64)]
    for records in dataset.batch(batch):
        sizes, lengths = _lengths(records).numpy()
        rows = lengths // features
        if (lengths % features).any() or (rows < windows.length).any():
            raise JobFailed(f"{path}: a record holds no whole windows")
        found.append(np.stack([sizes, rows]))
    sizes, rows = np.concatenate(found, axis=1)
    return sizes, rows


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
        batch = max(1, _BATCH_BYTES * tally.records // max(1, 4 * features * tally.rows))
        sizes, rows = measure_records(written.path, compression, features, windows, batch)
    except tf.errors.OpError as error:
        raise JobFailed(f"{written.path}: cannot be read back: {error.message}") from None
    blocks = cut_blocks(sizes, rows, windows)
    found = (len(sizes), sum(blocks.windows), int(rows.sum()))
    expected = (tally.records, tally.windows, tally.rows)
    if found != expected:
        raise JobFailed(f"{written.path}: holds {found} records, windows and rows, {expected} were written")
    return ShardInfo(
        file=file, records=found[0], windows=found[1], rows=found[2], bytes=size, crc32c=checksum, blocks=blocks
    )


class VerifyShard(beam.DoFn):
    """Written -> (Written, beamfeed.contract.dataset.manifest.Shard)."""

    def __init__(self, root: str, features: int, windows: Windows, compression: str, progress: Progress):
        self._root, self._progress = root, progress
        self._args = features, windows, compression

    def process(self, written: Written) -> Iterator[tuple[Written, ShardInfo]]:
        file = written.path.removeprefix(self._root).lstrip("/")
        yield written, verify_shard(written, file, *self._args)
        self._progress.add("verify", assets=1, rows=written.tally.rows)
