"""A dataset -> `tf.data.Dataset` of batches of windows: for each field, its values.

A record holds rows that follow each other, such as a segment of an asset. The steps, in order:

    order      for each round of batches, the blocks that it needs and which of their windows  (order)
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
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from beamfeed.contract import storage
from beamfeed.contract.config.split import SplitName
from beamfeed.trainer.decode.preparation import Preparation
from beamfeed.trainer.feed.batching import Batching, Remainder, SplitSetup, set_up_split
from beamfeed.trainer.feed.fields import FieldSelection
from beamfeed.trainer.feed.graph import GRAPH
from beamfeed.trainer.feed.options import CutOff, FeedOptions
from beamfeed.trainer.feed.order import Line
from beamfeed.trainer.feed.reader import Memory, Shards
from beamfeed.trainer.feed.reading import Reading
from beamfeed.trainer.feed.sharding import Distribution
from beamfeed.trainer.feed.shards import copy_shards, find_shards
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


def load_dataset(
    path: str | os.PathLike[str],
    split: SplitName,
    *,
    batch_size: int,
    fields: Sequence[str] | None = None,
    shuffle: int = 0,
    seed: int = 7,
    epochs: int | None = 1,
    remainder: Remainder = "drop",
    distribution: Distribution = Distribution(),
    options: FeedOptions = FeedOptions(),
) -> tf.data.Dataset:
    """The windows of one split, in batches, in an order that the arguments decide and nothing else.

    Args:
      path: the folder of the dataset, local or gs://
      split: train, eval or test.
      batch_size: windows in a global batch, over all workers together.
      fields: the names of those that a batch holds; left out, all of the manifest's
        `fields` but the keys (names, places and times). They do not change the order. `.place` is one that every
        dataset has: the row of its record at which a window begins, and how many rows that record has.
      shuffle: windows that are mixed at a time, drawn from `options.lanes` places of the
        split at once: at least this many, unless their rows take more than
        64 MB in the records (with 32 lanes, twice that, and so on), and as many as take no more memory than this many
        would by themselves. Blocks of records come in another order in each epoch. 0
        keeps the order (padded and with several workers, each has its own part).
      seed: of the order; `tf.random.set_seed` has no influence.
      epochs: how many epochs; None reads without end.
      remainder: what happens to the last windows of an epoch, fewer than a batch.
        drop: they are left out (in training, with other windows left out in each
        epoch). pad: the batch is filled with zeros, and each batch comes with
        weights, 0 for what was filled in.
      distribution: whose rows of each global batch are read. The global batches do
        not depend on the number of workers. The rows of a worker with several
        replicas come as so many consecutive batches.
      options: where to start, which partitions are read, how the graph is run, and the like.

    Returns:
      A dataset with known cardinality, of dicts by the name of the field, in its
      dtype: `[batch, time, *shape]` of the rows of a window, and
      `[batch, *shape]` of what each window or its record has one of, or where windows
      are of one row. Values of any length are a `tf.RaggedTensor`. Where padded,
      pairs of such a dict and float32 weights `[batch]`.

    Raises:
      TypeError: if a number is not whole.
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
    path = storage.absolute(os.fspath(path))  # shards are opened later, maybe after a change of the folder
    batching = Batching(batch_size, shuffle, seed, epochs, remainder, distribution, options)
    setup = set_up_split(path, split, fields, batching, GRAPH)
    order, selection, tuning = setup.order, setup.selection, options.tuning
    until = tuning.until if isinstance(tuning, CutOff) else "batches"
    if options.preparation is not None:
        options.preparation.check(batching.batch_size, distribution.devices)
    preparation = options.preparation if until == "batches" else None
    cached = preparation if preparation is not None and preparation.keeps else None
    shards = _open_shards(path, split, setup, options)
    source: Shards | Memory = shards
    if cached is not None or tuning.cache == "memory":
        source = Memory(shards, order.index, order.blocks(), cached, padded=batching.is_padded)

    # What stands for a damaged window is another one of its round, the same wherever reading begins.
    replaces = options.skip_corrupt and not batching.is_padded

    def read_round(epoch: tf.Tensor, number: tf.Tensor, line: Line, skip: tf.Tensor) -> Any:
        round_ = order.round(line, number, tf.zeros_like(skip) if replaces else skip)
        if until in ("records", "parse"):
            return shards.records(round_.blocks) if until == "records" else shards.parsed(round_.blocks)
        rows = source.rows(round_.blocks)
        place, present = locate_windows(rows, round_)
        numbered = () if preparation is None else (epoch * order.steps + number * order.round_steps + skip,)
        if batching.is_padded:
            rows = rows if rows.zeros else add_zeros(rows, selection)
            at = point_to_zeros(rows, places(rows, place, selection), present, selection)
            return rows.columns, at, rows.piece, *numbered, tf.cast(present, tf.float32)
        if replaces:
            place = replace_missing(place, present)[skip * (order.share.end - order.share.first) :]
        at = places(rows, place, selection)
        return rows.columns, at, rows.piece, *numbered

    reading = Reading(order, batching)
    rounds = reading.rounds(read_round)
    if until != "batches":
        return rounds
    window = setup.window_bytes + (preparation.bytes if preparation is not None else 0)
    return _cut(reading, rounds, selection, window, preparation, is_decoded=cached is not None)


