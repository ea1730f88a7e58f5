"""Finds out from a few files what all of them should hold, before any work starts."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from beamfeed.contract.config.job import Job
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage.files import FileStat
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers import read_schema
from beamfeed.transforms.sources.timeseries.assets import path_columns
from beamfeed.transforms.sources.timeseries.schema import Columns, is_number, match_features
from beamfeed.transforms.sources.timeseries.time_units import Clock

SAMPLE = 32  # files, spread evenly over the listing


def resolve_columns(job: Job, files: Sequence[FileStat]) -> Columns:
    """Resolves feature globs and the type of the time column from a sample of the files.

    A glob takes the columns that more than half of the sampled files have, so
    that a broken file cannot change what the data set holds.

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
    split_column = split.column if split.by == "column" else None
    if split_column and split_column in path_columns(files[0].path, source.asset):
        split_column = None  # a named group of the path
    types = {
        name: _most_common(schema.field(name).type for schema in schemas if name in schema.names)
        for name in _common_names(schemas)
    }
    for key, name in (
        ("source.time.column", source.time.column),
        ("source.asset.column", source.asset.column),
        ("split.column", split_column),
    ):
        if name is not None and name not in types:
            raise UserError(f"{key}: {name!r} is not a column of the files (they have: {', '.join(types)})")
    time_type = types[source.time.column]
    clock = Clock.of(time_type, source.time.unit)
    if clock is None:
        raise UserError(
            f"source.time.column: {source.time.column!r} is {time_type}, it must be timestamp, integer or float"
        )
    never = [name for name in (source.time.column, source.asset.column, split_column) if name]
    numeric = [name for name in types if is_number(types[name])]
    for pattern in source.features:
        if not match_features([pattern], list(types), never):
            raise UserError(f"source.features: no column matches {pattern!r} (the files have: {', '.join(types)})")
        if pattern in types and pattern not in numeric:
            raise UserError(f"source.features: column {pattern!r} is {types[pattern]}, a number is needed")
        if not match_features([pattern], numeric, never):
            raise UserError(f"source.features: {pattern!r} matches no column of numbers")
    features = match_features(source.features, numeric, never)
    return Columns(
        time=source.time.column,
        time_type=time_type,
        clock=clock,
        features=tuple(features),
        asset=source.asset.column,
        split=split_column,
        booleans=frozenset(name for name in features if pa.types.is_boolean(types[name])),
    )


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
