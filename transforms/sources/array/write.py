"""The rows of a split as records: values as the files have them, and scaled inputs."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.sources.array import ROW
from beamfeed.contract.config.split import SPLITS, Split, SplitName
from beamfeed.contract.dataset.raw_rows import MOST_BYTES, ROWS, RawRows
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.array.plan import ArrayBlock, Blocks, cut_part, packed_parts
from beamfeed.transforms.sources.array.rows import ArrayRows, as_float32, iter_rows, unique_texts
from beamfeed.transforms.sources.array.schema import ArrayColumn, ArraySchema
from beamfeed.transforms.sources.record_block import Ragged, RecordBlock, Values, cut_in_records
from beamfeed.transforms.statistics.scaling import scale_rows

Scaler = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]  # of the scaled inputs by name


def block_records(
    block: ArrayBlock, name: SplitName, schema: ArraySchema, split: Split, rows_per_record: int, scale: Scaler | None
) -> Iterator[RecordBlock]:
    """The records of a block's rows of one split.

    Args:
      block: of rows.
      name: of the split.
      schema: with the classes known.
      split: of the job.
      rows_per_record: at most.
      scale: scales inputs; None leaves inputs and keys out.

    Raises:
      BadInput: if a file no longer holds its rows.
    """
    columns = [column for column in schema.columns if scale is not None or column.role in ("target", "weight")]
    place = SPLITS.index(name)
    for rows in iter_rows(block, schema, split, rows_per_record, [column.name for column in columns]):
        chosen = np.flatnonzero(rows.usable & (rows.places == place))
        if not len(chosen):
            continue
        first, counts = cut_in_records(len(chosen), rows_per_record)
        yield RecordBlock(block.name, first, counts, _values(rows, chosen, columns, scale))


def raw_rows_of(schema: ArraySchema, split: Split, scale: Scaler) -> RawRows | None:
    """The first rows of the arrays, but for those that are set aside, and the inputs that are made of them.

    None where they would have to be unpacked first, are large or complex, or can no longer be read.
    """
    inputs = [column for column in schema.columns if column.role == "input"]
    parts = [(column.name, part) for column in schema.columns for part in column.array.parts]
    count = min(ROWS, schema.rows, MOST_BYTES // schema.row_bytes)
    if not count or packed_parts(schema) or any(column.array.dtype.startswith("complex") for column in inputs):
        return None
    blocks = Blocks(0, schema.rows, count)
    pieces = (piece for name, part in parts for piece in cut_part(name, part, blocks, frozenset([0])))
    block = ArrayBlock("", tuple(pieces), None, first=0, count=count)
    try:
        (rows,) = iter_rows(block, schema, split, count, [column.name for column in inputs])
    except (BadInput, JobFailed):
        return None
    chosen = np.flatnonzero(~rows.bad)
    if not len(chosen):
        return None

    def listed(values: Values) -> pa.Array:
        return pa.array(values.reshape(-1)) if isinstance(values, np.ndarray) else values

    raw = {column.name: rows.values[column.name][chosen] for column in inputs}
    fields = _values(rows, chosen, inputs, scale)
    return RawRows(
        [f"row {number}" for number in chosen.tolist()],
        {name: listed(as_bytes(array) if array.dtype.kind in "SU" else array) for name, array in raw.items()},
        {name: listed(array) for name, array in fields.items() if name != ROW and not isinstance(array, Ragged)},
    )


def scale_inputs(inputs: dict[str, np.ndarray], rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Inputs `[n, *shape]` scaled; infinity counts as missing.

    Args:
      inputs: float32, by name.
      rows: float32 `[2, scales]` of each.
    """
    scaled = {}
    for name, values in inputs.items():
        finite = np.where(np.isfinite(values), values, np.float32(np.nan))
        scaled[name] = scale_rows(finite.reshape(-1, rows[name].shape[1]), rows[name]).reshape(values.shape)
    return scaled


def _values(
    rows: ArrayRows, chosen: np.ndarray, columns: list[ArrayColumn], scale: Scaler | None
) -> Mapping[str, Values]:
    """The values of the chosen rows, by field."""
    numbers = rows.first + chosen
    everything = len(chosen) == len(rows)
    by_field: dict[str, Values] = {ROW: numbers}
    scaled: dict[str, np.ndarray] = {}
    for column in columns:
        values = rows.values[column.name]
        values = values if everything else values[chosen]
        if column.is_scaled:
            scaled[column.name] = as_float32(values)
        elif column.classes is not None:
            texts, inverse = unique_texts(values)
            by_field[column.name] = np.array(list(map(column.classes.index, texts)), np.int64)[inverse]
        elif column.is_text:
            by_field[column.name] = as_bytes(values)
        elif column.role in ("target", "weight"):
            by_field[column.name] = as_float32(values).reshape(len(values), *column.shape)
        else:
            by_field[column.name] = values
    if scaled and scale is not None:
        by_field |= scale(scaled)
    return by_field


def as_bytes(values: np.ndarray) -> pa.Array:
    """Texts `[n, *shape]` as binary, one after the other: without the zeros that fill them up, in UTF-8."""
    flat = values.reshape(-1)
    return pa.array(flat if flat.dtype.kind == "S" else np.strings.encode(flat, "utf-8"), pa.binary())
