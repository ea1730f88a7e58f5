"""A dataset -> `tf.data.Dataset` of batches of windows: for each field, its values.

A record holds rows that follow each other, such as a segment of an asset. The steps, in order:

    order      for each round of batches, the blocks that it needs and which of their windows  (sampler)
    records    the blocks are read, several at a time                                          (reader)
    rows       are parsed and checked, each field by itself                                    (parsing)
               and the places of the wanted windows found                                      (windowing)
    windows    gathered from the rows, about two megabytes at a time, prepared if that is asked for  (preparation)
               and cut into batches without copying

Windows are indices until the last step, so a round costs its rows and not its
windows, and no step handles windows one by one. What a step of a training run reads
depends on manifest, seed, epoch and step alone, so reading can begin anywhere.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from beamfeed.contract import storage
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.batches import check_split, eval_steps, train_steps
from beamfeed.contract.dataset.manifest import Manifest, read_manifest
from beamfeed.trainer.feed.cache import local_copies
from beamfeed.trainer.feed.fields import Wanted, choose_fields, window_bytes
from beamfeed.trainer.feed.preparation import Preparation
from beamfeed.trainer.feed.reader import Memory, RowSource, Shards
from beamfeed.trainer.feed.reading import Reading, as_written
from beamfeed.trainer.feed.rounds import round_windows
from beamfeed.trainer.feed.sampler import Index, Line, Order
from beamfeed.trainer.feed.shard_files import find_shards
from beamfeed.trainer.feed.sharding import LANES, Distribution, Share
from beamfeed.trainer.feed.tuning import CutOff, Tuning, at_least, one_of
from beamfeed.trainer.feed.windowing import (
    Columns,
    Places,
    add_zeros,
    gather,
    locate_windows,
    places,
    point_to_zeros,
    replace_missing,
)

REMOTE_FACTOR = 8  # times as many blocks are read at a time from gs://, where each waits for an answer
CHUNK_BYTES = 2 << 20  # of windows gathered at a time: calls for small batches would cost more than the copying
PREPARED_BYTES = 512 << 10  # of windows prepared at a time: what does not fit a core's cache takes longer

Remainder = Literal["drop", "pad"]


def load_dataset(
    path: str | os.PathLike[str],
    split: SplitName,
    *,
    batch_size: int,
    fields: Sequence[str] | None = None,
    shuffle: int = 0,
    seed: int = 7,
    epochs: int | None = 1,
    start: tuple[int, int] = (0, 0),
    remainder: Remainder = "drop",
    lanes: int = LANES,
    skip_corrupt: bool = False,
    distribution: Distribution = Distribution(),
    tuning: Tuning = Tuning(),
    where: Mapping[str, Sequence[str]] | None = None,
    manifest: Manifest | None = None,
    preparation: Preparation | None = None,
) -> tf.data.Dataset:
    """The windows of one split, in batches, in an order that the arguments decide and nothing else.

    Args:
      path: the folder of the dataset, local or gs://
      split: train, eval or test.
      batch_size: windows in a global batch, over all workers together.
      fields: the names of those that a batch holds; left out, all of the manifest's
        `fields` but the keys (names, places and times). They do not change the order. `.place` is one that every
        dataset has: the row of its record at which a window begins, and how many rows that record has.
      shuffle: windows that are mixed at a time, drawn from `lanes` places of the
        split at once: at least this many, unless their rows take more than
        64 MB in the records (with 32 lanes, twice that, and so on), and as many as take no more memory than this many
        would by themselves. Blocks of records come in another order in each epoch. 0
        keeps the order (padded and with several workers, each has its own part).
      seed: of the order; `tf.random.set_seed` has no influence.
      epochs: how many epochs; None reads without end.
      start: the first epoch to read, and the first of its batches. The data
        before them are not read.
      remainder: what happens to the last windows of an epoch, fewer than a batch.
        drop: they are left out (in training, with other windows left out in each
        epoch). pad: the batch is filled with zeros, and each batch comes with
        weights, 0 for what was filled in.
      lanes: places of the split that a batch is drawn from. A worker reads its
        share of them, so with more workers than lanes some data are read by several.
      skip_corrupt: passes over the damaged rest of a block, with a warning in the
        log. An epoch keeps its number of steps: other windows come twice, or
        padding.
      distribution: whose rows of each global batch are read. The global batches do
        not depend on the number of workers. The rows of a worker with several
        replicas come as so many consecutive batches.
      tuning: how the graph is run.
      where: reads some partitions alone: by column, the values that are wanted. No shard of others is opened.
      manifest: of the dataset, if it has been read already.
      preparation: changes the fields of a batch, such as what the job's `train.inputs` says.

    Returns:
      A dataset with known cardinality, of dicts by the name of the field: float32,
      int64 or strings, `[batch, time, *shape]` of the rows of a window, and
      `[batch, *shape]` of what each window or its record has one of, or where windows
      are of one row. Values of any length are a `tf.RaggedTensor`. Where padded,
      pairs of such a dict and float32 weights `[batch]`.

    Raises:
      ValueError: if an argument is out of its range.
      UserError: if there is no dataset, if it has no such field, if the split holds no full batch (padded: no
        window), if a listed shard is missing, or if there are fewer rows in a batch
        than devices. Reading raises TensorFlow's errors;
        `beamfeed.trainer.feed.read_errors` turns them into one line.

    Example:
      >>> windows = beamfeed.load_dataset("out/data", "train", batch_size=16, shuffle=1000)
      >>> next(iter(windows))["values"].shape
      TensorShape([16, 8, 3])
    """
    path = os.fspath(path)
    one_of("split", split, SplitName)
    one_of("remainder", remainder, Remainder)
    for name, value, least in (("batch_size", batch_size, 1), ("shuffle", shuffle, 0), ("lanes", lanes, 1)):
        at_least(name, value, least)
    if epochs is not None:
        at_least("epochs", epochs, 1)
    if manifest is None:
        manifest = read_manifest(path)
    manifest = manifest.select(where or {})
    wanted = choose_fields(manifest, fields)
    share = Share(batch_size, distribution)
    info = check_split(manifest, split, batch_size, whole=remainder == "drop")
    if preparation is not None:
        preparation.check(batch_size, distribution.devices)
    listed = find_shards(manifest, path, split)
    index = Index.read(path, manifest, split)
    until = tuning.until if isinstance(tuning, CutOff) else "batches"
    steps = (train_steps if remainder == "drop" else eval_steps)(info.windows, batch_size)
    order = Order(
        index,
        share,
        steps,
        round_steps=round_windows(manifest, split, index, shuffle, min(lanes, batch_size)) // batch_size or 1,
        lanes=min(lanes, batch_size) if shuffle else distribution.workers if remainder == "pad" else 1,
        seed=seed if shuffle else None,
    )
    paths = [stat.path for stat in listed]
    is_remote = storage.is_remote(path)
    if tuning.cache == "file" or manifest.compression != "none":
        read = np.unique(index.shard[order.blocks()])
        chosen = [listed[shard] for shard in read]
        copies = local_copies(manifest.data_layout(path).root, chosen, manifest.compression, manifest.remedy)
        for shard, copy in zip(read, copies, strict=True):
            paths[shard] = copy
        is_remote = False
    shards = Shards(
        paths,
        index,
        wanted,
        open_blocks=tuning.open_blocks * (REMOTE_FACTOR if is_remote else 1),
        parallel=tuning.parallel,
        skip_corrupt=skip_corrupt,
    )
    if until != "batches":
        preparation = None
    kept = preparation if preparation is not None and preparation.keeps else None
    in_memory = kept is not None or tuning.cache == "memory"
    source: RowSource = Memory(shards, index, order.blocks(), kept, padded=remainder == "pad") if in_memory else shards

    def read_round(epoch: tf.Tensor, number: tf.Tensor, line: Line, skip: tf.Tensor) -> Any:
        blocks, block, window = order.round(line, epoch, number, skip)
        if until in ("records", "parse"):
            return shards.records(blocks) if until == "records" else shards.parsed(blocks)
        rows, block = source.rows(blocks, block)
        place, there = locate_windows(rows, block, window)
        numbered = () if preparation is None else (epoch * steps + number * order.round_steps + skip,)
        if remainder == "pad":
            rows = rows if rows.zeros else add_zeros(rows, wanted)
            at = point_to_zeros(rows, places(rows, place, wanted), there, wanted)
            return rows.columns, at, rows.piece, *numbered, tf.cast(there, tf.float32)
        at = places(rows, replace_missing(place, there) if skip_corrupt else place, wanted)
        return rows.columns, at, rows.piece, *numbered

    reading = Reading(order, start, epochs)
    rounds = reading.rounds(read_round, tuning.rounds if tuning.parallel else None)
    if until != "batches":
        return rounds
    window = window_bytes(info, wanted.fields, manifest.windows.length, int(index.bytes.sum()))
    window += preparation.bytes if preparation is not None else 0
    threads = tf.data.AUTOTUNE if tuning.parallel else None
    batches = _cut(rounds, share, wanted, window, threads, preparation, is_decoded=kept is not None)
    return reading.finish(batches, window, tuning.prefetch)


def _cut(
    rounds: tf.data.Dataset, share: Share, wanted: Wanted, window: int, threads: int | None,
    preparation: Preparation | None = None, is_decoded: bool = False,
) -> tf.data.Dataset:  # fmt: skip
    """Rounds -> the batches of each replica, dicts by the name of the field, with weights where rounds have them.

    A round's windows, of about so many bytes, are gathered in chunks of whole batches. Where they are prepared, rounds
    say which global batch is their first, and chunks are small.
    """
    chunk = share.size * max(1, CHUNK_BYTES // (share.size * window))
    if preparation is not None:
        chunk = max(1, PREPARED_BYTES // window // preparation.together) * preparation.together

    # To put windows together that come one by one takes less time than to cut and join batches of one.
    alone = chunk == 1 and len(set(share.replica_sizes)) == 1 and not any(field.is_ragged for field in wanted.fields)

    @as_written
    def to_chunks(columns: Columns, at: Places, *others: tf.Tensor) -> tf.data.Dataset:
        first = tf.data.Dataset.range(0, tf.size(next(iter(at.values())), tf.int64), chunk)
        # What a function only passes on costs nothing; slicing here would run it for each chunk.
        return first.map(lambda first: (first, columns, at, *others))

    @as_written
    def to_windows(first: tf.Tensor, columns: Columns, at: Places, piece: tf.Tensor, *others: tf.Tensor) -> Any:
        here = {per: place[first : first + chunk] for per, place in at.items()}
        if chunk == 1:
            here = {per: tf.ensure_shape(place, [1]) for per, place in here.items()}
        windows, weights = gather(columns, here, piece, wanted), list(others)
        if preparation is not None:
            begin = weights.pop(0)
            rows = first + tf.range(tf.size(next(iter(here.values())), tf.int64))
            numbers = (begin + rows // share.size) * share.batch_size + share.first + rows % share.size
            windows = preparation.finish(windows, numbers, is_decoded)
            # A copy: of a slice that is cut anew TensorFlow says on stderr that nobody can tell who holds it.
            weights = [tf.gather(one, rows) for one in weights]
        else:
            weights = [one[first : first + chunk] for one in weights]
        found = (windows, *weights) if weights else windows
        return tf.nest.map_structure(lambda one: one[0], found) if alone else found

    chunks = rounds.flat_map(to_chunks)
    windows = chunks.map(to_windows, num_parallel_calls=threads, deterministic=True if threads else None)
    if alone:
        return windows.batch(share.replica_sizes[0], drop_remainder=True)
    return windows.rebatch(share.replica_sizes, drop_remainder=True)
