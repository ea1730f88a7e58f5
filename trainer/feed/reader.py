"""Reads the blocks that a round of the order asks for: shards -> serialized records -> rows, or rows from memory."""

import sys
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from beamfeed.contract.dataset.windows import MISMATCH
from beamfeed.trainer.decode.preparation import Preparation
from beamfeed.trainer.feed.fields import FieldSelection
from beamfeed.trainer.feed.parsing import Parsed, checked, parse
from beamfeed.trainer.feed.shards import Index
from beamfeed.trainer.feed.windowing import Rows, add_zeros, find_windows

BUFFER_BYTES = 8 << 20  # at a time, of a whole shard
GROUP_BYTES = 16 << 20  # read into memory at a time


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

    Only inside a function of another dataset, such as an interleave's: on its own
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
        records_read = open_block(path, offset, records, size)
        if not skip_corrupt:
            return records_read
        # Errors are passed over inside the read of one block. Around the
        # interleave the damaged block would be asked again without end.
        return records_read.ignore_errors().concatenate(tf.data.Dataset.from_tensors(b"").repeat()).take(records)

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


class Shards:
    """Reads the blocks of shards that are not compressed, whose paths come in the manifest's order.

    Blocks are numbers of the index, int64 `[blocks]`; of the other arguments, see `read_blocks`.
    """

    def __init__(
        self,
        paths: list[str],
        index: Index,
        selection: FieldSelection,
        *,
        open_blocks: int,
        parallel: bool,
        skip_corrupt: bool,
    ):
        self._paths, self.selection = tf.constant(paths), selection
        self._index = tf.constant(np.stack(index, axis=1))
        self._open_blocks, self._parallel = open_blocks, parallel
        self._skip_corrupt = skip_corrupt

    def records(self, blocks: tf.Tensor) -> tf.Tensor:
        """The serialized records of the blocks, strings `[records + 1]`; the last one is empty."""
        index = self._look_up(blocks)
        chosen = Blocks(tf.gather(self._paths, index.shard), index.offset, index.records, index.bytes)
        serialized = read_blocks(
            chosen, open_blocks=self._open_blocks, parallel=self._parallel, skip_corrupt=self._skip_corrupt
        )
        return warn_of_damage(chosen, serialized) if self._skip_corrupt else serialized

    def parsed(self, blocks: tf.Tensor) -> Parsed:
        """The values of the blocks' records, and of an empty one after them."""
        return parse(self.records(blocks), self.selection)

    def rows(self, blocks: tf.Tensor) -> Rows:
        """Rows in which the windows of the blocks are."""
        return self.find(self.parsed(blocks), blocks)

    def find(self, parsed: Parsed, blocks: tf.Tensor) -> Rows:
        """The windows of the blocks in these values.

        Raises:
          tf.errors.InvalidArgumentError: if there are others than the index says, and damaged blocks are
            not passed over.
        """
        index = self._look_up(blocks)
        is_complete = tf.size(parsed.rows, tf.int64) == tf.reduce_sum(index.records) + 1
        with checked((is_complete, MISMATCH)):
            rows = find_windows(parsed._replace(rows=tf.identity(parsed.rows)), index.records, self.selection)
        if self._skip_corrupt:
            return rows
        is_same = tf.reduce_all(rows.windows == index.windows)
        with checked((is_same, MISMATCH)):
            return rows._replace(starts=tf.identity(rows.starts), first=tf.identity(rows.first))

    def _look_up(self, blocks: tf.Tensor) -> Index:
        return Index(*tf.unstack(tf.gather(self._index, blocks), axis=1))


class Memory:
    """Holds all values of some blocks, read once: those of other workers as well, if each epoch shares them out anew.

    Args:
      shards: that are read.
      index: of their blocks.
      blocks: int64 `[blocks]`, the numbers of those that are wanted.
      preparation: decodes the values before they are kept.
      padded: whether a window of zeros is kept, too: else each round would copy all values to add one.
    """

    def __init__(
        self,
        shards: Shards,
        index: Index,
        blocks: np.ndarray,
        preparation: Preparation | None,
        *,
        padded: bool,
    ):
        def decoded(blocks: tf.Tensor) -> Parsed:
            whole = shards.parsed(blocks)
            return whole if preparation is None else whole._replace(columns=preparation.decode(whole.columns))

        read = tf.function(decoded, input_signature=[tf.TensorSpec([None], tf.int64)], autograph=False)
        pieces: dict[str, list[tf.Tensor]] = {}
        counts = []
        groups = np.flatnonzero(np.diff(np.cumsum(index.bytes[blocks]) // GROUP_BYTES, prepend=-1))
        for group in np.split(blocks, groups[1:]):
            columns, rows, present = read(group)
            for name, values in columns.items():
                pieces.setdefault(name, []).append(values)
            counts.append((rows[:-1], present[:-1]))  # the last record is the empty one
        counts.append((tf.zeros([1], tf.int64),) * 2)
        # Of one field after the other, so that no more than one is there twice.
        values = {name: tf.concat(pieces.pop(name), 0) for name in list(pieces)}
        parsed = Parsed(values, *(tf.concat(column, 0) for column in zip(*counts, strict=True)))
        rows = shards.find(parsed, tf.constant(blocks))
        self._rows = add_zeros(rows, shards.selection) if padded else rows
        self._places = np.full(len(index.bytes), -1)  # of each block
        self._places[blocks] = np.arange(len(blocks))

    def rows(self, blocks: tf.Tensor) -> Rows:
        """As `Shards.rows`."""
        place, rows = tf.gather(tf.constant(self._places), blocks), self._rows
        return rows._replace(windows=tf.gather(rows.windows, place), first=tf.gather(rows.first, place))
