"""Shards -> serialized records: the blocks that are asked for, in order, several at a time."""

import sys
from typing import NamedTuple

import tensorflow as tf

BUFFER_BYTES = 8 << 20  # at a time, of a whole shard


class Blocks(NamedTuple):
    """Blocks to read, `[blocks]` each."""

    path: tf.Tensor  # of the shard
    offset: tf.Tensor  # int64, bytes before the block in it
    records: tf.Tensor  # int64
    bytes: tf.Tensor  # int64


def open_shard(path: tf.Tensor | str, compression: str) -> tf.data.Dataset:
    """The serialized records of a whole shard."""
    return tf.data.TFRecordDataset(path, "GZIP" if compression == "gzip" else "", buffer_size=BUFFER_BYTES)


def open_block(path: tf.Tensor, offset: tf.Tensor, records: tf.Tensor, size: tf.Tensor) -> tf.data.Dataset:
    """The serialized records of one block of a shard that is not compressed, by one read.

    Only inside a function of another data set, such as an interleave's: on its own
    TensorFlow fails to write this operation into the graph that it optimizes.
    """
    variant = tf.raw_ops.TFRecordDatasetV2(
        filenames=path[None], compression_type="", buffer_size=size, byte_offsets=offset[None]
    )
    return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string)).take(records)


def read_blocks(blocks: Blocks, *, open_blocks: int, parallel: bool, skip_corrupt: bool) -> tf.Tensor:
    """The records of the blocks one after the other, strings `[records + 1]`; the last one is empty.

    Args:
      blocks: in the order in which their records are wanted.
      open_blocks: how many are read at a time.
      parallel: whether by several threads.
      skip_corrupt: gives empty strings for a block's records from its first damaged one on.
    """

    def read(path: tf.Tensor, offset: tf.Tensor, records: tf.Tensor, size: tf.Tensor) -> tf.data.Dataset:
        found = open_block(path, offset, records, size)
        if not skip_corrupt:
            return found
        # Errors are passed over inside the read of one block. Around the
        # interleave the damaged block would be asked again without end.
        return found.ignore_errors().concatenate(tf.data.Dataset.from_tensors(b"").repeat()).take(records)

    records = tf.data.Dataset.from_tensor_slices(tuple(blocks)).interleave(
        read,
        cycle_length=open_blocks,
        block_length=tf.maximum(tf.reduce_max(blocks.records), 1),  # so they come one block after the other
        num_parallel_calls=open_blocks if parallel else None,
        deterministic=True if parallel else None,
    )
    # Never empty, because of the record that is added: a single element can be asked for.
    everything = records.concatenate(tf.data.Dataset.from_tensors(b""))
    return everything.batch(tf.reduce_sum(blocks.records) + 1).get_single_element()


def warn_of_damage(blocks: Blocks, serialized: tf.Tensor) -> tf.Tensor:
    """Tells on stderr how many records of each block are missing; returns what `read_blocks` gave."""
    empty = tf.cast(tf.strings.length(serialized[:-1]) == 0, tf.int64)
    missing = tf.reduce_sum(tf.RaggedTensor.from_row_lengths(empty, blocks.records), axis=1)
    damaged = tf.reshape(tf.where(missing > 0), [-1])

    def warn() -> bool:
        # By TensorFlow, not by Python's log: a thread of tf.data must not wait for Python.
        some = [tf.gather(column, damaged) for column in (blocks.path, blocks.offset, missing)]
        words = ": damaged after byte ", ", passed over ", " records"
        text = [some[0], words[0], tf.strings.as_string(some[1]), words[1], tf.strings.as_string(some[2]), words[2]]
        tf.print(tf.strings.reduce_join(tf.strings.join(text), separator="\n"), output_stream=sys.stderr)
        return True

    tf.cond(tf.size(damaged) > 0, warn, lambda: True)
    return serialized
