"""Reads written shards back: what the manifest says of them was seen in the file."""

from collections.abc import Iterator
from dataclasses import asdict

import apache_beam as beam
import numpy as np
import tensorflow as tf

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.manifest import Shard
from beamfeed.contract.dataset.verify import CHUNK_BYTES, differences, measure_shard
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.progress import Progress
from beamfeed.transforms.records.blocks import cut_blocks
from beamfeed.transforms.records.example_encoder import VALUES
from beamfeed.transforms.records.tfrecord import Written

_BATCH_BYTES = 1 << 20  # of records that are parsed at a time


@tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
def _lengths(serialized: tf.Tensor) -> tf.Tensor:
    """int64 [2, records]: bytes, and how many values each record holds. Traced once a process, not once a shard."""
    spec = {VALUES: tf.io.RaggedFeature(tf.float32, row_splits_dtype=tf.int64)}
    values = tf.io.parse_example(serialized, spec)[VALUES].row_lengths()
    return tf.stack([tf.cast(tf.strings.length(serialized), tf.int64), values])


def record_lengths(path: str, compression: str, features: int, batch: int) -> Iterator[np.ndarray]:
    """Bytes and rows of each record, by TensorFlow's own reader, which checks every record's CRC.

    Args:
      path: of the shard.
      compression: none or gzip.
      features: columns of a row.
      batch: records to parse at a time.

    Yields:
      int64 `[2, records]`, for some records after the other.

    Raises:
      JobFailed: if a record holds a part of a row.
    """
    dataset = tf.data.TFRecordDataset(path, "GZIP" if compression == "gzip" else "", buffer_size=CHUNK_BYTES)
    for records in dataset.batch(batch):
        sizes, lengths = _lengths(records).numpy()
        if (lengths % features).any():
            raise JobFailed(f"{path}: a record holds no whole rows")
        yield np.stack([sizes, lengths // features])


def verify_shard(written: Written, features: int, windows: Windows, compression: str) -> tuple[Shard, np.ndarray]:
    """Reads a shard back.

    Args:
      written: what was counted on the way in.
      features: columns of a row.
      windows: of the dataset.
      compression: none or gzip.

    Returns:
      what the manifest says of it, and its blocks, see `cut_blocks`.

    Raises:
      JobFailed: if it does not hold what was counted.
    """
    tally = written.tally
    batch = max(1, _BATCH_BYTES * tally.records // max(1, 4 * features * tally.rows))
    found = [np.empty([2, 0], np.int64)]

    def rows_of_records() -> Iterator[np.ndarray]:
        for lengths in record_lengths(written.path, compression, features, batch):
            found.append(lengths)
            yield lengths[1]

    try:
        with tf.io.gfile.GFile(written.path, "rb") as shard:
            facts = measure_shard(shard, rows_of_records(), windows)
    except tf.errors.OpError as error:
        raise JobFailed(f"{written.path}: cannot be read back: {error.message}") from None
    counted = {"records": tally.records, "windows": tally.windows, "rows": tally.rows}
    if wrong := differences(facts, counted):
        raise JobFailed(f"{written.path}: what was read back is not what was written: {'; '.join(wrong)}")
    sizes, rows = np.concatenate(found, axis=1)
    if not count_windows(rows, windows.length, windows.stride).all():
        raise JobFailed(f"{written.path}: a record holds no whole window")
    return Shard(**asdict(facts)), cut_blocks(sizes, rows, windows)


class VerifyShard(beam.DoFn):
    """Written -> (Written, beamfeed.contract.dataset.manifest.Shard, its blocks int64 [blocks, 3])."""

    def __init__(self, features: int, windows: Windows, compression: str, progress: Progress):
        self._progress = progress
        self._args = features, windows, compression

    def process(self, written: Written) -> Iterator[tuple[Written, Shard, np.ndarray]]:
        yield written, *verify_shard(written, *self._args)
        self._progress.add("verify", assets=1, rows=written.tally.rows)
