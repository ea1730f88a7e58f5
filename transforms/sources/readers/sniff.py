"""Finds out how a text file is written, from its beginning and from what the job file says of it.

Nothing is guessed that the user gave. What could be read in two ways is refused, with the key that decides.
"""

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

from beamfeed.contract.config.columns import match_features
from beamfeed.contract.config.sources.csv import Csv
from beamfeed.transforms.sources.readers.cells import Unsure, find_numbers, is_float, kind_of
from beamfeed.transforms.sources.readers.dialect import NULL_WORDS, Dialect, Numbers, split_rows
from beamfeed.transforms.sources.readers.encoding import BadText, check_marks, decode, find_encoding
from beamfeed.transforms.sources.readers.expected import TextOptions
from beamfeed.transforms.sources.readers.layout import (
    Layout,
    Table,
    find_width,
    lay_out,
    may_name,
    most_names,
)
from beamfeed.transforms.sources.readers.quotes import Quotes, comment_lines, find_open

DELIMITERS = (",", ";", "\t", "|", " ")
_FEW, _MANY = 60, 1000  # lines that are looked at: at first, and where those do not tell
_CELLS = 30_000  # values that are looked at, at most
_SCORED = 2000  # that say how well a delimiter fits


def sniff(start: bytes, options: TextOptions, *, complete: bool) -> Dialect:
    """How a text file is written.

    Args:
      start: its first bytes.
      options: what is known of it.
      complete: whether `start` is all of the file.

    Raises:
      BadText: if it is not text, or not as the user says.
      Unsure: if its numbers could be read in two ways.
    """
    keys, columns = options.keys, options.needed
    encoding, bom = find_encoding(start, keys.encoding)
    text = decode(start[bom:], encoding)
    newline = "\r" if "\r" in text and "\n" not in text else "\n"
    end = len(text) if complete else text.rfind(newline) + 1 or len(text)  # the last line may be cut off
    *lines, rest = text[:end].split(newline, _MANY)
    lines = [line.removesuffix("\r") for line in (*lines, rest.partition(newline)[0])]
    table = split(lines, options)
    if not table.rows:
        raise BadText("holds no rows")
    layout = lay_out(table, keys, columns)
    check_marks(lines[: layout.first_line], encoding)
    proven = _find_numbers(table, layout, text, options)
    return Dialect(
        names=layout.names,
        delimiter=table.delimiter,
        quote=keys.quote,
        escape=keys.escape,
        numbers=proven or options.numbers or _as_given(keys),
        encoding=encoding,
        bom=bom,
        newline=newline,
        first_line=layout.first_line,
        header_line=layout.header_line,
        header_end=layout.header_end,
        skip_last=keys.skip_last,
        comment=table.comment,
        null_words=(*NULL_WORDS, *keys.null_words),
        padded=layout.padded,
        proven=proven is not None,
        number_columns=table.measured,
    )


def split(lines: Sequence[str], options: TextOptions) -> Table:
    """Splits the first lines of a text into values, at the delimiter that the user gave or that fits best."""
    keys = options.keys
    skipped = keys.skip_lines if isinstance(keys.skip_lines, int) else 0
    sep_line = re.fullmatch(r'"?sep=(.)"?', lines[0].strip()) if lines else None  # as Excel writes it
    if sep_line:
        skipped = max(skipped, 1)
    comment = keys.comment
    if comment == "auto":
        comment = "#" if any(line.lstrip().startswith("#") for line in lines[skipped:_MANY]) else None
    if keys.delimiter != "auto" or sep_line:
        delimiter = sep_line[1] if sep_line and keys.delimiter == "auto" else keys.delimiter
        table = _split_at(delimiter, lines, options, skipped, comment, _FEW)
    else:
        table = _best_split(lines, options, skipped, comment)
    if keys.comment == "auto" and table.comment is not None and _are_rows(table, keys):  # such as assets #1, #2
        table = _split_at(table.delimiter, lines, options, skipped, None, _FEW)
    return table


