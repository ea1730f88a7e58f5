"""Shards -> serialized records, from several shards at a time, in an order that a key decides."""

import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import tensorflow as tf

log = logging.getLogger(__name__)

LOCAL_BUFFER, REMOTE_BUFFER = 1 << 20, 8 << 20  # bytes read ahead in each open shard

Open = Callable[[tf.Tensor, tf.Tensor], tf.data.Dataset]  # (path, size of the file in bytes) -> what is in it


class Shards(NamedTuple):
    """The shards of a split, in the manifest's order."""

    paths: list[str]
    records: list[int]
    bytes: list[int]


def open_shard(path: tf.Tensor | str, compression: str, remote: bool) -> tf.data.Dataset:
    """The serialized records of one shard."""
    kind = "GZIP" if compression == "gzip" else ""
    return tf.data.TFRecordDataset(path, kind, buffer_size=_buffer(remote))


def open_bytes(path: tf.Tensor, size: tf.Tensor, remote: bool) -> tf.data.Dataset:
    """The bytes of one shard as they are, a buffer at a time, but for what is left over at its end."""
    piece = tf.minimum(size, _buffer(remote))
    return tf.data.FixedLengthRecordDataset(path, piece, footer_bytes=size % piece, buffer_size=_buffer(remote))


def _buffer(remote: bool) -> int:
    return REMOTE_BUFFER if remote else LOCAL_BUFFER


def shard_order(count: int, key: tf.Tensor | None) -> tf.Tensor:
    """A permutation of the shards; their own order where there is no key."""
    order = tf.range(count)
    return order if key is None else tf.random.experimental.stateless_shuffle(order, key)


def read_records(
    shards: Shards,
    order: tf.Tensor,
    open_one: Open,
    *,
    open_shards: int,
    parallel: bool,
    ordered: bool,
    skip_corrupt: bool,
) -> tf.data.Dataset:
    """Scalar strings, from several shards at a time.

    Args:
      shards: of the split.
      order: int32 `[shards]`, indices of the shards.
      open_one: opens one of them.
      open_shards: how many are read at a time.
      parallel: whether more than one thread reads them.
      ordered: whether the records of the open shards take turns, one of each, or come as they are ready.
      skip_corrupt: ends a shard at its first damaged record.
    """

    def read(path: tf.Tensor, size: tf.Tensor, count: tf.Tensor) -> tf.data.Dataset:
        # Errors are passed over inside the read of one shard. Around the
        # interleave the damaged shard would be asked again without end.
        return _tolerant(open_one(path, size), path, count) if skip_corrupt else open_one(path, size)

    columns = tf.constant(shards.paths), tf.constant(shards.bytes, tf.int64), tf.constant(shards.records, tf.int64)
    files = tf.data.Dataset.from_tensor_slices(tuple(tf.gather(column, order) for column in columns))
    cycle = min(open_shards, len(shards.paths))
    return files.interleave(
        read,
        cycle_length=cycle,
        num_parallel_calls=cycle if parallel else None,  # AUTOTUNE is no faster and takes several times the memory
        deterministic=ordered if parallel else None,
    )


def shuffle_records(records: tf.data.Dataset, buffer: int, key: tf.Tensor) -> tf.data.Dataset:
    """Mixes records in a buffer, in an order that the key alone decides.

    `Dataset.shuffle` would add the seed of `tf.random.set_seed` to its own, so
    that a model with another seed saw the data in another order.
    """
    first, second = tf.unstack(tf.cast(key, tf.int64))
    shuffled = tf.raw_ops.ShuffleDataset(
        input_dataset=tf.data.experimental.to_variant(records),
        buffer_size=tf.constant(buffer, tf.int64),
        seed=first,
        # Two zeros would mean a seed drawn at random.
        seed2=tf.where((first == 0) & (second == 0), tf.ones_like(second), second),
        reshuffle_each_iteration=False,
        output_types=[tf.string],
        output_shapes=[tf.TensorShape([])],
    )
    return tf.data.experimental.from_variant(shuffled, records.element_spec)


def _tolerant(records: tf.data.Dataset, path: tf.Tensor, expected: tf.Tensor) -> tf.data.Dataset:
    """Ends a shard at its first damaged record, and tells the log how many it lacks."""

    def warn(path: bytes, missing: np.int64) -> np.bool_:
        log.warning("%s: damaged, passed over its last %d records", path.decode(), missing)
        return np.True_

    def count(seen: tf.Tensor, record: tf.Tensor, end: tf.Tensor) -> tuple:
        short = end & (seen < expected)
        told = tf.cond(
            short, lambda: tf.numpy_function(warn, [path, expected - seen], tf.bool), lambda: tf.constant(True)
        )
        return seen + 1, (record, end & told)

    end = tf.data.Dataset.from_tensors((tf.constant(b""), tf.constant(True)))
    marked = records.ignore_errors().map(lambda record: (record, tf.constant(False))).concatenate(end)
    counted = marked.scan(tf.constant(0, tf.int64), lambda seen, item: count(seen, *item))
    return counted.filter(lambda record, end: ~end).map(lambda record, end: record)


def opener(raw: bool, compression: str, remote: bool) -> Open:
    """How a shard is opened: for its records, or `raw` for its bytes."""
    if raw:
        return partial(open_bytes, remote=remote)
    return lambda path, size: open_shard(path, compression, remote)
