"""Rows that are copied once, as their files are scanned, into one file of the job's own, where they are read later on.

Rows of a text are parsed once so, and not again to check and to write them; and of many small files, each is opened and
found out once.
"""

import hashlib
import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack

import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.sources.messages import MessageWriter
from beamfeed.transforms.sources.readers import parses
from beamfeed.transforms.sources.readers.formats import packed_by

_UNPACKED = 10  # bytes of text in a byte that is packed
_ROOM = 4  # times the text must be free on the disk


class Unlike(Exception):
    """Rows whose columns are of other types than those that stand in the copy."""


class RowCopies(ExitStack):
    """A file for the rows of some files, open while these are scanned.

    Args:
      files: that are scanned together.
      scratch: a folder for the copy.

    Attributes:
      path: of the copy.
      are_many: whether several files are scanned together, which are small.
    """

    def __init__(self, files: Sequence[FileStat], scratch: str):
        super().__init__()
        names = "\n".join(stat.path for stat in files).encode("utf-8", "surrogatepass")
        self.path = storage.join(scratch, f"rows-{hashlib.blake2b(names, digest_size=16).hexdigest()}.arrow")
        self.are_many = len(files) > 1
        self._writer: MessageWriter | None = None
        self._types: pa.Schema | None = None

    def takes(self, file: FileStat) -> bool:
        """Whether the rows of a file are to be copied as they are parsed: on this machine, where the disk has room."""
        if not parses(file.path) or storage.is_remote(self.path):
            return False
        folder = os.path.dirname(self.path)
        os.makedirs(folder, exist_ok=True)
        size = file.size * (_UNPACKED if packed_by(file.path) else 1)
        return size * _ROOM < shutil.disk_usage(folder).free

    def write(self, batch: pa.RecordBatch) -> tuple[int, int]:
        """Adds rows; returns the byte that they begin at, and how many they take.

        Raises:
          Unlike: if they cannot be there.
        """
        batch = batch.replace_schema_metadata()
        if any(map(pa.types.is_dictionary, batch.schema.types)) or self._types not in (None, batch.schema):
            raise Unlike
        if self._writer is None:
            self._writer = MessageWriter(self.enter_context(storage.open_output(self.path)))
            self._types = batch.schema
        return self._writer.write(batch)
