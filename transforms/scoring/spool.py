"""Predictions by asset: rows of many files are put into files of some assets each, which fit in memory."""

import os
from collections.abc import Iterable, Iterator, Sequence

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beamfeed.contract import storage

BUCKET_NUMBERS = 4_000_000  # about, of a file


def read_batches(paths: Iterable[str], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of Parquet files, some columns of them, some rows at a time."""
    for path in paths:
        with storage.open_input(path) as file:
            yield from pq.ParquetFile(file).iter_batches(65_536, columns=list(columns))


class Spool:
    """Rows by asset.

    Args:
      folder: local, for the files.
      numbers: how many there will be in all rows, about.
    """

    def __init__(self, folder: str, numbers: int):
        self.buckets = min(256, 1 + numbers // BUCKET_NUMBERS)
        self._folder = folder
        self._writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Some rows, with a column `asset`."""
        encoded = batch.column("asset").dictionary_encode()
        names = encoded.dictionary.to_pylist()
        of_name = np.array([google_crc32c.value(name.encode()) % self.buckets for name in names], np.int64)
        buckets = of_name[encoded.indices.to_numpy()]
        for bucket in np.unique(buckets).tolist():
            some = batch.take(pa.array(np.flatnonzero(buckets == bucket)))
            if bucket not in self._writers:
                self._writers[bucket] = pa.ipc.new_stream(self._path(bucket), some.schema)
            self._writers[bucket].write_batch(some)

    def close(self) -> None:
        """All rows are there."""
        for writer in self._writers.values():
            writer.close()

    def read(self, bucket: int) -> Iterator[tuple[str, pa.Table]]:
        """The rows of each asset of a bucket, by rising start."""
        if bucket not in self._writers:
            return
        with pa.ipc.open_stream(self._path(bucket)) as reader:
            table = reader.read_all().sort_by([("asset", "ascending"), ("start", "ascending")])
        names = table.column("asset").combine_chunks().dictionary_encode()
        edges = np.flatnonzero(np.diff(names.indices.to_numpy(), prepend=-1, append=-1))
        for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            yield names[first].as_py(), table.slice(first, end - first)

    def _path(self, bucket: int) -> str:
        return os.path.join(self._folder, f"{bucket}.arrow")
