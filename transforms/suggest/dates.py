"""What becomes of the times of a table: parts of a date that differ, and days that divide its rows."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import numpy as np

from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers import Unsure, iter_batches
from beamfeed.transforms.suggest.look import Every
from beamfeed.transforms.suggest.sample import Sample
from beamfeed.transforms.suggest.times import Time, read_ticks

DAY = 86_400 * 10**9
_NEARLY = 0.99  # of the rows; of the others a zone may be another one
_READ = 64 << 20  # bytes of files, up to which the times of all rows are read


def plain_times(times: Sequence[Time]) -> dict[str, Time]:
    """By their column, the times that a table can read: of one column, and in a way that needs no format."""
    return {
        time.columns[0]: time
        for time in times
        if time.units.kind == "timestamp" and {*time.section} == {"column"} and len(time.columns) == 1
    }


def date_parts(time: Time) -> list[str]:
    """The parts of a date that are not the same in all sampled rows."""
    ticks = _valid_ticks(time)
    months = ticks.astype("datetime64[ns]").astype("datetime64[M]")
    first = (months.astype("datetime64[ns]").astype(np.int64) == ticks).all()  # days that stand for months
    parts = {
        "hour": ticks % DAY // (DAY // 24),
        "weekday": ticks[:0] if first else ticks // DAY % 7,
        "month": months.astype(np.int64) % 12,
    }
    return [name for name, values in parts.items() if len(np.unique(values)) > 1]


def part_of_time(time: Time, columns: Sequence[np.ndarray]) -> str | None:
    """Which part of the time a column of numbers repeats, if it does in nearly all sampled rows.

    Args:
      time: that orders the rows.
      columns: float [rows] of each sampled table.
    """
    if time.units.kind != "timestamp":
        return None
    values = np.concatenate([values[valid] for values, valid in zip(columns, time.valid, strict=True)])
    ticks = _valid_ticks(time)
    instants = ticks.astype("datetime64[ns]")
    years, months, days = (instants.astype(f"datetime64[{unit}]").astype(np.int64) for unit in "YMD")
    parts = {
        "year": years + 1970,
        "month": months % 12 + 1,
        "day": days - months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + 1,
        "hour": ticks % DAY // (DAY // 24),
        "weekday": (days + 3) % 7,  # from Monday on
        "weekday from Sunday on": (days + 4) % 7,
    }
    varied = {name: part for name, part in parts.items() if len(np.unique(part)) > 1}
    for name, part in varied.items():
        if (values == part).mean() > _NEARLY or (name.startswith("weekday") and (values == part + 1).mean() > _NEARLY):
            return name
    return None


def time_cuts(sample: Sample, time: Time) -> tuple[str, str] | None:
    """Times before which eight and nine tenths of the rows are, as a job file has them; None where they are too few."""
    ticks = np.sort(_every(sample, time))
    units: tuple[tuple[Literal["D", "s"], int], ...] = (("D", DAY), ("s", 10**9))
    for unit, size in units:
        starts = ticks // size
        cuts = [int(np.quantile(starts, share, method="higher")) for share in (0.8, 0.9)] if len(starts) else [0, 0]
        parts = np.diff(np.searchsorted(starts, cuts), prepend=0, append=len(starts))
        if (parts >= 0.05 * len(starts)).all() and parts.all():
            first, second = (str(np.datetime64(cut, unit)) for cut in cuts)
            return first, second
    return None


def _valid_ticks(time: Time) -> np.ndarray:
    return np.concatenate([ticks[valid] for ticks, valid in zip(time.ticks, time.valid, strict=True)])


def _every(sample: Sample, time: Time) -> np.ndarray:
    """The times of all rows, int64; of many files, those of the sampled ones."""
    is_complete = len(sample.tables) == len(sample.files) and all(sampled.whole for sampled in sample.tables)
    if is_complete or sum(file.size for file in sample.files) > _READ:
        return _valid_ticks(time)
    (name,) = time.columns
    types = {name: sample.types[name]}
    read = []
    for file in sample.files:
        with suppress(BadInput, Unsure):
            for _, _, batch in iter_batches(file.path, Every(types, sample.text), [name]):
                ticks, valid = read_ticks(time.units, batch.column(0))
                read.append(ticks[valid])
    return np.concatenate(read)
