"""Arrow's own files, with Feather's: record batches are the groups of rows. One that is a stream does not divide."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers.expected import (
    VIEWS,
    WORDS_BYTES,
    Cut,
    Expected,
    Group,
    Look,
    TextOptions,
    batch_rows,
    is_text_dictionary,
    longest_word,
    word_bytes,
)
from beamfeed.transforms.sources.readers.trouble import check_names

_MAGIC = b"ARROW1"
NULL_ROWS = 1 << 24  # of a batch that are taken at their word where nothing is stored of them: columns of nulls alone
_BINARY = {
    pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view(),
}  # fmt: skip
_LISTS = {
    pa.types.is_list: pa.list_, pa.types.is_large_list: pa.large_list,
    pa.types.is_list_view: pa.list_view, pa.types.is_large_list_view: pa.large_list_view,
}  # fmt: skip


@contextmanager
def _open(path: str, names: Sequence[str] | None = None) -> Iterator[tuple[pa.Schema, Any, bool]]:
    """The schema, a reader of those columns `names` that it has, and whether batches can be read in any order."""
    with storage.open_input(path) as source:
        if source.size() == 0:
            raise BadInput(path, "file", "the file is empty")
        start = source.read(8)
        source.seek(0)
        if start.startswith(b"FEA1"):
            raise BadInput(path, "file", "is Feather of version 1, which is not read; write it as version 2")
        seekable = start.startswith(_MAGIC)
        open_ = pa.ipc.open_file if seekable else pa.ipc.open_stream
        with open_(source) as reader:
            schema = reader.schema
            check_names(path, schema)
            if names is None:
                yield schema, reader, seekable
                return
        source.seek(0)
        places = [at for name in names if (at := schema.get_field_index(name)) >= 0]
        if all(pa.types.is_null(schema.field(at).type) for at in places):  # by another one it is seen how many rows are
            places += [at for at, field in enumerate(schema) if not pa.types.is_null(field.type)][:1]
        with open_(source, options=pa.ipc.IpcReadOptions(included_fields=places, use_threads=False)) as reader:
            yield schema, reader, seekable


def look_at_arrow(path: str, _: TextOptions) -> Look:
    """The names and types of the columns."""
    with _open(path) as (schema, *_others):
        return Look(schema)


def cut_arrow(path: str, _: TextOptions) -> Cut | None:
    """Whether a record batch can be read without those before it."""
    with _open(path) as (*_others, seekable):
        return Cut() if seekable else None


def iter_arrow(
    path: str, expected: Expected, names: Sequence[str], groups: Sequence[Group] | None, last_rows: int | None
) -> Iterator[tuple[Group, int, pa.RecordBatch]]:
    """Streams columns of record batches, see `iter_batches`; the last one whole, whatever `last_rows` says."""
    with _open(path, names) as (schema, reader, seekable):
        expected.check(path, schema)
        stored = frozenset(schema.names)
        names = [name for name in names if name in stored]
        by_place = {group.place: group for group in groups or ()}
        batches: Iterable[tuple[int, pa.RecordBatch]]
        if seekable:
            places = range(reader.num_record_batches) if groups is None else by_place
            batches = ((place, reader.get_batch(place)) for place in places)
        else:
            batches = enumerate(reader)
        row, words = 0, _Words()
        for place, batch in batches:
            group = by_place.get(place) or Group(row, batch.num_rows, place)
            if group.rows != batch.num_rows:
                raise BadInput(path, "file", "has other record batches than when it was planned")
            batch, longest = _checked(path, batch, names, words)
            rows = max(1, min(batch_rows(batch.num_columns), WORDS_BYTES // max(1, longest)))
            for at in range(0, batch.num_rows, rows):
                yield group, group.row + at, batch.slice(at, rows)
            row += batch.num_rows


class _Words:
    """The dictionaries of a file's columns. Batches share them, so one is looked at once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[object, ...], pa.Array, pa.Array, int]] = {}

    def checked(self, column: pa.DictionaryArray, at: int) -> tuple[pa.DictionaryArray, int]:
        """A column of texts or bytes whose words are no views, and bytes of the longest one.

        Args:
          column: as it is read.
          at: its number.

        Raises:
          pa.ArrowException: if a word, or an index, lies outside of what is stored.
        """
        dictionary = column.dictionary
        parts = [part and (part.address, part.size) for part in dictionary.buffers()]
        place = (dictionary.type, len(dictionary), dictionary.offset, *parts)
        if at not in self._known or self._known[at][0] != place:
            _as_bytes(dictionary).validate(full=True)
            words = dictionary.cast(VIEWS.get(dictionary.type, dictionary.type))
            # It is kept itself, so that no other one comes to its place in memory.
            self._known[at] = place, dictionary, words, longest_word(words)
        _, _, words, longest = self._known[at]
        return pa.DictionaryArray.from_arrays(column.indices, words, ordered=column.type.ordered), longest


def _checked(path: str, batch: pa.RecordBatch, names: Sequence[str], words: _Words) -> tuple[pa.RecordBatch, int]:
    """Columns of the batch, and bytes of the longest words that a row may have.

    All that it says of its memory is so: Arrow reads such files without a look at that.
    Numbers cost nothing, texts a tenth of the time in which they are read as values. Whether these are UTF-8 is not
    looked at: one that is not costs its row, and not the file.

    Raises:
      BadInput: if a length or a place lies outside of what is stored.
    """
    rows, size = batch.num_rows, batch.get_total_buffer_size()
    batch = batch.select(names)
    batch.validate()
    columns, longest = batch.columns, 0
    for at, (name, column) in enumerate(zip(names, batch.columns, strict=True)):
        if pa.types.is_primitive(column.type):  # numbers and times have no places, and values may be as they are
            continue
        try:
            if is_text_dictionary(column.type):
                columns[at], most = words.checked(column, at)
            else:
                _as_bytes(column).validate(full=True)
                most = word_bytes(column)
        except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
            fault = " ".join(str(error).split())[:300]
            raise BadInput(path, f"column {name}", f"cannot be read: {fault}") from None
        longest += most
    if rows > NULL_ROWS and rows > 8 * size:  # at least a bit each
        raise BadInput(path, "file", f"says that a batch has {rows:,} rows, and has {size:,} bytes")
    # Without columns, a batch still says how many rows it has.
    return pa.RecordBatch.from_arrays(columns, names=list(names)) if columns else batch, longest


def _as_bytes(column: pa.Array) -> pa.Array:
    """Texts as the bytes that they are, also those in lists and other values of several."""
    type_ = _of_bytes(column.type)
    return column if type_ == column.type else column.view(type_)


def _of_bytes(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type_):
        return pa.dictionary(type_.index_type, _of_bytes(type_.value_type), type_.ordered)
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(_of_bytes(type_.value_type), type_.list_size)
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, _of_bytes(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(_of_bytes(type_.key_type), _of_bytes(type_.item_type))
    for is_list, list_ in _LISTS.items():
        if is_list(type_):
            return list_(_of_bytes(type_.value_type))
    return _BINARY.get(type_, type_)