def _open_shards(path: str, split: SplitName, setup: SplitSetup, options: FeedOptions) -> Shards:
    """What reads the blocks of a split: where they are, or those that this worker needs from copies here."""
    manifest, index, tuning = setup.manifest, setup.order.index, options.tuning
    is_copied = tuning.cache == "file" or manifest.compression != "none"
    if is_copied:
        paths = copy_shards(manifest, path, split, index.shard[setup.order.blocks()])
    else:
        paths = [stat.path for stat in find_shards(manifest, path, split)]
    return Shards(
        paths,
        index,
        setup.selection,
        open_blocks=tuning.open_blocks * (REMOTE_FACTOR if storage.is_remote(path) and not is_copied else 1),
        parallel=tuning.parallel,
        skip_corrupt=options.skip_corrupt,
    )


def _cut(
    reading: Reading, rounds: tf.data.Dataset, selection: FieldSelection, window: int, preparation: Preparation | None,
    is_decoded: bool,
) -> tf.data.Dataset:  # fmt: skip
    """Rounds -> the batches of each replica, dicts by the name of the field, with weights where rounds have them.

    A round's windows, of about so many bytes, are gathered in chunks of whole batches. Where they are prepared, rounds
    say which global batch is their first, and chunks are small.
    """
    share = reading.order.share
    chunk = share.size * max(1, CHUNK_BYTES // (share.size * window))
    if preparation is not None:
        chunk = max(1, PREPARED_BYTES // window // preparation.together) * preparation.together
    alone = chunk == 1 and len(set(share.replica_sizes)) == 1 and not any(field.is_ragged for field in selection.fields)

    def count(columns: Columns, at: Places, *others: tf.Tensor) -> tf.Tensor:
        return tf.size(next(iter(at.values())), tf.int64)

    def to_windows(first: tf.Tensor, columns: Columns, at: Places, piece: tf.Tensor, *others: tf.Tensor) -> Any:
        here = {per: place[first : first + chunk] for per, place in at.items()}
        if chunk == 1:
            here = {per: tf.ensure_shape(place, [1]) for per, place in here.items()}
        windows, weights = gather(columns, here, piece, selection), list(others)
        if preparation is not None:
            begin = weights.pop(0)
            rows = first + tf.range(tf.size(next(iter(here.values())), tf.int64))
            numbers = (begin + rows // share.size) * share.batch_size + share.first + rows % share.size
            windows = preparation.finish(windows, numbers, is_decoded)
            # A copy: of a slice that is cut anew TensorFlow says on stderr that nobody can tell who holds it.
            weights = [tf.gather(weight, rows) for weight in weights]
        else:
            weights = [weight[first : first + chunk] for weight in weights]
        batch = (windows, *weights) if weights else windows
        return tf.nest.map_structure(lambda value: value[0], batch) if alone else batch

    return reading.batches(rounds, count, to_windows, chunk=chunk, row_bytes=window, one_by_one=alone)
