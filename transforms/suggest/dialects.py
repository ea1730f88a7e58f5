"""What a job file must say of how texts are written, as they cannot be read as they are meant to without."""

import re
from collections.abc import Sequence
from csv import reader
from itertools import pairwise

import pyarrow as pa

from beamfeed.contract.config.sources.csv import Csv
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers import BAD, TextOptions, Unsure, is_csv, iter_batches, look_at
from beamfeed.transforms.sources.readers.blocks import pieces_of, read_start
from beamfeed.transforms.sources.readers.cells import kind_of
from beamfeed.transforms.sources.readers.dialect import Dialect
from beamfeed.transforms.sources.readers.encoding import decode
from beamfeed.transforms.sources.readers.excerpt import spread
from beamfeed.transforms.suggest.look import every_column, read_rows, types_of

_YEARS = 8  # columns, from which on years in the first line are their names
_COUNTED = 4  # columns, from which on 0, 1, 2 ... in the first line are their names
_ROW = "row"  # what a first column without a name is called


def find_keys(files: Sequence[FileStat]) -> tuple[dict[str, object], list[str]]:
    """What `source.csv` must say, as the files cannot be read as they are meant to without; and why."""
    texts = [file.path for file in files if is_csv(file.path)]
    keys: dict[str, object] = {}
    remarks: list[str] = []
    for path in spread(texts, 3):
        for _ in range(4):  # one thing may hide the next
            key = _wanting(path, Csv.model_validate(keys))
            if key is None:
                break
            keys[key[0]] = key[1]
            remarks.append(key[2])
    return keys, remarks


def _wanting(path: str, csv: Csv) -> tuple[str, object, str] | None:
    """A key of `source.csv` that a file needs, its value, and why."""
    options = TextOptions(csv, lenient=True)
    try:
        look = look_at(path, options)
    except Unsure as unsure:
        if unsure.contradicts or csv.decimal != "auto":
            return None
        counts = {mark: _bad_rows(path, csv.model_copy(update={"decimal": mark})) for mark in ".,"}
        shares = {mark: (lost / rows if rows else 1.0, texts) for mark, (rows, lost, texts) in counts.items()}
        mark = min(shares, key=shares.__getitem__)
        text = f"{str(unsure).partition(';')[0]}. Here {mark!r} is taken for the decimal mark"
        return "decimal", mark, f"CHECK THIS: {path}: {text}."
    except BadInput as bad:
        return _with_row_names(path, csv, bad.reason) or _without_quotes(path, csv)
    unquoted = _without_quotes(path, csv)
    if unquoted is not None:
        return unquoted
    if look.dialect is None or csv.header != "auto":
        return None
    if look.dialect.header_line is None:
        counted = _counted_names(path, look.dialect)
        return ("header", True, f"The first line {counted}, so it is taken for names of columns.") if counted else None
    read = read_rows(path, types_of([look]), options)
    if read is not None and _names_are_values(read.batch, look.dialect):
        return "header", False, "The first line holds values that are in the rows too, so it is taken for a row."
    return None


def _with_row_names(path: str, csv: Csv, reason: str) -> tuple[str, object, str] | None:
    """The names of columns whose first one has none, as R writes the names of rows."""
    counts = re.fullmatch(r"has (\d+) values, and line (\d+) (\d+) names.*", reason)
    if counts is None or csv.names or int(counts[1]) != int(counts[3]) + 1:
        return None
    try:
        numbered = csv.model_copy(update={"names": [f"f{place}" for place in range(int(counts[1]))]})
        dialect = look_at(path, TextOptions(numbered, lenient=True)).dialect
    except (BadInput, Unsure):
        return None
    if dialect is None:
        return None
    named = cells_of(path, dialect, int(counts[2]) - 1)
    names = [_ROW, *(name.strip() for name in named)]
    if len(names) != int(counts[1]) or len(set(names)) < len(names):
        return None
    return "names", names, f"Rows begin with a value that has no name in the header: {_ROW}."


