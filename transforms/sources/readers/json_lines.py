"""JSON lines: an object in each line, its keys are the columns. Read in blocks of whole lines, as CSV is.

Other JSON becomes such lines first, see json_documents.py.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from beamfeed.contract import storage
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.sources.readers.blocks import (
    EmptyFile,
    blocks_at,
    iter_tables,
    naming_the_place,
    read_start,
    whole_lines,
)
from beamfeed.transforms.sources.readers.dialect import NULL_WORDS, Dialect
from beamfeed.transforms.sources.readers.expected import Expected, Group, Look, TextOptions, require_columns
from beamfeed.transforms.sources.readers.json_documents import is_document, pieces_of_lines, start_of_lines
from beamfeed.transforms.sources.readers.parse import BAD, MOST_WRONG, Parsed, no_rows
from beamfeed.transforms.sources.readers.values import BadValue, convert, convert_all

_PLAIN = Dialect(names=())
_DECODER = json.JSONDecoder()
_HELD = {"number": pa.int64(), "string": pa.string(), "boolean": pa.bool_()}  # types of what a value may be instead


def look_at_json(path: str, text: TextOptions = TextOptions()) -> Look:
    """The names and types of the columns, as the first lines suggest them; times are text.

    Raises:
      BadInput: if no line can be read.
    """
    start, complete = start_of_lines(path)
    block = _without_mark(start if complete else start[: start.rfind(b"\n") + 1])
    values: dict[str, list[Any]] = {}
    for row in _objects(block):
        for name, value in row.items():
            if name in values or _is_text(name):
                values.setdefault(name, []).append(value)
    if not values and block.strip():
        with naming_the_place(path):  # bytes that are not UTF-8 are told where they are read
            _by_lines(block.decode(errors="replace").encode(), {}).check()
    columns = [
        (name, _type_of(samples, keeps_text=name in text.texts, is_number=name in text.number_columns))
        for name, samples in values.items()
    ]
    return Look(pa.schema(columns))


def _objects(block: bytes) -> Iterator[dict[str, Any]]:
    """The lines that are objects; what is none is told where it is read."""
    for line in block.split(b"\n"):
        with suppress(ValueError, RecursionError):
            if isinstance(row := json.loads(line), dict):
                yield row


def _is_text(value: str) -> bool:
    """Whether it can be written: a JSON text may name half of a character by its escape."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _type_of(values: Sequence[Any], *, keeps_text: bool, is_number: bool) -> pa.DataType:
    """What most values of a column look like; a few may be bad, of a number as the job says nearly half."""
    types = Counter(type(value) for value in values if value is not None)
    most = 1 if is_number else MOST_WRONG
    nested = types[list] + types[dict]
    if nested >= most * (types.total() - nested):
        return pa.list_(pa.null()) if types[list] else pa.struct([]) if nested else pa.null()
    single = Counter({type_: count for type_, count in types.items() if type_ not in (list, dict)})
    numbers = single[int] + single[float]
    if keeps_text and single[str]:
        return pa.string()
    if not single[str] or single[str] < most * (numbers + single[bool]):
        if single[bool] > numbers:
            return pa.bool_()
        return pa.float64() if single[float] else pa.int64()
    texts = [value for value in values if isinstance(value, str) and _is_text(value)]  # numbers may stand in quotes
    _, wrong = convert_all(pa.array(texts, pa.string()), pa.float64(), _PLAIN)
    lost = len(wrong) + single[str] - len(texts)
    words = sum(1 for text in texts if text.strip() in NULL_WORDS)
    numeric = numbers + single[str] - lost - words
    return pa.float64() if not single[bool] and (not lost or lost < most * numeric) else pa.string()


def iter_json(
    path: str, expected: Expected, names: Sequence[str], groups: Sequence[Group] | None, _: int | None
) -> Iterator[tuple[Group, int, pa.RecordBatch]]:
    """Streams columns of blocks, see `iter_batches`. A file of no bytes holds no rows."""
    try:
        required = tuple(name for name in expected.names if name not in expected.optional)
        require_columns(path, required, _keys_of(storage.stat(path), required))
    except EmptyFile:
        return
    csv_types = expected.csv_types
    types = {name: csv_types[name] for name in names if name != BAD}

    def parse_block(block: bytes, first: bool) -> Parsed:
        return parse_json(_without_mark(block) if first else block, types)

    blocks = whole_lines(path, pieces_of_lines(path), None) if groups is None else blocks_at(path, groups)

    def noun() -> str:
        return "record" if groups is None and is_document(read_start(path)[0]) else "line"

    yield from iter_tables(path, blocks, groups, names, parse_block, noun=noun)


