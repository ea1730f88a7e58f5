"""What single values of a text look like: numbers, times or words; and how their numbers are written."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from beamfeed.transforms.sources.readers.dialect import FALSE_WORDS, NULL_WORDS, TRUE_WORDS, Numbers

Kind = Literal["null", "number", "time", "text"]
SPACES = " \u00a0\u202f\u2009"  # that stand between groups of digits
APOSTROPHES = "'\u2019"
_NULL = frozenset(NULL_WORDS)
_NUMBER = re.compile(rf"[+-]?(?:\d[\d.,{SPACES}{APOSTROPHES}]*|[.,]\d+)(?:[eE][+-]?\d+)?")
_TIME = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?!\d).*"  # 2024-01-31...
    r"|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d\d)\b(?![.,]\d).*"  # 31.01.2024...
    r"|\d{1,2}[-/ .]*[A-Za-z]{3,9}[-/., ]+\d{2,4}\b.*|[A-Za-z]{3,9} +\d{1,2},? +\d{4}\b.*"  # 31 Jan 2024...
    r"|(?:1[89]|2[01])\d\d(?:[-/](?:0?[1-9]|1[0-2])|[-/ ]?Q[1-4])"  # 2024-01, 2024Q1
    r"|(?:(?:0?[1-9]|1[0-2])[-/]|Q[1-4][-/ ])(?:1[89]|2[01])\d\d"  # 1/2024, Q1 2024
    r"|\d{8}T\d{4,6}\b.*|\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?[aApP][mM])?",  # 20240131T235959, 23:59
    re.ASCII,
)
_PLAIN = str.maketrans(dict.fromkeys(SPACES, " ") | dict.fromkeys(APOSTROPHES, "'"))
_DIGITS = str.maketrans("", "", "0123456789")
_BOOLS = frozenset((*TRUE_WORDS, *FALSE_WORDS))


def kind_of(cell: str, null_words: Sequence[str] = ()) -> Kind:
    """What a value looks like. Bools count as numbers."""
    cell = cell.strip()
    if cell in _NULL or cell in null_words:
        return "null"
    if is_float(cell):  # the fastest way to tell
        return "text" if "_" in cell else "number"
    if _TIME.fullmatch(cell):
        return "time"
    if cell in _BOOLS or _NUMBER.fullmatch(cell):
        return "number"
    return "text"


def is_float(cell: str) -> bool:
    """Whether Python takes it for a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


class Unsure(Exception):
    """Values can be read in two ways; the message says which, and the key of the job file that decides.

    Attributes:
      contradicts: two values prove different things, so that more values cannot decide.
    """

    def __init__(self, message: str, *, contradicts: bool = False):
        super().__init__(message)
        self.contradicts = contradicts


def find_numbers(cells: Iterable[str], delimiter: str, decimal: str, thousands: str | None) -> Numbers | None:
    """How the numbers among some values are written; None where they do not tell.

    1.234 may be a thousand or a little over one. Such a value proves nothing; 0.123, 1.5 and 1.234,5 do.

    Args:
      cells: the values.
      delimiter: of the file. Where it is a comma, a number with one point has decimals.
      decimal: that the user gave, or auto.
      thousands: that the user gave, auto, or None for nothing.

    Raises:
      Unsure: if some could be read in two ways and none decides, or if they contradict each other.
    """
    decimals: dict[str, str] = {}  # what is proven, by a value
    groups: dict[str, str] = {}
    open_: dict[str, str] = {}
    for cell in cells:
        shape = _shape(cell)
        if shape is None:
            continue
        mark, group, sure = shape
        if not sure:
            open_.setdefault(mark or "", cell)
            continue
        if mark:
            decimals.setdefault(mark, cell)
        if group:
            groups.setdefault(group, cell)
    if decimal != "auto":
        decimals = {decimal: decimal}
        groups.pop(decimal, None)
    elif len(decimals) > 1:
        first, second = decimals.values()
        message = f"{first!r} and {second!r} are numbers of two kinds; source.csv.decimal says which is right"
        raise Unsure(message, contradicts=True)
    if thousands != "auto":
        groups = {thousands: thousands} if thousands else {}
        if decimal == "auto" and thousands in (".", ","):
            decimals.setdefault("," if thousands == "." else ".", thousands)
    mark = next(iter(decimals), None)
    group = next((candidate for candidate in groups if candidate != mark), None)
    if mark is None and group in (".", ","):
        mark = "," if group == "." else "."
    if mark is not None:
        # A value such as 1.234 beside a proven decimal comma is an error later on, unless groups are proven too.
        return Numbers(mark, group)
    if open_ and not (delimiter == "," and set(open_) == {"."}):
        shown = " and ".join(map(repr, open_.values()))
        raise Unsure(f"{shown} may have thousands or decimals; source.csv.decimal says which")
    if open_:
        return Numbers(".", group)
    return None if group is None else Numbers(".", group)


def _shape(cell: str) -> tuple[str | None, str | None, bool] | None:
    """Decimal mark and mark of thousands of a number, and whether it can be read in no other way; None: no marks."""
    body = re.fullmatch(r"[+-]?(\d[^eE]*|[.,]\d+)([eE][+-]?\d+)?", cell.strip())
    if body is None:
        return None
    text = body[1].strip().translate(_PLAIN)
    marks = text.translate(_DIGITS)
    if not marks or set(marks) - set(".,' "):
        return None
    last, rest = marks[-1], marks[:-1]
    if len(set(marks)) == 1:
        grouped = re.fullmatch(rf"[1-9]\d{{0,2}}(?:\{last}\d{{3}})+", text) is not None and body[2] is None
        if last in "' " or rest:
            return (None, last, True) if grouped else None
        return last, None, not grouped
    if len(set(rest)) > 1 or last not in ".," or last in rest:
        return None
    integer = text[: text.rindex(last)]
    return (last, rest[0], True) if re.fullmatch(rf"\d{{1,3}}(?:\{rest[0]}\d{{3}})+", integer) else None
