"""Files whose columns are times: found by the names of their columns, and looked at as the rows that they become."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.columns import match_features
from beamfeed.contract.config.sources.timeseries import TimeColumn
from beamfeed.contract.errors import UserError
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.numbers import is_name, is_number
from beamfeed.transforms.sources.columns.time_units import TimeUnits
from beamfeed.transforms.sources.readers import TextOptions
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
_FORMATS = (  # of names behind what all of them begin with, with the mark between parts
    (rf"{_YEAR}", "%Y"),
    (rf"{_YEAR}([._-]?){_MONTH}\1\d\d", "%Y{0}%m{0}%d"),
    (rf"{_YEAR}M{_MONTH}", "%YM%m"),
    (rf"{_YEAR}([._]){_MONTH}", "%Y{0}%m"),
    (r"[A-Z][a-z]{2}([-_ .])\d\d", "%b{0}%y"),
)
_TIMES, _VALUES = ("date", "time", "when", "moment"), ("value", "values", "level", "amount")  # what they become


def find_wide(sample: Sample, options: Options) -> tuple[Sample, Options, Time] | None:
    """The sample as if each of its rows was one for each time, and options and time of these rows.

    None where files have no columns that are times, or the user says otherwise.

    Args:
      sample: of the files, as they are.
      options: what the user says.
    """
    if options.kind not in (None, "timeseries") or options.time is not None or options.label not in (None, NO_LABEL):
        return None
    time, value = (next(name for name in names if name not in sample.types) for names in (_TIMES, _VALUES))
    found = _find_times([name for name, type_ in sample.types.items() if is_number(type_)], time, value)
    if found is None or len(found.wide.patterns) < max(_LEAST, _SHARE * len(sample.types)):
        return None
    unused = [name for name in sample.types if name not in found.wide.patterns]
    batches = [batch.select(unused) for batch in sample.batches]
    if options.kind is None and options.asset is None and unused and choose_label(describe(batches), options).label:
        return None
    asset = options.asset or _asset(sample, batches, unused)
    if asset is None:
        return None
    rows, times = _as_rows(sample, asset, found)
    return rows, replace(options, asset=asset, kind="timeseries"), times


class _Found(NamedTuple):
    """Columns that are times: `source.time`, their names as patterns of `wide`, and the times."""

    section: dict[str, str]
    wide: Wide
    times: pa.Array


def _find_times(numbers: Sequence[str], time: str, value: str) -> _Found | None:
    """The columns whose names are times that rise or fall.

    Args:
      numbers: columns of numbers.
      time: the column that their names become.
      value: the column that their values become.
    """
    dates = re.compile(rf"{_YEAR}|\d\D+\d|^[A-Za-z]{{3}}[-_ .]\d\d$")  # one of them is in a name that may be a time
    names = list(filter(dates.search, numbers))
    type_ = name_type(names)
    # Whole numbers are times in a format alone.
    plain: list[dict[str, str]] = [{}] if names and type_ == pa.string() else []
    for format_ in (*plain, *({"format": format_} for format_ in _formats(names))):
        section = {"column": time, **format_}
        try:
            asked = TimeColumn.model_validate(section)
            units = resolve_time(asked, {time: type_}, {}, TextOptions(), {"": names}).units
            wide = Wide(tuple(names), (), time, value, type_, units)
            times = wide.times_of("", names)
        except (UserError, BadInput):
            continue
        steps = np.diff(_ticks(times))
        if (steps > 0).all() or (steps < 0).all():
            return _Found(section, wide, times)
    return None


def _ticks(times: pa.Array) -> np.ndarray:
    return times.cast(pa.int64()).to_numpy()


def _formats(names: Sequence[str]) -> list[str]:
    """How names may be written: as years, months or days, behind what all of them begin with."""
    if not names:
        return []
    head = re.split(r"\d", names[0])[0]
    head = head if all(name.startswith(head) for name in names) else ""
    formats = []
    for pattern, format_ in _FORMATS:
        first, *others = (re.fullmatch(pattern, name[len(head) :]) for name in names)
        if first is not None and all(others):
            formats.append(head.replace("%", "%%") + format_.format(*first.groups()))
    return formats


def _asset(sample: Sample, batches: Sequence[pa.RecordBatch], unused: Sequence[str]) -> str | None:
    """The column that names whose series a row is: of text, and of as many values as there are rows, if one is."""
    rows = sum(map(len, batches))
    shares: dict[str, float] = {}
    for name in unused:
        column = pa.chunked_array([batch.column(name).cast(pa.string()) for batch in batches])
        if is_name(sample.types[name]) and column.null_count == 0:
            shares[name] = pc.count_distinct(column).as_py() / max(1, rows)
    texts = {name for name in shares if pa.types.is_string(sample.types[name])}
    named = {name for name in shares if {"id", "code", "key"} & {*tokens(name)}}
    order = sorted(shares, key=lambda name: (-shares[name], name not in texts, name in named))
    return order[0] if order and shares[order[0]] >= _DIFFERENT else None


def _as_rows(sample: Sample, asset: str, found: _Found) -> tuple[Sample, Time]:
    """The sample with a row for each time, and the times."""
    section, wide, times = found
    names, time, value = wide.patterns, section["column"], wide.value
    patterns = _globs(names, [name for look in sample.looks.values() for name in look.schema.names])
    step = max(1, _ROWS // len(names))
    tables = []
    empty = {name for name in names if pa.types.is_null(sample.types[name])}  # which texts read as ''
    for part in sample.tables:
        series = part.batch.slice(0, step)
        for name in empty:
            series = series.set_column(series.schema.get_field_index(name), name, pa.nulls(len(series)))
        batch = melt(series, names, [asset, time, value], wide, times)
        is_whole = part.whole and part.batch.num_rows <= step
        tables.append(SampledFile(part.path, batch, is_whole, part.rows * len(names), part.counted))
    ticks = tuple(_ticks(sampled.batch.column(time)) for sampled in tables)
    valid = tuple(np.ones(len(part), bool) for part in ticks)
    units = TimeUnits("timestamp", aware=False)
    column_of_times = Time(dict(section), "what the names of these columns become", units, ticks, valid, True)
    rest = [name for name in sample.types if name not in names and name != asset]
    text = f"Names of {len(names):,} columns are times, such as {names[0]}; a row holds a whole series."
    text += f" Left out: {', '.join(rest)}." if rest else ""
    if any(len(sampled.batch) > len(pc.unique(sampled.batch[asset])) * len(names) for sampled in tables):
        text += f" CHECK THIS: several rows have one {asset}, and of each time the first one counts."
    types = {asset: sample.types[asset], time: pa.timestamp("ns"), value: pa.float32()}
    rows_of_times = sample.rows * len(names)
    sample = replace(sample, tables=tuple(tables), types=types, rows=rows_of_times, wide=(tuple(patterns), text))
    return sample, column_of_times


def _globs(names: Sequence[str], every: Sequence[str]) -> list[str]:
    """Globs that take these of all names and no others; the names themselves where none do."""
    shape = dict.fromkeys(_DIGITS.sub("*", name) for name in names)
    heads = dict.fromkeys(f"{name[:2]}*" for name in names)
    for globs in (list(shape), list(heads)):
        if len(globs) < 5 and "*" not in globs and {*match_features(globs, every, ())} == {*names}:
            return globs
    return list(names)
