"""Values in quotes, which may hold ends of lines; comments, which are none where they stand in one; and open quotes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

MARK = "\x00"  # what a row begins with, once it is told that its quote is open
_QUOTE = "\x01"  # stands for a quote in such a row
_LIKE_ROWS = 5  # lines in a value that all read as rows of the file: then they are
_NUMBER = rb"[-+0-9.:/ TZeEQ']*"


@dataclass(frozen=True)
class Quotes:
    """What stands around values that may hold ends of lines.

    Attributes:
      quote: the character; it begins a value, or is one of its characters.
      delimiter: between values.
      escape: before a character that is to be taken as it is.
      comment: what a line begins with that is no row.
      columns: values of a row; 0 where it is not known.
      numbers: the places of columns that hold numbers or times.
    """

    quote: str
    delimiter: str
    escape: str | None = None
    comment: str | None = None
    columns: int = 0
    numbers: tuple[int, ...] = ()

    @cached_property
    def _ends(self) -> bytes:
        """What may stand before and behind a value in a line."""
        return b" \t" if self.delimiter == " " else self.delimiter.encode()

    @cached_property
    def value(self) -> bytes:
        """The pattern of a value in quotes, or of the beginning of one that does not end."""
        quote, ends = re.escape(self.quote.encode()), re.escape(self._ends)
        begin, special, pair = rb"(?:\A|(?<=[\n%b]))" % ends, quote, quote + quote
        if self.escape is not None:
            escape = re.escape(self.escape.encode())
            begin += rb"(?:\A|(?<!%b[\n%b]))" % (escape, ends) if len(self.escape.encode()) == 1 else b""
            special, pair = quote + escape, rb"(?:%b|%b(?s:.|\Z))" % (pair, escape)
        return rb"%b%b[^%b]*(?:%b[^%b]*)*(?:%b|\Z)" % (begin, quote, special, pair, special, quote)

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """As `comment_lines`, also where the file has no comments."""
        return comment_lines(self.comment, self)

    def next(self, text: bytes, at: int) -> re.Match[bytes] | None:
        """The next comment or value in quotes from a place on."""
        if self.comment is not None and self.comment.encode() in text:
            return self.pattern.search(text, at)
        quote = self.quote.encode()
        while (at := text.find(quote, at)) >= 0:
            if match := self.pattern.match(text, at):
                return match
            at += 1
        return None

    @cached_property
    def row(self) -> re.Pattern[bytes] | None:
        """A line that reads as a row; None where numbers do not tell."""
        if not self.numbers or self.delimiter == " ":
            return None
        end = re.escape(self.delimiter.encode())
        cells = [_NUMBER if place in self.numbers else b"[^%b]*" % end for place in range(self.columns)]
        return re.compile(end.join(cells) + rb"\r?")

    def is_sound(self, text: bytes) -> bool:
        """Whether each quote of a text opens a value, closes one, or stands doubled in one; and none holds rows."""
        quote = self.quote.encode()
        if quote not in text:
            return True
        if len(quote) > 1 or (self.escape is not None and self.escape.encode() in text):
            return False
        data = np.frombuffer(text, np.uint8)
        places = np.flatnonzero(data == quote[0])
        before, behind = np.zeros(256, bool), np.zeros(256, bool)
        before[list(b"\n" + self._ends)] = True
        if places[0] != 0 and not before[data[places - 1]].any():
            return True  # characters of values, such as inches
        if len(places) % 2:
            return False
        opens, closes = places[::2], places[1::2]
        before[list(b"\n" + quote + self._ends)] = True
        behind[list(b"\r\n" + quote + self._ends)] = True
        first, last = int(opens[0] == 0), int(closes[-1] == len(data) - 1)
        if not (before[data[opens[first:] - 1]].all() and behind[data[closes[: len(closes) - last] + 1]].all()):
            return False
        long = np.flatnonzero(closes - opens > 2 * _LIKE_ROWS * max(1, self.columns))
        return not any(
            text.count(b"\n", start, end) > _LIKE_ROWS and self.holds_rows(text[start + 1 : end])
            for start, end in zip(opens[long].tolist(), closes[long].tolist(), strict=True)
        )

    def holds_rows(self, value: bytes) -> bool:
        """Whether the lines in a value read as rows of the file: its quote was opened by mistake."""
        lines = value.split(b"\n")[1:-1]
        row = self.row
        return row is not None and len(lines) >= _LIKE_ROWS and all(row.fullmatch(line) for line in lines)


@dataclass(frozen=True)
class OpenQuotes:
    """What the quotes of a text come to.

    Attributes:
      rows: from the beginning of each row with an open quote to the end of the line that the quote is in.
      values: where values are that hold ends of lines.
      rest: where the first value begins that the text does not end; None where there is none.
    """

    rows: tuple[tuple[int, int], ...] = ()
    values: tuple[tuple[int, int], ...] = ()
    rest: int | None = None


def last_line(text: bytes, values: Sequence[tuple[int, int]], start: int, end: int | None) -> int:
    """Where the last line before `end` ends, outside of values; 0 if there is none behind `start`."""
    place = text.rfind(b"\n", start, end) + 1
    for first, last in reversed(values):
        if last < place:
            break
        if first < place:
            place = text.rfind(b"\n", start, first) + 1
    return place


def find_open(text: bytes, quotes: Quotes, start: int = 0, *, complete: bool = True) -> OpenQuotes:
    """Finds quotes that are opened and never closed.

    A quote is open where the text ends in its value; where the value holds ends of lines, and text stands behind the
    quote that closes it; and where all lines in the value read as rows.

    Args:
      text: lines of a file.
      quotes: of the file.
      start: of the rows.
      complete: whether the text ends its rows; else a value that it does not end may go on behind it.
    """
    rows: list[tuple[int, int]] = []
    values: list[tuple[int, int]] = []
    quote = quotes.quote.encode()
    behind = b"\r\n" + quotes._ends
    at = row = start  # the row begins behind the last line that is no part of a value
    while match := quotes.next(text, at):
        first, last = match.span()
        at = last
        if match["comment"] is not None:
            continue
        closed = last - first > len(quote) and _is_closed(match[0], quotes)
        if not closed and not complete:
            return OpenQuotes(tuple(rows), tuple(values), first)
        inside = text.find(b"\n", first, last) >= 0
        if closed and not inside:
            continue
        # At the end of the text nothing follows, which is in any bytes.
        if closed and text[last : last + 1] in behind and not quotes.holds_rows(
            text[first + len(quote) : last - len(quote)]
        ):  # fmt: skip
            values.append((first, last))
            continue
        row = max(row, last_line(text, values, row, first))
        at = text.find(b"\n", first)
        at = len(text) if at < 0 else at
        rows.append((row, at))
        row = at
    return OpenQuotes(tuple(rows), tuple(values))


def _is_closed(value: bytes, quotes: Quotes) -> bool:
    """Whether a match of the pattern ends with the quote that closes it."""
    quote = quotes.quote.encode()
    inside = value[len(quote) :]
    if not inside.endswith(quote):
        return False
    if quotes.escape is not None and quotes.escape.encode() in inside:
        return re.fullmatch(quotes.value.removesuffix(rb"|\Z)") + b")", value) is not None
    return (len(inside) - len(inside.rstrip(quote))) % 2 == 1


def mark_open(text: bytes, quotes: Quotes) -> bytes:
    """The text with each row whose quote is open as one line, MARK before it, of too many values."""
    if quotes.is_sound(text):
        return text
    open_quotes = find_open(text, quotes)
    if not open_quotes.rows:
        return text
    parts, at = [], 0
    pad = _pad(quotes).encode()
    for first, last in open_quotes.rows:
        row = text[first:last]
        line = row.rpartition(b"\n")[2].replace(quotes.quote.encode(), _QUOTE.encode())
        parts += [text[at:first], MARK.encode(), line.rstrip(b"\r").replace((quotes.escape or "\x00").encode(), b"")]
        parts += [pad, b"\n" * row.count(b"\n")]
        at = last
    return b"".join([*parts, text[at:]])


def _pad(quotes: Quotes) -> str:
    """What a marked row ends with, which makes its values too many."""
    return (quotes.delimiter + "x") * (quotes.columns + 1)


def describe_open(line: str, quotes: Quotes) -> str | None:
    """What is wrong with a row that `mark_open` marked; None of another: a broken file may have zero bytes itself."""
    if not line.startswith(MARK) or not line.endswith(pad := _pad(quotes)):
        return None
    text = line.removeprefix(MARK).removesuffix(pad).replace(_QUOTE, quotes.quote)
    return f"a quote is opened and never closed: {text[:100]}{'...' if len(text) > 100 else ''}"


def comment_lines(mark: str | None, quotes: Quotes | None) -> re.Pattern[bytes]:
    """Finds comments, its group `comment`, and beside them whole values in quotes, in which lines are none."""
    nothing = b"(?P<comment>(?!))"
    comment = nothing if mark is None else rb"(?m:^)(?P<comment>[ \t]*%b[^\n]*)" % re.escape(mark.encode())
    return re.compile(comment if quotes is None else comment + b"|" + quotes.value)
