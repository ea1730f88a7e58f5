"""Parquet: the footer, and batches of rows from row groups, in memory that does not grow with the width."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from beamfeed.contract import storage
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers.expected import (
    TEXTS,
    WORDS_BYTES,
    Expected,
    Group,
    Look,
    TextOptions,
    batch_rows,
    word_bytes,
)
from beamfeed.transforms.sources.readers.trouble import naming_the_file

DECODE_BYTES = 256 << 20  # that the pages of a row group's columns may take while they are decoded
_PAGES_BYTES = 2 << 20  # of one column at most: a page of values and one of its dictionary, as writers make them
TEXT_BYTES = 64 << 20  # of the values of a batch, where they are long
_FEW_ROWS = 4096  # of a row group whose footer is believed when it says that its texts are short
_SLAB = 64  # columns that are decoded together where there are too many
_WITH_WORDS = frozenset(("PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"))  # that Arrow so reads


@contextmanager
def open_parquet(path: str, ahead: bool = True) -> Iterator[pq.ParquetFile]:
    """Opens a Parquet file; what is wrong with it becomes BadInput.

    Args:
      path: local or gs://
      ahead: whether all columns of a row group may be got from a bucket before they are decoded.
    """
    remote = storage.is_remote(path)
    with naming_the_file(path), storage.open_input(path) as source:
        if source.size() == 0:
            raise BadInput(path, "file", "the file is empty")
        # A bucket is asked for all columns of a row group at once; a disk is read as columns are decoded.
        options = {"pre_buffer": False, "buffer_size": (8 << 20) if remote else (256 << 10)}
        options = {} if remote and ahead else options
        # Where the writer left checksums, a bit that flipped is seen.
        options |= {"page_checksum_verification": True}
        with pq.ParquetFile(source, **options) as file:
            yield file


def look_at_parquet(path: str, _: TextOptions) -> Look:
    """The names and types of the columns."""
    with open_parquet(path) as file:
        return Look(file.schema_arrow)


def parquet_groups(path: str, expected: Expected) -> list[Group]:
    """The row groups that hold rows, by the footer."""
    with open_parquet(path) as file:
        expected.check(path, file.schema_arrow)
        return row_groups(file)


def row_groups(file: pq.ParquetFile) -> list[Group]:
    """The row groups that hold rows."""
    groups, row = [], 0
    for place in range(file.num_row_groups):
        rows = file.metadata.row_group(place).num_rows
        if rows:
            groups.append(Group(row, rows, place))
        row += rows
    return groups


def iter_parquet(
    path: str, expected: Expected, names: Sequence[str], groups: Sequence[Group] | None, last_rows: int | None
) -> Iterator[tuple[Group, int, pa.RecordBatch]]:
    """Streams columns of row groups, see `iter_batches`."""
    with ExitStack() as opened:
        file = opened.enter_context(open_parquet(path))
        expected.check(path, file.schema_arrow)
        stored = frozenset(file.schema_arrow.names)
        names = [name for name in names if name in stored]
        by_place = {group.place: group for group in row_groups(file)}
        chosen = list(by_place.values() if groups is None else groups)
        if storage.is_remote(path) and any(_is_heavy(file, place, names) for place in by_place):
            file = opened.enter_context(open_parquet(path, ahead=False))
        # In a bucket each dictionary would be a request more.
        texts = {} if storage.is_remote(path) else _texts_of(file, names)
        words = opened.enter_context(_encoded(path, file, list(texts))) if texts else None
        for group in chosen:
            if by_place.get(group.place) != group:
                raise BadInput(path, "file", "has other row groups than when it was planned")
            row = group.row
            limit = group.rows if last_rows is None or group is not chosen[-1] else min(last_rows, group.rows)
            for batch in _batches(file, words, group, names, texts, limit):
                yield group, row, batch
                row += batch.num_rows


def _batches(
    file: pq.ParquetFile, words: pq.ParquetFile | None, group: Group, names: Sequence[str], texts: Mapping[str, int],
    limit: int,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """The first `limit` rows of a row group; pages behind them are not decoded."""
    # Of each column a page is in memory at a time, and its dictionary.
    wide = (
        len(names) > _SLAB and sum(min(size, _PAGES_BYTES) for size in _sizes(file, group.place, names)) > DECODE_BYTES
    )
    rows = min(batch_rows(len(names)), limit)
    if rows * file.metadata.row_group(group.place).total_byte_size > TEXT_BYTES * group.rows:  # a look at all, first
        row_bytes = max(1, sum(_sizes(file, group.place, names)) // group.rows)  # but for values of a dictionary
        rows = min(rows, max(1, TEXT_BYTES // row_bytes))
    if words is not None:
        rows = _rows_of_words(words, group, texts, rows)
    yield from _spooled(file, group, names, rows, limit) if wide else _decoded(file, group, names, rows, limit)


def _texts_of(file: pq.ParquetFile, names: Sequence[str]) -> dict[str, int]:
    """Which of the columns hold texts or bytes, with their numbers among the columns of values."""
    arrow, stored = file.schema_arrow, file.schema  # each is made anew for whoever asks
    texts = {name for name in names if _is_text(arrow.field(name).type)}
    paths = (stored.column(at).path for at in range(len(stored))) if texts else ()
    return {path: at for at, path in enumerate(paths) if path in texts}


def _is_text(type_: pa.DataType) -> bool:
    value = type_.value_type if pa.types.is_dictionary(type_) else type_
    return pa.types.is_fixed_size_binary(value) or value in TEXTS


@contextmanager
def _encoded(path: str, file: pq.ParquetFile, texts: Sequence[str]) -> Iterator[pq.ParquetFile]:
    """The file once more, whose columns of text are read as indices of a dictionary."""
    options = {"read_dictionary": texts, "page_checksum_verification": True, "buffer_size": 256 << 10}
    with storage.open_input(path) as source, pq.ParquetFile(source, metadata=file.metadata, **options) as words:
        yield words


def _rows_of_words(words: pq.ParquetFile, group: Group, texts: Mapping[str, int], rows: int) -> int:
    """How many rows of texts may be decoded at a time, if each had the longest words of the dictionaries.

    These are read with the first row of a group: about 50 us for each, a hundredth of what a million texts take, and
    5 ms for one of 50,000 words.

    Args:
      words: see `_encoded`.
      group: of rows.
      texts: numbers of the columns in the file, by name.
      rows: how many it would be.
    """
    stored = words.metadata.row_group(group.place)
    columns = {name: stored.column(at) for name, at in texts.items()}
    if rows <= _FEW_ROWS and rows * sum(column.total_uncompressed_size for column in columns.values()) <= WORDS_BYTES:
        return rows
    with_words = [name for name, column in columns.items() if _WITH_WORDS.issuperset(column.encodings)]
    rows = rows if len(with_words) == len(columns) else min(rows, _FEW_ROWS)  # how long the others are is not known
    slabs = (with_words[at : at + _SLAB] for at in range(0, len(with_words), _SLAB))
    firsts = (words.iter_batches(1, [group.place], list(slab), use_threads=False) for slab in slabs)
    longest = sum(word_bytes(column) for first in firsts for batch in islice(first, 1) for column in batch.columns)
    return max(1, min(rows, WORDS_BYTES // max(1, longest)))


def _decoded(
    file: pq.ParquetFile, group: Group, names: Sequence[str], rows: int, limit: int
) -> Iterator[pa.RecordBatch]:
    done = 0
    for batch in file.iter_batches(rows, row_groups=[group.place], columns=list(names), use_threads=False):
        yield batch
        done += batch.num_rows
        if done >= limit:
            return


def _sizes(file: pq.ParquetFile, place: int, names: Sequence[str]) -> list[int]:
    """Bytes of the columns of values of some columns in a row group, unpacked, by the footer."""
    return [column.total_uncompressed_size for column in _columns_of(file, place, names)]


def _is_heavy(file: pq.ParquetFile, place: int, names: Sequence[str]) -> bool:
    """Whether some columns of a row group are too large as they are stored to be in memory at a time."""
    if file.metadata.row_group(place).total_byte_size <= DECODE_BYTES:  # a look at all, first
        return False
    return sum(column.total_compressed_size for column in _columns_of(file, place, names)) > DECODE_BYTES


def _columns_of(file: pq.ParquetFile, place: int, names: Sequence[str]) -> Iterator[pq.ColumnChunkMetaData]:
    """The columns of values of some columns in a row group."""
    metadata, chosen = file.metadata.row_group(place), set(names)
    columns = (metadata.column(at) for at in range(metadata.num_columns))
    return (column for column in columns if _is_of(column.path_in_schema, chosen))


def _is_of(path: str, names: Set[str]) -> bool:
    """Whether a column of values belongs to one of the columns: it is `a.list.element` of `a`, or `a.b` with a dot."""
    while path not in names:
        path, dot, _ = path.rpartition(".")
        if not dot:
            return False
    return True


def _spooled(
    file: pq.ParquetFile, group: Group, names: Sequence[str], rows: int, limit: int
) -> Iterator[pa.RecordBatch]:
    """Rows of very many columns: some columns at a time are decoded into a temporary file, then joined row by row."""
    slabs, arrow = [names[at : at + _SLAB] for at in range(0, len(names), _SLAB)], file.schema_arrow
    with ExitStack() as stack:
        streams = []
        for slab in slabs:
            spool = stack.enter_context(tempfile.TemporaryFile())
            schema = pa.schema([arrow.field(name) for name in slab])
            with pa.ipc.new_stream(pa.PythonFile(spool, "w"), schema) as writer:
                for batch in _decoded(file, group, slab, rows, limit):
                    writer.write_batch(batch.select(list(slab)))
            spool.seek(0)
            streams.append(pa.ipc.open_stream(pa.PythonFile(spool, "r")))
        for parts in zip(*streams, strict=True):
            columns = {name: part.column(name) for part, slab in zip(parts, slabs, strict=True) for name in slab}
            yield pa.RecordBatch.from_pydict(columns)
