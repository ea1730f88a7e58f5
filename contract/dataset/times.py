"""The times in a dataset as people write them."""

import math
from datetime import datetime, timedelta
from fractions import Fraction

from beamfeed.contract.config.duration import MOST_TICKS, NANOSECONDS, parse_duration
from beamfeed.contract.dataset.fields import Time
from beamfeed.contract.errors import UserError

SECOND = 10**9  # nanoseconds
_EARLIEST = 10**17  # nanoseconds that are a date of 1973 or later, rather than how long something has run


def time_text(ticks: int, time: Time | None) -> str:
    """A time as a date, where it is one: `2024-03-01 12:00:05`, `12.5 s`, `177`.

    Args:
      ticks: as a record has them.
      time: what they count, see `beamfeed.contract.dataset.fields.Field`. None: nobody knows.

    Example:
      >>> time_text(1_709_294_405_000_000_000, "instant")
      '2024-03-01 12:00:05'
      >>> time_text(90_500_000_000, "duration")
      '90.5 s'
    """
    if time == "instant" or (time == "duration" and ticks >= _EARLIEST):
        return _date(ticks)
    if time in ("duration", "decimal"):
        return _decimal(ticks) + (" s" if time == "duration" else "")
    return str(ticks)


def ticks_of(
    value: str | int | float, time: Time | None, key: str, default: str | None = None, *, whole: bool = False
) -> int:
    """Ticks of a duration that the job file gives under `key`; the last whole one that it is not shorter than.

    Args:
      value: of the job file.
      time: what ticks count.
      key: of the value.
      default: the unit of a plain number, where ticks are nanoseconds of a duration.
      whole: it must be so many ticks, and nothing more.

    Raises:
      UserError: if one has a unit and the other has none, it is out of range, or it is not whole and must be.
    """
    number, unit = parse_duration(value)
    if time == "instant" and unit is None:
        raise UserError(f"{key}: {value!r} needs a unit such as '{value}s', the time column holds timestamps")
    if time not in ("instant", "duration") and unit is not None:
        raise UserError(
            f"{key}: {value!r} has a unit but the time column has none; give source.time.unit, or a plain number here"
        )
    if time in ("instant", "duration"):
        factor, tick = NANOSECONDS[unit or default or "s"], "1ns"
    else:
        factor, tick = (SECOND, "0.000000001") if time == "decimal" else (1, "1, the time column holds whole numbers")
    ticks = Fraction(str(number)) * factor  # as it is written: 0.57 is not 0.56999...
    if ticks >= MOST_TICKS:
        raise UserError(f"{key}: {value!r} is out of range")
    if whole and ticks.denominator != 1:
        raise UserError(f"{key}: {value!r} is not a multiple of {tick}")
    return math.floor(ticks)


def _date(ticks: int) -> str:
    """Without a fraction of seconds where it has none."""
    seconds, rest = divmod(ticks, SECOND)
    moment = datetime(1970, 1, 1) + timedelta(seconds=seconds)  # fromtimestamp does not take all years
    return f"{moment:%Y-%m-%d %H:%M:%S}" + (f".{rest:09}".rstrip("0") if rest else "")


def _decimal(ticks: int) -> str:
    sign, (whole, rest) = "-" if ticks < 0 else "", divmod(abs(ticks), SECOND)
    return f"{sign}{whole}" + (f".{rest:09}".rstrip("0") if rest else "")
