"""What the values of a dataset's fields are like: numbers and a small histogram for each column, of some records."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.times import time_text
from beamfeed.trainer.tools.show_record import Values

BINS = 16
BLOCKS, PLAIN = "·▁▂▃▄▅▆▇█", ".123456789"  # from none to most; the second where a terminal has no blocks


@dataclass(frozen=True)
class ColumnStatistics:
    """One column of a field, over the values of some records.

    Attributes:
      name: of the column, or of the field where it has none.
      values: how many were seen.
      mean, std, min, max: of numbers; None where there are none.
      histogram: values in each of sixteen bins of equal width, from the lowest to the highest.
      distinct: of strings: how many different ones were seen.
      time: of times: what they count.
    """

    name: str
    values: int
    mean: float | None = None
    std: float | None = None
    min: float | None = None
    max: float | None = None
    histogram: Sequence[int] = ()
    distinct: int | None = None
    time: Any = None

    def to_json(self) -> dict[str, Any]:
        """Without what is not known."""
        return {key: value for key, value in asdict(self).items() if value is not None and value != ()}


def statistics_of(records: Iterable[Values], fields: Sequence[Field]) -> list[ColumnStatistics]:
    """The columns of all fields, in their order, but for numbers that are places.

    Args:
      records: decoded ones.
      fields: of the dataset.
    """
    fields = [field for field in fields if field.role != "key" or field.dtype == "bytes" or field.time is not None]
    by_field: dict[str, list[np.ndarray]] = {field.name: [] for field in fields}
    for values in records:
        for field in fields:
            by_field[field.name] += values[field.name]
    return [column for field in fields for column in _columns(by_field[field.name], field)]


def _columns(values: list[np.ndarray], field: Field) -> list[ColumnStatistics]:
    flat = np.concatenate(values) if values else np.zeros(0)
    if field.dtype == "bytes":
        return [ColumnStatistics(field.name, len(flat), distinct=len(set(flat.tolist())))]
    if field.columns and not field.is_ragged:
        columns = flat.reshape(-1, len(field.columns))
        return [describe(name, columns[:, place]) for place, name in enumerate(field.columns)]
    return [describe(field.name, flat, field.time)]


def describe(name: str, values: np.ndarray, time: Any = None) -> ColumnStatistics:
    """The statistics of numbers `[n]`, of complex ones their magnitudes; those that are not finite do not count."""
    values = np.abs(values) if values.dtype.kind == "c" else values
    values = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    if not len(values):
        return ColumnStatistics(name, 0)
    low, high = values.min(), values.max()
    exact = values.astype(np.float64)
    # From the lowest on: float64 has no room for nanoseconds since 1970. The difference of int64 may need an unsigned.
    above = (values - low).view(np.uint64).astype(np.float64) if values.dtype == np.int64 else exact - float(low)
    span = float(above.max())
    counts, _ = np.histogram(above, BINS, (0.0, span) if span > 0 else (-1.0, 1.0))
    mean, std = (None, None) if time else (float(exact.mean()), float(exact.std()))
    return ColumnStatistics(name, len(values), mean, std, low.item(), high.item(), counts.tolist(), time=time)


def bars(counts: Sequence[int], blocks: str = BLOCKS) -> str:
    """A histogram as one letter for each bin.

    Example:
      >>> bars([0, 1, 4, 8])
      '·▁▄█'
    """
    most, steps = max([*counts, 1]), len(blocks) - 1
    return "".join(blocks[-(-count * steps // most)] for count in counts)


def rows_of(columns: Sequence[ColumnStatistics]) -> list[tuple[str, ...]]:
    """A table: the head, then a row for each column."""
    blocks = BLOCKS if _can_show(BLOCKS) else PLAIN
    rows: list[tuple[str, ...]] = [("column", "mean", "std", "min", "max", "from min to max")]
    for column in columns:
        if column.distinct is not None:
            rows.append((column.name, f"{column.distinct:,} different", "", "", "", ""))
        else:
            numbers = (column.mean, column.std, column.min, column.max)
            shown = (_number(value, column) for value in numbers)
            rows.append((column.name, *shown, bars(column.histogram, blocks)))
    return rows


def _number(value: float | None, column: ColumnStatistics) -> str:
    if value is None:
        return ""
    return time_text(int(value), column.time) if column.time else f"{value:.5g}"


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
