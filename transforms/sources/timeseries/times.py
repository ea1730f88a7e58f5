"""Finds out what the time columns of the files hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from beamfeed.contract.config.sources.timeseries import TimeColumn
from beamfeed.contract.errors import UserError
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.numbers import is_number, is_text
from beamfeed.transforms.sources.columns.time_units import PARTS, TimeUnits, check_format, check_zone
from beamfeed.transforms.sources.readers import Look, TextOptions, peek
from beamfeed.transforms.sources.readers.time_text import are_aware, first_parts, guess_orders, vote

_ORDERS = {"dmy": "day.month.year", "mdy": "month/day/year"}


@dataclass(frozen=True)
class Times:
    """What time columns hold.

    Attributes:
      type: of the column, as the sampled files have it.
      units: what its values mean.
      remarks: what was found out.
    """

    type: pa.DataType
    units: TimeUnits
    remarks: tuple[str, ...] = ()


class OpenDate(UserError):
    """Dates may begin with the day, the month or the year."""


def resolve_time(
    time: TimeColumn,
    types: Mapping[str, pa.DataType],
    looks: Mapping[str, Look],
    text: TextOptions,
    written: Mapping[str, Sequence[str]] | None = None,
) -> Times:
    """What the time columns of a job hold.

    Args:
      time: the section of the job.
      types: of the files' columns.
      looks: at a sample of the files, by their paths.
      text: how texts are written.
      written: times as text, by files, where no column of these holds them.

    Raises:
      UserError: if they hold no times, or times that can be read in two ways.
    """
    check_format(time.format)
    check_zone(time.zone)
    if not time.columns:
        return Times(pa.int64(), TimeUnits("row", time.unit))
    names = list(time.columns)
    first = types[names[0]]
    if len(names) > 1 and time.unit is not None:
        raise UserError("source.time.unit: does not go with several columns")
    if len(names) > 2 or (
        len(names) == 2 and time.format is None and all(map(pa.types.is_integer, map(types.get, names)))
    ):
        return _of_parts(time, types)
    text_format = time.format
    remarks: tuple[str, ...] = ()
    needs_text = is_text(first) or (
        len(names) == 2 and (is_text(types[names[1]]) or not pa.types.is_time(types[names[1]]))
    )
    values = {} if not needs_text else written if written is not None else _values(names, looks, text)
    if text_format is None and needs_text:
        text_format = _find_order(names, values)
        remarks = (f"source.time: times are {_ORDERS[text_format]}",) if text_format in _ORDERS else ()
    # Where text is joined of two columns, the first may be of any type that text can be made of.
    type_ = pa.string() if needs_text and len(names) == 2 else first
    units = TimeUnits.of(type_, time.unit, text=text_format, zone=time.zone)
    if units is None:
        raise UserError(
            f"source.time.column: {names[0]!r} is {first}, it must be timestamp, integer, float, or text that is a time"
        )
    if units.kind != "timestamp" and (time.zone is not None or len(names) == 2):
        raise UserError(f"source.time.column: {names[0]!r} is {first}, which is not a date")
    if needs_text and units.zone is None:
        units = replace(units, aware=are_aware(values.values(), units.text))
    return Times(first, units, remarks)


def _of_parts(time: TimeColumn, types: Mapping[str, pa.DataType]) -> Times:
    """Times whose year, month, day and so on have a column each."""
    if time.format is not None:
        raise UserError("source.time.format: does not go with columns of numbers, which are year, month, day and so on")
    for name in time.columns:
        if not is_number(types[name]):
            raise UserError(
                f"source.time.column: {name!r} is {types[name]}; of {len(time.columns)} columns each holds numbers: "
                "year, month, day, hour, minute, second"
            )
    units = TimeUnits("timestamp", text=PARTS, zone=time.zone, aware=None if time.zone else False)
    return Times(types[time.columns[0]], units)


def _values(names: Sequence[str], looks: Mapping[str, Look], text: TextOptions) -> dict[str, list[str]]:
    """Times as they are written, of each sampled file that has them."""
    values = {}
    for path, look in looks.items():
        if all(look.schema.names.count(name) == 1 for name in names):
            try:
                values[path] = [value for value in peek(path, names, text) if value.strip()]
            except (BadInput, pa.ArrowException):  # set aside later on, with a reason
                continue
    return values


def _find_order(names: Sequence[str], values: Mapping[str, Sequence[str]]) -> str:
    """The order of the dates.

    Raises:
      OpenDate: if it does not follow from the values.
      UserError: if they hold no dates.
    """
    key = f"source.time.column: {' and '.join(map(repr, names))}"
    guesses = dict(zip(values, guess_orders(values.values()), strict=True))
    orders = vote(guesses.values())
    if {"dmy", "mdy"} <= orders.keys():
        proofs = {path: guess for path, guess in guesses.items() if not guess.is_usual}
        paths = [next(path for path, guess in proofs.items() if guess.how == order) for order in ("dmy", "mdy")]
        raise UserError(
            f"{key}: the day is first in {paths[0]} and the month in {paths[1]}; source.time.format says which is right"
        )
    if orders:
        return orders.most_common(1)[0][0]
    unsure = next((guess.unsure for guess in guesses.values() if guess.unsure), None)
    if unsure is not None:
        second = "%m/%d/%Y %H:%M:%S" if "month" in first_parts(unsure) else "%y-%m-%d"
        raise OpenDate(
            f"{key}: {unsure!r} may begin with {first_parts(unsure)}; give source.time.format, such as "
            f"'%d/%m/%Y %H:%M:%S' or {second!r}"
        )
    example = next((value for texts in values.values() for value in texts), None)
    if example is None:
        raise UserError(f"{key} holds no times in the files that were looked at")
    raise UserError(f"{key} holds text such as {example!r}; give source.time.format, such as '%d.%m.%Y %H:%M:%S'")
