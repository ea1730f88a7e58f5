"""Files whose columns are times: found by the names of their columns, and looked at as the rows that they become."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.columns import match_features
from beamfeed.contract.config.sources.timeseries import TimeColumn
from beamfeed.contract.errors import UserError
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.numbers import is_name, is_number
from beamfeed.transforms.sources.columns.time_units import TimeUnits
from beamfeed.transforms.sources.timeseries.schema import Wide, name_type
from beamfeed.transforms.sources.timeseries.times import resolve_time
from beamfeed.transforms.sources.timeseries.wide import melt
from beamfeed.transforms.suggest.columns import describe, tokens
from beamfeed.transforms.suggest.label import choose_label
from beamfeed.transforms.suggest.look import SampledFile
from beamfeed.transforms.suggest.options import NO_LABEL, Options
from beamfeed.transforms.suggest.sample import Sample
from beamfeed.transforms.suggest.times import Time

_LEAST = 8  # columns that are times; of fewer a table may tell facts of some years
_SHARE = 0.7  # of all columns, that are times
_ROWS = 200_000  # of a file, about, that are looked at
_DIFFERENT = 0.5  # of the rows, whose asset no other row has
_DIGITS = re.compile(r"\d+")
_YEAR, _MONTH = r"(?:1[89]|2[01])\d\d", r"(?:0?[1-9]|1[0-2])"
_FORMATS = (  # of names behind what all of them begin with
    (re.compile(_YEAR), "%Y"),
    (re.compile(rf"{_YEAR}[._-]?{_MONTH}[._-]?\d\d"), ""),
    (re.compile(rf"{_YEAR}M{_MONTH}"), "%YM%m"),
    (re.compile(rf"{_YEAR}[._]{_MONTH}"), ""),
    (re.compile(r"[A-Z][a-z]{2}[-_ .]\d\d"), ""),
)
_TIMES, _VALUES = ("date", "time", "when", "moment"), ("value", "values", "level", "amount")  # what they become


@dataclass(frozen=True)
class WideSample:
    """Files whose columns are times.

    Attributes:
      sample: as if each row was one for each time.
      options: of these rows.
      times: of them.
    """

    sample: Sample
    options: Options
    times: tuple[Time, ...]


def find_wide(sample: Sample, options: Options) -> WideSample | None:
    """What rows files hold whose columns are times; None where they are not, or the user says otherwise.

    Args:
      sample: of the files, as they are.
      options: what the user says.
    """
    if options.kind not in (None, "timeseries") or options.time is not None or options.label not in (None, NO_LABEL):
        return None
    numbers = [name for name, type_ in sample.types.items() if is_number(type_)]
    times = _times(numbers)
    if times is None or len(times[0]) < max(_LEAST, _SHARE * len(sample.types)):
        return None
    names, section = times
    unused = [name for name in sample.types if name not in names]
    tables = [sampled.table.select(unused) for sampled in sample.tables]
    if options.kind is None and options.asset is None and unused and choose_label(describe(tables), options).label:
        return None
    asset = options.asset or _asset(sample, tables, unused)
    if asset is None:
        return None
    time, value = (next(name for name in candidates if name not in sample.types) for candidates in (_TIMES, _VALUES))
    section = {"column": time, **section}
    return _as_rows(sample, replace(options, asset=asset, kind="timeseries"), names, section, value)


def _times(numbers: Sequence[str]) -> tuple[list[str], dict[str, str]] | None:
    """The columns whose names are times that rise or fall, and what `source.time` says of them beside its column."""
    dated = [name for name in numbers if len(_DIGITS.findall(name)) > 1 or re.search(_YEAR, name)]
    dated += [name for name in numbers if name not in dated and re.fullmatch(r"[A-Za-z]{3}[-_ .]\d\d", name)]
    names = [name for name in numbers if name in dated]
    for section in ({}, *({"format": format_} for format_ in _formats(names))):
        try:
            ticks = _ticks(names, section)
        except (UserError, BadInput):
            continue
        if (np.diff(ticks) > 0).all() or (np.diff(ticks) < 0).all():
            return names, section
    return None


def _formats(names: Sequence[str]) -> list[str]:
    """How names may be written: as years, months or days, behind what all of them begin with."""
    if not names:
        return []
    begins = re.match(r"\D*", names[0])
    head = begins[0] if begins else ""
    head = head if all(name.startswith(head) for name in names) else ""
    escaped, first = head.replace("%", "%%"), names[0][len(head) :]
    formats = []
    for pattern, format_ in _FORMATS:
        if all(pattern.fullmatch(name[len(head) :]) for name in names):
            formats.append(escaped + (format_ or _format_of(first)))
    return formats


def _format_of(text: str) -> str:
    """The format of a date such as 2019.07.31, 2019_07, 20190731 or Jul-19."""
    if text[0].isalpha():
        return f"%b{text[3]}%y"
    marks = re.findall(r"[._-]", text)
    parts = ["%Y", "%m", "%d"] if len(marks) == 2 or (not marks and len(text) > 6) else ["%Y", "%m"]
    return (marks[0] if marks else "").join(parts)


def _ticks(names: Sequence[str], section: Mapping[str, str]) -> np.ndarray:
    """int64 [n] the times that names are.

    Raises:
      UserError or BadInput: if they are none.
    """
    if not names:
        raise UserError("no column has a time for a name")
    time = TimeColumn.model_validate({"column": "t", **section})
    type_ = name_type(names)
    if not section and type_ != pa.string():
        raise UserError("whole numbers are times in a format alone")
    units = resolve_time(time, {"t": type_}, {}, None, {"": list(names)}).units  # type: ignore[arg-type]
    times = Wide(tuple(names), (), "t", "", type_, units).times_of("", names)
    assert times is not None
    return times.cast(pa.int64()).to_numpy()


def _asset(sample: Sample, tables: Sequence[pa.Table], unused: Sequence[str]) -> str | None:
    """The column that names whose series a row is: of text, and of as many values as there are rows, if one is."""
    rows = sum(map(len, tables))
    shares: dict[str, float] = {}
    for name in unused:
        column = pa.chunked_array([table.column(name).combine_chunks().cast(pa.string()) for table in tables])
        if is_name(sample.types[name]) and column.null_count == 0:
            shares[name] = pc.count_distinct(column).as_py() / max(1, rows)
    texts = {name for name in shares if pa.types.is_string(sample.types[name])}
    named = {name for name in shares if {"id", "code", "key"} & {*tokens(name)}}
    order = sorted(shares, key=lambda name: (-shares[name], name not in texts, name in named))
    return order[0] if order and shares[order[0]] >= _DIFFERENT else None


def _as_rows(
    sample: Sample, options: Options, names: Sequence[str], section: Mapping[str, str], value: str
) -> WideSample:  # fmt: skip
    """The sample with a row for each time."""
    assert options.asset is not None
    patterns = _globs(names, [name for look in sample.looks.values() for name in look.schema.names])
    time, type_ = section["column"], name_type(names)
    units = resolve_time(
        TimeColumn.model_validate(section), {time: type_}, sample.looks, sample.text, {"": list(names)}
    ).units
    wide = Wide(tuple(patterns), (), time, value, type_, units)
    times = wide.times_of("", names)
    step = max(1, _ROWS // len(names))
    tables = []
    for part in sample.tables:
        rows = part.table.slice(0, step).combine_chunks().to_batches() or [part.table.to_batches()[0]]
        melted = melt(rows[0], names, [options.asset, time, value], wide, times)
        is_whole = part.whole and part.table.num_rows <= step
        tables.append(
            SampledFile(part.path, pa.Table.from_batches([melted]), is_whole, part.rows * len(names), part.counted)
        )  # fmt: skip
    ticks = tuple(sampled.table.column(time).combine_chunks().cast(pa.int64()).to_numpy() for sampled in tables)
    counted = f"names of {len(names):,} columns are times, such as {names[0]}; a row holds a whole series"
    column_of_times = Time(
        dict(section), "what the names of these columns become", TimeUnits("timestamp", aware=False), ticks,
        tuple(np.ones(len(sampled), bool) for sampled in ticks), True,
    )  # fmt: skip
    rest = [name for name in sample.types if name not in names and name != options.asset]
    text = f"{counted[:1].upper()}{counted[1:]}." + (f" Left out: {', '.join(rest)}." if rest else "")
    if sum(len(sampled.table) for sampled in tables) > sum(
        len(pc.unique(sampled.table[options.asset])) for sampled in tables
    ) * len(names):
        text += f" CHECK THIS: several rows have one {options.asset}, and of each time the first one counts."
    types = {options.asset: sample.types[options.asset], time: pa.timestamp("ns"), value: pa.float32()}
    rows_of = {path: count * len(names) for path, count in sample.rows.items()}
    sample = replace(sample, tables=tuple(tables), types=types, rows=rows_of, wide=(tuple(patterns), text))
    return WideSample(sample, options, (column_of_times,))


def _globs(names: Sequence[str], every: Sequence[str]) -> list[str]:
    """Globs that take these of all names and no others; the names themselves where none do."""
    shape = dict.fromkeys(_DIGITS.sub("*", name) for name in names)
    heads = dict.fromkeys(f"{name[:2]}*" for name in names)
    for globs in (list(shape), list(heads)):
        if len(globs) < 5 and "*" not in globs and {*match_features(globs, every, ())} == {*names}:
            return globs
    return list(names)
