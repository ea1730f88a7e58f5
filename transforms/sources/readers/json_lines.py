"""JSON lines: an object in each line, its keys are the columns. Read in blocks of whole lines, as CSV is."""

import re
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.json

from beamfeed.transforms.sources.readers.blocks import blocks_at, iter_tables, pieces_of, read_start, whole_lines
from beamfeed.transforms.sources.readers.dialect import Dialect
from beamfeed.transforms.sources.readers.encoding import BadText
from beamfeed.transforms.sources.readers.expected import Expected, Group, require_columns
from beamfeed.transforms.sources.readers.text import naming_the_place
from beamfeed.transforms.sources.readers.values import BadValue, convert

_PLAIN = Dialect(names=())
_HELD = {"number": pa.int64(), "string": pa.string(), "boolean": pa.bool_()}  # types of what a value may be instead


def look_at_json(path: str) -> pa.Schema:
    """The names and types of the columns, as the first lines suggest them; times are text.

    Raises:
      BadInput: if it cannot be read.
    """
    start, whole = read_start(path)
    block = start if whole else start[: start.rfind(b"\n") + 1]
    with naming_the_place(path):
        try:
            table = _read(_without_mark(block), None)
        except _OtherType as other:
            raise BadText(f"{other.name!r} is a {other.what}, and is none in the lines before", other.line) from None
    fields = []
    for name, column in zip(table.schema.names, table.columns, strict=True):
        type_ = pa.string() if pa.types.is_timestamp(column.type) else column.type
        if pa.types.is_string(column.type):  # may be numbers in quotes
            try:
                convert(column.combine_chunks(), pa.float64(), _PLAIN)
                type_ = pa.float64()
            except BadValue:
                pass
        fields.append((name, type_))
    return pa.schema(fields)


def iter_json(
    path: str, expected: Expected, names: Sequence[str], groups: Sequence[Group] | None
) -> Iterator[tuple[Group, int, pa.RecordBatch]]:
    """Streams columns of blocks, see `iter_batches`."""
    require_columns(path, expected.names, look_at_json(path).names, expected.optional)
    known = expected.csv_types
    types = {name: known[name] for name in names}

    def parse_block(block: bytes, first: bool) -> pa.Table:
        return parse_json(_without_mark(block) if first else block, types)

    blocks = whole_lines(path, pieces_of(path), None) if groups is None else blocks_at(path, groups)
    yield from iter_tables(path, blocks, groups, len(names), parse_block)


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
    for _ in range(len(asked) + 1):
        try:
            table = _read(block, pa.schema(list(asked.items())))
            break
        except _OtherType as other:
            if other.name not in asked or asked[other.name] == other.type:
                raise BadText(f"{other.name!r} is a {other.what}, and is none in other lines", other.line) from None
            asked[other.name] = other.type
    columns = {}
    for name, type_ in types.items():
        column = table.column(name).combine_chunks()
        if pa.types.is_string(type_):
            columns[name] = column.cast(pa.string())
        elif pa.types.is_string(column.type):
            columns[name] = _convert(block, name, column, type_)
        else:
            columns[name] = column.cast(type_, safe=False)
    return pa.table(columns)


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
