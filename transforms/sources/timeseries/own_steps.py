"""Which columns of the files the user's own steps get, and which they must give."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.columns import match_features
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.prepare import STEPS
from beamfeed.contract.config.sources.timeseries import TimeseriesSource
from beamfeed.contract.errors import UserError, near_miss
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.numbers import is_number
from beamfeed.transforms.sources.own_steps import OwnSteps
from beamfeed.transforms.sources.readers import BAD
from beamfeed.transforms.sources.timeseries.schema import Inputs, SeriesSchema
from beamfeed.transforms.sources.timeseries.wide import iter_rows

TRIED = 1000  # rows

Types = Mapping[str, Sequence[pa.DataType]]


def try_steps(
    job: Job, schema: SeriesSchema, types: Mapping[str, pa.DataType], types_seen: Types, paths: Sequence[str]
) -> tuple[SeriesSchema, dict[str, list[pa.DataType]]]:
    """Runs the steps on the first rows of a file, to see what columns they give.

    Args:
      job: with `prepare.steps`.
      schema: of the files; without features.
      types: of the files' columns.
      types_seen: their types in each of some files.
      paths: of these files.

    Returns:
      the schema with the columns that steps get, and `types_seen` with those that they give.

    Raises:
      UserError: if a step fails, or no file has rows to try it on.
    """
    steps = OwnSteps(tuple(job.prepare.steps), tuple(schema.keys))
    inputs = Inputs(steps, resolve_inputs(job, types, schema.keys))
    schema = replace(schema, inputs=inputs)
    for path in paths:
        try:
            for _, row, batch in iter_rows(path, schema, [*schema.names, BAD]):
                batch = batch.filter(batch.column(BAD).is_null()).select(schema.names)
                if batch.num_rows:
                    rows, place = _of_one_asset(batch, schema).slice(0, TRIED), f"of {path}"
                    if rows.num_rows == min(TRIED, batch.num_rows):
                        place = f"rows {row:,} to {row + rows.num_rows - 1:,} {place}"
                    else:
                        place = f"{rows.num_rows:,} rows of an asset from row {row:,} on {place}"
                    rows = inputs.fitted(rows)
                    result = steps.try_out(rows, place)
                    inputs_schema = pa.schema(list(zip(rows.schema.names, rows.schema.types, strict=True)))
                    return schema, _types_after(result, inputs_schema, types_seen)
        except BadInput:  # set aside later on, with a reason
            continue
    raise UserError(f"{STEPS}: none of the {len(paths)} files that were looked at has rows to try them on")


def _of_one_asset(batch: pa.RecordBatch, schema: SeriesSchema) -> pa.RecordBatch:
    """The rows of the asset that the first row is of: a step never gets others with them."""
    if schema.asset is None:
        return batch
    names = batch.column(schema.asset)
    first = names[0]
    return batch.filter(pc.equal(names, first) if first.is_valid else pc.is_null(names))


def resolve_inputs(
    job: Job, types: Mapping[str, pa.DataType], keys: Sequence[str]
) -> tuple[tuple[str, pa.DataType], ...]:
    """The columns that steps get, with their types: those that the job names, where the files have them, and more.

    Raises:
      UserError: if `prepare.step_columns` names none of the files.
    """
    source = job.source
    assert isinstance(source, TimeseriesSource)
    numbers = [name for name in types if is_number(types[name])]
    for pattern in job.prepare.step_columns:
        if not match_features([pattern], list(types), ()):
            near = near_miss(pattern, list(types))
            raise UserError(
                f"prepare.step_columns: no column matches {pattern!r}{near} (the files have: {', '.join(types)})"
            )
    features = match_features(source.features, numbers, keys)
    named = [name for name in source.features if name in types]
    labels = [label.column for label in job.label if label.column in types]
    more = match_features(job.prepare.step_columns, list(types), keys)
    return tuple((name, types[name]) for name in dict.fromkeys([*features, *named, *labels, *more]) if name is not None)


def _types_after(after: pa.Schema, before: pa.Schema, types: Types) -> dict[str, list[pa.DataType]]:
    """Types of what steps give: of a column that they passed on, as the files have it."""
    result, given_names = {}, frozenset(before.names)
    for name, type_ in zip(after.names, after.types, strict=True):
        passed = name in types and name in given_names and before.field(name).type.equals(type_)
        result[name] = list(types[name]) if passed else [type_]
    return result


def made_by_steps(batch: pa.RecordBatch, schema: SeriesSchema, place: str) -> pa.RecordBatch:
    """The rows as the steps give them.

    Raises:
      UserError: if a step fails, or does not give a column that the job needs.
    """
    assert schema.inputs is not None
    steps = schema.inputs.steps
    result = steps.apply(schema.inputs.fitted(batch), place)
    last = f"{STEPS}: {steps.paths[-1]}"
    names = frozenset(result.schema.names)
    for name in (*schema.features, *(label.column for label in schema.labels)):
        if name not in names:
            raise UserError(f"{last} gives no column {name!r} on {place} (it gives: {', '.join(result.schema.names)})")
    for name in schema.features:
        if not is_number(type_ := result.schema.field(name).type):
            raise UserError(f"{last} gives {name!r} as {type_} on {place}, a number is needed")
    return result
