"""Compares what the shards of a dataset hold with what its manifest and its index of blocks say."""

from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from beamfeed.contract.dataset.manifest import Manifest, Shard
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.contract.errors import UserError
from beamfeed.contract.records.frames import FRAMING_BYTES, Counted
from beamfeed.contract.records.verify import differences, measure_shard
from beamfeed.trainer.feed.fields import choose_fields
from beamfeed.trainer.feed.parsing import parse
from beamfeed.trainer.feed.read_errors import find_mismatch
from beamfeed.trainer.feed.reader import open_shard
from beamfeed.trainer.feed.shards import Index

RECORDS = 64  # parsed at a time
Measure = Callable[[tf.Tensor], tf.Tensor]
OF_RECORDS = ("records", "windows", "rows")  # facts that are not known of a shard that cannot be read to its end


def make_measure(manifest: Manifest) -> Measure:
    """Serialized records, `[n]` -> int64 `[2, n]`: their bytes in a file and their rows, as every field is checked.

    It is traced once, for all shards: that takes longer than reading a small one.
    """
    fields_of_records = choose_fields(manifest, [field.name for field in manifest.fields])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def measure(serialized: tf.Tensor) -> tf.Tensor:
        sizes = tf.strings.length(serialized)
        return tf.stack([tf.cast(sizes, tf.int64) + FRAMING_BYTES, parse(serialized, fields_of_records).rows])

    return measure


def verify_shard(path: str, shard: Shard, blocks: Index | None, manifest: Manifest, measure: Measure) -> list[str]:
    """How a shard differs from what is said of it, a line each; none if it does not.

    Args:
      path: of the shard.
      shard: what the manifest says of it.
      blocks: what the index says of it; None where there is none.
      manifest: of the dataset.
      measure: of its records, by `make_measure`.
    """
    damage: list[str] = []
    counts_read = [np.empty([2, 0], np.int64)]

    def row_counts() -> Iterator[np.ndarray]:
        try:
            # Called from here: in a map of the dataset it would be traced and optimized again for each shard.
            for serialized in open_shard(path, manifest.compression).batch(RECORDS):
                counts_read.append(measure(serialized).numpy())
                yield counts_read[-1][1]
        except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
            damage.append(f"{path}: {find_mismatch(error) or 'is damaged'}")

    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            facts = measure_shard(Counted(file), row_counts(), manifest.windows)
    except tf.errors.NotFoundError:
        return [f"{path}: is missing"]
    stated = shard.model_dump(exclude={"folder", "file", *(OF_RECORDS if damage else ())})
    lines = damage + [f"{path}: {difference}" for difference in differences(facts, stated)]
    if blocks is not None and not damage:
        sizes, rows = np.concatenate(counts_read, axis=1)
        lines += compare_blocks(path, blocks, sizes, rows, manifest)
    return lines


def compare_blocks(path: str, blocks: Index, sizes: np.ndarray, rows: np.ndarray, manifest: Manifest) -> list[str]:
    """How the blocks of a shard differ from its records; the first of them that does, in one line.

    Args:
      path: of the shard.
      blocks: of it.
      sizes: int64 `[records]`, bytes in the file.
      rows: int64 `[records]`.
      manifest: of the dataset.
    """
    if blocks.records.sum() != len(sizes) or (blocks.records < 1).any():
        return [f"{path}: its blocks have {blocks.records.sum()} records, it has {len(sizes)}"]
    if not len(sizes):
        return []
    first = np.cumsum(blocks.records) - blocks.records
    windows = count_windows(rows, manifest.windows.length, manifest.windows.stride)
    for name, actual, stated in (("windows", windows, blocks.windows), ("bytes", sizes, blocks.bytes)):
        sums = np.add.reduceat(actual, first)
        for at in np.flatnonzero(sums != stated)[:1]:
            return [f"{path}: block {at}: {name} {sums[at]}, the index of blocks says {stated[at]}"]
    return []


def verify(manifest: Manifest, output: str) -> list[str]:
    """Reads every shard; returns how the dataset differs from its manifest and its index, a line each."""
    lines = []
    measure = make_measure(manifest)
    for split, info in manifest.splits.items():
        index = None
        try:
            index = Index.read(output, manifest, split) if info.shards else None
        except UserError as error:
            lines.append(str(error))
        for number, (path, shard) in enumerate(zip(manifest.shard_paths(output, split), info.shards, strict=True)):
            blocks = None if index is None else Index(*(column[index.shard == number] for column in index))
            lines += verify_shard(path, shard, blocks, manifest, measure)
        for name in ("records", "windows", "bytes"):
            total = sum(getattr(shard, name) for shard in info.shards)
            if total != getattr(info, name):
                lines.append(f"manifest: {split}: {name} {getattr(info, name)}, its shards add up to {total}")
    return lines
