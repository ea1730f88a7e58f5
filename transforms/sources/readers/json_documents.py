"""JSON that is not written a record in a line: arrays of records, an object of arrays, records over several lines.

Such a text becomes JSON lines while it is read, so all that reads these reads it. An array of records is never held as
a whole; an object that holds all records is.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers.blocks import BLOCK_BYTES, LINE_BYTES, EmptyFile, pieces_of, read_start
from beamfeed.transforms.sources.readers.expected import Cut, TextOptions
from beamfeed.transforms.sources.readers.formats import is_named_lines, packed_by

OBJECT_BYTES = 256 << 20  # of one object that holds all records
MOST_VALUES = 20_000_000  # of one value that is read as a whole: Python takes about 100 bytes for each
_SPACE = re.compile(r"[\s,]*")
_AS_LINES = "save it as JSON lines, an object in each line"
_DECODER = json.JSONDecoder()
_SHORT = 1 << 12  # letters at the end of what was read in which a number or a word may be cut off


def is_document(start: bytes) -> bool:
    """Whether a text that begins so holds its records in another way than one in each line."""
    text = start.removeprefix(codecs.BOM_UTF8).lstrip()
    if not text.startswith((b"[", b"{")):
        return False
    first, _, rest = text.partition(b"\n")
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        # A line that is cut off, or broken, among others that are whole, is a broken record of JSON lines.
        return text.startswith(b"[") or not _begins_a_record(rest)
    if isinstance(record, list):
        return True
    return not rest.strip() and any(isinstance(value, list | dict) for value in record.values())


def _begins_a_record(rest: bytes) -> bool:
    lines = [line for line in rest.split(b"\n")[:20] if line.strip()]
    return 2 * sum(line.startswith(b"{") and line.rstrip().endswith(b"}") for line in lines) > len(lines)


def as_lines(path: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The records of a document as JSON lines, some megabytes at a time.

    Args:
      path: of the file, for messages.
      pieces: all bytes of it, cut anywhere.

    Raises:
      BadInput: where it is no JSON, or holds no records.
    """
    pending: list[bytes] = []
    size = 0
    for record in _records(path, pieces):
        pending.append(record)
        size += len(record) + 1
        if size >= BLOCK_BYTES:
            yield b"\n".join([*pending, b""])
            pending, size = [], 0
    if pending:
        yield b"\n".join([*pending, b""])


