"""Reads Parquet and CSV files as Arrow record batches; the only place that knows file formats.

Whatever a broken file makes Arrow raise becomes a BadInput with file, place and
reason.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from beamfeed.contract import storage
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.rejects import BadInput

BATCH_ROWS = 65_536
_CSV_BLOCK = 4 << 20  # bytes


class Expected(Protocol):
    """What every file of a job must hold."""

    @property
    def names(self) -> list[str]:
        """The columns, each once, in the order they are read."""

    @property
    def csv_types(self) -> dict[str, pa.DataType]:
        """The types that the columns of a CSV are parsed as."""

    def check(self, path: str, schema: pa.Schema) -> None:
        """Raises BadInput if a column is missing or of the wrong type."""


def is_parquet(path: str) -> bool:
    """Whether a path is that of a Parquet file."""
    return path.endswith(".parquet")


@contextmanager
def naming_the_file(path: str) -> Iterator[None]:
    """Turns errors of reading `path` into BadInput, but for those of a bucket that does not answer."""
    try:
        yield
    except BadInput:
        raise
    except FileNotFoundError:
        raise BadInput(path, "file", "there is no such file any more") from None
    except PermissionError:
        raise BadInput(path, "file", "no permission to read it") from None
    except ConnectionError as error:  # the bucket's fault: no file is rejected for it
        raise JobFailed(str(error)) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError) as error:
        message = " ".join(str(error).split())[:300]
        row = re.search(r"Row #(\d+)", message)
        raise BadInput(path, f"line {row[1]}" if row else "file", f"cannot be read: {message}") from None


@contextmanager
def open_parquet(path: str) -> Iterator[pq.ParquetFile]:
    """Opens a Parquet file; what is wrong with it becomes BadInput."""
    with naming_the_file(path), storage.open_input(path) as source:
        if source.size() == 0:
            raise BadInput(path, "file", "the file is empty")
        with pq.ParquetFile(source) as file:
            yield file


@contextmanager
def _open_text(path: str) -> Iterator[pa.NativeFile]:
    with storage.open_input(path) as source:
        if source.size() == 0:
            raise BadInput(path, "file", "the file is empty")
        if not path.endswith(".gz"):
            yield source
            return
        # Arrow unpacks 64 KB at a time, which would be a request each on gs://.
        with pa.CompressedInputStream(pa.BufferedInputStream(source, _CSV_BLOCK), "gzip") as text:
            yield text


def _csv_header(path: str) -> list[str]:
    with _open_text(path) as text:
        start = text.read(1 << 20)
    try:
        # A character cut off by the end of the buffer is no error.
        decoded = start.decode("utf-8") if len(start) < 1 << 20 else start[:-4].decode("utf-8", "ignore")
    except UnicodeDecodeError as error:
        line = start[: error.start].count(b"\n") + 1
        raise BadInput(path, f"line {line}", f"is not UTF-8 text: byte 0x{start[error.start]:02x}") from None
    if "\x00" in decoded:
        raise BadInput(path, "line 1", "is not UTF-8 text: it holds zero bytes")
    # Arrow parses the header, so that quotes mean the same here as below.
    with pa.csv.open_csv(pa.BufferReader(start.partition(b"\n")[0] + b"\n")) as reader:
        return reader.schema.names


def read_schema(path: str) -> pa.Schema:
    """The names and types of a file's columns; of a CSV, as its first block suggests them.

    Raises:
      BadInput
    """
    with naming_the_file(path):
        if is_parquet(path):
            with open_parquet(path) as file:
                return file.schema_arrow
        _csv_header(path)
        with _open_text(path) as text, pa.csv.open_csv(text) as reader:
            return reader.schema


def require_columns(path: str, names: Sequence[str], found: Sequence[str]) -> None:
    """Raises BadInput if a file lacks one of the columns."""
    missing = [name for name in names if name not in found]
    if missing:
        raise BadInput(path, f"column {missing[0]}", f"is missing; the file has {', '.join(found)[:200]}")


def iter_batches(
    path: str, expected: Expected, names: Sequence[str], row_groups: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Streams the columns `names` of a file, at most BATCH_ROWS rows at a time, in the file's order.

    Args:
      path: the file, local or gs://
      expected: what every file must hold.
      names: of the columns to read.
      row_groups: of a Parquet file, the row groups to read; None reads all.

    Raises:
      BadInput: at the place where the file breaks.
    """
    names = list(dict.fromkeys(names))
    with naming_the_file(path):
        if is_parquet(path):
            with open_parquet(path) as file:
                expected.check(path, file.schema_arrow)
                # One group at a time: Arrow reads ahead all that it is asked for, in few and large requests.
                for group in range(file.num_row_groups) if row_groups is None else row_groups:
                    yield from file.iter_batches(BATCH_ROWS, row_groups=[group], columns=names, use_threads=False)
            return
        require_columns(path, expected.names, _csv_header(path))
        with (
            _open_text(path) as text,
            pa.csv.open_csv(
                text,
                read_options=pa.csv.ReadOptions(use_threads=False, block_size=_CSV_BLOCK),
                convert_options=pa.csv.ConvertOptions(column_types=expected.csv_types, include_columns=names),
            ) as reader,
        ):
            for batch in reader:
                for at in range(0, batch.num_rows, BATCH_ROWS):
                    yield batch.slice(at, BATCH_ROWS)
