"""How a text file is written. What finds it out is in sniff.py, what reads by it in parse.py."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from beamfeed.transforms.sources.readers.quotes import Quotes

# Words that stand for a missing value: those of Arrow and pandas, of spreadsheets and loggers, and German ones.
NULL_WORDS = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL",
    "NaN", "n/a", "nan", "null", "<NA>", "NAN", "None", "none", "Null", "N.A.", "n.a.", "k.A.", "-", "--", "---", "?",
    "NaT", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!", "#WERT!", "#BEZUG!", "#ZAHL!", "#NV",
    "\\N", "nil",
)  # fmt: skip
TRUE_WORDS = ("1", "True", "TRUE", "true")
FALSE_WORDS = ("0", "False", "FALSE", "false")
_NAMED = {"\t": "tab", " ": "white space"}


def split_rows(lines: Iterable[str], delimiter: str, quote: str | None, escape: str | None) -> Any:
    """Python's `csv.reader` of lines, whose `line_num` tells where a row ends. It raises `csv.Error` of broken ones."""
    quotes: Any = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
    return csv.reader(lines, delimiter=delimiter, escapechar=escape, **quotes)


@dataclass(frozen=True)
class Numbers:
    """How numbers are written.

    Attributes:
      decimal: before their decimals.
      thousands: between groups of three digits.
    """

    decimal: str
    thousands: str | None = None


@dataclass(frozen=True)
class Dialect:
    """How one text file is written.

    Attributes:
      names: of its columns, as many as a row has values; "" where one has none.
      delimiter: between two values; a space stands for any white space.
      quote: around a value that holds a delimiter.
      escape: before a character that is to be taken as it is.
      numbers: how they are written.
      encoding: Python's name of it.
      bom: bytes before the text.
      newline: at the end of a line; before it a carriage return may stand.
      first_line: of the rows, counted from 0.
      header_line: that holds the names; None where none does.
      header_end: the line behind these, one of which may go over several.
      skip_last: lines at the end that are no rows.
      comment: what a line begins with that is no row.
      null_words: for missing values.
      padded: white space stands around values.
      proven: values of the file say how its numbers are written.
      number_columns: the places of columns that hold numbers or times.
    """

    names: tuple[str, ...]
    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    numbers: Numbers = Numbers(".")
    encoding: str = "utf-8"
    bom: int = 0
    newline: str = "\n"
    first_line: int = 1
    header_line: int | None = 0
    header_end: int = 1
    skip_last: int = 0
    comment: str | None = None
    null_words: tuple[str, ...] = NULL_WORDS
    padded: bool = False
    proven: bool = False
    number_columns: tuple[int, ...] = ()

    @property
    def by_lines(self) -> bool:
        """Whether the byte of a line feed and nothing else ends a line, so that whole lines can be read alone."""
        return self.newline == "\n" and not self.encoding.startswith(("utf-16", "utf-32"))

    @cached_property
    def places(self) -> dict[str, int]:
        """By name the place of a column, of those whose name is there once."""
        return {name: place for place, name in enumerate(self.names)}

    @cached_property
    def quotes(self) -> Quotes | None:
        """What may stand around values that hold ends of lines."""
        if self.quote is None:
            return None
        return Quotes(self.quote, self.delimiter, self.escape, self.comment, len(self.names), self.number_columns)

    def describe(self) -> str:
        """What differs from a plain CSV, in a few words; "" if nothing does."""
        parts = []
        if self.delimiter != ",":
            parts.append(f"delimiter {_NAMED.get(self.delimiter) or repr(self.delimiter)}")
        if self.numbers.decimal != ".":
            parts.append(f"decimal {self.numbers.decimal!r}")
        if self.numbers.thousands is not None:
            parts.append(f"thousands {self.numbers.thousands!r}")
        if self.encoding != "utf-8":
            parts.append(f"encoding {self.encoding}")
        if self.header_line is None:
            parts.append("no line of names")
            parts += [_lines(self.first_line, "before the rows")] if self.first_line else []
        else:
            parts += [_lines(self.header_line, "before the names")] if self.header_line else []
            after = self.first_line - self.header_end
            parts += [_lines(after, "between the names and the rows")] if after > 0 else []
        if self.comment is not None:
            parts.append(f"comments after {self.comment!r}")
        return ", ".join(parts)


def _lines(number: int, where: str) -> str:
    return f"{number} line{'s' if number > 1 else ''} {where}"
