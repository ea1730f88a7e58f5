"""Makes the bytes of a text such that Arrow can read them: UTF-8 rows and nothing else. By functions of whole blocks.

A line that is no row becomes an empty one, which Arrow passes over, so that lines keep their numbers.
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from beamfeed.transforms.sources.readers.blocks import after_lines
from beamfeed.transforms.sources.readers.dialect import Dialect
from beamfeed.transforms.sources.readers.encoding import BadText, with_marks
from beamfeed.transforms.sources.readers.quotes import comment_lines, mark_open


def to_lines(pieces: Iterable[bytes], dialect: Dialect, *, complete: bool = True) -> Iterator[bytes]:
    """The pieces of a text whose bytes cannot be cut into lines (`by_lines`), as UTF-8 with usual ends of lines.

    Args:
      pieces: all bytes of the file, in order, cut anywhere.
      dialect: of the file.
      complete: whether the last piece ends the file; else a character may be cut off.

    Raises:
      BadText: if they are not of its encoding.
    """
    decoder = codecs.getincrementaldecoder(dialect.encoding)()
    skip = dialect.bom
    for piece in chain(pieces, [None]):
        data = b"" if piece is None else piece[skip:]
        skip = 0
        try:
            text = decoder.decode(data, final=piece is None and complete)
        except UnicodeError as error:
            raise BadText(f"is not {dialect.encoding}: {error}; see source.csv.encoding") from None
        yield (text.replace("\r", "\n") if dialect.newline == "\r" else text).encode()


def clean(block: bytes, dialect: Dialect, *, first: bool) -> bytes:
    """Rows that Arrow can parse, from whole lines of a text.

    Args:
      block: whole lines; of a text that is not `by_lines`, as `to_lines` gives them.
      dialect: of the file.
      first: whether the file begins with them.
    """
    if first:
        block = block[dialect.bom :] if dialect.by_lines else block
        block = block[after_lines(block, dialect.first_line) :]
    if dialect.by_lines and dialect.encoding not in ("utf-8", "ascii"):
        block = with_marks(block, dialect.encoding)
    if dialect.quotes is not None:
        block = mark_open(block, dialect.quotes)
    if dialect.comment is not None and dialect.comment.encode() in block:
        pattern = comment_lines(dialect.comment, dialect.quotes)
        block = pattern.sub(lambda match: b"" if match["comment"] is not None else match[0], block)
    if dialect.delimiter == " ":
        return _single_spaces(block)
    return _without_empty_rows(block, dialect)


def end_of_rows(tail: bytes, lines: int) -> int:
    """Where the last `lines` lines begin that are not empty; 0 if there are no more.

    Args:
      tail: the end of a text.
      lines: how many are no rows.
    """
    end = len(tail)
    while lines:
        end = len(tail[:end].rstrip(b"\r\n \t"))
        end = tail.rfind(b"\n", 0, end) + 1
        if not end:
            return 0
        lines -= 1
    return end


def _without_empty_rows(block: bytes, dialect: Dialect) -> bytes:
    """Spreadsheets end with rows of delimiters alone; in a value in quotes such a line is text."""
    row = dialect.delimiter.encode() * (len(dialect.names) - 1)
    if not row or not (block.startswith(row) or (_begins_lines(row[:1], block) and b"\n" + row in block)):
        return block
    empty = rb"(?m:^)(?P<empty>%b)(?=\r?(?m:$))" % re.escape(row)
    quotes = dialect.quotes
    if quotes is None or quotes.quote.encode() not in block or not re.search(empty, block):
        return re.sub(empty, b"", block)
    return re.sub(empty + b"|" + quotes.value, lambda match: b"" if match["empty"] is not None else match[0], block)


def _begins_lines(byte: bytes, block: bytes) -> bool:
    """Whether a line but the first begins with a byte; others may run meanwhile, as they may not while bytes look."""
    values, pair = np.frombuffer(block, np.uint8), np.frombuffer(b"\n" + byte, np.uint16)
    shifted = (values[at : len(values) - (len(values) - at) % 2] for at in range(2))
    return any((pairs.view(np.uint16) == pair).any() for pairs in shifted)


def _single_spaces(block: bytes) -> bytes:
    block = block.replace(b"\t", b" ").replace(b"\r", b"")
    while b"  " in block:
        block = block.replace(b"  ", b" ")
    block = block.replace(b" \n", b"\n").replace(b"\n ", b"\n")
    return block.strip(b" ")
