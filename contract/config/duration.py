"""Lengths of time as a user writes them: "5s", "250ms", "1h", or a plain number."""

import re

MOST_TICKS = 2**62  # of a time or a duration; differences of two times must fit an int64 too
NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
_PATTERN = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(ns|us|ms|s|m|h|d)\s*")


def parse_duration(value: str | int | float) -> tuple[float, str | None]:
    """Splits a duration into its number and its unit.

    A plain number has no unit (None): it counts in the numbers of a time column
    that has no unit either.

    Raises:
      ValueError: if it is neither, is not above zero, or is out of range: `MOST_TICKS` nanoseconds or more, or
        such a number without a unit.
    """
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is not a duration, such as 5s, 250ms or 1h")
    if isinstance(value, (int, float)):
        number, unit = value, None
    else:
        match = _PATTERN.fullmatch(value)
        if not match:
            raise ValueError(f"{value!r} is not a duration, such as 5s, 250ms, 1h (units: {', '.join(NANOSECONDS)})")
        number, unit = float(match[1]), match[2]
    if not number > 0:
        raise ValueError(f"{value!r} is not above zero")
    if number * NANOSECONDS[unit or "ns"] >= MOST_TICKS:
        raise ValueError(f"{value!r} is out of range")
    return float(number), unit


def seconds_of(value: str | int | float) -> float:
    """A duration in seconds; a plain number is one already.

    Raises:
      ValueError: as `parse_duration`.
    """
    number, unit = parse_duration(value)
    return number if unit is None else number * NANOSECONDS[unit] / NANOSECONDS["s"]


def checked_duration(value: str | int | float | None) -> str | int | float | None:
    """The value as it is, for a field of the job file that holds a duration or nothing.

    Raises:
      ValueError: as `parse_duration`.
    """
    if value is not None:
        parse_duration(value)
    return value
