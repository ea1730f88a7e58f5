"""Finds out from a few files which columns a job reads, and how the files are written."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from beamfeed.contract.config.columns import match_features, resolve_ranges
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.prepare import STEPS
from beamfeed.contract.config.sources.timeseries import TimeseriesSource
from beamfeed.contract.errors import UserError, near_miss
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.labels import resolve_labels
from beamfeed.transforms.sources.columns.numbers import is_number
from beamfeed.transforms.sources.columns.sample import (
    check_once,
    column_types,
    described,
    look_at_sample,
    most_common,
    read_with,
)
from beamfeed.transforms.sources.columns.time_units import TimeUnits
from beamfeed.transforms.sources.readers import Look, TextOptions
from beamfeed.transforms.sources.readers.text import find_bad_number
from beamfeed.transforms.sources.timeseries.assets import path_columns
from beamfeed.transforms.sources.timeseries.own_steps import try_steps
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema, Wide, name_type
from beamfeed.transforms.sources.timeseries.times import Times, resolve_time


def resolve_schema(job: Job, files: Sequence[FileStat]) -> SeriesSchema:
    """Resolves feature globs, the type of the time column and how texts are written from a sample of the files.

    A glob takes the columns that more than half of the sampled files have, so
    that a broken file cannot change what the dataset holds; with `missing_columns:
    missing`, those of any. A feature that is named in full may be in one of them.

    Raises:
      UserError: if no feature or no time column is found, no file can be read, or one can be read in two ways.
    """
    source, split = job.source, job.split
    assert isinstance(source, TimeseriesSource)
    of_path = path_columns(files[0].path, source.asset)
    asset_column = None if source.asset.column in of_path else source.asset.column
    split_column = split.column if split.by == "column" and split.column not in of_path else None
    keys = {
        **(dict.fromkeys(source.time.columns, "source.time.column") if source.reshape is None else {}),
        **({asset_column: "source.asset.column"} if asset_column else {}),
        **({split_column: "split.column"} if split_column else {}),
    }
    stored = source.features if source.reshape is None else source.reshape.patterns
    named = [name for name in stored if not any(c in name for c in "*?")]
    labelled = {label.column: label for label in job.label if label.column}
    columns = tuple(dict.fromkeys([*keys, *named, *labelled]))
    classes = [name for name, label in labelled.items() if label.classes is not None]
    texts = tuple(name for name in (asset_column, split_column, *classes) if name)
    numbers = (*source.time.columns, *named, *(name for name in labelled if name not in classes))
    options = TextOptions(source.csv, columns, tuple(stored), texts=texts, lenient=True, number_columns=numbers)
    looks, text = look_at_sample(files, options)
    rare = source.features if source.missing_columns == "missing" else named
    stored_types = column_types(
        [look.schema for look in looks.values()], lambda name: bool(match_features(rare, [name], ()))
    )
    types = {name: most_common(types_) for name, types_ in stored_types.items()}
    has = f"{', '.join(types)}{read_with(looks)}"
    for name, key in keys.items():
        if name not in types:
            raise UserError(
                f"{key}: {name!r} is not a column of the files{near_miss(name, list(types))} (they have: {has})"
            )
    wide = None
    if source.reshape is None:
        time = resolve_time(source.time, types, looks, text)
    else:
        wide, time = resolve_wide(source, looks, [*keys, *labelled], text)
        stored_types = {
            name: types_
            for name, types_ in stored_types.items()
            if not match_features(wide.patterns, [name], wide.never)
        }
        stored_types[wide.value] = [pa.float32()]
        types = {name: most_common(types_) for name, types_ in stored_types.items()}
    remarks = [f"source.csv: {line}" for line in described(looks)] + list(time.remarks)
    files_schema = SeriesSchema(
        time=source.time.columns[0] if source.time.columns else None,
        time_type=time.type,
        time_units=time.units,
        features=(),
        asset=asset_column,
        split=split_column,
        more_times=source.time.columns[1:],
        lacking=source.missing_columns == "missing",
        text=text,
        wide=wide,
    )
    if job.prepare.steps:
        files_schema, stored_types = try_steps(job, files_schema, types, stored_types, list(looks))
        types = {name: most_common(types_) for name, types_ in stored_types.items()}
        has = f"{', '.join(types)}, as {STEPS} gives them"
    labels = resolve_labels(job.label, stored_types)
    for label in labels:
        if label.column in keys and keys[label.column] != "source.time.column":
            raise UserError(f"label.column: {label.column!r} is also {keys[label.column]}; it cannot be both")
    never = [*keys, *(label.column for label in labels)]
    features = resolve_features(source.features, types, never, has, lambda name: _example(looks, name, text))
    check_once(looks, [*keys, *features, *(label.column for label in labels)])
    return replace(
        files_schema,
        features=tuple(features),
        booleans=frozenset(name for name in features if pa.types.is_boolean(types[name])),
        labels=labels,
        ranges=resolve_ranges(job.prepare.range, features),
        remarks=tuple(remarks),
    )


def resolve_wide(
    source: TimeseriesSource, looks: Mapping[str, Look], never: Sequence[str], text: TextOptions
) -> tuple[Wide, Times]:
    """Which columns of the files are times, by their names, and what the rows then have for a time.

    No glob takes those of `never`.

    Raises:
      UserError: if there are none, or their names are no times.
    """
    assert source.reshape is not None
    if not never or never[0] != source.asset.column:
        raise UserError(
            f"source.asset.column: {source.asset.column!r} comes from the paths; with reshape.wide it must "
            "be a column that names each row's asset"
        )
    patterns, (value,) = source.reshape.patterns, source.features
    every = {path: match_features(patterns, look.schema.names, never) for path, look in looks.items()}
    written = {path: names for path, names in every.items() if names}
    columns = dict.fromkeys(name for look in looks.values() for name in look.schema.names)
    if not written:
        patterns_text = " and ".join(map(repr, patterns))
        raise UserError(
            f"source.reshape.wide: no column matches {patterns_text} (the files have: {', '.join(columns)})"
        )
    for key, listed in (("source.time.column", source.time.columns), ("source.features", (value,))):
        if clashes := [name for name in listed if name in columns]:
            raise UserError(f"{key}: {clashes[0]!r} is a column of the files; with reshape it is a name for a new one")
    type_ = name_type([name for names in written.values() for name in names])
    time = resolve_time(source.time, dict.fromkeys(source.time.columns, type_), looks, text, written)
    wide = Wide(patterns, tuple(never), next(iter(source.time.columns), None), value, type_, time.units)
    wrong = []
    for path, names in written.items():
        try:
            wide.times_of(path, names)
        except BadInput as bad:  # of one file, which is set aside later on
            wrong.append(bad)
    if len(wrong) == len(written):
        raise UserError(f"source.reshape.wide: {wrong[0].place}: {wrong[0].reason}")
    if time.units.kind == "timestamp":  # names are made times once, in UTC; cuts are in the zone, too
        zone = time.units.zone
        units = TimeUnits("timestamp", zone=zone, aware=None if zone else False)
        time = replace(time, type=pa.timestamp("ns", "UTC" if zone else None), units=units)
    return wide, time


def resolve_features(
    patterns: Sequence[str], types: Mapping[str, pa.DataType], never: Sequence[str], has: str, example: Any
) -> list[str]:
    """The columns that `source.features` asks for.

    Args:
      patterns: names and globs.
      types: of the files' columns.
      never: columns that a glob does not take.
      has: the columns of the files, for messages.
      example: of a column of text, gives such as a value.

    Raises:
      UserError: if one asks for nothing, or for what is no number.
    """
    numeric = [name for name in types if is_number(types[name])]
    for pattern in patterns:
        if not match_features([pattern], list(types), never):
            near = near_miss(pattern, list(types))
            raise UserError(f"source.features: no column matches {pattern!r}{near} (the files have: {has})")
        if pattern in types and pattern not in numeric:
            raise UserError(
                f"source.features: column {pattern!r} is {types[pattern]}{example(pattern)}, a number is needed"
            )
        if not match_features([pattern], numeric, never):
            raise UserError(f"source.features: {pattern!r} matches no column of numbers")
    return match_features(patterns, numeric, never)


def _example(looks: Mapping[str, Look], name: str, text: TextOptions) -> str:
    """Where a column of text has its first value that is no number, such as ` (line 7 of a.csv: 'x' is ...)`."""
    for path, look in looks.items():
        if look.dialect is not None and look.schema.names.count(name) == 1:
            bad = find_bad_number(path, name, text)
            if bad is not None:
                return f" (line {bad.line} of {path}: {bad.reason})"
    return ""
