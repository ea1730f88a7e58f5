"""Rows in a file of the job's own: a message of Arrow for each batch, so that each can be read without the others."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from beamfeed.contract import storage

AT_ONCE = 16 << 20  # bytes


def file_for(folder: str, name: str, ending: str = ".arrow") -> str:
    """The path in a folder of a file of the job's own for what has that name: the same, whoever makes it."""
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16)
    return storage.join(folder, digest.hexdigest() + ending)


class MessageWriter:
    """Writes batches of one schema into an open file."""

    def __init__(self, target: Any):
        self._target, self._started = target, False

    def write(self, rows: pa.RecordBatch) -> tuple[int, int]:
        """Writes a batch; returns the byte that it begins at, and how many it takes."""
        if not self._started:
            self._target.write(rows.schema.serialize())
            self._started = True
        place, message = self._target.tell(), rows.serialize()
        self._target.write(message)
        return place, message.size


def read_messages(path: str, places: Iterable[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
    """The batches of a file that stand at some places.

    Args:
      path: of the file.
      places: the byte that a message begins at, and how many it takes, as `MessageWriter.write` gave them; or several
        that stand one behind the other.
    """
    with storage.open_input(path) as file:
        schema = pa.ipc.read_schema(file)
        for place, size in places:
            end = place + size
            if size <= AT_ONCE:  # a request alone, where the file is in a bucket
                messages, end = pa.BufferReader(file.read_at(size, place)), size
            else:
                messages = file
                file.seek(place)
            while messages.tell() < end:
                yield pa.ipc.read_record_batch(pa.ipc.read_message(messages), schema)
