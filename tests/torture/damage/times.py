"""Damages of times: repeated, out of order, missing, out of range, far apart; rows that lie in several files."""

from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..fleet import CLOCKS, Fleet, Part
from ..write import time_array
from .kind import break_file, damage, some_part, spoil, with_text, with_type

NUMBERS = ["integer", "epoch_s", "epoch_ms"]
STAMPS = ["timestamp_s", "timestamp_ms", "timestamp_us", "timestamp_ns"]


def _repeat(fleet: Fleet, chance: Random, how: str | None) -> None:
    if how is not None:
        fleet.job["prepare"]["duplicates"] = how
    for part in (some_part(fleet, chance, 12), some_part(fleet, chance, 12)):
        rows = np.arange(len(part))
        twice = sorted(chance.sample(range(len(part)), min(len(part), chance.randint(1, 5))))
        part.take(np.sort(np.concatenate([rows, np.repeat(twice, chance.randint(1, 2))])))
        for i in range(1, len(part)):  # two rows of one time that differ
            if part.time[i] == part.time[i - 1] and part.asset[i] == part.asset[i - 1]:
                part.values[i] += np.float32(100)


@damage(resample=None)
def duplicate_times(fleet: Fleet, chance: Random) -> None:
    """Of rows of one time the first is taken, as is the default."""
    _repeat(fleet, chance, None)


@damage(resample=None)
def duplicate_times_first(fleet: Fleet, chance: Random) -> None:
    """duplicates: first takes the first of them."""
    _repeat(fleet, chance, "first")


@damage(resample=None)
def duplicate_times_last(fleet: Fleet, chance: Random) -> None:
    """duplicates: last takes the last of them."""
    _repeat(fleet, chance, "last")


@damage(resample=None, label=None)
def duplicate_times_mean(fleet: Fleet, chance: Random) -> None:
    """duplicates: mean takes the mean of each value that is present."""
    _repeat(fleet, chance, "mean")


@damage()
def duplicate_times_reject(fleet: Fleet, chance: Random) -> None:
    """duplicates: reject makes a reject of their asset."""
    _repeat(fleet, chance, "reject")


@damage(resample=["mean", "first", "last", "min", "max"])
def duplicate_times_on_a_grid(fleet: Fleet, chance: Random) -> None:
    """With resample all rows of a step count, also those of one time."""
    _repeat(fleet, chance, None)


@damage(clock=STAMPS, resample=None, rows=[90, 140])
def the_hour_that_comes_twice(fleet: Fleet, chance: Random) -> None:
    """Clocks are put back: a run of times comes again. Sorted, of each time the first is taken."""
    part = some_part(fleet, chance, 40)
    at, hour = chance.randint(10, 20), chance.randint(3, 8)
    at = min(at, len(part) - 1)  # where no part has as many rows, another damage has taken them
    hour = min(hour, at)
    back = part.time[at] - part.time[at - hour]
    part.time[at:] -= back


@damage(naming="pattern", files=[2, 3, 4], resample=None)
def a_file_twice(fleet: Fleet, chance: Random) -> None:
    """A file that was uploaded under two names: each of its rows counts once."""
    part = some_part(fleet, chance)
    head, _, name = part.path.rpartition("/")
    fleet.parts.append(_copy(part, f"{head}/again-{name}"))


@damage(rows=[60, 90, 140])
def times_go_back(fleet: Fleet, chance: Random) -> None:
    """Two runs of rows have changed places: rows are sorted by time."""
    part = some_part(fleet, chance, 20)
    a, b, c = sorted(chance.sample(range(1, len(part)), 3))
    rows = np.arange(len(part))
    part.take(np.concatenate([rows[:a], rows[b:c], rows[a:b], rows[c:]]))


@damage()
def shuffled_rows(fleet: Fleet, chance: Random) -> None:
    """Rows in no order at all are sorted by time."""
    for part in (some_part(fleet, chance), some_part(fleet, chance)):
        part.take(np.array(chance.sample(range(len(part)), len(part))))


@damage()
def newest_first(fleet: Fleet, chance: Random) -> None:
    """Files that begin with their newest row are sorted by time."""
    for part in fleet.parts:
        part.take(np.arange(len(part))[::-1])


@damage(units=True, rows=300)
def shuffled_rows_in_units(fleet: Fleet, chance: Random) -> None:
    """An asset of many units whose rows are in no order: sorted over all of them."""
    shuffled_rows(fleet, chance)


