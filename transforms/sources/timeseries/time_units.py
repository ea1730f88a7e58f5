"""What the numbers of a time column mean: columns of any type as int64 ticks, and durations in the same ticks.

A tick is a nanosecond for timestamps and for numeric columns with a unit. For
integers without a unit it is 1, for floats without a unit 1e-9.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.duration import NANOSECONDS, parse_duration
from beamfeed.contract.errors import UserError

FLOAT_TICKS = 1_000_000_000
_LIMIT = 2**62  # differences of two times must fit an int64 too


class BadTime(ValueError):
    """A time that cannot be read; the message says why."""


@dataclass(frozen=True)
class TimeUnits:
    """What a time column counts."""

    kind: Literal["timestamp", "integer", "float"]
    unit: str | None = None  # of a numeric column

    @classmethod
    def of(cls, type_: pa.DataType, unit: str | None) -> "TimeUnits | None":
        """The units of a column's type; None where the type is no time."""
        if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
            return cls("timestamp")
        if pa.types.is_integer(type_):
            return cls("integer", unit)
        if pa.types.is_floating(type_):
            return cls("float", unit)
        return None

    def reads(self, type_: pa.DataType) -> bool:
        """Whether a column of this type can be read in these units: integers can where floats were expected."""
        other = TimeUnits.of(type_, self.unit)
        return other is not None and (other.kind == self.kind or (self.kind, other.kind) == ("float", "integer"))

    def ticks(self, column: pa.Array) -> np.ndarray:
        """int64 [n] ticks of a column of n times.

        Raises:
          BadTime: if a time is missing or out of range.
        """
        if column.null_count:
            row = pc.index(column.is_null(), True).as_py()
            raise BadTime(f"row {row}: the time is missing")
        if self.kind == "timestamp":
            if pa.types.is_date(column.type):
                column = column.cast(pa.timestamp("s"))
            unit = column.type.unit
            return _scaled(column.cast(pa.int64()).to_numpy(), NANOSECONDS[unit])
        if self.kind == "integer":
            factor = NANOSECONDS[self.unit] if self.unit else 1
            return _scaled(column.cast(pa.int64()).to_numpy(), factor)
        values = column.cast(pa.float64(), safe=False).to_numpy()
        bad = ~np.isfinite(values)
        if bad.any():
            raise BadTime(f"row {int(bad.argmax())}: the time is {values[bad.argmax()]}")
        scaled = np.round(values * (NANOSECONDS[self.unit] if self.unit else FLOAT_TICKS))
        _check_range(scaled, values)
        return scaled.astype(np.int64)

    def instant(self, value: str | int | float, key: str) -> int:
        """Ticks of a time that the job file gives under `key`.

        Raises:
          UserError: if it is no time of the column's kind.
        """
        if self.kind != "timestamp":
            if isinstance(value, str):
                raise UserError(f"{key}: {value!r} is not a number, and the time column holds numbers")
            return round(
                value * (NANOSECONDS[self.unit] if self.unit else 1 if self.kind == "integer" else FLOAT_TICKS)
            )
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            raise UserError(f"{key}: {value!r} is not a time such as 2024-01-31 or 2024-01-31T12:00:00") from None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return round((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)) * 1000

    def duration(self, value: str | int | float, key: str) -> int:
        """Ticks of a duration that the job file gives under `key`.

        Raises:
          UserError: if one has a unit and the other has none.
        """
        number, unit = parse_duration(value)
        if self.kind == "timestamp" and unit is None:
            raise UserError(f"{key}: {value!r} needs a unit such as '{value}s', the time column holds timestamps")
        if self.kind != "timestamp" and self.unit is None:
            if unit is not None:
                raise UserError(
                    f"{key}: {value!r} has a unit but the time column has none; "
                    "give source.time.unit, or a plain number here"
                )
            return max(1, round(number * (1 if self.kind == "integer" else FLOAT_TICKS)))
        return max(1, round(number * NANOSECONDS[unit or self.unit or "s"]))


def _scaled(values: np.ndarray, factor: int) -> np.ndarray:
    _check_range(values.astype(np.float64) * factor, values)
    return values if factor == 1 else values * factor


def _check_range(scaled: np.ndarray, values: np.ndarray) -> None:
    bad = np.abs(scaled) >= _LIMIT
    if bad.any():
        row = int(bad.argmax())
        raise BadTime(f"row {row}: the time {values[row]} is out of range; check source.time.unit")
