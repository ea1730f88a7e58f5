"""Many small files: their rows are copied once, as they are read, into one file of the job's own.

All that is read of them later is read there: nothing has to be opened, found out and parsed for each of them again.
"""

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.messages import MessageWriter
from beamfeed.transforms.sources.readers import iter_batches
from beamfeed.transforms.sources.readers.parse import BAD
from beamfeed.transforms.sources.timeseries.scan import FileSlice
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema


class SmallCopies(ExitStack):
    """Copies the rows of files of one batch of rows each; open while they are scanned.

    Args:
      files: that are scanned together.
      schema: what each must hold.
      scratch: a folder for the copy.
    """

    def __init__(self, files: Sequence[FileStat], schema: SeriesSchema, scratch: str):
        super().__init__()
        names = "\n".join(stat.path for stat in files).encode("utf-8", "surrogatepass")
        self._path = storage.join(scratch, f"small-{hashlib.blake2b(names, digest_size=16).hexdigest()}.arrow")
        self._schema = schema
        self._writer: MessageWriter | None = None
        self._types: pa.Schema = None

    def copied(self, piece: FileSlice) -> FileSlice:
        """The slice with its rows in the copy; as it is where they cannot be read, or be put beside the others."""
        if len(piece.groups) != 1 or piece.copy is not None:
            return piece
        try:
            batches = [batch for _, _, batch in iter_batches(piece.path, self._schema, [*self._schema.names, BAD])]
        except BadInput:  # who checks the rows says so
            return piece
        if len(batches) != 1 or any(map(pa.types.is_dictionary, batches[0].schema.types)):
            return piece
        batch = batches[0].replace_schema_metadata()
        if self._writer is None:
            self._writer = MessageWriter(self.enter_context(storage.open_output(self._path)))
            self._types = batch.schema
        if batch.schema != self._types or batch.num_rows != piece.rows:
            return piece
        place, size = self._writer.write(batch)
        group = replace(piece.groups[0], place=place, size=size)
        return replace(piece, groups=(group,), copy=self._path)
