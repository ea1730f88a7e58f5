"""JSON lines: an object in each line, its keys are the columns. Read in blocks of whole lines, as CSV is.

Other JSON becomes such lines first, see json_documents.py.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from beamfeed.contract import storage
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.sources.readers.blocks import (
    EmptyFile,
    blocks_at,
    iter_tables,
    whole_lines,
)
from beamfeed.transforms.sources.readers.dialect import Dialect
from beamfeed.transforms.sources.readers.encoding import BadText
from beamfeed.transforms.sources.readers.expected import Expected, Group, TextOptions, require_columns
from beamfeed.transforms.sources.readers.json_documents import naming_the_record, pieces_of_lines, start_of_lines
from beamfeed.transforms.sources.readers.text import naming_the_place
from beamfeed.transforms.sources.readers.values import BadValue, convert

_PLAIN = Dialect(names=())
_HELD = {"number": pa.int64(), "string": pa.string(), "boolean": pa.bool_()}  # types of what a value may be instead


def look_at_json(path: str, text: TextOptions = TextOptions()) -> pa.Schema:
    """The names and types of the columns, as the first lines suggest them; times are text.

    Raises:
      BadInput: if no line can be read.
    """
    start, whole = start_of_lines(path)
    block = _without_mark(start if whole else start[: start.rfind(b"\n") + 1])
    values: dict[str, list[Any]] = {}
    for row in _objects(block):
        for name, value in row.items():
            if _is_text(name):
                values.setdefault(name, []).append(value)
    if not values:
        with naming_the_place(path):
            _read(block, None)
    return pa.schema([(name, _type_of(found, keeps_text=name in text.texts)) for name, found in values.items()])


def _objects(block: bytes) -> Iterator[dict[str, Any]]:
    """The lines that are objects; what is none is told where it is read."""
    for line in block.split(b"\n"):
        with suppress(ValueError, RecursionError):
            if isinstance(row := json.loads(line), dict):
                yield row


def _is_text(value: str) -> bool:
    """Whether it can be written: a JSON text may name half of a character by its escape."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _type_of(values: Sequence[Any], *, keeps_text: bool) -> pa.DataType:
    """What some values of a column look like."""
    found = {type(value) for value in values} - {type(None)}
    if found <= {dict, list}:
        return pa.list_(pa.null()) if list in found else pa.struct([]) if found else pa.null()
    if found == {bool}:
        return pa.bool_()
    if found == {int}:
        return pa.int64()
    if found <= {int, float}:
        return pa.float64()
    if found <= {int, float, str} and not keeps_text:  # numbers may stand in quotes
        if not all(_is_text(value) for value in values if isinstance(value, str)):
            return pa.string()
        try:
            convert(pa.array([None if value is None else str(value) for value in values]), pa.float64(), _PLAIN)
            return pa.float64()
        except BadValue:
            pass
    return pa.string()


def iter_json(
    path: str, expected: Expected, names: Sequence[str], groups: Sequence[Group] | None
) -> Iterator[tuple[Group, int, pa.RecordBatch]]:
    """Streams columns of blocks, see `iter_batches`. A file of no bytes holds no rows."""
    try:
        needed = tuple(name for name in expected.names if name not in expected.optional)
        require_columns(path, needed, _keys_of(path, needed))
    except EmptyFile:
        return
    known = expected.csv_types
    types = {name: known[name] for name in names}

    def parse_block(block: bytes, first: bool) -> pa.Table:
        return parse_json(_without_mark(block) if first else block, types)

    blocks = whole_lines(path, pieces_of_lines(path), None) if groups is None else blocks_at(path, groups)
    with naming_the_record(path):
        yield from iter_tables(path, blocks, groups, len(names), parse_block)


def _keys_of(path: str, wanted: Sequence[str]) -> list[str]:
    """The keys of a file: those of its first lines, and of `wanted` those that come later on."""
    found = list(look_at_json(path).names)
    late = tuple(name for name in wanted if name not in found)
    return [*found, *_late_keys(storage.stat(path), late)] if late else found


