"""Which of a block's values each of its records holds, and whether the block has as many as it must."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.sources.record_block import Ragged, RecordBlock


def field_ranges(block: RecordBlock, fields: Sequence[Field], windows: Windows) -> Iterator[tuple[Field, np.ndarray]]:
    """For each field int64 [2, records]: record i holds its values [ranges[0, i], ranges[1, i]).

    Raises:
      JobFailed: if a field has another number of values than the block has rows, windows or records.
    """
    rows = _by_row(block, fields)
    counts = count_windows(block.rows, windows.length, windows.stride)
    ends = {"window": np.cumsum(counts), "record": np.arange(len(block)) + 1}
    for field in fields:
        count = count_values(block, field)
        if field.per == "row":
            if count != rows[1]:
                raise JobFailed(
                    f"asset {block.asset!r}: field {field.name!r} has {count} rows, {rows[0]!r} has {rows[1]}"
                )
            yield field, np.stack([block.first, block.first + block.rows])
            continue
        end = ends[field.per]
        if count != end[-1]:
            raise JobFailed(
                f"asset {block.asset!r}: field {field.name!r} has {count} values, one for each {field.per}, "
                f"{rows[0]!r} has {end[-1]} {field.per}s"
            )
        yield field, np.stack([np.concatenate([[0], end[:-1]]), end])


def _by_row(block: RecordBlock, fields: Sequence[Field]) -> tuple[str, int]:
    """A field that tells the rows of a block, and how many there are; its records must be inside."""
    name, rows = next((field.name, count_values(block, field)) for field in fields if field.per == "row")
    reach = int((block.first + block.rows).max(initial=0))
    if reach > rows:
        raise JobFailed(f"asset {block.asset!r}: field {name!r} has {rows} rows, the records reach to row {reach}")
    return name, rows


def count_values(block: RecordBlock, field: Field) -> int:
    """How many values a block has of a field.

    Raises:
      JobFailed: if it has none, or they are not of the field's shape.
    """
    values = block.values.get(field.name)
    place = f"asset {block.asset!r}: field {field.name!r}"
    if values is None:
        raise JobFailed(f"{place} is missing")
    if isinstance(values, Ragged) != field.is_ragged:
        raise JobFailed(f"{place} has the shape {list(field.shape)}, its values are {type(values).__name__}")
    entries = values.values if isinstance(values, Ragged) else values
    if isinstance(entries, pa.Array):
        count, rest = divmod(len(entries), field.width)
    else:
        shape = field.shape[1:] if field.is_ragged else field.shape
        count, rest = len(entries), int(entries.shape[1:] != shape)
    if rest:
        raise JobFailed(f"{place} has the shape {list(field.shape)}, its values have another one")
    if not isinstance(values, Ragged):
        return count
    if count != values.lengths.sum():
        raise JobFailed(f"{place} has {count} entries, its lengths add up to {values.lengths.sum()}")
    return len(values)
