"""The user's own steps of `prepare.steps`: from an Arrow table to an Arrow table, a batch of rows at a time."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.prepare import STEPS
from beamfeed.contract.errors import Unanswered, UserError
from beamfeed.contract.own_code import import_own, one_line

Step = Callable[[pa.Table], Any]
_MACHINE = (MemoryError, ConnectionError, TimeoutError, Unanswered)  # no mistakes of who wrote a step


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

    def apply(self, batch: pa.RecordBatch, place: str) -> pa.RecordBatch:
        """The rows as the last step gives them.

        Args:
          batch: of one asset.
          place: that they are from, for messages.

        Raises:
          UserError: if a step fails, or gives what is no table of the same rows.
        """
        if not batch.num_rows:
            return batch
        table = pa.Table.from_batches([batch])
        for path, step in self._steps:
            try:
                result = step(table)
            except (UserError, *_MACHINE):
                raise
            except (Exception, SystemExit) as error:
                names = ", ".join(table.schema.names)
                hint = f"; it gets the columns {names}, and more of prepare.step_columns" * isinstance(error, KeyError)
                raise UserError(f"{STEPS}: {path} fails on {place}: {one_line(error)}{hint}") from error
            table = _checked(result, table, self.keys, f"{STEPS}: {path}", place)
        columns = [column.combine_chunks() for column in table.columns]
        return pa.RecordBatch.from_arrays(columns, names=table.schema.names)

    def try_out(self, batch: pa.RecordBatch, place: str) -> pa.Schema:
        """The columns that the steps give.

        Raises:
          UserError: as `apply` does, and if rows become others when they come in two parts: where a batch begins is
            not the same whenever a row is read.
        """
        result = self.apply(batch, place)
        half = batch.num_rows // 2
        if half:
            parts = [self.apply(batch.slice(at, rows), place) for at, rows in ((0, half), (half, None))]
            columns_of = [frozenset(part.schema.names) for part in parts]
            for name in result.schema.names:
                if any(name not in names for names in columns_of):
                    raise UserError(f"{STEPS}: column {name!r} is not there for each batch of rows")
                joined = np.concatenate([_values(part.column(name)) for part in parts])
                if not _same(_values(result.column(name)), joined):
                    raise UserError(
                        f"{STEPS}: {', '.join(self.paths)}: column {name!r} differs when {place} come in two "
                        "parts; a step must compute each row from that row alone, always in the same way"
                    )
        return result.schema


def make_step(path: str) -> Step:
    """The function that a job names; or what a DoFn's process method gives once it is set up.

    Raises:
      UserError: if there is none, or it cannot be made.
    """
    step_ = import_own(path, STEPS)
    if not isinstance(step_, type):
        return step_
    import apache_beam as beam

    if not issubclass(step_, beam.DoFn):
        return step_
    try:
        step = step_()
        step.setup()
    except _MACHINE:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"{STEPS}: {path} cannot be made: {one_line(error)}") from error
    return lambda table: _only(step.process(table))


def _only(results: Iterable[Any] | None) -> Any:
    tables = list(results or ())
    if len(tables) != 1:
        raise ValueError(f"process gave {len(tables)} elements, it must yield one table")
    return tables[0]


def _checked(result: Any, table: pa.Table, keys: Sequence[str], step: str, place: str) -> pa.Table:
    """What a step gave, if it can be of the same rows."""
    if isinstance(result, pa.RecordBatch):
        result = pa.Table.from_batches([result])
    if not isinstance(result, pa.Table):
        raise UserError(f"{step} gives a {type(result).__name__}, it must be a pyarrow.Table")
    if result.num_rows != table.num_rows:
        raise UserError(
            f"{step} makes {result.num_rows:,} rows of {table.num_rows:,} ({place}); it must keep them all, in their "
            "order: values that should not count may be null"
        )
    counts = Counter(result.schema.names)
    for name, count in counts.items():
        if count > 1:
            raise UserError(f"{step} gives {count} columns of the name {name!r}")
    for key in keys:
        if key not in counts:
            raise UserError(f"{step} leaves out the column {key!r}, which the job needs")
        if not _equal(result.column(key), table.column(key)):
            raise UserError(
                f"{step} changes the column {key!r} ({place}); rows are planned by it, so it must stay as it is"
            )
    return result


def _equal(before: pa.ChunkedArray, after: pa.ChunkedArray) -> bool:
    """Whether nothing was changed; a time that is NaN is bad data, and no fault of a step."""
    if before.equals(after):
        return True
    floats = before.type == after.type and pa.types.is_floating(before.type)
    return floats and np.array_equal(before.to_numpy(), after.to_numpy(), equal_nan=True)


def _values(column: pa.Array) -> np.ndarray:
    """[n]: the values; numbers with NaN for null."""
    return column.to_numpy(zero_copy_only=False)


def _same(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether values are the same; numbers but for rounding, which may hang on where a vector begins."""
    if left.dtype.kind in "fc" and right.dtype.kind in "fciub":
        largest = np.nanmax(np.abs(left[np.isfinite(left)]), initial=0)
        return bool(np.allclose(left, right.astype(left.dtype), rtol=1e-5, atol=1e-6 * largest, equal_nan=True))
    if right.dtype.kind in "fc" and left.dtype.kind in "iub":
        return _same(right, left)
    return list(map(str, left)) == list(map(str, right))
