"""CSV, in blocks that end with a line: each is parsed by itself, so that workers can share a file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.csv

from beamfeed.contract import storage
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers.expected import Expected, Group, batch_rows, require_columns

BLOCK_BYTES = 8 << 20
_LINE_BYTES = 64 << 20  # a longer line is none


@contextmanager
def open_text(path: str) -> Iterator[pa.NativeFile]:
    """Opens a text, unpacked."""
    with storage.open_input(path) as source:
        if source.size() == 0:
            raise BadInput(path, "file", "the file is empty")
        if not path.endswith(".gz"):
            yield source
            return
        # Arrow unpacks 64 KB at a time, which would be a request each on gs://.
        with pa.CompressedInputStream(pa.BufferedInputStream(source, BLOCK_BYTES), "gzip") as text:
            yield text


def can_seek(path: str) -> bool:
    """Whether a block can be read without what is before it."""
    return not path.endswith(".gz")


def header_names(path: str) -> list[str]:
    """The names in the first line."""
    with open_text(path) as text:
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
        names: list[str] = reader.schema.names
        return names


def guess_schema(path: str) -> pa.Schema:
    """The names and types of the columns, as the first block suggests them."""
    header_names(path)
    with open_text(path) as text, pa.csv.open_csv(text) as reader:
        return reader.schema


def iter_text(
    path: str, expected: Expected, names: Sequence[str], groups: Sequence[Group] | None
) -> Iterator[tuple[Group, int, pa.RecordBatch]]:
    """Streams columns of blocks, see `iter_batches`."""
    header = header_names(path)
    require_columns(path, expected.names, header)
    blocks = _blocks(path) if groups is None else _blocks_at(path, groups)
    row = 0
    for place, block in blocks:
        table = _parse(block, header, names, expected, has_header=place == 0)
        row = row if groups is None else next(group.row for group in groups if group.place == place)
        group = Group(row, table.num_rows, place, len(block))
        for batch in table.to_batches(max_chunksize=batch_rows(len(names))):
            yield group, row, batch
            row += batch.num_rows


def _parse(
    block: bytes, header: Sequence[str], names: Sequence[str], expected: Expected, *, has_header: bool
) -> pa.Table:
    return pa.csv.read_csv(
        pa.py_buffer(block),
        read_options=pa.csv.ReadOptions(
            use_threads=False, block_size=len(block) + 1, column_names=header, skip_rows=int(has_header)
        ),
        convert_options=pa.csv.ConvertOptions(column_types=expected.csv_types, include_columns=list(names)),
    )


def _blocks(path: str) -> Iterator[tuple[int, bytes]]:
    """All of a text in blocks of whole lines, each with the byte that it starts at."""
    place, rest = 0, b""
    with open_text(path) as text:
        while data := text.read(BLOCK_BYTES):
            data = rest + data
            end = _end_of_lines(data)
            if not end and len(data) > _LINE_BYTES:
                raise BadInput(path, f"byte {place}", f"a line of more than {_LINE_BYTES >> 20} MB")
            if end:
                yield place, data[:end]
            place, rest = place + end, data[end:]
        if rest:
            yield place, rest


def _end_of_lines(data: bytes) -> int:
    """Where the last whole line ends, outside of quotes; 0 if there is none."""
    newline = b"\n" if b"\n" in data else b"\r"
    end = last = data.rfind(newline, 0, len(data) - (newline == b"\r")) + 1
    # An odd number of quotes before: the line goes on in a quoted value.
    while end and data.count(b'"', 0, end) % 2:
        end = data.rfind(newline, 0, end - 1) + 1
    return end or (last if len(data) > 2 * BLOCK_BYTES else 0)  # a quote that never ends is a character


def _blocks_at(path: str, groups: Sequence[Group]) -> Iterator[tuple[int, bytes]]:
    with storage.open_input(path) as file:
        for group in groups:
            data = file.read_at(group.size, group.place)
            if len(data) != group.size:
                raise BadInput(path, f"byte {group.place}", "the file is shorter than when it was planned")
            yield group.place, data
