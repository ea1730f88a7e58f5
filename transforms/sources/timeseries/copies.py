"""Rows that are copied once, as their files are scanned, into one file of the job's own, where they are read later on.

Rows of a text are parsed once so, and not again to check and to write them; and of many small files, each is opened and
found out once.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.sources.messages import MessageWriter, file_for
from beamfeed.transforms.sources.readers import BAD, Group, iter_batches, parses
from beamfeed.transforms.sources.readers.formats import packed_by
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema

Rows = tuple[Group, int, pa.RecordBatch]  # the group that they are in, the file's row of the first, and their columns
UNPACKED = 10  # about so many bytes of text are in a byte that is packed
LOOK_BYTES = 64 << 20  # written between two looks at what is free


class NotCopied(Exception):
    """Rows that cannot be in the copy: it has columns of other types, or the disk has no room for it."""


class RowCopies(ExitStack):
    """A file for the rows of some files, open while these are scanned.

    All copies of a job take no more than what is free on the disk beside them, so at most half of what was.

    Args:
      files: that are scanned together.
      scratch: a folder for copies alone.

    Attributes:
      path: of the copy.
      are_many: whether several files are scanned together, which are small.
    """

    def __init__(self, files: Sequence[FileStat], scratch: str):
        super().__init__()
        self.path = file_for(scratch, "\n".join(stat.path for stat in files), "-rows.arrow")
        self.are_many = len(files) > 1
        self._writer: MessageWriter | None = None
        self._types: pa.Schema | None = None
        self._is_used, self._unseen = False, 0  # bytes that may be written without a look at the disk

    def takes(self, file: FileStat) -> bool:
        """Whether the rows of a file are to be copied as they are parsed: on this machine, where the disk has room."""
        if not parses(file.path) or storage.is_remote(self.path):
            return False
        return self._has_room(file.size * (UNPACKED if packed_by(file.path) else 1))

    def _has_room(self, size: int) -> bool:
        """Whether copies may take so many bytes more."""
        if self._unseen < size and not storage.is_remote(self.path):
            room = self._room()
            self._unseen = min(LOOK_BYTES, room)
            return size <= room
        return True

    def _room(self) -> int:
        """Bytes that copies may still take of the disk."""
        folder = os.path.dirname(self.path)
        os.makedirs(folder, exist_ok=True)
        taken = 0
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # it may have got its name meanwhile
                    taken += entry.stat().st_size
        return (shutil.disk_usage(folder).free - taken) // 2

    def add(self, path: str, schema: SeriesSchema, copied: dict[int, Group]) -> Iterator[Rows]:
        """Copies a file; yields all columns of its rows as they are copied.

        Args:
          path: of the file.
          schema: what it must hold.
          copied: gets the groups of the copy that the rows are in, by the places of the file's own groups.

        Raises:
          BadInput: where the file breaks.
          NotCopied
        """
        for group, row, batch in iter_batches(path, schema, [*schema.names, BAD]):
            place, size = self._write(batch)
            before = copied.get(group.place, Group(row, 0, place))
            copied[group.place] = replace(before, rows=before.rows + batch.num_rows, size=before.size + size)
            yield group, row, batch
        self._is_used |= bool(copied)

    def _write(self, batch: pa.RecordBatch) -> tuple[int, int]:
        """Adds rows; returns the byte that they begin at, and how many they take."""
        batch = batch.replace_schema_metadata()
        if any(map(pa.types.is_dictionary, batch.schema.types)) or self._types not in (None, batch.schema):
            raise NotCopied
        try:
            if not self._has_room(batch.nbytes):
                raise NotCopied
            if self._writer is None:
                self._writer = MessageWriter(self.enter_context(storage.open_output(self.path)))
                self._types = batch.schema
            place, size = self._writer.write(batch)
        except OSError:
            raise NotCopied from None
        self._unseen -= size
        return place, size

    def __exit__(self, *error: Any) -> bool | None:
        """Leaves no file in which no row is needed."""
        if error[0] is None and not self._is_used:
            with suppress(NotCopied):
                super().__exit__(NotCopied, NotCopied(), None)
        return super().__exit__(*error)
