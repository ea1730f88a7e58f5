"""Rows of a file as features take them: numbers, texts and times, with labels; what is wrong with some of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.dataset.raw_values import NOTHING, whole_words
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.labels import (
    LabelColumn,
    class_names,
    find_unlisted,
    read_label,
    without,
    words_for_no_class,
)
from beamfeed.transforms.sources.columns.numbers import is_text, parse_numbers, plain, to_float32, whole_numbers
from beamfeed.transforms.sources.columns.paths import folders_of, key_columns
from beamfeed.transforms.sources.columns.time_units import (
    MOST_BAD_TIMES,
    NO_TIME,
    TimeUnits,
    is_doubtful,
    ticks_of_rows,
)
from beamfeed.transforms.sources.descriptors import Unit
from beamfeed.transforms.sources.readers import BAD, faults_of, iter_batches
from beamfeed.transforms.sources.readers.time_text import A_ZONE, NO_ZONE, TYPOS
from beamfeed.transforms.sources.table.plan import TableAsset
from beamfeed.transforms.sources.table.schema import TableSchema

_BYTES = (
    pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_string,
    pa.types.is_large_string,
)  # fmt: skip
_IN_A_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


ROW_NUMBER = "\x00row"  # the column of the numbers of rows in their file, where it is kept


def kept_name(column: str) -> str:
    """What a column that is kept as the file has it is called beside the columns of features."""
    return f"\x00kept {column}"


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
      places: where such a row is in the file, if the reader says so.
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
    places: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.columns.num_rows


def read_unit(unit: Unit[TableAsset], schema: TableSchema) -> Iterator[TableRows]:
    """The rows of a unit, some megabytes at a time.

    Raises:
      BadInput: where the file breaks, or holds another number of rows than when it was planned.
    """
    piece = unit.asset.piece
    groups = [group for group in piece.groups if unit.start <= group.row < unit.end] or None
    row = unit.start
    of_path = key_columns(piece.path)
    last_rows = unit.end - groups[-1].row if groups else None
    for _, first, batch in iter_batches(piece.path, schema, [*schema.names, BAD], groups, last_rows):
        batch = batch.slice(0, unit.end - first) if piece.parts else batch
        yield to_rows(piece.path, first, batch, schema, of_path)
        row += batch.num_rows
    if row != unit.end:
        reason = f"held {unit.rows} rows when it was planned and {row - unit.start} when it was read"
        raise BadInput(piece.path, "file", reason)


def to_rows(path: str, first: int, batch: pa.RecordBatch, schema: TableSchema, of_path: dict[str, str]) -> TableRows:
    """The rows of a batch of a file."""
    unread = faults_of(batch.column(BAD))
    wrong = {row: reason for row, (_, reason) in unread.items()}

    def column(name: str) -> pa.Array:
        if name not in schema.of_path:
            return batch.column(name)
        value = of_path.get(name)
        if value is None:
            raise BadInput(path, "path", f"has no folder {name}=...")
        return pa.repeat(pa.scalar(None if value == NOTHING else value, pa.string()), batch.num_rows)

    read: dict[str, pa.Array] = {}
    nothing = schema.text.null_words(path)

    def text(name: str, missing: Sequence[str] = nothing) -> pa.StringArray:
        return lowered(without(to_text(column(name), name, wrong), missing), is_bool=name in schema.booleans)

    def category(name: str) -> pa.StringArray:
        texts = whole_numbers(to_text(column(name), name, wrong))
        return lowered(without(texts, whole_words(nothing)), is_bool=name in schema.booleans)

    for name in schema.numbers:
        read[name] = pa.array(_numbers(name, column(name), nothing, wrong))
    categories, prose = schema.categories, schema.prose  # once: each goes through all features
    for name in schema.texts:
        read[name] = category(name) if name in categories else text(name, () if name in prose else nothing)
    for name, units in schema.times.items():
        if name in schema.dated:
            read[name] = pa.array(_seconds(path, column(name), units, wrong, name, nothing))
    for label in schema.labels:
        values = column(label.column)
        if label.classes is not None:
            values = without(to_text(values, label.column, wrong), words_for_no_class(label, nothing))
            values = lowered(values, is_bool=label.column in schema.booleans)
        values = read_label(values, label)
        for at in np.flatnonzero(find_unlisted(values, label)).tolist():
            wrong.setdefault(at, label.why_unlisted(values[at]))
        read[label_name(label)] = values
    for feature in schema.features:
        if feature.required:
            _require(find_missing(read[feature.columns[0]]), feature.columns[0], wrong)
    if schema.kept_columns is not None:
        read[ROW_NUMBER] = pa.array(first + np.arange(batch.num_rows))
        for name, type_ in schema.kept_columns.items():
            try:
                read[kept_name(name)] = column(name).cast(type_)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                fault = f"is {column(name).type}, and {type_} in the first file; it cannot be kept as that"
                raise BadInput(path, f"column {name}", fault) from None
    key = None if schema.key is None else text(schema.key)
    if key is not None:
        key = whole_numbers(pc.utf8_trim_whitespace(key))
        _require(find_missing(key), str(schema.key), wrong)
    split = None if schema.split is None else text(schema.split)
    time = None
    if schema.time is not None:
        time = _ticks(path, column(schema.time), schema.times[schema.time], wrong, schema.time, nothing)
        _require(time == NO_TIME, schema.time, wrong)
    folder = None
    if schema.partitions:
        folder = folders_of(schema.partitions, [text(name) for name in schema.partitions])
    first_label = read[label_name(schema.labels[0])] if schema.stratify else None
    places = {row: place for row, (place, _) in unread.items()}
    columns = pa.RecordBatch.from_pydict(read)
    return TableRows(path, first, columns, key, split, time, folder, first_label, wrong, places)


def _numbers(name: str, column: pa.Array, nothing: Sequence[str], wrong: dict[int, str]) -> np.ndarray:
    """float32 [n]; null, NaN and infinity are NaN. Of text, as a path or a column for other ends too has it, too."""
    if is_text(column.type):
        text = without(pc.utf8_trim_whitespace(to_text(column, name, wrong)), nothing)
        column, bad = parse_numbers(text)
        for at, value in bad.items():
            wrong.setdefault(at, f"{name}: {value!r} is not a number")
    values = to_float32(column)
    finite = np.isfinite(values)
    return values if finite.all() else np.where(finite, values, np.float32(np.nan))


def to_text(column: pa.Array, name: str, wrong: dict[int, str]) -> pa.StringArray:
    """A column of any single values as text, string [n]; null and empty are null. Numbers are as they are written.

    Args:
      column: of a batch.
      name: of it, and
      wrong: what is wrong with rows: those whose text is not UTF-8 are told.
    """
    column = plain(column)
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type) or pa.types.is_null(column.type):
        return class_names(column)
    if any(of(column.type) for of in _BYTES):
        column = _utf8(column, name, wrong)
    text = column if pa.types.is_string(column.type) else column.cast(pa.string())
    empty = pc.equal(text, "")
    return pc.if_else(empty, pa.scalar(None, pa.string()), text) if pc.any(empty).as_py() else text


def _utf8(column: pa.Array, name: str, wrong: dict[int, str]) -> pa.StringArray:
    """Text, or binary as text; a value that is none is missing, and told."""
    try:
        text = column if pa.types.is_string(column.type) else column.cast(pa.string())
        text.validate(full=True)
        return text
    except pa.ArrowInvalid:
        values = column.cast(pa.large_binary()).to_pylist()
    for row, value in enumerate(values):
        try:
            values[row] = None if value is None else value.decode()
        except UnicodeDecodeError:
            values[row] = None
            wrong.setdefault(row, f"{name} is not UTF-8")
    return pa.array(values, pa.string())


def lowered(texts: pa.StringArray, *, is_bool: bool) -> pa.StringArray:
    """The texts; of a column that holds true and false, which a text may write with capitals, in small letters."""
    return pc.utf8_lower(texts) if is_bool else texts


def _seconds(
    path: str, column: pa.Array, units: TimeUnits, wrong: dict[int, str], name: str, nothing: Sequence[str]
) -> np.ndarray:
    """int64 [n] seconds since 1970; NO_TIME where one is missing. Of typed columns also far from today: 9999-12-31."""
    if (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)) and units.zone is None:
        if pa.types.is_date(column.type):
            column = column.cast(pa.timestamp("s"))
        ticks = column.cast(pa.int64()).fill_null(NO_TIME).to_numpy()
        return np.where(ticks == NO_TIME, NO_TIME, ticks // _IN_A_SECOND[column.type.unit])
    ticks = _ticks(path, column, units, wrong, name, nothing)
    return np.where(ticks == NO_TIME, NO_TIME, ticks // 1_000_000_000)


def _ticks(
    path: str, column: pa.Array, units: TimeUnits, wrong: dict[int, str], name: str, nothing: Sequence[str]
) -> np.ndarray:
    """int64 [n] nanoseconds; NO_TIME where one is missing, or cannot be read, which is told in `wrong`."""
    if pa.types.is_null(column.type):
        return np.full(len(column), NO_TIME)
    is_time = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_string(column.type):
        words = pa.array(["", *nothing], pa.string())
        is_time = is_time & ~pc.is_in(pc.utf8_trim_whitespace(column), value_set=words).to_numpy(zero_copy_only=False)
    ticks, bad_times = ticks_of_rows(units, [column], is_time)
    faults = {row: bad.fault.partition("; source.time.")[0] for row, bad in bad_times.items()}
    if len(faults) >= MOST_BAD_TIMES:
        fault = f"more than {MOST_BAD_TIMES} values are not times: {next(iter(faults.values()))}"
        raise BadInput(path, f"column {name}", fault)
    zones = {row for row, bad in bad_times.items() if bad.reason in (A_ZONE, NO_ZONE)}
    other = [row for row, bad in bad_times.items() if row not in zones and bad.value and is_doubtful(bad, units)]
    if len(other) * TYPOS > is_time.sum():  # where the month is first, three days of five are above 12
        raise BadInput(path, f"column {name}", f"{faults[other[0]]}, but with day and month the other way round")
    for row, fault in faults.items():
        if "NaT" not in fault:
            wrong.setdefault(row, f"{name}: {fault}")
    return ticks


def find_missing(column: pa.Array) -> np.ndarray:
    """Bool [n]: the values that a column lacks, as `TableRows.columns` has it."""
    if pa.types.is_integer(column.type):
        return column.to_numpy() == NO_TIME
    return column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)


def _require(missing: np.ndarray, name: str, wrong: dict[int, str]) -> None:
    """Sets rows aside, bool [n], that lack a value that is needed."""
    for at in np.flatnonzero(missing).tolist():
        wrong.setdefault(at, f"{name} is missing")
