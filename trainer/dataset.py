"""A prepared data set -> `tf.data.Dataset` of windows, `[batch, time, features]`.

A record holds a segment: consecutive rows of one asset. The steps, in order:

    shards     only those that the manifest lists, in another order in each epoch
    records    read from several shards at a time, mixed in a buffer  (trainer.records)
    pools      records that take the memory of `shuffle` windows; their windows' starts are permuted  (trainer.framing)
    shares     of each global batch, the starts that are this worker's  (trainer.shares)
    windows    gathered from the pool's rows, about two megabytes at a time, and cut into batches without copying

Windows are indices until the last step, so a pool costs its rows and not its
windows, and no step handles windows one by one.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import tensorflow as tf

from contract import layout, storage
from contract.errors import UserError
from contract.job import SplitName
from contract.manifest import Manifest
from trainer.framing import Frame, block_rows, find_starts, gather, pad, parse, take_share
from trainer.records import Shards, opener, read_records, shard_order, shuffle_records
from trainer.shares import Share, check_split, eval_steps, fitting_records, pool_records, train_steps

FOREVER = np.iinfo(np.int64).max
MIXED_BYTES = 64 << 20  # of the records in the buffer that mixes them; and a pool holds no more
CHUNK_BYTES = 2 << 20  # of windows gathered at a time: calls for small batches would cost more than the copying
PREFETCH_BYTES = 8 << 20  # of batches made ready, but at least two; tf.data's own choice grows to hundreds of MB

Cache = Literal["none", "memory", "file"]
Stage = Literal["read", "records", "parse", "pools", "batches"]


@dataclass(frozen=True)
class Tuning:
    """How the graph is run, never which windows it gives; `trainer.profile` measures what each part is worth.

    Attributes:
      open_shards: read at a time.
      parallel: whether reading and gathering use several threads.
      prefetch: whether batches are made ready before they are asked for.
      pool: windows in a pool, if `shuffle` asks for fewer.
    """

    open_shards: int = 16
    parallel: bool = True
    prefetch: bool = True
    pool: int = 0


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
    tuning: Tuning = Tuning(),
    until: Stage = "batches",
) -> tf.data.Dataset:
    """The windows of one split, in batches.

    Args:
      manifest: as `contract.manifest.read_manifest(output)` returns it.
      output: the folder of the data set, local or gs://
      split: train, eval or test.
      batch: windows in a global batch, over all workers together.
      shuffle: windows that are mixed at a time, across records and assets: at
        least this many, unless the rows that they take in the records are more than
        64 MB, and as many as take no more memory than this many would by
        themselves. Before that, 64 MB of records are mixed as wholes. 0 keeps the
        order.
      seed: of the order, which is a pure function of `seed` and the epoch if it is
        deterministic; `tf.random.set_seed` has no influence.
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
      tuning: how the graph is run.
      until: cuts the graph off after a stage, to measure it: read (strings of
        bytes of the shards), records (serialized, scalar strings), parse (rows
        `[rows, features]` of a pool, and the rows of each record), pools (rows, the
        starts of their windows `[windows]`, and a scalar).

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
    frame = Frame(manifest.windows.length, manifest.windows.stride, len(manifest.features))
    wanted = max(shuffle, batch, tuning.pool)
    mixed = fitting_records(info, frame.features, MIXED_BYTES)
    # Windows share rows: a pool takes the memory of the windows asked for, and so holds several times as many.
    in_pool = max(pool_records(info, wanted), fitting_records(info, frame.features, wanted * frame.bytes))
    in_pool = min(in_pool, mixed)
    chunk = share.size * max(1, CHUNK_BYTES // (share.size * frame.bytes))
    threads = tf.data.AUTOTUNE if tuning.parallel else None

    read = partial(
        read_records,
        Shards(
            manifest.shard_paths(output, split),
            [shard.records for shard in info.shards],
            [shard.bytes for shard in info.shards],
        ),
        open_one=opener(until == "read", manifest.compression, storage.is_remote(output)),
        open_shards=tuning.open_shards,
        parallel=tuning.parallel,
        ordered=ordered,
        skip_corrupt=skip_corrupt,
    )
    cached = None
    if cache != "none":
        if cache == "file" and cache_folder is None:
            raise ValueError("cache='file' needs cache_folder")
        cached = read(tf.range(len(info.shards))).cache("" if cache == "memory" else f"{cache_folder}/{split}")

    def to_pool(serialized: tf.Tensor, key: tf.Tensor | None) -> tuple:
        rows, counts = parse(serialized, frame.features)
        if until == "parse":
            return rows, counts
        return rows, find_starts(counts, frame, key), block_rows(counts, frame)

    def read_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        key = tf.random.fold_in(tf.constant([0, seed], tf.int64), epoch) if shuffle else None
        records = cached if cached is not None else read(shard_order(len(info.shards), _fold(key, 0)))
        if until in ("read", "records"):
            return records
        if key is not None:
            records = shuffle_records(records, mixed, tf.random.fold_in(key, -1))
        pools = records.batch(in_pool).enumerate()
        pools = pools.map(
            lambda index, serialized: to_pool(serialized, _fold(key, index + 1)),
            num_parallel_calls=1 if tuning.parallel else None,  # few and large: each call is parallel in itself
            deterministic=ordered if tuning.parallel else None,
        )
        if until in ("parse", "pools"):
            return pools
        if skip_corrupt and remainder == "drop":
            pools = pools.repeat()  # the first windows stand in for those that are damaged
        windows = take_share(pools, share, steps * batch, info.windows, chunk).map(
            lambda rows, starts, block, first, end: gather(rows, starts[first:end], block, frame),
            num_parallel_calls=threads,
            deterministic=ordered if tuning.parallel else None,
        )
        if remainder == "drop":
            batches = windows.rebatch(share.replica_sizes, drop_remainder=True)
        else:
            batches = pad(windows, share, steps * replicas, frame)
        return batches.apply(tf.data.experimental.assert_cardinality(steps * replicas))

    last = FOREVER if epochs is None else epoch + epochs
    batches = tf.data.Dataset.range(epoch, last).flat_map(read_epoch)
    if until == "batches":
        size = tf.data.INFINITE_CARDINALITY if epochs is None else epochs * steps * replicas
        batches = batches.apply(tf.data.experimental.assert_cardinality(size))
    if tuning.prefetch:
        replica = max(share.replica_sizes) * frame.bytes
        batches = batches.prefetch(max(2 * replicas, PREFETCH_BYTES // replica))
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


def _fold(key: tf.Tensor | None, data: tf.Tensor | int) -> tf.Tensor | None:
    """A key of its own: -1 for the records' buffer, 0 for the shards, and from 1 for the pools."""
    return None if key is None else tf.random.fold_in(key, data)
