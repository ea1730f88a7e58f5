"""Which characters the bytes of a text are."""

import codecs

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
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
        if self.line is None:
            return "file"
        return f"line {self.line}" + (f", column {self.column}" if self.column is not None else "")

    def after(self, lines: int) -> "BadText":
        """The same where so many lines stand before."""
        return self if self.line is None else BadText(self.reason, self.line + lines, self.column)


def find_encoding(start: bytes, given: str = "auto") -> tuple[str, int]:
    """Python's name of the encoding of a text, and how many bytes come before the text.

    Text is UTF-8 unless a mark at its beginning, zero bytes (UTF-16), or bytes that are not UTF-8 say otherwise:
    then it is taken for what Windows writes in the west, cp1252.

    Args:
      start: the first bytes; a character may be cut off at their end.
      given: by the user, or auto.

    Raises:
      BadText: if it is not text.
    """
    mark = next(((name, len(bom)) for bom, name in _BOMS if start.startswith(bom)), None)
    if given != "auto":
        # With a mark, utf-16 and utf-32 are the one that it says.
        fits = mark is not None and mark[0].startswith(given.removesuffix("-sig"))
        return mark if fits and mark is not None else (given, 0)
    if mark is not None:
        return mark
    if len(start) > 3 and b"\0" in start[:200]:
        head = start[:4096]
        for name, ascii_bytes, zeros in (("utf-16-le", head[0::2], head[1::2]), ("utf-16-be", head[1::2], head[0::2])):
            if zeros.count(0) > 0.7 * len(zeros) and not ascii_bytes.count(0):
                return name, 0
    if binary := start.rstrip(b"\x1a").translate(None, _TEXT):
        raise BadText(f"is not text: byte 0x{binary[0]:02x}", _line(start, start.index(binary[:1])))
    if is_utf8(start):
        return "utf-8", 0
    try:
        start.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1", 0
    return "cp1252", 0


def is_utf8(data: bytes) -> bool:
    """Whether bytes are UTF-8, of which the last character may be cut off."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return True


def decode(data: bytes, encoding: str) -> str:
    """The characters of the beginning of a text, without one that is cut off.

    Raises:
      BadText: if the bytes are none of this encoding.
    """
    try:
        return codecs.getincrementaldecoder(encoding)().decode(data)
    except UnicodeError as error:
        at = getattr(error, "start", 0)
        reason = f"is not {encoding}: byte 0x{data[at]:02x}; see source.csv.encoding"
        raise BadText(reason, _line(data, at)) from None


def _line(data: bytes, at: int) -> int:
    return data[:at].count(b"\n") + 1
