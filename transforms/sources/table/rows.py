"""Rows of a file as features take them: numbers, texts and times, with labels; what is wrong with some of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.label import Label
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.base import Unit
from beamfeed.transforms.sources.columns.labels import LabelColumn, class_names, read_label
from beamfeed.transforms.sources.columns.numbers import to_float32
from beamfeed.transforms.sources.columns.paths import NOTHING, folders_of, key_columns
from beamfeed.transforms.sources.columns.time_units import BadTime, TimeUnits
from beamfeed.transforms.sources.readers import BAD, iter_batches
from beamfeed.transforms.sources.table.plan import TableAsset
from beamfeed.transforms.sources.table.schema import TableSchema

NO_TIME = np.iinfo(np.int64).min  # for a missing time
_MOST_BAD_TIMES = 1000  # of a batch, before its file is given up


def label_name(label: LabelColumn) -> str:
    """What the column of a label is called beside the columns of features, one of which may be the same."""
    return f"\x00label {label.column}"


@dataclass
class TableRows:
    """n rows that follow each other in a file.

    Attributes:
      path: of the file.
      first: its row that they begin with.
      columns: by name, as the transform graph takes them: float32 [n], NaN is missing; string, null is missing; int64
        [n] seconds since 1970, NO_TIME is missing. And the labels, see `label_name`.
      key, split: string [n], where the job splits by them.
      time: int64 [n] nanoseconds, NO_TIME is missing, where the job splits by it.
      folder: string [n], of the partition, where there are some.
      label: string [n], the class of the first label, where splits are stratified by it.
      wrong: by place among the rows, why one cannot be used.
    """

    path: str
    first: int
    columns: pa.RecordBatch
    key: pa.Array | None = None
    split: pa.Array | None = None
    time: np.ndarray | None = None
    folder: pa.Array | None = None
    label: pa.Array | None = None
    wrong: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.columns.num_rows


def read_unit(unit: Unit[TableAsset], schema: TableSchema, labels: Sequence[Label]) -> Iterator[TableRows]:
    """The rows of a unit, some megabytes at a time.

    Raises:
      BadInput: where the file breaks, or holds another number of rows than when it was planned.
    """
    piece = unit.asset.piece
    groups = [group for group in piece.groups if unit.start <= group.row < unit.end] or None
    row = unit.start
    of_path = key_columns(piece.path)
    for _, first, batch in iter_batches(piece.path, schema, [*schema.names, BAD], groups):
        yield to_rows(piece.path, first, batch, schema, labels, of_path)
        row += batch.num_rows
    if row != unit.end:
        reason = f"held {unit.rows} rows when it was planned and {row - unit.start} when it was read"
        raise BadInput(piece.path, "file", reason)


def to_rows(
    path: str, first: int, batch: pa.RecordBatch, schema: TableSchema, labels: Sequence[Label],
    of_path: dict[str, str],
) -> TableRows:  # fmt: skip
    """The rows of a batch of a file."""
    wrong = _told(batch.column(BAD))

    def column(name: str) -> pa.Array:
        if name not in schema.of_path:
            return batch.column(name)
        value = of_path.get(name)
        if value is None:
            raise BadInput(path, "path", f"has no folder {name}=...")
        return pa.repeat(pa.scalar(None if value == NOTHING else value, pa.string()), batch.num_rows)

    found: dict[str, pa.Array] = {}
    for name in schema.numbers:
        found[name] = pa.array(_numbers(path, name, column(name)))
    nothing = schema.null_words(path)
    for name in schema.texts:
        found[name] = without(to_text(column(name)), nothing if name not in schema.prose else ())
    ticks = {name: _ticks(path, column(name), units, wrong, name) for name, units in schema.times.items()}
    for name, nanoseconds in ticks.items():
        seconds = np.where(nanoseconds == NO_TIME, NO_TIME, nanoseconds // 1_000_000_000)
        found[name] = pa.array(seconds)
    for label, section in zip(schema.labels, (one for one in labels if one.column), strict=True):
        values = read_label(column(label.column), label)
        _check_label(values, label, section, wrong)
        found[label_name(label)] = values
    for feature in schema.features:
        if feature.required:
            _check_there(found, feature.columns[0], wrong)
    key = None if schema.key is None else to_text(column(schema.key))
    if key is not None:
        for at in np.flatnonzero(key.is_null().to_numpy(zero_copy_only=False)).tolist():
            wrong.setdefault(at, f"{schema.key} is missing")
    split = None if schema.split is None else class_names(column(schema.split))
    time = None if schema.time is None else ticks[schema.time]
    if time is not None:
        for at in np.flatnonzero(time == NO_TIME).tolist():
            wrong.setdefault(at, f"{schema.time} is missing")
    folder = None
    if schema.partitions:
        folder = folders_of(schema.partitions, [to_text(column(name)) for name in schema.partitions])
    first_label = found[label_name(schema.labels[0])] if schema.stratify else None
    return TableRows(path, first, pa.RecordBatch.from_pydict(found), key, split, time, folder, first_label, wrong)


def _told(column: pa.Array) -> dict[int, str]:
    if column.null_count == len(column):
        return {}
    rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).tolist()
    return {row: column[row].as_py() for row in rows}


def _numbers(path: str, name: str, column: pa.Array) -> np.ndarray:
    """float32 [n]; null, NaN and infinity are NaN."""
    if pa.types.is_string(column.type):  # of the path
        try:
            column = column.cast(pa.float32())
        except pa.ArrowInvalid:
            raise BadInput(path, "path", f"{name} is {column[0].as_py()!r}, a number is needed") from None
    values = to_float32(column)
    finite = np.isfinite(values)
    return values if finite.all() else np.where(finite, values, np.float32(np.nan))


def to_text(column: pa.Array) -> pa.StringArray:
    """A column of any single values as text, string [n]; null and empty are null. Numbers are as they are written."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type) or pa.types.is_null(column.type):
        return class_names(column)
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        column = column.cast(pa.string())
    text = column if pa.types.is_string(column.type) else column.cast(pa.string())
    empty = pc.equal(text, "")
    return pc.if_else(empty, pa.scalar(None, pa.string()), text) if pc.any(empty).as_py() else text