def _best_split(lines: Sequence[str], options: TextOptions, skipped: int, comment: str | None) -> Table:
    columns = options.needed
    for number in (_FEW, _MANY):
        scored: list[tuple[tuple[int, float], Table]] = []
        for delimiter in DELIMITERS:
            table = _split_at(delimiter, lines, options, skipped, comment, number)
            score = _score(table, options.keys, columns)
            if delimiter == "," and columns and score == (len(columns), 1.0):
                return table  # a plain one; no need to look at others
            if delimiter == " " and max(scored, key=lambda pair: pair[0])[0] > (0, 0.5):
                break  # spaces also stand in values: between dates and times, and in names
            scored.append((score, table))
        best = max(scored, key=lambda pair: pair[0])  # the first of equals
        if best[0] > (0, 0.5):
            return best[1]
    return best[1] if best[0] > (0, 0.0) else scored[0][1]


def _are_rows(table: Table, keys: Csv) -> bool:
    """Whether what would be comments reads as rows: the mark begins a text, and numbers are where numbers are."""
    full = [(line, cells) for line, cells in table.rows if len(cells) == table.width]
    between = [cells for line, cells in table.comments if full and line > full[0][0] and len(cells) == table.width]
    if table.width < 2 or not between:
        return False
    if len(full) < 2:  # nothing but a line of names is no comment
        return all(kind_of(cell, keys.null_words) != "text" for cells in between for cell in cells[1:])
    if table.kinds[0] != "text" or not table.measured:
        return False
    return any(all(kind_of(cells[i], keys.null_words) == table.kinds[i] for i in table.measured) for cells in between)


