"""What the values of each column look like, and what its name says."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.text import some_of
from beamfeed.transforms.sources.columns.numbers import is_number, is_text, plain, to_float32
from beamfeed.transforms.sources.readers import NULL_WORDS

# What names or counts rows: the first ones say so of many values, the others only of values that are never twice.
_IDS = frozenset(("id", "ids", "key", "uuid", "guid", "rowid", "unnamed"))
_NUMBERS = frozenset(("nr", "no", "number", "index", "idx", "row", "rownames", "serial", "code", "url", "slug"))
_MANY = 20  # values, from which on they may name rows
_NOTHING = pa.array([word for word in NULL_WORDS if word.lower() != "none"])  # `none` may well be a category
MOSTLY_MISSING = 0.5  # of a column's values, from which on they are missing for good
OTHERS = {"nothing": "no values", "other": "of a type that no model reads"}  # why columns are left out, by their kind
_OFTEN = 0.01  # of a column's values that are one which may stand for a missing one
_NAMED = 6  # columns in a line
_PROSE = 4  # words of a value, on average, from which on it is a text


@dataclass(frozen=True)
class Column:
    """What some rows tell of a column.

    Attributes:
      name: of the column.
      kind: what its values are; other, if no model reads them; nothing, where there are none.
      rows: that were looked at.
      missing: the fraction of them without a value.
      distinct: how many values there are.
      whole: whether all are whole numbers.
      counts: whether they rise by one from row to row of each file.
      rises: whether they never fall from row to row of a file.
      words: of a value, on average.
      example: the first value.
      filler: a number such as -200 or 9999 that may stand for a missing value: it is often there, and at one end.
      is_far: whether it is further from the others than these are from each other.
    """

    name: str
    kind: Literal["number", "bool", "text", "time", "other", "nothing"]
    rows: int
    missing: float
    distinct: int
    whole: bool = False
    counts: bool = False
    rises: bool = False
    words: float = 0.0
    example: Any = None
    filler: float | None = None
    is_far: bool = False

    @property
    def constant(self) -> bool:
        """Whether there is one value."""
        return self.distinct == 1 and self.rows > 1

    @property
    def useless(self) -> str:
        """Why no model learns from it, whatever it is; empty where one may."""
        if self.kind in OTHERS:
            return OTHERS[self.kind]
        if self.constant:
            return f"always {self.example:.12g}" if isinstance(self.example, float) else f"always {self.example}"
        return f"{self.missing:.0%} missing" if self.missing > MOSTLY_MISSING else ""

    @property
    def identity(self) -> bool:
        """Whether it names rows or counts them: by its values, and by its name where these leave it open."""
        if self.kind == "text" and self.words < _PROSE:
            return self.unique or (self.named_id and self.distinct > _MANY)
        if self.kind != "number" or not self.whole:
            return False
        if self.counts and self.rows > _MANY:
            return True
        words = tokens(self.name)
        numbered = not words or bool({words[0], words[-1]} & (_IDS | _NUMBERS))
        return (self.named_id and self.distinct > _MANY) or (numbered and self.unique)

    @property
    def unique(self) -> bool:
        """Whether hardly a value is there twice."""
        return self.distinct >= _MANY and self.distinct >= 0.98 * self.rows * (1 - self.missing)

    @property
    def named_id(self) -> bool:
        """Whether its name says that it names something."""
        words = tokens(self.name)
        return bool(words) and (words[-1] in _IDS or words[0] == "unnamed")

    @property
    def prose(self) -> bool:
        """Whether it holds texts of several words."""
        return self.kind == "text" and self.words >= _PROSE and self.distinct > 0.3 * self.rows


def tokens(name: str) -> list[str]:
    """The words of a name in small letters: `TX_FRAUD`, `txFraud` and `tx fraud` are tx and fraud."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return [word for word in re.split(r"[\W_]+", spaced.lower()) if word]


def describe(batches: Sequence[pa.RecordBatch]) -> dict[str, Column]:
    """What the columns look like that all of some batches of rows have."""
    common = frozenset.intersection(*(frozenset(batch.column_names) for batch in batches))
    names = [name for name in batches[0].column_names if name in common]
    return {name: _describe(name, [batch.column(name) for batch in batches]) for name in names}