@lru_cache(maxsize=64)  # each unit of a file asks, and the answer may take all of the file
def _late_keys(file: FileStat, wanted: tuple[str, ...]) -> tuple[str, ...]:
    left = {name: re.compile(rb"^.*%b\s*:.*$" % re.escape(json.dumps(name).encode()), re.MULTILINE) for name in wanted}
    for _, block in whole_lines(file.path, pieces_of_lines(file.path), None):
        for name, key in list(left.items()):
            if any(name in row for line in key.finditer(block) for row in _objects(line[0])):
                del left[name]
        if not left:
            break
    return tuple(name for name in wanted if name not in left)


def parse_json(block: bytes, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Columns of a block of lines; a key that is not there is a missing value.

    Numbers may stand in quotes, and names of assets may be numbers, where all of the block are.

    Raises:
      BadText: at the first line that cannot be read; lines are those of the block, from 1.
    """
    if not block.strip():
        return pa.table({name: pa.array([], type_) for name, type_ in types.items()})
    # Arrow reads times without their zones: they stay text, which the rest reads.
    asked = {name: pa.string() if pa.types.is_timestamp(type_) else type_ for name, type_ in types.items()}
    changed: dict[str, _OtherType] = {}
    while True:
        try:
            table = _read(block, pa.schema(list(asked.items())))
            break
        except _OtherType as other:
            first = changed.setdefault(other.name, other)
            if first is not other or other.type is None or asked.get(other.name) in (None, other.type):
                raise BadText(f"{first.name!r} is a {first.what}, and is none in other lines", first.line) from None
            asked[other.name] = other.type
    columns = {}
    for name, type_ in types.items():
        column = table.column(name).combine_chunks()
        if pa.types.is_string(type_):
            columns[name] = column.cast(pa.string())
        elif pa.types.is_string(column.type):
            columns[name] = _convert(block, name, column, type_)
        else:
            columns[name] = _cast(block, name, column, type_)
    return pa.table(columns)


def _cast(block: bytes, name: str, column: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(type_) and not pa.types.is_boolean(column.type):
        is_bool = pc.fill_null(pc.is_in(column, value_set=pa.array([0, 1]).cast(column.type)), True)
        if (row := pc.index(pc.or_(is_bool, pc.is_null(column)), False).as_py()) >= 0:
            raise BadText(f"{column[row]} is neither true nor false", _line_of_row(block, row), name)
    return column.cast(type_, safe=False)


def _convert(block: bytes, name: str, column: pa.StringArray, type_: pa.DataType) -> pa.Array:
    try:
        return convert(column, type_, _PLAIN)
    except BadValue as bad:
        raise BadText(f"{bad.value!r} {bad.reason}", _line_of_row(block, bad.row), name) from None


class _OtherType(ValueError):
    """A value of another type than was asked for."""

    def __init__(self, name: str, what: str, line: int):
        super().__init__(name, what, line)
        self.name, self.what, self.line = name, what, line
        self.type = _HELD.get(what)


def _read(block: bytes, schema: pa.Schema | None) -> pa.Table:
    try:
        return pa.json.read_json(
            pa.BufferReader(block),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=pa.json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore"
            ),
        )
    except pa.ArrowInvalid as error:
        message = " ".join(str(error).split())
    row = re.search(r"in row (\d+)", message)
    line = None if row is None else _line_of_row(block, int(row[1]))
    if line is not None and (found := re.search(r"Column\(/(.+)\) changed from \w+ to (\w+)", message)):
        raise _OtherType(found[1], found[2], line)
    if line is not None and "changed from object" in message:
        raise BadText("is not a JSON object, such as {...}", line)
    raise BadText(f"cannot be read as JSON: {message[:200]}", line)


def _line_of_row(block: bytes, row: int) -> int:
    """The line, from 1, of an object; empty lines hold none."""
    found = [number for number, line in enumerate(block.split(b"\n"), 1) if line.strip()]
    return found[min(row, len(found) - 1)]


def _without_mark(block: bytes) -> bytes:
    return block.removeprefix(b"\xef\xbb\xbf")
