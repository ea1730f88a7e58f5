"""Which columns of the files a job reads, found out from a few files."""

import fnmatch
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.section import near_miss
from beamfeed.contract.config.sources.timeseries import TimeseriesSource
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers import read_schema, require_columns
from beamfeed.transforms.sources.timeseries.assets import path_columns
from beamfeed.transforms.sources.timeseries.columns import is_number
from beamfeed.transforms.sources.timeseries.label_columns import LabelColumn, resolve_labels
from beamfeed.transforms.sources.timeseries.time_units import TimeUnits

SAMPLE = 32  # files, spread evenly over the listing


@dataclass(frozen=True)
class SeriesSchema:
    """The columns that every file of the job must hold."""

    time: str
    time_type: pa.DataType  # as the sampled files have it; CSV is parsed with it
    time_units: TimeUnits
    features: tuple[str, ...]
    asset: str | None  # with asset: {column: ...}
    split: str | None  # with split: {by: column} where the files hold the column
    booleans: frozenset[str] = frozenset()  # features that a CSV writes as true and false
    labels: tuple[LabelColumn, ...] = ()
    ranges: tuple[tuple[int, float, float], ...] = ()  # of features, by their place: the lowest and highest value

    @property
    def names(self) -> list[str]:
        """All of them, each once, in the order they are read."""
        keys = [self.time, *(name for name in (self.asset, self.split) if name)]
        return list(dict.fromkeys([*keys, *self.features, *(label.column for label in self.labels)]))

    @property
    def csv_types(self) -> dict[str, pa.DataType]:
        """The types that the columns of a CSV are parsed as."""
        types = {self.time: self.time_type}
        types.update({name: pa.string() for name in (self.asset, self.split) if name})
        classes = {label.column: label.type for label in self.labels if label.classes is not None}
        features = {name: pa.bool_() if name in self.booleans else pa.float32() for name in self.features}
        numbers = {label.column: label.type for label in self.labels}
        return {**numbers, **features, **classes, **types}  # what names something must not be rounded

    def check(self, path: str, schema: pa.Schema) -> None:
        """Raises BadInput if a column is missing or of the wrong type."""
        require_columns(path, self.names, schema.names)
        type_ = schema.field(self.time).type
        if not self.time_units.reads(type_):
            raise BadInput(
                path, f"column {self.time}", f"is {type_}, the other files have {self.time_type} for the time"
            )
        for name in self.features:
            if not is_number(schema.field(name).type):
                raise BadInput(path, f"column {name}", f"is {schema.field(name).type}, a number is needed")
        for label in self.labels:
            if fault := label.fault(schema.field(label.column).type):
                raise BadInput(path, f"column {label.column}", fault)


def match_features(patterns: Sequence[str], names: Sequence[str], never: Sequence[str]) -> list[str]:
    """The columns that names and globs ask for: in the order of the patterns, then of the files.

    A glob never takes one of `never` (the time, the asset and the labels), a name may.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if pattern in names:  # also where it looks like a glob, as `Temp [C]` does
            found[pattern] = None
        elif any(c in pattern for c in "*?["):
            found.update(dict.fromkeys(n for n in names if fnmatch.fnmatchcase(n, pattern) and n not in never))
    return list(found)


def resolve_schema(job: Job, files: Sequence[FileStat]) -> SeriesSchema:
    """Resolves feature globs and the type of the time column from a sample of the files.

    A glob takes the columns that more than half of the sampled files have, so
    that a broken file cannot change what the dataset holds.

    Raises:
      UserError: if no feature or no time column is found, or no file can be read.
    """
    step = max(1, len(files) // SAMPLE)
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda stat: _schema_or_reason(stat.path), files[::step][:SAMPLE]))
    schemas = [schema for schema in read if isinstance(schema, pa.Schema)]
    if not schemas:
        raise UserError(f"source.files: none of the sampled files can be read, such as {read[0]}")
    source, split = job.source, job.split
    assert isinstance(source, TimeseriesSource)
    of_path = path_columns(files[0].path, source.asset)
    asset_column = None if source.asset.column in of_path else source.asset.column
    split_column = split.column if split.by == "column" and split.column not in of_path else None
    seen = {
        name: [schema.field(name).type for schema in schemas if name in schema.names] for name in _common_names(schemas)
    }
    types = {name: _most_common(found) for name, found in seen.items()}
    for key, name in (
        ("source.time.column", source.time.column),
        ("source.asset.column", asset_column),
        ("split.column", split_column),
    ):
        if name is not None and name not in types:
            raise UserError(f"{key}: {name!r} is not a column of the files (they have: {', '.join(types)})")
    time_type = types[source.time.column]
    time_units = TimeUnits.of(time_type, source.time.unit)
    if time_units is None:
        raise UserError(
            f"source.time.column: {source.time.column!r} is {time_type}, it must be timestamp, integer or float"
        )
    labels = resolve_labels(job.label, seen)
    for label in labels:
        for key, name in (("source.asset.column", asset_column), ("split.column", split_column)):
            if label.column == name:
                raise UserError(f"label.column: {name!r} is also {key}; it cannot be both")
    never = [name for name in (source.time.column, asset_column, split_column) if name]
    never += [label.column for label in labels]
    numeric = [name for name in types if is_number(types[name])]
    for pattern in source.features:
        if not match_features([pattern], list(types), never):
            raise UserError(f"source.features: no column matches {pattern!r} (the files have: {', '.join(types)})")
        if pattern in types and pattern not in numeric:
            raise UserError(f"source.features: column {pattern!r} is {types[pattern]}, a number is needed")
        if not match_features([pattern], numeric, never):
            raise UserError(f"source.features: {pattern!r} matches no column of numbers")
    features = match_features(source.features, numeric, never)
    return SeriesSchema(
        time=source.time.column,
        time_type=time_type,
        time_units=time_units,
        features=tuple(features),
        asset=asset_column,
        split=split_column,
        booleans=frozenset(name for name in features if pa.types.is_boolean(types[name])),
        labels=labels,
        ranges=resolve_ranges(job.prepare.range, features),
    )


def resolve_ranges(
    ranges: Mapping[str, tuple[float | None, float | None]], features: Sequence[str]
) -> tuple[tuple[int, float, float], ...]:
    """The place, the lowest and the highest value of the features that `prepare.range` names; the last pattern holds.

    Raises:
      UserError: if a pattern names no feature.
    """
    found: dict[int, tuple[float, float]] = {}
    for pattern, (low, high) in ranges.items():
        matched = match_features([pattern], features, ())
        if not matched:
            hint = near_miss(pattern, features)
            raise UserError(f"prepare.range: {pattern!r} is none of the features{hint} ({', '.join(features[:20])})")
        for name in matched:
            found[features.index(name)] = -np.inf if low is None else low, np.inf if high is None else high
    return tuple((place, *found[place]) for place in sorted(found))


def _schema_or_reason(path: str) -> pa.Schema | str:
    try:
        return read_schema(path)
    except BadInput as bad:
        return f"{bad.file}: {bad.reason}"


def _common_names(schemas: Sequence[pa.Schema]) -> list[str]:
    """Columns that more than half of the schemas have, in the order of the first that has them."""
    counts = Counter(name for schema in schemas for name in schema.names)
    return [name for name in counts if 2 * counts[name] > len(schemas)]


def _most_common(values: Any) -> Any:
    return Counter(values).most_common(1)[0][0]