def without(texts: pa.StringArray, words: Sequence[str]) -> pa.StringArray:
    """The texts; those that stand for a missing value are null."""
    missing = pc.is_in(texts, value_set=pa.array(words, pa.string()))
    return pc.if_else(missing, pa.scalar(None, pa.string()), texts) if pc.any(missing).as_py() else texts


def _ticks(path: str, column: pa.Array, units: TimeUnits, wrong: dict[int, str], name: str) -> np.ndarray:
    """int64 [n] nanoseconds; NO_TIME where one is missing, or cannot be read, which is told in `wrong`."""
    if pa.types.is_null(column.type):
        return np.full(len(column), NO_TIME)
    there = column.is_valid().to_numpy(zero_copy_only=False).copy()
    if pa.types.is_string(column.type):
        there &= pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(column), ""), False).to_numpy(zero_copy_only=False)
    found = np.full(len(column), NO_TIME)
    for _ in range(_MOST_BAD_TIMES):
        rows = np.flatnonzero(there)
        try:
            found[rows] = units.ticks(column.take(pa.array(rows)))
            return found
        except BadTime as bad:
            there[rows[bad.row]] = False
            if "NaT" not in bad.what:
                wrong.setdefault(int(rows[bad.row]), f"{name}: {bad.what}")
    raise BadInput(path, f"column {name}", f"more than {_MOST_BAD_TIMES} values are no times")


def _check_label(values: pa.Array, label: LabelColumn, section: Label, wrong: dict[int, str]) -> None:
    if label.classes is None or label.auto:
        return
    known = pc.is_in(values, value_set=pa.array(label.classes, pa.string()))
    bad = pc.and_(values.is_valid(), pc.invert(known)).to_numpy(zero_copy_only=False)
    for at in np.flatnonzero(bad).tolist():
        allowed = ", ".join(label.classes)
        wrong.setdefault(at, f"{label.column} is {values[at].as_py()!r}, which is not in label.classes ({allowed})")


def _check_there(found: dict[str, pa.Array], name: str, wrong: dict[int, str]) -> None:
    column = found[name]
    missing = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        missing = missing | np.isnan(column.to_numpy(zero_copy_only=False))
    elif pa.types.is_integer(column.type):
        missing = missing | (column.to_numpy() == NO_TIME)
    for at in np.flatnonzero(missing).tolist():
        wrong.setdefault(at, f"{name} is missing")
