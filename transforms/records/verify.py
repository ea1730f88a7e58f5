"""Reads written shards back: what the manifest says of them was seen in the file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow as tf

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import LENGTHS, Field
from beamfeed.contract.dataset.frames import CHUNK_BYTES
from beamfeed.contract.dataset.manifest import Shard
from beamfeed.contract.dataset.verify import differences, measure_shard
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.contract.errors import JobFailed
from beamfeed.contract.progress import Progress
from beamfeed.transforms.records.blocks import cut_blocks
from beamfeed.transforms.records.example_encoder import Features, features_of
from beamfeed.transforms.records.tfrecord import Written

_BATCH_BYTES = 1 << 20  # of records that are parsed at a time
_TYPES = {"bytes": tf.string, "float32": tf.float32, "int64": tf.int64}


@lru_cache(maxsize=8)
def _counter(features: Features) -> Any:
    """The function that counts what records hold. Traced once a process, not once a shard."""
    spec = {name: tf.io.RaggedFeature(_TYPES[dtype], row_splits_dtype=tf.int64) for name, dtype in features}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def count(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = tf.io.parse_example(serialized, spec)
        counts = {name: values.row_lengths() for name, values in parsed.items()}
        # What the lengths of a field of any length add up to.
        sums = {f"{name}.sum": tf.reduce_sum(parsed[name], axis=1) for name in parsed if name.endswith(LENGTHS)}
        return {**counts, **sums, "": tf.cast(tf.strings.length(serialized), tf.int64)}

    return count


def count_rows(
    lists: Mapping[str, np.ndarray], fields: Sequence[Field], windows: Windows
) -> tuple[np.ndarray, str | None]:
    """The rows of each record, int64 `[records]`, by what it holds of each field; and what is wrong, if something is.

    Args:
      lists: int64 `[records]` by feature: how long its list is; by `<field>.lengths.sum`, what the lengths add up to.
      fields: of a record.
      windows: of the dataset.
    """
    counts, wrong = {}, []
    for field in fields:
        entries, rest = np.divmod(lists[field.name], field.listed_width)
        counts[field.name] = entries
        if field.is_ragged:
            counts[field.name] = lists[field.name + LENGTHS]
            rest = rest + abs(entries - lists[f"{field.name}{LENGTHS}.sum"])
        if rest.any():
            wrong.append(f"a record holds no whole values of {field.name!r}")
    by_row = next(field.name for field in fields if field.per == "row")
    rows = counts[by_row]
    windows_held = count_windows(rows, windows.length, windows.stride)
    if not windows_held.all():
        wrong.append("a record holds no whole window")
    for field in fields:
        expected = {"row": rows, "window": windows_held, "record": np.ones_like(rows)}[field.per]
        if (bad := np.flatnonzero(counts[field.name] != expected)).size:
            count, most = counts[field.name][bad[0]], expected[bad[0]]
            wrong.append(f"a record holds {count} values of {field.name!r}, by its {by_row!r} it must hold {most}")
    return rows, wrong[0] if wrong else None


def record_lengths(
    path: str, compression: str, fields: Sequence[Field], windows: Windows, batch: int
) -> Iterator[np.ndarray]:
    """Bytes and rows of each record, by TensorFlow's own reader, which checks every record's CRC.

    Args:
      path: of the shard.
      compression: none or gzip.
      fields: of a record.
      windows: of the dataset.
      batch: records to parse at a time.

    Yields:
      int64 `[2, records]`, for some records after the other.

    Raises:
      JobFailed: if a record does not hold each field for its rows and windows.
    """
    count = _counter(features_of(fields))
    dataset = tf.data.TFRecordDataset(path, "GZIP" if compression == "gzip" else "", buffer_size=CHUNK_BYTES)
    for records in dataset.batch(batch):
        lists = {name: counts.numpy() for name, counts in count(records).items()}
        rows, wrong = count_rows(lists, fields, windows)
        if wrong:
            raise JobFailed(f"{path}: {wrong}")
        yield np.stack([lists[""], rows])


def verify_shard(
    written: Written, fields: Sequence[Field], windows: Windows, compression: str
) -> tuple[Shard, np.ndarray]:
    """Reads a shard back.

    Args:
      written: what was counted on the way in.
      fields: of a record.
      windows: of the dataset.
      compression: none or gzip.

    Returns:
      what the manifest says of it, and its blocks, see `cut_blocks`.

    Raises:
      JobFailed: if it does not hold what was counted.
    """
    tally = written.tally
    batch = max(1, _BATCH_BYTES * tally.records // max(1, tally.bytes))
    measured = [np.empty([2, 0], np.int64)]

    def rows_of_records() -> Iterator[np.ndarray]:
        for lengths in record_lengths(written.path, compression, fields, windows, batch):
            measured.append(lengths)
            yield lengths[1]

    try:
        with tf.io.gfile.GFile(written.path, "rb") as shard:
            facts = measure_shard(shard, rows_of_records(), windows)
    except tf.errors.OpError as error:
        raise JobFailed(f"{written.path}: cannot be read back: {error.message}") from None
    counted = {"records": tally.records, "windows": tally.windows, "rows": tally.rows}
    if wrong := differences(facts, counted):
        raise JobFailed(f"{written.path}: what was read back is not what was written: {'; '.join(wrong)}")
    sizes, rows = np.concatenate(measured, axis=1)
    return Shard(**asdict(facts), folder=written.folder), cut_blocks(sizes, rows, windows)


class VerifyShard(beam.DoFn):
    """Written, with the fields as a side input -> (Written, manifest.Shard, its blocks int64 [blocks, 3])."""

    def __init__(self, windows: Windows, compression: str, progress: Progress):
        self._windows, self._compression, self._progress = windows, compression, progress

    def process(self, written: Written, fields: list[Field]) -> Iterator[tuple[Written, Shard, np.ndarray]]:
        yield written, *verify_shard(written, fields, self._windows, self._compression)
        self._progress.add("verify", assets=1, rows=written.tally.rows)
