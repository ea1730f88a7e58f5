"""The first windows of a dataset as text, whatever its fields are."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.fields import LENGTHS, Field
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.times import time_text
from beamfeed.contract.errors import UserError
from beamfeed.contract.records.entries import as_binary, divided, entries_of
from beamfeed.contract.records.examples import Lists, Records, features_of, find_lists
from beamfeed.contract.records.frames import Damaged, read_frames, unpacked
from beamfeed.contract.records.pieces import Pieces, find_numbers
from beamfeed.contract.text import table

ROWS, COLUMNS = 4, 8  # shown of a window
LINES = 40  # of a table, one for each column
SHARDS = 16  # that are read at a time
AT_A_TIME = 64  # records that are decoded together
ENTRIES, LETTERS = 6, 24  # shown of a value, and of a string

Values = dict[str, list[np.ndarray]]  # by field, its values in a record, each flat


def decode(serialized: Sequence[bytes], fields: Sequence[Field]) -> list[Values]:
    """The values of some records, none of them empty.

    Raises:
      ValueError: if one is not a record of these fields.
    """
    if not serialized:
        return []
    try:
        lists = find_lists(Records.of(serialized), features_of(fields))
    except UserError as error:
        raise ValueError(f"not a record of this format: {error.reason.partition(';')[0]}") from None
    columns = {}
    for field in fields:
        try:
            columns[field.name] = _values(lists, field)
        except ValueError as error:
            raise ValueError(f"not a record of this format: field {field.name} {error}") from None
    return [{name: column[i] for name, column in columns.items()} for i in range(len(serialized))]


def _values(lists: Lists, field: Field) -> list[list[np.ndarray]]:
    """Of each record, the values of a field, each flat."""
    entries, counts = entries_of(lists, field)
    if isinstance(entries, Pieces):
        flat = np.array(as_binary(lists.buffer, entries).to_pylist(), object)
    else:
        flat = entries.ravel()
    each = len(flat) // max(1, counts.sum())  # numbers in an entry: several where they are raw bytes
    of_records = np.split(flat, np.cumsum(counts * each)[:-1])
    if field.stored != "rows":
        return [[values] for values in of_records]
    if not field.is_ragged:
        sizes = [np.full(count, field.width) for count in divided(counts, field.listed_width)]
    else:
        lengths, count_of_lengths = find_numbers(lists.buffer, lists.pieces[field.name + LENGTHS])
        sizes = np.split(lengths * field.width, np.cumsum(count_of_lengths)[:-1])
        for values, sizes_of_record in zip(of_records, sizes, strict=True):
            if sizes_of_record.sum() != len(values):
                raise ValueError(f"has {len(values)} entries, its lengths say {sizes_of_record.sum()}")
    return [np.split(values, np.cumsum(size))[:-1] for values, size in zip(of_records, sizes, strict=True)]


def show_window(values: Values, manifest: Manifest) -> list[str]:
    """The first window of a decoded record as lines of text."""
    length = manifest.windows.length
    single = [field for field in manifest.fields if field.per == "window"]
    single += [field for field in manifest.fields if field.per == "record" and field.role != "key"]
    singles = [(field.name, _with_class(values[field.name][0], field)) for field in single]
    lines = [*_show_rows(values, manifest.fields, length), *(table(singles, left=2) if singles else [])]
    return [title_of(values, manifest) or "a record", *("  " + line for line in lines)]


def title_of(values: Values, manifest: Manifest) -> str:
    """What a record is of: `asset pump-03, first_time 2024-03-01 12:00:05`; empty where it has no keys."""
    return ", ".join(
        f"{field.name} {short(values[field.name][0], field)}"
        for field in manifest.fields
        if field.role == "key" and field.per == "record"
    )


def has_single_rows(manifest: Manifest) -> bool:
    """Whether windows are single rows, which have all there is."""
    return manifest.windows.length == 1 and all(field.per == "row" for field in manifest.fields)


def show_single_rows(records: Sequence[Values], manifest: Manifest) -> list[str]:
    """The first row of some records, a line for each of its numbers."""
    firsts = {field.name: [values[field.name][0] for values in records] for field in manifest.fields}
    rows = [(name, *cells) for name, cells in _columns(firsts, manifest.fields, len(records))]
    return ["  " + line for line in first_rows(rows, LINES, "columns")]


def first_rows(rows: Sequence[Sequence[object]], most: int, noun: str) -> list[str]:
    """A table of the first rows, and how many more there are."""
    return [*table(rows[:most]), *([f"... {len(rows) - most} more {noun}"] if len(rows) > most else [])]


def _columns(values: Values, fields: Sequence[Field], count: int) -> list[tuple[str, list[str]]]:
    """The first `count` rows, a column for each number of them."""
    columns: list[tuple[str, list[str]]] = []
    for field in fields:
        if field.per != "row":
            continue
        rows = values[field.name][:count]
        if field.columns:
            columns += [(name, [_entry(row[i]) for row in rows]) for i, name in enumerate(field.columns)]
        elif field.dtype != "bytes" and len(field.shape) == 1 and not field.is_ragged and not field.sizes:
            columns += [(f"{field.name}[{i}]", [_entry(row[i]) for row in rows]) for i in range(field.width)]
        else:
            columns.append((field.name, [_with_class(row, field) for row in rows]))
    return columns


def _show_rows(values: Values, fields: Sequence[Field], length: int) -> list[str]:
    """The first rows, a column for each number of them."""
    columns = _columns(values, fields, min(length, ROWS))
    shown = columns[:COLUMNS]
    body = zip(*(cells for _, cells in shown), strict=True)
    lines = table([["row", *(name for name, _ in shown)], *([str(i), *row] for i, row in enumerate(body))])
    hidden = [f"{length - ROWS} more rows"] if length > ROWS else []
    hidden += [f"{len(columns) - COLUMNS} more columns"] if len(columns) > COLUMNS else []
    return [*lines, *([f"... {' and '.join(hidden)}"] if hidden else [])]


def short(value: np.ndarray, field: Field) -> str:
    """A value as one short line: a number, a string, or the first entries of several."""
    if field.time is not None and field.shape == ():
        return time_text(int(value[0]), field.time)
    if field.shape == ():
        return _entry(value[0])
    entries = ", ".join(map(_entry, value[:ENTRIES]))
    return f"[{entries}, ... {len(value)} entries]" if len(value) > ENTRIES else f"[{entries}]"


def _entry(entry: Any) -> str:
    if isinstance(entry, bytes):
        text = entry[: 4 * LETTERS].decode(errors="ignore")
        if not text.isprintable() or (entry and not text):
            return f"{len(entry):,} bytes"
        return text if len(text) <= LETTERS and len(entry) <= 4 * LETTERS else f"{text[:LETTERS]}..."
    return f"{entry:.4f}" if isinstance(entry, np.floating) else str(entry)


def class_of(value: np.ndarray, field: Field) -> str:
    """The name of a class; empty where a value is none."""
    is_known = field.classes and field.shape == () and 0 <= value[0] < len(field.classes)
    return field.classes[int(value[0])] if is_known else ""


def _with_class(value: np.ndarray, field: Field) -> str:
    name = class_of(value, field)
    return short(value, field) + (f" ({name})" if name else "")


def first_records(manifest: Manifest, output: str, split: SplitName, count: int) -> Iterator[Values]:
    """The first records of a split with a window: of different shards, as long as there are enough.

    Raises:
      UserError: if a shard is missing or damaged, when the reading comes to it.
    """
    readers = [_read(path, manifest) for path in _spread(manifest.shard_paths(output, split), count)]
    while readers and count:
        reader = readers.pop(0)
        record = next(reader, None)
        if record is not None:
            yield record
            readers.append(reader)
            count -= 1


def _spread(paths: list[str], count: int) -> list[str]:
    """At most so many of them, and not too many open files, from all over the list; the first one is among them."""
    most = min(len(paths), count, SHARDS)
    return [paths[place * len(paths) // most] for place in range(most)]


def _read(path: str, manifest: Manifest) -> Iterator[Values]:
    try:
        with storage.open_stream(path) as file:
            first = 0
            for frames in read_frames(unpacked(file, manifest.compression)):
                for start in range(0, len(frames), AT_A_TIME):
                    for values in _decoded(path, frames[start : start + AT_A_TIME], first + start, manifest.fields):
                        rows = min(len(values[field.name]) for field in manifest.fields if field.per == "row")
                        if rows >= manifest.windows.length:
                            yield values
                first += len(frames)
    except FileNotFoundError:
        raise UserError(f"{path}: is missing; {manifest.remedy}") from None
    except Damaged:
        raise UserError(f"{path}: is damaged; {manifest.remedy}") from None


def _decoded(path: str, frames: Sequence[bytes], first: int, fields: Sequence[Field]) -> Iterator[Values]:
    """Without records that others wrote, without any feature: no row."""
    try:
        yield from decode([frame for frame in frames if frame], fields)
    except ValueError:
        for number, frame in enumerate(frames, first):
            try:
                yield from decode([frame] if frame else [], fields)
            except ValueError as error:
                raise UserError(f"{path}: record {number}: {error}") from None