@lru_cache(maxsize=64)  # each unit of a file asks, and the answer may take all of the file
def _keys_of(file: FileStat, names: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of a file: those of its first lines, and of `names` those that come later on."""
    keys = look_at_json(file.path).schema.names
    unseen = [name for name in names if name not in keys]
    late = {name: re.compile(rb"^.*(?:%b)\s*:.*$" % b"|".join(_written(name)), re.MULTILINE) for name in unseen}
    if not late:
        return tuple(keys)
    for _, block in whole_lines(file.path, pieces_of_lines(file.path), None):
        for name, key in list(late.items()):
            if any(name in row for line in key.finditer(block) for row in _objects(line[0])):
                del late[name]
        if not late:
            break
    return *keys, *(name for name in unseen if name not in late)


def _written(name: str) -> list[bytes]:
    """Patterns of a key as a file may have it: as it is, or with escapes for what is beyond ASCII."""
    texts = {json.dumps(name), json.dumps(name, ensure_ascii=False)}
    return [re.escape(text.encode("utf-8", "surrogatepass")) for text in sorted(texts)]


def parse_json(block: bytes, types: Mapping[str, pa.DataType]) -> Parsed:
    """Columns of a block of lines; a key that is not there is a missing value, and so is a value of another type.

    Numbers may stand in quotes, and names of assets may be numbers.
    """
    if not block.strip():
        return no_rows(types)
    # Arrow reads times without their zones: they stay text, which the rest reads.
    schema = {name: pa.string() if pa.types.is_timestamp(type_) else type_ for name, type_ in types.items()}
    changed: set[str] = set()
    while True:
        try:
            table = _read(block, pa.schema(list(schema.items())))
            columns = {name: _cast(table.column(name).combine_chunks(), type_) for name, type_ in types.items()}
        except _OtherType as other:
            if other.name in changed or other.type is None or schema.get(other.name) in (None, other.type):
                return _by_lines(block, types)
            changed.add(other.name)
            schema[other.name] = other.type
        except (pa.ArrowInvalid, BadValue):
            return _by_lines(block, types)
        else:
            return Parsed(columns, table.num_rows, {})


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_string(type_):
        column = column.cast(pa.string())
        column.validate(full=True)  # raises ArrowInvalid at a byte that is no UTF-8, which Arrow's reader takes
        return column
    if pa.types.is_string(column.type):
        return convert(column, type_, _PLAIN)
    if pa.types.is_boolean(type_) and not pa.types.is_boolean(column.type):
        is_bool = pc.fill_null(pc.is_in(column, value_set=pa.array([0, 1]).cast(column.type)), True)
        if (row := pc.index(is_bool, False).as_py()) >= 0:
            raise BadValue(np.array([row]), "is neither true nor false")
    return column.cast(type_, safe=False)


def _by_lines(block: bytes, types: Mapping[str, pa.DataType]) -> Parsed:
    """As `parse_json`, each line by itself, of a block in which something is wrong."""
    wrong: dict[int, tuple[int, str | None, str]] = {}
    lines: list[int] = []  # of the rows
    texts: dict[str, list[str | None]] = {name: [] for name in types}
    for number, line in enumerate(block.split(b"\n"), 1):
        if not line.strip():
            continue
        objects, reason = _objects_in(line)
        for record in objects:
            row = len(lines)
            lines.append(number)
            if record is None:
                wrong[row] = number, None, reason
            for name, type_ in types.items():
                try:
                    texts[name].append(None if record is None else _as_text(record.get(name), type_))
                except ValueError as error:
                    wrong.setdefault(row, (number, name, str(error)))
                    texts[name].append(None)
    columns = {}
    for name, type_ in types.items():
        columns[name], bad = convert_all(pa.array(texts[name], pa.string()), type_, _PLAIN)
        for at, reason in bad.items():
            wrong.setdefault(at, (lines[at], name, reason.partition("; source.csv")[0]))
    return Parsed(columns, len(lines), wrong)


def _objects_in(line: bytes) -> tuple[list[dict[str, Any] | None], str]:
    """The objects in a line, of which there may be several; None, and why, where it holds something else."""
    objects: list[dict[str, Any] | None] = []
    try:
        text = line.decode().strip()
        while text:
            value, end = _DECODER.raw_decode(text)
            if not isinstance(value, dict):
                return [None], "is not a JSON object, such as {...}"
            objects.append(value)
            text = text[end:].lstrip()
    except UnicodeDecodeError as error:
        return [None], f"is not UTF-8: byte 0x{line[error.start]:02x}"
    except ValueError as error:
        shown = text if len(text) <= 100 else f"{text[:100]}..."
        return [None], f"cannot be read as JSON: {str(error).partition(': line')[0]}: {shown}"
    except RecursionError:
        return [None], "cannot be read as JSON: it is nested too deep"
    return objects, ""


def _as_text(value: Any, type_: pa.DataType) -> str | None:
    """A value as it could stand in a CSV.

    Raises:
      ValueError: if it is none of a column.
    """
    if value is None:
        return None
    if isinstance(value, list | dict):
        raise ValueError(f"is {'a list' if isinstance(value, list) else 'an object'}, a single value is needed")
    if isinstance(value, bool):
        words = ("false", "true") if pa.types.is_string(type_) or pa.types.is_boolean(type_) else ("0", "1")
        return words[value]
    if isinstance(value, str) and not _is_text(value):
        raise ValueError("holds half of a character")
    return value if isinstance(value, str) else repr(value)


class _OtherType(ValueError):
    """A value of another type than was asked for."""

    def __init__(self, name: str, held: str):
        super().__init__(name, held)
        self.name, self.type = name, _HELD.get(held)


def _read(block: bytes, schema: pa.Schema) -> pa.Table:
    try:
        return pa.json.read_json(
            pa.BufferReader(block),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid as error:
        if match := re.search(r"Column\(/(.+)\) changed from \w+ to (\w+)", " ".join(str(error).split())):
            raise _OtherType(match[1], match[2]) from None
        raise


def _without_mark(block: bytes) -> bytes:
    return block.removeprefix(b"\xef\xbb\xbf")