def _names_are_values(rows: pa.RecordBatch, dialect: Dialect) -> bool:
    """Whether what was taken for the line of names is a row: one of its values comes back in its own column.

    Where a column of numbers has a word for its name, which is no value of it, most must do so: a column `hispanic` has
    the values hispanic and not.
    """
    types = {field.name: field.type for field in rows.schema}
    numbers = [name for name, type_ in types.items() if pa.types.is_integer(type_) or pa.types.is_floating(type_)]
    are_words = any(kind_of(name, dialect.null_words) == "text" for name in numbers)
    texts = [name for name, type_ in types.items() if pa.types.is_string(type_)]
    values = sum(name in rows.column(name).unique().to_pylist() for name in texts)
    return values > (len(texts) / 2 if are_words else 0)


def _counted_names(path: str, dialect: Dialect) -> str:
    """What says that a line which was taken for a row has names of columns: years, or numbers from 0 on as of a frame.

    Empty where nothing does.
    """
    cells = [cell.strip() for cell in cells_of(path, dialect, dialect.first_line)]
    years = [int(cell) for cell in cells if re.fullmatch(r"(1[89]|2[01])\d\d", cell)]
    if len(years) >= _YEARS and len(steps := {after - year for year, after in pairwise(years)}) == 1 and steps != {0}:
        return "holds years in succession"
    numbers = cells[1:] if not cells[0] else cells  # the index of a frame has no name
    if len(numbers) < _COUNTED or numbers != [str(place) for place in range(len(numbers))]:
        return ""
    try:
        below = {cell.strip() for cell in cells_of(path, dialect, dialect.first_line + 1)[-len(numbers) :]}
    except (IndexError, StopIteration):  # there is no such line
        return ""
    return "counts the columns" if len(numbers) >= _YEARS or below - {*numbers} else ""


def cells_of(path: str, dialect: Dialect, number: int) -> list[str]:
    """The values of a line of a text, from 0."""
    start, _ = read_start(path, number + 1)
    line = decode(start[dialect.bom :], dialect.encoding).split(dialect.newline)[number].rstrip("\r")
    is_spaced = dialect.delimiter == " "
    return next(reader([line], delimiter=dialect.delimiter, quotechar=dialect.quote or '"', skipinitialspace=is_spaced))


def _without_quotes(path: str, csv: Csv) -> tuple[str, object, str] | None:
    """Whether quotes are a part of the text: with them as quotes rows are lost, without them none is."""
    if csv.quote is None or not _has(csv.quote, path):
        return None
    rows, lost, _ = _bad_rows(path, csv)
    plain_rows, plain_lost, _ = _bad_rows(path, csv.model_copy(update={"quote": None}))
    if plain_rows - plain_lost > rows - lost and plain_lost <= lost:
        return "quote", None, f"Quotes are a part of the text: as quotes {plain_rows - rows + lost} rows would be lost."
    return None


def _has(mark: str, path: str) -> bool:
    """Whether a mark is in the beginning of a text that `_bad_rows` looks at; such a text can be read."""
    try:
        return mark.encode() in next(pieces_of(path), b"")
    except (BadInput, OSError):
        return False


def _bad_rows(path: str, csv: Csv) -> tuple[int, int, int]:
    """Rows of the beginning of a text, how many of them cannot be read, and how many columns hold text."""
    options = TextOptions(csv, lenient=True)
    try:
        look = look_at(path, options)
        types = types_of([look])
        _, _, batch = next(iter_batches(path, every_column(types, options), [*types, BAD]))
    except (BadInput, Unsure, StopIteration):
        return 0, 0, 0
    lost = batch.num_rows - batch.column(batch.schema.names.index(BAD)).null_count
    return batch.num_rows, lost, sum(map(pa.types.is_string, look.schema.types))
