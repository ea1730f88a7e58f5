"""What becomes of the times of a table: parts of a date that differ, and days that divide its rows."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.duration import NANOSECONDS
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers import Unsure, iter_batches
from beamfeed.transforms.suggest.look import every_column
from beamfeed.transforms.suggest.sample import Sample
from beamfeed.transforms.suggest.times import Time, read_ticks

_NEARLY = 0.99  # of the rows; of the others a zone may be another one
_READ = 64 << 20  # bytes of files, up to which the times of all rows are read
_PARTS = {
    "year": pc.year,
    "month": pc.month,
    "day": pc.day,
    "hour": pc.hour,
    "weekday": pc.day_of_week,  # Monday is 0
    "weekday from Sunday on": partial(pc.day_of_week, week_start=7),
}


def plain_times(times: Sequence[Time]) -> dict[str, Time]:
    """By their column, the times that a table can read: of one column, and in a way that needs no format."""
    return {
        time.columns[0]: time
        for time in times
        if time.units.kind == "timestamp" and {*time.section} == {"column"} and len(time.columns) == 1
    }


def date_parts(time: Time) -> list[str]:
    """The parts of a date that are not the same in all sampled rows."""
    times = _instants(time)
    are_months = pc.all(pc.equal(pc.floor_temporal(times, unit="month"), times)).as_py()
    names = ("hour", "month") if are_months else ("hour", "weekday", "month")  # days that stand for months have no day
    return [name for name in names if len(_PARTS[name](times).unique()) > 1]


def part_of_time(time: Time, columns: Sequence[np.ndarray]) -> str | None:
    """Which part of the time a column of numbers repeats, if it does in nearly all sampled rows.

    Args:
      time: that orders the rows.
      columns: float [rows] of each sampled table.
    """
    if time.units.kind != "timestamp":
        return None
    values = np.concatenate([values[valid] for values, valid in zip(columns, time.valid, strict=True)])
    times = _instants(time)
    for name, part_of in _PARTS.items():
        part = part_of(times).to_numpy()
        begins = (0, 1) if name.startswith("weekday") else (0,)
        if len(np.unique(part)) > 1 and any((values == part + begin).mean() > _NEARLY for begin in begins):
            return name
    return None


def time_cuts(sample: Sample, time: Time) -> tuple[str, str] | None:
    """Times before which eight and nine tenths of the rows are, as a job file has them; None where they are too few."""
    ticks = np.sort(_every(sample, time))
    units: dict[Literal["D", "s"], int] = {"D": NANOSECONDS["d"], "s": NANOSECONDS["s"]}
    for unit, size in units.items():
        starts = ticks // size
        cuts = [int(np.quantile(starts, share, method="higher")) for share in (0.8, 0.9)] if len(starts) else [0, 0]
        parts = np.diff(np.searchsorted(starts, cuts), prepend=0, append=len(starts))
        if (parts >= 0.05 * len(starts)).all() and parts.all():
            first, second = (str(np.datetime64(cut, unit)) for cut in cuts)
            return first, second
    return None


def _instants(time: Time) -> pa.Array:
    """The sampled times."""
    return pa.array(np.concatenate(time.known)).cast(pa.timestamp("ns"))


def _every(sample: Sample, time: Time) -> np.ndarray:
    """The times of all rows, int64; of many files, those of the sampled ones."""
    if sample.whole or sum(file.size for file in sample.files) > _READ:
        return np.concatenate(time.known)
    (name,) = time.columns
    types = {name: sample.types[name]}
    read = []
    for file in sample.files:
        with suppress(BadInput, Unsure):
            for _, _, batch in iter_batches(file.path, every_column(types, sample.text), [name]):
                ticks, valid = read_ticks(time.units, batch.column(0))
                read.append(ticks[valid])
    return np.concatenate(read)