def _records(path: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
    texts = _decoded(pieces)
    start = ""
    for text in texts:
        start = (start + text).lstrip("\ufeff \t\r\n")
        if start:
            break
    if start.startswith("["):
        yield from (_line(raw, value) for raw, value in _values(path, chain([start], texts), LINE_BYTES, arrays=True))
        return
    values = _values(path, chain([start], texts), OBJECT_BYTES, arrays=False)
    first = next(values, None)
    if first is None:
        return
    second = next(values, None)
    a_line = is_named_lines(path) and "\n" not in first[0]  # and so a record, whatever it holds
    if second is None and isinstance(first[1], dict) and not a_line:
        yield from (_line(None, record) for record in _inside(path, first[1]))
        return
    yield from (_line(raw, value) for raw, value in chain([first], [second] if second else [], values))


def _decoded(pieces: Iterable[bytes]) -> Iterator[str]:
    """The letters of a text; bytes that are none stay in it as halves of characters, which `_line` turns back."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    for piece in pieces:
        yield decoder.decode(piece)
    yield decoder.decode(b"", final=True)


def _values(path: str, texts: Iterable[str], most: int, *, arrays: bool) -> Iterator[tuple[str, Any]]:
    """JSON values that follow each other, each as it is written and as it is.

    Args:
      path: of the file, for messages.
      texts: all of it, cut anywhere.
      most: letters of a value.
      arrays: whether they stand in arrays, of which there may be several one after the other.

    Raises:
      BadInput: where it is no JSON, an array has no end, or something else stands behind one.
    """
    text, at, number, least = "", 0, 1, 0
    inside = not arrays
    for more in chain(texts, [None]):
        text, at = (text[at:] + (more or "")), 0
        if more is not None and len(text) < least:
            continue  # so that a value of many pieces is not looked at again with each of them
        if len(text) > MOST_VALUES and sum(map(text.count, "[{,")) > MOST_VALUES:
            raise BadInput(path, f"record {number}", f"is of more than {MOST_VALUES:,} values; {_AS_LINES}")
        while True:
            at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
            if at == len(text):
                break
            if arrays and text[at] == ("]" if inside else "["):
                inside, at = not inside, at + 1
                continue
            if not inside:
                raise BadInput(path, f"record {number}", "text follows the array")
            try:
                value, after = _DECODER.raw_decode(text, at)
            except (ValueError, RecursionError) as error:
                if more is None or isinstance(error, RecursionError):
                    raise BadInput(
                        path, f"record {number}", f"cannot be read as JSON: {getattr(error, 'msg', error)}"
                    ) from None
                if len(text) - at > most:
                    reason = f"is more than {most >> 20} MB, or no JSON; {_AS_LINES}"
                    raise BadInput(path, f"record {number}", reason) from None
                least = 2 * (len(text) - at)
                break
            if more is not None and not isinstance(value, dict | list) and len(text) - after < _SHORT:
                break  # a number that goes on in the next piece
            yield text[at:after], value
            at, number, least = after, number + 1, 0
    if arrays and inside:
        raise BadInput(path, f"record {number}", "the file ends before its array does")


def _line(raw: str | None, value: Any) -> bytes:
    """A record as a line. A byte that is no UTF-8 stands in it as it was, so that its row alone is set aside."""
    if raw is None or "\n" in raw or "\r" in raw:
        raw = json.dumps(value, ensure_ascii=False)
    try:
        return raw.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a character, that an escape named
        return json.dumps(value).encode()


def _inside(path: str, document: dict[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The records of an object: under one of its keys, as columns, or itself.

    Raises:
      BadInput: if it holds several arrays of records.
    """
    lists = {key: value for key, value in document.items() if isinstance(value, list)}
    records = [key for key, value in lists.items() if value and all(isinstance(record, dict) for record in value)]
    if len(records) > 1:
        reason = f"holds several arrays of records ({', '.join(records[:5])}); save the one that is meant as a file"
        raise BadInput(path, "file", reason)
    if records:
        yield from lists[records[0]]
        return
    names, rows = document.get("columns"), document.get("data")
    if isinstance(names, list) and isinstance(rows, list) and all(isinstance(row, list) for row in rows):
        yield from (dict(zip(map(str, names), row, strict=False)) for row in rows)  # pandas' orient: split
        return
    if lists and len(lists) == len(document) and len(set(map(len, lists.values()))) == 1:
        yield from _by_row(list(document), lists.values())
        return
    tables = [value for value in document.values() if isinstance(value, dict)]
    if tables and len(tables) == len(document) and all(table.keys() == tables[0].keys() for table in tables):
        if all(key.isdecimal() for key in tables[0]):  # pandas' own way: columns of rows by their numbers
            yield from _by_row(list(document), [[table[key] for key in tables[0]] for table in tables])
        else:
            yield from tables
        return
    yield document


def _by_row(names: Sequence[str], columns: Iterable[Sequence[Any]]) -> Iterator[Mapping[str, Any]]:
    return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def pieces_of_lines(path: str) -> Iterator[bytes]:
    """All bytes of a text as JSON lines, unpacked, cut anywhere."""
    pieces = pieces_of(path)
    first = next(pieces, b"")
    all_pieces = chain([first], pieces)
    yield from as_lines(path, all_pieces) if is_document(first) else all_pieces


def start_of_lines(path: str) -> tuple[bytes, bool]:
    """The first bytes of a text as JSON lines, and whether they are all of it."""
    start, complete = read_start(path)
    if not is_document(start):
        return start, complete
    lines = as_lines(path, pieces_of(path))
    first = next(lines, b"")
    return first, next(lines, None) is None


def cut_json(path: str, _: TextOptions) -> Cut | None:
    """Whether a block of lines can be read without what is before it."""
    try:
        return Cut() if packed_by(path) is None and not is_document(read_start(path)[0]) else None
    except EmptyFile:
        return Cut()
