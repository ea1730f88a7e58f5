"""Which characters the bytes of a text are."""

import codecs
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MARK = "\ufdd0"  # no character: stands for a byte that is none, and two digits say which
_NOT_WESTERN = bytes((0x81, 0x8D, 0x8F, 0x90, 0x9D, 0xFF))  # in cp1252 nothing, and a letter that hardly any word has
# Of bytes that no text has, so many, behind the first lines, are of rows that are damaged. NULs come in runs.
_ODD, _NULS = 0.01, 0.5
_TEXT = bytes({9, 10, 11, 12, 13, 27, *range(32, 256)})  # what text is made of, whatever its encoding


class BadText(ValueError):
    """A text that cannot be read.

    Attributes:
      reason: why.
      line: where, from 1; None where it is all of it.
      column: its name.
    """

    def __init__(self, reason: str, line: int | None = None, column: str | None = None):
        super().__init__(reason, line, column)
        self.reason, self.line, self.column = reason, line, column

    @property
    def place(self) -> str:
        """Where it is, such as `line 17, column x`."""
        return "file" if self.line is None else place_of(self.line, self.column)

    def after(self, lines: int) -> "BadText":
        """The same where so many lines stand before."""
        return self if self.line is None else BadText(self.reason, self.line + lines, self.column)


def place_of(line: int, column: str | None, noun: str = "line") -> str:
    """Where something is in a file whose lines are called so, and in which column if it is in one."""
    return f"{noun} {line}" if column is None else f"{noun} {line}, column {column}"


def find_encoding(start: bytes, named: str) -> tuple[str, int]:
    """Python's name of the encoding of a text, and how many bytes come before the text.

    Text is UTF-8 unless a mark at its beginning, zero bytes (UTF-16), or bytes that are not UTF-8 say otherwise:
    then it is taken for what Windows writes in the west, cp1252. Where more characters are UTF-8 than are not, or
    these are none of the west either, some bytes are broken.

    Args:
      start: the first bytes; a character may be cut off at their end.
      named: by the user, or auto.

    Raises:
      BadText: if it is not text.
    """
    mark = next(((name, len(bom)) for bom, name in _BOMS if start.startswith(bom)), None)
    if mark is not None and (named == "auto" or mark[0].startswith(named.removesuffix("-sig"))):
        return mark  # also where the user says utf-16 or utf-32, which are the one that it says
    if named != "auto":
        return named, 0
    if len(start) > 3 and b"\0" in start[:200]:
        head = start[:4096]
        for name, ascii_bytes, zeros in (("utf-16-le", head[0::2], head[1::2]), ("utf-16-be", head[1::2], head[0::2])):
            if zeros.count(0) > 0.7 * len(zeros) and not ascii_bytes.count(0):
                return name, 0
    binary = start.rstrip(b"\x1a").translate(None, _TEXT)
    is_damaged = len(binary) <= _NULS * len(start) and len(binary.replace(b"\0", b"")) <= _ODD * len(start)
    first_lines = b"".join(start.split(b"\n", 2)[:2])
    if binary and (not is_damaged or first_lines.translate(None, _TEXT)):
        raise BadText(f"is not text: byte 0x{binary[0]:02x}", _line(start, start.index(binary[:1])))
    if _is_utf8(start):
        return "utf-8", 0
    try:
        start.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1", 0
    return "cp1252", 0


def _is_utf8(data: bytes) -> bool:
    """Whether bytes are UTF-8, of which some may be broken, and the last character cut off."""
    text = codecs.getincrementaldecoder("utf-8")(_ERRORS).decode(data)
    broken = text.count(_MARK)
    if not broken:
        return True
    characters = sum(1 for character in text if character > "\x7f") - broken
    marks = {bytes.fromhex(part[:2])[0] for part in text.split(_MARK)[1:]}
    return characters > broken or marks <= set(_NOT_WESTERN)


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return f"{_MARK}{error.object[error.start]:02x}", error.start + 1


_ERRORS = "beamfeed.mark"
codecs.register_error(_ERRORS, _mark)


def with_marks(block: bytes, encoding: str = "utf-8") -> bytes:
    """A text as UTF-8; for bytes that are none of its encoding stand marks, see `marked`."""
    try:
        text = block.decode(encoding)
        return block if encoding == "utf-8" else text.encode()
    except UnicodeDecodeError:
        return block.decode(encoding, _ERRORS).encode()


def is_damaged(block: bytes, encoding: str) -> bool:
    """Whether a block has marks of `with_marks`, or zero bytes that are no part of characters but were never written.

    Of UTF-8 there are no marks until Arrow has refused it.
    """
    has_marks = encoding not in ("utf-8", "ascii") and _MARK.encode() in block
    return has_marks or (b"\0" in block and not encoding.startswith(("utf-16", "utf-32")))


def marked(column: pa.StringArray, encoding: str) -> dict[int, str]:
    """By their rows the values in which a byte was none of the encoding, or zero, and what is wrong with them."""
    wrong = dict.fromkeys(_rows_with(column, "\0"), "is not text: byte 0x00")
    for row in _rows_with(column, _MARK):
        wrong[row] = _describe_mark(column[row].as_py(), encoding.upper())
    return wrong


def _rows_with(column: pa.StringArray, character: str) -> list[int]:
    has = pc.fill_null(pc.match_substring(column, character), False)
    return np.flatnonzero(has.to_numpy(zero_copy_only=False)).tolist()


def _describe_mark(text: str, encoding: str) -> str:
    return f"is not {encoding}: byte 0x{text.partition(_MARK)[2][:2]}; see source.csv.encoding"


def check_marks(lines: Sequence[str], encoding: str) -> None:
    """Raises BadText if a byte of the lines before the rows, which may name the columns, is none of the encoding."""
    for number, line in enumerate(lines, 1):
        if _MARK in line:
            raise BadText(_describe_mark(line, encoding), number)


def decode(data: bytes, encoding: str) -> str:
    """The characters of the beginning of a text, without one that is cut off.

    Raises:
      BadText: if the bytes are none of this encoding.
    """
    errors = "strict" if encoding.startswith(("utf-16", "utf-32")) else _ERRORS
    try:
        return codecs.getincrementaldecoder(encoding)(errors).decode(data)
    except UnicodeError as error:
        at = getattr(error, "start", 0)
        reason = f"is not {encoding}: byte 0x{data[at]:02x}; see source.csv.encoding"
        raise BadText(reason, _line(data, at)) from None


def _line(data: bytes, at: int) -> int:
    return data[:at].count(b"\n") + 1
