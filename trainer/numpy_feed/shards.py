"""Reads blocks of shards into memory, and finds the records in them: the framing of TFRecord files.

`contract.records.frames` has the format; here a block, whose place and count of records the index tells, is in memory.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import google_crc32c
import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.contract.records import frames
from beamfeed.contract.records.examples import Records
from beamfeed.contract.records.pieces import Pieces, little
from beamfeed.trainer.feed.shards import Index

HEAD, TAIL = frames.HEAD.size, frames.TAIL.size  # bytes around each record
REMOTE_READS = 16  # at a time, of gs://, where each waits for an answer
LOOP, STEP = 0.4, 20.0  # microseconds of a record in a loop, and of a step over all blocks at once


class ShardReader:
    """Reads blocks of shards that are not compressed, whose paths come in the manifest's order."""

    def __init__(self, paths: Sequence[str], index: Index, remedy: str):
        self._paths, self._index, self._remedy = list(paths), index, remedy

    def read(self, blocks: np.ndarray) -> Records:
        """The records of some blocks, in this order, each checked.

        Args:
          blocks: int64, numbers of the index.

        Raises:
          UserError: if a shard is missing or damaged; it says where.
          JobFailed: if one cannot be read.
        """
        sizes = self._index.bytes[blocks]
        first = np.cumsum(sizes) - sizes
        buffer = np.empty(int(sizes.sum()), np.uint8)
        self._fill(buffer, blocks, first)
        try:
            return Records(buffer, find_records(buffer, Pieces(first, first + sizes), self._index.records[blocks]))
        except BadBytes as damaged:
            at = int(np.searchsorted(first, damaged.place, side="right")) - 1
            byte = int(self._index.offset[blocks[at]]) + damaged.place - int(first[at])
            path = self._paths[self._index.shard[blocks[at]]]
            raise UserError(f"{path}: damaged: {damaged.reason} at byte {byte}; {self._remedy}") from None

    def _fill(self, buffer: np.ndarray, blocks: np.ndarray, first: np.ndarray) -> None:
        memory = buffer.data
        by_shard: dict[int, list[tuple[int, int, int]]] = {}
        columns = (self._index.shard[blocks], self._index.offset[blocks], first, self._index.bytes[blocks])
        for shard, offset, place, size in zip(*(column.tolist() for column in columns), strict=True):
            by_shard.setdefault(shard, []).append((offset, place, size))
        tasks = [(self._paths[shard], sorted(parts), memory, self._remedy) for shard, parts in by_shard.items()]
        if len(tasks) > 1 and storage.is_remote(tasks[0][0]):
            with ThreadPoolExecutor(REMOTE_READS) as pool:
                list(pool.map(lambda task: _read(*task), tasks))
            return
        for task in tasks:
            _read(*task)


def _read(path: str, parts: list[tuple[int, int, int]], memory: memoryview, remedy: str) -> None:
    """Reads parts of a file, each (bytes before it, place in memory, size), in order."""
    try:
        with storage.open_input(path) as file:
            for offset, place, size in _joined(parts):
                file.seek(offset)
                if file.readinto(memory[place : place + size]) != size:
                    raise UserError(f"{path}: damaged: ends before byte {offset + size}; {remedy}")
    except FileNotFoundError:
        raise UserError(f"{path}: the manifest lists this shard, but it is missing; {remedy}") from None
    except OSError as error:
        raise JobFailed(f"{path}: cannot be read: {error}") from error


def _joined(parts: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """What follows each other in the file and in memory as one: a request less on gs://."""
    joined: list[tuple[int, int, int]] = []
    for offset, place, size in parts:
        if joined and (joined[-1][0] + joined[-1][2], joined[-1][1] + joined[-1][2]) == (offset, place):
            joined[-1] = (*joined[-1][:2], joined[-1][2] + size)
        else:
            joined.append((offset, place, size))
    return joined


class BadBytes(ValueError):
    """Something in the bytes of a shard is not as it was written: where in the buffer, and what."""

    def __init__(self, place: int, reason: str):
        super().__init__(f"{reason} at byte {place}")
        self.place, self.reason = place, reason


def find_records(buffer: np.ndarray, blocks: Pieces, counts: np.ndarray) -> Pieces:
    """Where the records of some blocks are, block after block.

    Args:
      buffer: uint8, the blocks.
      blocks: where each is.
      counts: int64 `[blocks]`, records in each.

    Raises:
      BadBytes: if a block holds something else, or a checksum differs.
    """
    total, most = int(counts.sum()), int(counts.max(initial=0))
    records = _by_steps(buffer, blocks, counts) if most * STEP < total * LOOP else _by_loop(buffer, blocks, counts)
    _check_sums(buffer, records)
    return records


def _by_steps(buffer: np.ndarray, blocks: Pieces, counts: np.ndarray) -> Pieces:
    """One record of every block at a time: for many blocks of few records."""
    first = np.empty(int(counts.sum()), np.int64)
    size = np.empty_like(first)
    at, place = blocks.first.copy(), np.cumsum(counts) - counts
    for number in range(int(counts.max(initial=0))):
        active = np.flatnonzero(counts > number)
        here = at[active]
        length = little(buffer, here, "<i8")
        wrong = (length < 0) | (here + HEAD + length + TAIL > blocks.end[active])
        if wrong.any():
            raise BadBytes(int(here[wrong.argmax()]), "a record that reaches too far")
        first[place[active] + number], size[place[active] + number] = here + HEAD, length
        at[active] = here + HEAD + length + TAIL
    if (at != blocks.end).any():
        raise BadBytes(int(at[(at != blocks.end).argmax()]), "more records than the index says")
    return Pieces(first, first + size)


def _by_loop(buffer: np.ndarray, blocks: Pieces, counts: np.ndarray) -> Pieces:
    """A record at a time: for few blocks of many records."""
    memory, first, last = buffer.data, [], []
    for at, end, count in zip(blocks.first.tolist(), blocks.end.tolist(), counts.tolist(), strict=True):
        for _ in range(count):
            length = int.from_bytes(memory[at : at + 8], "little")
            if at + HEAD + length + TAIL > end:
                raise BadBytes(at, "a record that reaches too far")
            first.append(at + HEAD)
            at += HEAD + length
            last.append(at)
            at += TAIL
        if at != end:
            raise BadBytes(at, "more records than the index says")
    return Pieces(np.array(first, np.int64), np.array(last, np.int64))


def _check_sums(buffer: np.ndarray, records: Pieces) -> None:
    checksum = google_crc32c.value
    edges = zip(*(edge.tolist() for edge in records), strict=True)
    sums = np.array([checksum(buffer[first:end]) for first, end in edges], np.uint64)
    wrong = frames.mask(sums) != little(buffer, records.end, "<u4")
    if wrong.any():
        raise BadBytes(int(records.first[wrong.argmax()]) - HEAD, "a record whose checksum differs,")