@damage(units=True, rows=300, resample=["mean", "first", "last"])
def units_on_a_grid_out_of_order(fleet: Fleet, chance: Random) -> None:
    """Several units, a grid of time and rows that are out of order, all at once."""
    times_go_back(fleet, chance)
    run = some_part(fleet, chance)
    run.values[: len(run) // 3, 0] = np.nan


@damage(format="parquet", units=True, rows=300, resample=None, max_gap=True)
def gaps_where_units_meet(fleet: Fleet, chance: Random) -> None:
    """A gap at any row of an asset of several units: no window crosses it, and none beside it is lost."""
    for part in fleet.parts:
        for at in chance.sample(range(1, len(part)), min(len(part) - 1, 3)):
            part.time[at:] += fleet.clock.step * 50


@damage(naming="pattern", files=[2, 3, 4])
def interleaved_files(fleet: Fleet, chance: Random) -> None:
    """The rows of an asset alternate between its files: put in order of time."""
    name = chance.choice(fleet.names())
    own = [part for part in fleet.parts if part.asset and part.asset[0] == name and not part.form.get("touched")]
    if len(own) < 2:
        return
    a, b = own[:2]
    for part in (a, b):
        part.form["touched"] = True
    both = _joined(a, b)
    _assign(a, both, slice(0, None, 2))
    _assign(b, both, slice(1, None, 2))


@damage(naming="pattern", files=[2, 3, 4])
def overlapping_files(fleet: Fleet, chance: Random) -> None:
    """A file begins before the one in front of it ends: put in order of time."""
    name = chance.choice(fleet.names())
    own = [part for part in fleet.parts if part.asset and part.asset[0] == name and not part.form.get("touched")]
    if len(own) < 2:
        return
    a, b = own[:2]
    for part in (a, b):
        part.form["touched"] = True
    both, cut = _joined(a, b), len(a)
    late = {chance.randrange(max(0, cut - 5), cut) for _ in range(3)}
    _assign(a, both, [i for i in range(len(both)) if i < cut and i not in late])
    _assign(b, both, [i for i in range(len(both)) if i >= cut or i in late])


@damage(naming="pattern", files=[2, 3, 4])
def names_against_the_order_of_time(fleet: Fleet, chance: Random) -> None:
    """Files whose names are not in the order of their times: time decides."""
    for part in fleet.parts:
        head, _, name = part.path.rpartition("part-")
        number, _, rest = name.partition(".")
        part.path = f"{head}part-{9 - int(number)}.{rest}"


@damage()
def sorting_is_not_allowed(fleet: Fleet, chance: Random) -> None:
    """With limits.sort_memory_mb: 0, an asset that is out of order is a reject that names the limit."""
    fleet.job["limits"]["sort_memory_mb"] = 0
    times_go_back(fleet, chance)


@damage(max_gap=True)
def gaps(fleet: Fleet, chance: Random) -> None:
    """Long steps in time: no window crosses one."""
    for part in fleet.parts:
        if len(part) > 2:
            at = chance.randrange(1, len(part))
            part.time[at:] += fleet.clock.step * chance.choice([3, 4, 5, 6, 1000])


@damage(max_gap=True)
def a_step_as_long_as_the_gap(fleet: Fleet, chance: Random) -> None:
    """A step of exactly max_gap is no gap, one tick more is."""
    part = some_part(fleet, chance, 20)
    part.time[10:] += fleet.clock.step * 3
    part.time[15:] += fleet.clock.step * 4


@damage(split="asset")
def years_later(fleet: Fleet, chance: Random) -> None:
    """The last rows of a file are years after the others."""
    part = some_part(fleet, chance, 20)
    room = (2**62 - int(part.time.max())) // fleet.clock.step  # of int64, in steps
    part.time[-5:] += fleet.clock.step * min(10_000_000, room)


@damage(clock=[*STAMPS, "integer", "epoch_s", "float"])
def before_the_epoch(fleet: Fleet, chance: Random) -> None:
    """Times below 0, before 1970, are times like others."""
    shift = max(int(part.time.max()) for part in fleet.parts)
    shift += -shift % fleet.clock.step + fleet.clock.step * 20
    for part in fleet.parts:
        part.time -= shift


def _at(part: Part, chance: Random) -> int:
    return chance.randrange(len(part))


@damage(format="parquet", naming=["stem", "pattern"], last=True)
def a_time_is_missing(fleet: Fleet, chance: Random) -> None:
    """A row without a time costs its row."""
    part = some_part(fleet, chance)
    at, clock = _at(part, chance), fleet.clock

    def holed(ticks: np.ndarray) -> pa.Array:
        mask = np.zeros(len(ticks), bool)
        mask[at] = True
        array = time_array(ticks, clock)
        return pc.if_else(pa.array(mask), pa.scalar(None, array.type), array)

    with_type(part, "t", holed)
    spoil(part, at, "missing", timed=False)


@damage(format=["csv", "csv.gz"], naming=["stem", "pattern"], last=True)
def a_time_is_an_empty_cell(fleet: Fleet, chance: Random) -> None:
    """An empty cell where a time should be costs its row."""
    _cell(fleet, chance, "", "missing|time")


@damage(format=["csv", "csv.gz"], naming=["stem", "pattern"], last=True)
def a_time_that_is_none(fleet: Fleet, chance: Random) -> None:
    """Text where a time should be costs its row."""
    _cell(fleet, chance, chance.choice(["later", "12:99", "2024-13-45 99:00:00", "--"]), ".")


def _cell(fleet: Fleet, chance: Random, text: str, reason: str) -> None:
    from ..write import time_text

    part = some_part(fleet, chance)
    at, clock = _at(part, chance), fleet.clock
    before = part.form.get("texts", {}).get("t")  # as another damage writes times

    def cells(ticks: np.ndarray) -> list[str]:
        found = before(ticks) if before else [time_text(int(tick), clock) for tick in ticks]
        found[at] = text
        return found

    with_text(part, "t", cells)
    spoil(part, at, reason, timed=False)


@damage(format="parquet", naming=["stem", "pattern"], clock=["float", "epoch_float"], last=True)
def a_time_is_not_a_number(fleet: Fleet, chance: Random) -> None:
    """NaN or infinity as a time costs its row."""
    part = some_part(fleet, chance)
    at, value, clock = _at(part, chance), chance.choice([np.nan, np.inf, -np.inf]), fleet.clock

    def holed(ticks: np.ndarray) -> pa.Array:
        numbers = time_array(ticks, clock).to_numpy(zero_copy_only=False).copy()
        numbers[at] = value
        return pa.array(numbers)

    with_type(part, "t", holed)
    spoil(part, at, "time", timed=False)


@damage(format="parquet", naming=["stem", "pattern"], clock=NUMBERS, last=True)
def nat_as_a_number(fleet: Fleet, chance: Random) -> None:
    """NaT that was written as int64, the lowest there is, is no time: its row is set aside."""
    _number(fleet, chance, -(2**63))


@damage(format="parquet", naming=["stem", "pattern"], clock=NUMBERS, last=True)
def a_time_at_the_end_of_int64(fleet: Fleet, chance: Random) -> None:
    """A time whose distance to others no int64 holds is out of range: its row is set aside."""
    _number(fleet, chance, chance.choice([2**63 - 1, 2**62 + 5, -(2**62) - 5]))


def _number(fleet: Fleet, chance: Random, value: int) -> None:
    part = some_part(fleet, chance)
    at, clock = _at(part, chance), fleet.clock

    def numbers(ticks: np.ndarray) -> pa.Array:
        found = ticks // clock.tick
        found[at] = value
        return pa.array(found)

    with_type(part, "t", numbers)
    spoil(part, at, "time|range", timed=False)


@damage(format="parquet", clock="timestamp_s", naming=["stem", "pattern"], last=True)
def a_year_that_nanoseconds_do_not_hold(fleet: Fleet, chance: Random) -> None:
    """A timestamp in the year 9999, a common stand-in for 'never', is out of range: its row is set aside."""
    part = some_part(fleet, chance)
    at = _at(part, chance)

    def stamps(ticks: np.ndarray) -> pa.Array:
        found = ticks // 10**9
        found[at] = 253_402_300_799
        return pa.array(found).cast(pa.timestamp("s")).cast(pa.timestamp("ms"))

    with_type(part, "t", stamps)
    spoil(part, at, "range", timed=False)


@damage(format="parquet", clock=["timestamp_s", "timestamp_ms", "timestamp_us"])
def timestamps_of_other_units(fleet: Fleet, chance: Random) -> None:
    """Files that count in milli-, micro- or nanoseconds hold the same times."""
    units = ["timestamp[ms]", "timestamp[us]", "timestamp[ns]"]
    finer = units[1:] if fleet.plan.clock == "timestamp_us" else units
    for part in fleet.parts:
        part.form["clock"] = chance.choice(finer)


@damage(format="parquet", clock=["integer"])
def integers_of_other_sizes(fleet: Fleet, chance: Random) -> None:
    """Files that write the time as int16, int32, uint32 or int64 hold the same times."""
    for part in fleet.parts:
        types = chance.sample([pa.int16(), pa.int32(), pa.uint32(), pa.uint64()], 3)
        with_type(part, "t", lambda ticks, types=types: _first_that_fits(ticks, types))


def _first_that_fits(ticks: np.ndarray, types: list[pa.DataType]) -> pa.Array:
    for type_ in types:
        try:
            return pa.array(ticks).cast(type_)
        except pa.ArrowInvalid:
            continue
    return pa.array(ticks)


@damage(format="parquet", clock="float")
def whole_times_among_floats(fleet: Fleet, chance: Random) -> None:
    """A file whose times are integers, where the others have floats, is read."""
    part = some_part(fleet, chance)
    if len(part) < 3:
        return
    part.time[:] = part.time // 10**9 * 10**9 + np.arange(len(part)) * 10**9
    with_type(part, "t", lambda ticks: pa.array(ticks // 10**9))


@damage(format="parquet", clock=STAMPS)
def other_zones(fleet: Fleet, chance: Random) -> None:
    """Files with times of several zones: one moment is one time."""
    for part in fleet.parts:
        zone = chance.choice(["UTC", "Europe/Berlin", "America/New_York", "+05:30"])
        unit = CLOCKS[fleet.plan.clock].arrow[len("timestamp[") : -1]
        with_type(
            part, "t",
            lambda ticks, zone=zone, unit=unit: time_array(ticks, fleet.clock).cast(pa.timestamp(unit, zone)),
        )  # fmt: skip


@damage(alone=True, format="parquet", clock=STAMPS, naming=["stem", "pattern"])
def naive_among_utc(fleet: Fleet, chance: Random) -> None:
    """One file has times without a zone where the others have UTC: nobody knows which zone, so it is a reject."""
    odd = some_part(fleet, chance)
    unit = CLOCKS[fleet.plan.clock].arrow[len("timestamp[") : -1]
    for part in fleet.parts:
        if part is not odd:
            with_type(part, "t", lambda ticks: time_array(ticks, fleet.clock).cast(pa.timestamp(unit, "UTC")))
    break_file(fleet, odd, "zone")


@damage(format="parquet", clock=["integer", *STAMPS])
def time_of_another_kind(fleet: Fleet, chance: Random) -> None:
    """A file whose time is a float, where the others have something else, is a reject."""
    part = some_part(fleet, chance)
    with_type(part, "t", lambda ticks: pa.array(ticks / 10**9))
    break_file(fleet, part, "column t: is double")


@damage(format="parquet")
def no_statistics_in_footers(fleet: Fleet, chance: Random) -> None:
    """Parquet without statistics: the times are found by reading."""
    for part in fleet.parts:
        part.form["parquet"] = {"write_statistics": chance.choice([False, True])}


@damage(format="parquet", clock=STAMPS)
def int96_timestamps(fleet: Fleet, chance: Random) -> None:
    """Timestamps as Spark and Impala wrote them (INT96) hold the same times."""
    for part in fleet.parts:
        part.form["parquet"] = {"use_deprecated_int96_timestamps": True}


def _copy(part: Part, path: str) -> Part:
    return Part(path, list(part.asset), part.time.copy(), part.values.copy(),
                {k: list(v) for k, v in part.extra.items()}, dict(part.form))  # fmt: skip


def _joined(a: Part, b: Part) -> Part:
    extra = {name: a.extra[name] + b.extra[name] for name in a.extra}
    return Part("", a.asset + b.asset, np.concatenate([a.time, b.time]), np.concatenate([a.values, b.values]), extra)


def _assign(part: Part, whole: Part, rows: object) -> None:
    other = _copy(whole, part.path)
    other.take(rows)
    part.asset, part.time, part.values, part.extra = other.asset, other.time, other.values, other.extra