def _describe(name: str, parts: Sequence[pa.Array]) -> Column:
    parts = [plain(part) for part in parts]
    rows = sum(map(len, parts))
    filled = [part for part in parts if part.null_count < len(part)]
    if not filled:
        return Column(name, "nothing", rows, 1.0, 0)
    missing = sum(part.null_count for part in parts) / rows
    if any(pa.types.is_timestamp(part.type) or pa.types.is_date(part.type) for part in filled):
        return Column(name, "time", rows, missing, _distinct(filled), example=_first(filled))
    if all(is_number(part.type) for part in filled):
        with np.errstate(invalid="ignore"):  # of infinities
            steps = [np.diff(numbers) for numbers in map(_numbers, parts)]
        bools = all(pa.types.is_boolean(part.type) for part in filled)
        every = np.concatenate([_numbers(part).astype(np.float64) for part in parts])
        fine = every[np.isfinite(every)]
        return Column(
            name,
            "bool" if bools else "number" if len(fine) else "nothing",
            rows,
            1 - len(fine) / rows,
            len(np.unique(fine)),
            whole=bool((fine == np.floor(fine)).all()),
            counts=all(len(step) > 0 and bool((step == 1).all()) for step in steps),
            rises=all(len(step) > 0 and bool((step >= 0).all()) for step in steps),
            example=_first(filled),
            **_filler(fine),
        )
    if not all(is_text(part.type) for part in filled):
        return Column(name, "other", rows, missing, 2)
    texts = [part.cast(pa.string()) for part in filled]
    empty = sum(pc.sum(pc.is_in(text, value_set=_NOTHING)).as_py() or 0 for text in texts)
    nulls = rows - sum(len(text) - text.null_count for text in texts)
    words = [pc.mean(pc.add(pc.count_substring(pc.utf8_trim_whitespace(text), " "), 1)).as_py() for text in texts]
    return Column(
        name,
        "text" if nulls + empty < rows else "nothing",
        rows,
        (nulls + empty) / rows,
        _distinct(texts),
        words=float(np.mean([length for length in words if length is not None] or [0])),
        example=_first(texts),
    )


def _filler(values: np.ndarray) -> dict[str, Any]:
    """`filler` and `is_far` of numbers, float64 [n]."""
    for is_odd, end in ((lambda value: value < 0, np.min), (lambda value: set(f"{value:.0f}") == {"9"}, np.max)):
        value = float(end(values)) if len(values) else np.nan
        others = values[values != value]
        if not is_odd(value) or len(others) > (1 - _OFTEN) * len(values) or len(np.unique(others[:1000])) < _MANY:
            continue
        if (others >= 0).all() and value != 9:
            return {"filler": value, "is_far": bool(np.abs(others - value).min() > np.ptp(others))}
    return {}


def why_fillers(columns: Iterable[Column]) -> tuple[str, ...]:
    """What is said of numbers that may stand for missing values, a line each."""
    columns = list(columns)
    lines = []
    for value in sorted({column.filler for column in columns if column.filler is not None and column.is_far}):
        names = [column.name for column in columns if column.filler == value]
        lines.append(
            f"CHECK THIS: {value:.12g} may stand for a missing value in {some_of(names, _NAMED)}. "
            f"Of a CSV, the section csv: {{null_words: ['{value:.12g}']}} says that it does."
        )
    return tuple(lines)


def _numbers(part: pa.Array) -> np.ndarray:
    """Numbers, integers in full; null is NaN."""
    if not pa.types.is_integer(part.type):
        return to_float32(part)
    if not part.null_count:
        return part.to_numpy(zero_copy_only=False)
    return part.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def _distinct(parts: Sequence[pa.Array]) -> int:
    return int(pc.count_distinct(pa.chunked_array([part.cast(pa.string()) for part in parts])).as_py())


def _first(parts: Sequence[pa.Array]) -> Any:
    return next(value for part in parts for value in part.drop_null()[:1].to_pylist())
