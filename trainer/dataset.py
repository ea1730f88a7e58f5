"""A prepared data set -> `tf.data.Dataset` of windows, `[batch, time, features]`.

A record holds a segment: consecutive rows of one asset. The steps, in order:

    shards     only those that the manifest lists, in another order in each epoch
    records    read from several shards at a time, mixed in a buffer
    pools      as many records as hold `shuffle` windows; the starts of their windows are permuted
    shares     of each global batch, the starts that are this worker's (see trainer.shares)
    windows    gathered from the pool's rows, a batch at a time

Windows are indices until the last step, so a pool costs its rows and not its
windows, and no step handles windows one by one.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
import tensorflow as tf

from contract import layout, storage
from contract.errors import UserError
from contract.job import SplitName
from contract.manifest import Manifest
from trainer.shares import Share, check_split, eval_steps, pool_records, train_steps

log = logging.getLogger(__name__)

FOREVER = np.iinfo(np.int64).max
OPEN_SHARDS = 16  # read at a time
MIXED_RECORDS = 64  # at least this many records in the buffer that mixes them, about 16 MB
LOCAL_BUFFER, REMOTE_BUFFER = 1 << 20, 8 << 20  # bytes read ahead in each open shard

Cache = Literal["none", "memory", "file"]


def load(
    manifest: Manifest,
    output: str,
    split: SplitName,
    *,
    batch: int,
    shuffle: int = 0,
    seed: int = 7,
    epoch: int = 0,
    epochs: int | None = 1,
    remainder: Literal["drop", "pad"] = "drop",
    worker: int = 0,
    workers: int = 1,
    replicas: int = 1,
    deterministic: bool = False,
    cache: Cache = "none",
    cache_folder: str | None = None,
    skip_corrupt: bool = False,
) -> tf.data.Dataset:
    """The windows of one split, in batches.

    Args:
      manifest: as `contract.manifest.read_manifest(output)` returns it.
      output: the folder of the data set, local or gs://
      split: train, eval or test.
      batch: windows in a global batch, over all workers together.
      shuffle: windows that are mixed at a time, across records and assets; a few
        times what their rows take is held in memory. 0 keeps the order.
      seed: of the order. It is a pure function of `seed`, the epoch and
        `tf.random.set_seed`, if the order is deterministic.
      epoch: the first epoch to read; an epoch's order does not depend on where
        reading began.
      epochs: how many epochs; None reads without end.
      remainder: what happens to the last windows of an epoch, fewer than a batch.
        drop: they are left out (in training, with other windows left out in each
        epoch). pad: the batch is filled with zeros, and each batch comes with
        weights, 0 for what was filled in.
      worker, workers: which rows of each global batch are read; see trainer.shares.
      replicas: devices of a worker. Its rows come as this many consecutive
        batches, one for each device.
      deterministic: the same order in every run, at some cost in speed. With
        several workers, or padded, the order is always deterministic.
      cache: keeps the records (not the windows) of the first epoch in memory, or
        in a file in `cache_folder`. Shards are then read in the manifest's order.
      cache_folder: an empty folder with room for the split's records.
      skip_corrupt: passes over the damaged rest of a shard, with a warning in the
        log. An epoch keeps its number of steps: the first windows come again, or
        padding.

    Returns:
      A data set with known cardinality, of float32 `[batch, time, features]`, or
      where padded of pairs with float32 weights `[batch]`.

    Raises:
      UserError: if the split holds no full batch (padded: no window), if a listed
        shard is missing, or if there are fewer rows in a batch than devices.
        Reading raises TensorFlow's errors; `trainer.damage` turns them into one line.
    """
    share = Share(batch, worker, workers, replicas)
    info = check_split(manifest, split, batch, whole=remainder == "drop")
    _check_shards(manifest, output, split)
    steps = (train_steps if remainder == "drop" else eval_steps)(info.windows, batch)
    ordered = deterministic or workers > 1 or remainder == "pad"
    length, features = manifest.windows.length, len(manifest.features)
    in_pool = pool_records(info, max(shuffle, batch))

    read = partial(
        _read_records,
        paths=manifest.shard_paths(output, split),
        counts=[shard.records for shard in info.shards],
        open_shard=partial(open_shard, compression=manifest.compression, remote=storage.is_remote(output)),
        ordered=ordered,
        skip_corrupt=skip_corrupt,
    )
    cached = None
    if cache != "none":
        if cache == "file" and cache_folder is None:
            raise ValueError("cache='file' needs cache_folder")
        cached = read(tf.range(len(info.shards))).cache("" if cache == "memory" else f"{cache_folder}/{split}")

    def read_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        key = tf.random.fold_in(tf.constant([0, seed], tf.int64), epoch) if shuffle else None
        records = cached if cached is not None else read(_shard_order(len(info.shards), key))
        if key is not None:
            buffer = min(max(in_pool, MIXED_RECORDS), max(info.records, 1))
            records = records.shuffle(buffer, seed=seed * 1_000_003 + epoch, reshuffle_each_iteration=False)
        pools = records.batch(in_pool).enumerate()
        pools = pools.map(
            lambda index, serialized: _frame(serialized, length, manifest.windows.stride, features, _fold(key, index)),
            num_parallel_calls=1,  # few and large: each call is parallel in itself
            deterministic=ordered,
        )
        if skip_corrupt and remainder == "drop":
            pools = pools.repeat()  # the first windows stand in for those that are damaged
        windows = _take_share(pools, share, steps * batch, info.windows).map(
            lambda rows, starts: _gather(rows, starts, length),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=ordered,
        )
        if remainder == "drop":
            batches = windows.rebatch(share.replica_sizes, drop_remainder=True)
        else:
            batches = _padded(windows, share, steps * replicas, length, features)
        return batches.apply(tf.data.experimental.assert_cardinality(steps * replicas))

    last = FOREVER if epochs is None else epoch + epochs
    size = tf.data.INFINITE_CARDINALITY if epochs is None else epochs * steps * replicas
    batches = tf.data.Dataset.range(epoch, last).flat_map(read_epoch)
    batches = batches.apply(tf.data.experimental.assert_cardinality(size)).prefetch(tf.data.AUTOTUNE)
    options = tf.data.Options()
    options.deterministic = ordered
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return batches.with_options(options)


def _check_shards(manifest: Manifest, output: str, split: SplitName) -> None:
    folder = manifest.data_layout(output).split(split)
    found = {stat.path for stat in storage.match(folder, (layout.SHARD_SUFFIX,))}
    for path in manifest.shard_paths(output, split):
        if path not in found:
            raise UserError(f"{path}: the manifest lists this shard, but it is missing; prepare the data set again")


def _fold(key: tf.Tensor | None, index: tf.Tensor) -> tf.Tensor | None:
    """The key of a pool; 0 is that of the shards."""
    return None if key is None else tf.random.fold_in(key, index + 1)


def _shard_order(count: int, key: tf.Tensor | None) -> tf.Tensor:
    order = tf.range(count)
    return order if key is None else tf.random.experimental.stateless_shuffle(order, tf.random.fold_in(key, 0))


def open_shard(path: tf.Tensor | str, compression: str, remote: bool) -> tf.data.Dataset:
    """The serialized records of one shard."""
    kind = "GZIP" if compression == "gzip" else ""
    return tf.data.TFRecordDataset(path, kind, buffer_size=REMOTE_BUFFER if remote else LOCAL_BUFFER)


def _read_records(
    order: tf.Tensor,
    paths: list[str],
    counts: list[int],
    open_shard: Callable[[tf.Tensor], tf.data.Dataset],
    ordered: bool,
    skip_corrupt: bool,
) -> tf.data.Dataset:
    """Serialized records, from several shards at a time."""

    def open_one(path: tf.Tensor, count: tf.Tensor) -> tf.data.Dataset:
        # Errors are passed over inside the read of one shard. Around the
        # interleave the damaged shard would be asked again without end.
        return _tolerant(open_shard(path), path, count) if skip_corrupt else open_shard(path)

    files = tf.data.Dataset.from_tensor_slices(
        (tf.gather(tf.constant(paths), order), tf.gather(tf.constant(counts, tf.int64), order))
    )
    return files.interleave(
        open_one,
        cycle_length=min(OPEN_SHARDS, len(paths)),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=ordered,
    )


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


def _frame(serialized: tf.Tensor, length: int, stride: int, features: int, key: tf.Tensor | None) -> tuple:
    """A pool of records -> its rows `[rows, features]` and where its windows start, int64 `[windows]`."""
    spec = {"values": tf.io.RaggedFeature(tf.float32, row_splits_dtype=tf.int64)}
    values = tf.io.parse_example(serialized, spec)["values"]
    rows = values.row_lengths() // features
    windows = tf.ragged.range(tf.maximum((rows - length) // stride + 1, 0))
    starts = windows.flat_values * stride + tf.gather(values.row_starts() // features, windows.value_rowids())
    if key is not None:
        starts = tf.random.experimental.stateless_shuffle(starts, key)
    return tf.reshape(values.flat_values, [-1, features]), starts


def _take_share(pools: tf.data.Dataset, share: Share, limit: int, windows: int) -> tf.data.Dataset:
    """Keeps the starts that are this worker's, cut where its batches end: (rows, starts `[<= share.size]`).

    Only the first `limit` windows are kept, and the pools are read until `windows` have been seen.
    """

    def own(seen: tf.Tensor, pool: tuple) -> tuple:
        rows, starts = pool
        place = seen + tf.range(tf.size(starts, tf.int64))
        row = place % share.batch
        mine = tf.boolean_mask(starts, (row >= share.first) & (row < share.end) & (place < limit))
        filled = tf.clip_by_value(seen % share.batch - share.first, 0, share.size) % share.size
        return seen + tf.size(starts, tf.int64), (seen, rows, mine, filled)

    def cut(_: tf.Tensor, rows: tf.Tensor, starts: tf.Tensor, filled: tf.Tensor) -> tf.data.Dataset:
        # The first cut completes the batch that the pool before has begun, so
        # that batches are copied once more only where two pools meet.
        size = tf.constant(share.size, tf.int64)
        count = (filled + tf.size(starts, tf.int64) + size - 1) // size
        return tf.data.Dataset.range(count).map(
            lambda i: (rows, starts[tf.maximum(i * size - filled, 0) : (i + 1) * size - filled])
        )

    owned = pools.scan(tf.constant(0, tf.int64), own).take_while(lambda seen, *_: seen < windows)
    return owned.flat_map(cut)


def _gather(rows: tf.Tensor, starts: tf.Tensor, length: int) -> tf.Tensor:
    """The windows that start at `starts`: `[windows, length, features]`."""
    return tf.gather(rows, starts[:, None] + tf.range(length, dtype=tf.int64)[None])


def _padded(windows: tf.data.Dataset, share: Share, count: int, length: int, features: int) -> tf.data.Dataset:
    """Exactly `count` batches of windows and weights; zeros of weight 0 follow the last window."""
    weighted = windows.map(lambda batch: (batch, tf.ones(tf.shape(batch)[:1])))
    zeros = (tf.zeros([share.size, length, features]), tf.zeros([share.size]))
    filled = weighted.concatenate(tf.data.Dataset.from_tensors(zeros).repeat())
    # Zipped with a range and not taken: this asks for one batch too many, and a
    # cache upstream is complete only when its end has been asked for.
    batches = filled.rebatch(share.replica_sizes, drop_remainder=True)
    return tf.data.Dataset.zip((batches, tf.data.Dataset.range(count))).map(lambda batch, _: batch)
