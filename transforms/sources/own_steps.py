"""The user's own steps of `prepare.steps`: from an Arrow table to an Arrow table, a batch of rows at a time."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.prepare import STEPS
from beamfeed.contract.errors import UserError
from beamfeed.contract.own_code import import_own, told

Step = Callable[[pa.Table], Any]
_MACHINE = (MemoryError, ConnectionError, TimeoutError)  # no mistakes of who wrote a step


@dataclass(frozen=True)
class OwnSteps:
    """Steps that rows pass one after the other. It goes to the workers by the names alone.

    Attributes:
      paths: `module:name` of each.
      keys: columns that say which row one is, and stay as they are.
    """

    paths: tuple[str, ...]
    keys: tuple[str, ...]

    def __reduce__(self) -> Any:  # what was imported stays behind
        return OwnSteps, (self.paths, self.keys)

    @cached_property
    def _steps(self) -> list[tuple[str, Step]]:
        return [(path, make_step(path)) for path in self.paths]

    def apply(self, batch: pa.RecordBatch, where: str) -> pa.RecordBatch:
        """The rows as the last step gives them.

        Args:
          batch: of one asset.
          where: it is from, for messages.

        Raises:
          UserError: if a step fails, or gives what is no table of the same rows.
        """
        if not batch.num_rows:
            return batch
        table = pa.Table.from_batches([batch])
        for path, step in self._steps:
            try:
                found = step(table)
            except (UserError, *_MACHINE):
                raise
            except (Exception, SystemExit) as error:
                given = ", ".join(table.schema.names)
                hint = f"; it gets the columns {given}, and more of prepare.step_columns" * isinstance(error, KeyError)
                raise UserError(f"{STEPS}: {path} fails on {where}: {told(error)}{hint}") from error
            table = _checked(found, table, self.keys, f"{STEPS}: {path}", where)
        columns = [column.combine_chunks() for column in table.columns]
        return pa.RecordBatch.from_arrays(columns, names=table.schema.names)

    def try_out(self, batch: pa.RecordBatch, where: str) -> pa.Schema:
        """The columns that the steps give.

        Raises:
          UserError: as `apply` does, and if rows become others when they come in two parts: where a batch begins is
            not the same whenever a row is read.
        """
        whole = self.apply(batch, where)
        half = batch.num_rows // 2
        if half:
            parts = [self.apply(batch.slice(at, rows), where) for at, rows in ((0, half), (half, None))]
            there = [frozenset(part.schema.names) for part in parts]
            for name in whole.schema.names:
                if any(name not in names for names in there):
                    raise UserError(f"{STEPS}: column {name!r} is not there for each batch of rows")
                joined = np.concatenate([_values(part.column(name)) for part in parts])
                if not _same(_values(whole.column(name)), joined):
                    raise UserError(
                        f"{STEPS}: {', '.join(self.paths)}: column {name!r} is another one when {where} come "
                        "in two parts; a step must make each row of that row alone, always in the same way"
                    )
        return whole.schema


def make_step(path: str) -> Step:
    """The function that a job names; or what a DoFn's process method gives once it is set up.

    Raises:
      UserError: if there is none, or it cannot be made.
    """
    found = import_own(path, STEPS)
    if not isinstance(found, type):
        return found
    import apache_beam as beam

    if not issubclass(found, beam.DoFn):
        return found
    try:
        step = found()
        step.setup()
    except _MACHINE:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"{STEPS}: {path} cannot be made: {told(error)}") from error
    return lambda table: _only(step.process(table))


def _only(found: Iterable[Any] | None) -> Any:
    tables = list(found or ())
    if len(tables) != 1:
        raise ValueError(f"process gave {len(tables)} elements, it must yield one table")
    return tables[0]


def _checked(found: Any, given: pa.Table, keys: Sequence[str], what: str, where: str) -> pa.Table:
    """What a step gave, if it can be of the same rows."""
    if isinstance(found, pa.RecordBatch):
        found = pa.Table.from_batches([found])
    if not isinstance(found, pa.Table):
        raise UserError(f"{what} gives a {type(found).__name__}, it must be a pyarrow.Table")
    if found.num_rows != given.num_rows:
        raise UserError(
            f"{what} makes {found.num_rows:,} rows of {given.num_rows:,} ({where}); it must keep them all, in their "
            "order: values that should not count may be null"
        )
    counts = Counter(found.schema.names)
    for name, count in counts.items():
        if count > 1:
            raise UserError(f"{what} gives {count} columns of the name {name!r}")
    for key in keys:
        if key not in counts:
            raise UserError(f"{what} leaves out the column {key!r}, which the job needs")
        if not _equal(found.column(key), given.column(key)):
            raise UserError(
                f"{what} changes the column {key!r} ({where}); rows are planned by it, so it must stay as it is"
            )
    return found


def _equal(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Whether nothing was changed; a time that is NaN is bad data, and no fault of a step."""
    if one.equals(other):
        return True
    floats = one.type == other.type and pa.types.is_floating(one.type)
    return floats and np.array_equal(one.to_numpy(), other.to_numpy(), equal_nan=True)


def _values(column: pa.Array) -> np.ndarray:
    """[n]: the values; numbers with NaN for null."""
    return column.to_numpy(zero_copy_only=False)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether values are the same; numbers but for rounding, which may hang on where a vector begins."""
    if one.dtype.kind in "fc" and other.dtype.kind in "fciub":
        largest = np.nanmax(np.abs(one[np.isfinite(one)]), initial=0)
        return bool(np.allclose(one, other.astype(one.dtype), rtol=1e-5, atol=1e-6 * largest, equal_nan=True))
    if other.dtype.kind in "fc" and one.dtype.kind in "iub":
        return _same(other, one)
    return list(map(str, one)) == list(map(str, other))
