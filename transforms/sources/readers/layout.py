"""Where the names and the rows of a text are, once it is split into values."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from beamfeed.contract.config.sources.csv import Csv
from beamfeed.transforms.sources.readers.cells import Kind, kind_of
from beamfeed.transforms.sources.readers.encoding import BadText

_AFTER_NAMES = 3  # lines of units and the like, at most
_CELLS = 3000  # that tell what columns hold
MOST_COLUMNS = 65_536  # Arrow takes some 10 KB for each column of a text, whatever is in it


@dataclass(frozen=True)
class Table:
    """Lines of a text, split into values.

    Attributes:
      delimiter: that they are split at.
      rows: the number of the line that each begins with, from 0, and its values; of lines that are not empty.
      comments: the same of lines that are comments, without what makes them ones.
      comment: what these begin with; None where there are none.
      width: values of a row.
      null_words: more words for missing values, as the user says.
    """

    delimiter: str
    rows: list[tuple[int, list[str]]]
    comments: list[tuple[int, list[str]]]
    comment: str | None
    width: int
    null_words: Sequence[str]

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """What the values of each column look like in most of the rows that are not at the beginning."""
        full = [cells for _, cells in self.rows if len(cells) == self.width]
        full = full[len(full) // 3 if len(full) > 6 else 2 * len(full) // 3 :]
        full = full[-max(3, _CELLS // max(1, self.width)) :]
        kinds: list[Kind] = []
        for column in zip(*full, strict=True):
            counts = Counter(kind_of(cell, self.null_words) for cell in column)
            del counts["null"]
            kinds.append(counts.most_common(1)[0][0] if counts.total() else "null")
        return tuple(kinds)

    @cached_property
    def measured(self) -> tuple[int, ...]:
        """The places of the columns of numbers and times."""
        return tuple(i for i, kind in enumerate(self.kinds) if kind in ("number", "time"))

    def fits(self, cells: Sequence[str]) -> tuple[int, int]:
        """Of a line's values in `measured` columns: how many are of their kind, and how many are there."""
        found = [(kind_of(cells[i], self.null_words), self.kinds[i]) for i in self.measured if i < len(cells)]
        present = [kind == expected for kind, expected in found if kind != "null"]
        return sum(present), len(present)

    def is_unmeasured(self, cells: Sequence[str], quorum: Callable[[Iterable[bool]], bool]) -> bool:
        """Whether a line is a row whose numbers and times are all missing: one of units has words in their place.

        Args:
          cells: the line.
          quorum: of which columns of text the values must be there: `any` or `all`.
        """
        of_texts = (cell for cell, kind in zip(cells, self.kinds, strict=False) if kind == "text")
        texts = [kind_of(cell, self.null_words) != "null" for cell in of_texts]
        return len(cells) == self.width and bool(texts) and quorum(texts) and not self.fits(cells)[1]

    def first_measured(self) -> int:
        """The first row that most columns of numbers and times say is one."""
        for i, (_, cells) in enumerate(self.rows):
            good, total = self.fits(cells)
            if len(cells) == self.width and good and 2 * good >= total:
                return i
        return 0


def find_width(rows: Sequence[tuple[int, list[str]]], names: Sequence[str], columns: Collection[str]) -> int:
    """How many values a row has: as many as most; of two numbers, that of the first row, or the greater one.

    Args:
      rows: with the numbers of their lines.
      names: of the columns, as the user says.
      columns: names that the job needs; what stands before a row that has some of them does not count.
    """
    first_named, hits = most_names((cells for _, cells in rows), columns)
    behind = rows[first_named:] if hits else rows
    counts = Counter(len(cells) for _, cells in behind[1:] or behind)
    if len(names) in counts:
        return len(names)
    first = len(behind[0][1]) if behind else 0
    return max(counts, key=lambda size: (counts[size], size == first, size), default=0)


@dataclass(frozen=True)
class Layout:
    """Where the names and the rows are.

    Attributes:
      names: one for each value of a row, "" where it has none.
      header_line: that holds the names, from 0; None if none does.
      header_end: behind these, which may go over several lines.
      first_line: of the rows.
      data: the rows among those that were looked at.
      padded: white space stands around values.
    """

    names: tuple[str, ...]
    header_line: int | None
    header_end: int
    first_line: int
    data: list[list[str]]
    padded: bool


