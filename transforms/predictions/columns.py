"""What a model gives of some windows -> columns of a table, with those that say whose answers they are. Pure."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from beamfeed.contract.dataset.fields import Field
from beamfeed.transforms.export.items import Items
from beamfeed.transforms.sources.record_block import Ragged, Values

MOST_NAMED = 100  # parts of an answer that get a column each; more are one column of lists
PLACES = 2  # columns of a row's place say where it is: its file and its number there; the others are kept
_KINDS = ("probabilities", "class", "forecast", "reconstruction")  # what names of answers end with
Columns = dict[str, pa.Array]


def key_columns(fields: Sequence[Field], items: Items, length: int, place: pa.RecordBatch | None) -> Columns:
    """Whose answers they are, and targets as far as they are there, `[windows]`, as people read them.

    Times become timestamps in microseconds, durations seconds, classes their names. Of series, `start` is the position
    of a window's first row, `time` its time and `until` that of its last one: as far apart in a record as on a regular
    grid, where `place` does not tell.

    Args:
      fields: of these.
      items: the windows.
      length: rows of a window.
      place: of each row of the block that the windows are of.
    """
    keys = [field for field in fields if field.role == "key" and field.per == "record"]
    times = [field for field in keys if field.time is not None]
    columns: Columns = {}
    is_series = len(times) == 2
    if place is not None and not is_series:
        rows, taken = place.take(pa.array(items.row)), {field.name for field in fields}
        for at, name in enumerate(rows.schema.names):
            if name not in taken:
                columns[name] = rows.column(at)
            elif at < PLACES:  # what is kept beside them is the same as the key of that name
                columns[f"{name}_"] = rows.column(at)
    for field in fields:
        value = items.values[field.name]
        if is_series and field in times:
            continue
        if is_series and field in keys and isinstance(value, np.ndarray):
            columns[field.name] = pa.array(value + items.in_record[:, 0])
        else:
            columns[field.name] = _key(field, value)
    if is_series:
        assert times[0].time is not None
        for name, row in (("time", 0), ("until", length - 1)):
            ticks = ticks_of(items, row, [items.values[field.name] for field in times], place)
            if name in columns:  # a label that is called so
                columns[f"{name}_"] = columns.pop(name)
            columns[name] = _times(ticks, times[0].time)
    return columns


def ticks_of(items: Items, row: int, times: Sequence[Values], place: pa.RecordBatch | None) -> np.ndarray:
    """Of a row of each window, its time."""
    if place is not None:
        ticks: np.ndarray = place.column("time").to_numpy()[items.row + row]
        return ticks
    first, last = map(np.asarray, times)
    steps = items.in_record[:, 0] + row
    # Whole steps and the rest apart: a product of nanoseconds and rows may not fit.
    step, rest = np.divmod(last - first, np.maximum(1, items.in_record[:, 1] - 1))
    return np.asarray(first + step * steps + rest * steps // np.maximum(1, items.in_record[:, 1] - 1))


def _key(field: Field, value: Values) -> pa.Array:
    if isinstance(value, Ragged):
        entries = pa.array(value.values) if isinstance(value.values, np.ndarray) else value.values
        return pa.ListArray.from_arrays(pa.array(value.edges.astype(np.int32)), entries)
    if isinstance(value, pa.Array):
        return _text(value) if field.width == 1 else pa.FixedSizeListArray.from_arrays(_text(value), field.width)
    if field.classes:
        return pa.array(field.classes).take(pa.array(value.reshape(-1)))
    return _listed(value) if field.time is None else _times(value, field.time)


def _times(ticks: np.ndarray, time: str) -> pa.Array:
    if time == "instant":
        return pa.array(ticks // 1000).cast(pa.timestamp("us"))
    return pa.array(ticks if time == "number" else ticks / 1e9)


def _text(values: pa.Array) -> pa.Array:
    try:
        text = values.cast(pa.string())
        text.validate(full=True)
        return text
    except pa.ArrowInvalid:  # a file has one type, whatever its bytes are
        return pa.array([value.decode(errors="replace") for value in values.cast(pa.binary()).to_pylist()], pa.string())


def answer_columns(
    answers: Mapping[str, np.ndarray], description: Mapping[str, np.ndarray], values: Mapping[str, Values],
    inputs: Sequence[Field],
) -> Columns:  # fmt: skip
    """The answers of a model, `[windows]` each.

    Args:
      answers: by the names of the model's outputs, `[windows, ...]`.
      description: what the model says of itself: classes, columns of forecasts.
      values: that it got.
      inputs: their fields.
    """
    columns: Columns = {}
    # Numbers before lists, and by name: each process that loads a model gets its outputs in another order.
    for name, answer in sorted(answers.items(), key=lambda item: (item[1].ndim, item[0])):
        kind = next((known for known in _KINDS if name.endswith(known)), name)
        prefix = name.removesuffix(kind)
        if kind == "probabilities":
            classes = [name.decode(errors="replace") for name in description[f"{prefix}classes"].tolist()]
            columns |= _parts(f"{prefix}probability", answer, classes, name)
        elif kind == "class":
            columns[name] = _text(pa.array(answer.astype(object), pa.binary()))
        elif kind == "forecast":
            names = [name.decode(errors="replace") for name in description[f"{prefix}forecast_columns"].tolist()]
            columns |= {f"{name}_{column}": _listed(answer[:, :, place]) for place, column in enumerate(names)}
        elif kind == "reconstruction":
            columns |= _errors(answer, values, inputs)
        else:
            columns[name] = _listed(answer.reshape(len(answer), -1) if answer.ndim > 2 else answer)
    return columns


def _errors(reconstruction: np.ndarray, values: Mapping[str, Values], inputs: Sequence[Field]) -> Columns:
    """The mean squared error of each column of the one input, which is given back."""
    (field,) = inputs
    original = values[field.name]
    if not isinstance(original, np.ndarray) or not field.columns:
        return {}
    apart = original.astype(np.float32, copy=False) - reconstruction
    apart = apart.reshape(len(apart), -1, len(field.columns))
    of_columns = np.einsum("nrc,nrc->nc", apart, apart) / apart.shape[1]
    return _parts("error", of_columns, field.columns, "errors")


def _parts(name: str, matrix: np.ndarray, parts: Sequence[str], together: str) -> Columns:
    """A column for each part of a matrix `[windows, parts]`, or one of lists where these are many."""
    if len(parts) > MOST_NAMED:
        return {together: _listed(matrix)}
    return {f"{name}_{part}": pa.array(np.ascontiguousarray(matrix[:, at])) for at, part in enumerate(parts)}


def _listed(values: np.ndarray) -> pa.Array:
    """`[windows]` as numbers, `[windows, n]` as lists of n; of one number as numbers."""
    if values.dtype.kind in "SO":
        return _text(pa.array(values.reshape(-1).astype(object), pa.binary()))
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    width = values.size // max(1, len(values)) if values.ndim > 1 else 1
    return flat if width == 1 else pa.FixedSizeListArray.from_arrays(flat, width)


def join(keys: Columns, answers: Columns) -> pa.RecordBatch:
    """Both side by side; a key, or a label, that is called as an answer gets a `_` behind its name."""
    renamed = {f"{name}_" if name in answers else name: column for name, column in keys.items()}
    return pa.RecordBatch.from_pydict({**renamed, **answers})