def _split_at(
    delimiter: str, lines: Sequence[str], options: TextOptions, skipped: int, comment: str | None, number: int
) -> Table:
    keys = options.keys
    width = max((line.count(delimiter) for line in lines[skipped : skipped + 20]), default=0) + 1
    quotes = Quotes(keys.quote, delimiter, keys.escape, comment) if keys.quote else None
    if quotes is not None:
        lines = _without_open_quotes(lines, skipped, quotes)
    lines = lines[: skipped + max(8, min(number, _CELLS // width))]
    is_comment = _comments(lines, comment, quotes)
    data_lines = ["" if i < skipped or is_comment[i] else line for i, line in enumerate(lines)]
    comments = [line.lstrip().removeprefix(comment or "").strip() if is_comment[i] and i >= skipped else ""
            for i, line in enumerate(lines)]  # fmt: skip
    rows = list(_values(data_lines, delimiter, keys))
    return Table(
        delimiter,
        rows,
        list(_values(comments, delimiter, keys)),
        comment if keys.comment != "auto" or any(is_comment[skipped:]) else None,
        find_width(rows, keys.names, options.needed),
        keys.null_words,
    )


def _without_open_quotes(lines: Sequence[str], skipped: int, quotes: Quotes) -> Sequence[str]:
    """The lines, without quotes where one is opened that is never closed: a row stays where it is."""
    text = "\n".join(lines[skipped:]).encode()
    if quotes.is_sound(text):
        return lines
    cleaned = list(lines)
    open_quotes = find_open(text, quotes, complete=False)
    if open_quotes.rest is not None:  # an open quote, or the sample ends in a value
        line = skipped + text.count(b"\n", 0, open_quotes.rest)
        if skipped < line and _MANY < len(lines) < line + _MANY // 5:
            cleaned = cleaned[:line]
        else:
            open_quotes = find_open(text, quotes)
    for first, last in open_quotes.rows:
        lines_of_row = slice(skipped + text.count(b"\n", 0, first), skipped + text.count(b"\n", 0, last) + 1)
        cleaned[lines_of_row] = [line.replace(quotes.quote, "") for line in cleaned[lines_of_row]]
    return cleaned


def _comments(lines: Sequence[str], mark: str | None, quotes: Quotes | None) -> list[bool]:
    """Which lines are comments, and not a part of a value in quotes."""
    is_comment = [False] * len(lines)
    text = "\n".join(lines).encode()
    if mark is not None and mark.encode() in text:
        at = line = 0
        for match in comment_lines(mark, quotes).finditer(text):
            if match["comment"] is not None:
                line, at = line + text.count(b"\n", at, match.start()), match.start()
                is_comment[line] = True
    return is_comment


def _values(lines: Sequence[str], delimiter: str, keys: Csv) -> Iterator[tuple[int, list[str]]]:
    if delimiter == " ":
        lines = [" ".join(line.split()) for line in lines]
    ended = (f"{line}\n" for line in lines)  # a value may go on in the next
    reader = split_rows(ended, delimiter, keys.quote, keys.escape)
    line = 0
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield line, cells
            line = reader.line_num
    except csv.Error:  # a quote that never ends
        return


def _score(table: Table, keys: Csv, columns: Collection[str]) -> tuple[int, float]:
    """How well a delimiter fits: names that are found in one line, and the share of values that look like ones."""
    width = table.width
    hits = most_names((cells for _, cells in table.rows if may_name(cells, width)), columns)[1]
    hits = max(hits, most_names((cells for _, cells in table.comments if len(cells) == width), columns)[1])
    full = [cells for _, cells in table.rows if len(cells) == width]
    if width < 2 and not hits:
        return 0, 0.0
    if table.delimiter == " " and not hits and len(full) < len(table.rows):
        return 0, 0.0  # words of a text, and not values
    if len(full) < 2:
        return hits, 0.0 if width < 2 else 0.1
    cells = [cell for row in full[1:] for cell in row[: _SCORED // 4]][:_SCORED]
    typed = sum(kind_of(cell, keys.null_words) != "text" for cell in cells) / len(cells)
    if hits and hits == len(columns) and len(full) == len(table.rows) and typed:
        return hits, 1.0
    return hits, len(full) / len(table.rows) * (0.1 + 0.9 * typed)


def _find_numbers(table: Table, layout: Layout, text: str, options: TextOptions) -> Numbers | None:
    """How the numbers of features are written, or of all columns where none of these is a feature.

    The first rows tell, or where they do not rows from all over the sample.
    """
    unsure, keys = None, options.keys
    columns = [i for i, kind in enumerate(table.kinds) if kind in ("number", "null")]
    asked = set(match_features(options.features, layout.names, ()) if options.features else layout.names)
    columns = [i for i in columns if i < len(layout.names) and layout.names[i] in asked] or columns
    commas = keys.decimal == keys.thousands == "auto" and table.delimiter == ","
    plain = (is_float(cell) or not cell.strip() for cell in _numbers_in(layout.data, columns))
    if commas and (keys.quote or '"') not in text.split("\n", layout.first_line)[-1] and all(plain):
        return Numbers(".")  # as a comma would end the value
    for rows in (layout.data, chain(layout.data, _more_rows(table, text, layout, keys))):
        try:
            cells = _numbers_in(rows, columns)
            if numbers := find_numbers(cells, table.delimiter, keys.decimal, keys.thousands):
                return numbers
        except Unsure as error:
            unsure = error
            if unsure.contradicts:
                break
    if unsure is not None and options.numbers is None:
        raise unsure
    return None


def _more_rows(table: Table, text: str, layout: Layout, keys: Csv) -> Iterator[list[str]]:
    """Rows from all over a text; of a comma-separated one those alone that could tell more."""
    lines = text.splitlines()[layout.first_line :]
    if table.delimiter == ",":
        lines = [line for line in lines if (keys.quote or '"') in line]
    step = max(1, len(lines) * max(1, len(layout.names)) // _CELLS)
    for _, cells in _values(lines[::step], table.delimiter, keys):
        if len(cells) == len(layout.names):
            yield cells


def _numbers_in(rows: Iterable[list[str]], columns: Sequence[int]) -> Iterator[str]:
    for cells in rows:
        for i in columns:
            if i < len(cells) and not cells[i].isdigit():
                yield cells[i]


def _as_given(keys: Csv) -> Numbers:
    decimal = "." if keys.decimal == "auto" else keys.decimal
    thousands = None if keys.thousands in ("auto", decimal) else keys.thousands
    return Numbers("," if decimal == thousands else decimal, thousands)