def lay_out(table: Table, keys: Csv, columns: Collection[str]) -> Layout:
    """Finds the names and the rows.

    Args:
      table: the first lines.
      keys: what the user says.
      columns: names of columns that the job needs: where a line has some of them, it names the columns.

    Raises:
      BadText: if there are not as many names as values, or too many.
    """
    rows, width = table.rows, table.width
    if width > MOST_COLUMNS:
        raise BadText(f"has {width:,} columns; of a text at most {MOST_COLUMNS:,} are read, keep such as Parquet", 1)
    at = _header(table, keys, columns)
    first = _first_row(table, keys, at)
    header: tuple[int, list[str]] | None = None if at is None else rows[at]
    if at is None and keys.header == "auto" and not keys.names:
        header = _header_in_comments(table, first, columns)
    data = [cells for line, cells in rows if line >= first]
    raw = keys.names or (header[1] if header is not None else [f"f{i}" for i in range(width)])
    names = [name.strip() for name in raw]
    if len(names) > width and not any(names[width:]):
        names = names[:width]
    if len(names) == width - 1 and all(not cells[-1].strip() for cells in data if len(cells) == width):
        names.append("")
    if data and len(names) != width:
        origin = "source.csv.names" if keys.names or header is None else f"line {header[0] + 1}"
        line = next(line for line, cells in rows if line >= first) + 1
        raise BadText(
            f"has {width} values, and {origin} {len(names)} names; see source.csv.names and source.csv.delimiter", line
        )
    padded = table.delimiter != " " and any(
        cell.strip("\n") != cell.strip() for cells in (raw, *data[:20]) for cell in cells
    )
    end = 0 if header is None else _end_of(header)
    return Layout(tuple(names), None if header is None else header[0], end, first, data, padded)


def _header(table: Table, keys: Csv, columns: Collection[str]) -> int | None:
    """Which row holds the names; None if none does."""
    if keys.header is False:
        return None
    rows, width = table.rows, table.width
    near = [i for i, (_, cells) in enumerate(rows) if may_name(cells, width)]
    if isinstance(keys.skip_lines, int):  # then it is here or nowhere
        near = [0]
    best, hits = most_names((rows[i][1] for i in near), columns)
    if hits:
        return near[best]
    first = table.first_measured()
    before = [i for i in near if i < first]
    if not table.measured:  # all is text
        return near[0] if near and (keys.header is True or not keys.names) else None
    if not before:
        return near[0] if near and keys.header is True else None
    if keys.names and keys.header == "auto":
        return None  # what is before the rows is skipped, whether it holds names or not
    return max(before, key=lambda i: (sum(bool(cell.strip()) for cell in rows[i][1]), -i))


def names_in(cells: Sequence[str], columns: Collection[str]) -> int:
    """How many of the names that are looked for are among some values."""
    return len({cell.strip() for cell in cells}.intersection(columns))


def most_names(rows: Iterable[Sequence[str]], columns: Collection[str]) -> tuple[int, int]:
    """The first of the rows that have the most of the names that are looked for, and how many it has."""
    best = (0, 0)
    for i, cells in enumerate(rows):
        hits = names_in(cells, columns)
        if hits > best[1]:
            best = i, hits
        if hits == len(columns):
            break
    return best


def may_name(cells: Sequence[str], width: int) -> bool:
    """Whether a row may name columns: it has as many values, one less, or empty ones behind."""
    return len(cells) in (width, width - 1) or (len(cells) > width and not any(c.strip() for c in cells[width:]))


def _first_row(table: Table, keys: Csv, header: int | None) -> int:
    """The line that the rows begin with."""
    rows = table.rows
    if header is None:
        if isinstance(keys.skip_lines, int):
            return rows[0][0]
        first = table.first_measured()
        while first and table.is_unmeasured(rows[first - 1][1], all):
            first -= 1
        return rows[first][0]
    end = _end_of(rows[header])
    if isinstance(keys.skip_after_header, int):
        return end + keys.skip_after_header
    if not table.measured:  # then nothing tells units from rows
        return end
    for i in range(header + 1, min(header + 2 + _AFTER_NAMES, len(rows))):
        cells = rows[i][1]
        # Also one of too many values, or of too few, is a row; and one that is so as a quote in it is open.
        broken = len(cells) != table.width and keys.quote is not None and any(keys.quote in cell for cell in cells)
        if broken or table.is_unmeasured(cells, any) or table.fits(cells)[0]:
            return rows[i][0]
    return end


def _end_of(row: tuple[int, Sequence[str]]) -> int:
    """The line behind a row, of which a value may go over several."""
    line, cells = row
    return line + 1 + sum(cell.count("\n") for cell in cells)


def _header_in_comments(table: Table, first: int, columns: Collection[str]) -> tuple[int, list[str]] | None:
    """The comment that names the columns, as those of NumPy do: the last one before the rows, if it has as many."""
    before = [(line, cells) for line, cells in table.comments if line < first and len(cells) == table.width]
    if not before:
        return None
    naming = [comment for comment in before if names_in(comment[1], columns)]
    line, cells = (naming or before)[-1]
    good = naming or all(kind_of(cell) == "text" for cell in cells)
    return (line, cells) if good else None
