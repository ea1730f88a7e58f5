"""Which columns of the files a job reads, and what every file must hold."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from beamfeed.contract.config.columns import match_features
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.labels import LabelColumn
from beamfeed.transforms.sources.columns.numbers import is_name, is_number, is_text
from beamfeed.transforms.sources.columns.time_units import PARTS, BadTime, TimeUnits
from beamfeed.transforms.sources.own_steps import OwnSteps
from beamfeed.transforms.sources.readers import TextOptions, require_columns


@dataclass(frozen=True)
class Inputs:
    """What the user's own steps make the columns of the job from.

    Attributes:
      steps: the steps.
      types: of the columns of the files that they get, as the sampled files have them.
    """

    steps: OwnSteps
    types: tuple[tuple[str, pa.DataType], ...]

    def check(self, path: str, schema: pa.Schema) -> None:
        """Raises BadInput if a column that the steps get is of another kind than in the other files."""
        names = frozenset(schema.names)
        for name, expected in self.types:
            if name not in names or (type_ := schema.field(name).type).equals(expected) or pa.types.is_null(type_):
                continue
            if not any(kind(type_) and kind(expected) for kind in (is_number, is_text)):
                raise BadInput(path, f"column {name}", f"is {type_}, the other files have {expected}")

    def fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with columns that hold nothing in the type that the other files have."""
        types, columns = dict(self.types), []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            type_ = types.get(name, column.type)
            nothing = column.null_count == len(column) and not column.type.equals(type_)
            columns.append(pa.nulls(len(column), type_) if nothing else column)
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


@dataclass(frozen=True)
class Wide:
    """Which columns of a file are times, and what becomes of them.

    Attributes:
      patterns: names and globs of these columns.
      never: columns that no glob takes.
      time: the column that their names become; None where they count.
      value: the column that their values become.
      type: of the names as times: text, or numbers.
      units: what the names mean; a file's own may be other times than those of the others.
    """

    patterns: tuple[str, ...]
    never: tuple[str, ...]
    time: str | None
    value: str
    type: pa.DataType
    units: TimeUnits

    def columns_of(self, path: str, names: Sequence[str]) -> list[str]:
        """Those of a file's columns that are times.

        Raises:
          BadInput: if none is.
        """
        columns = match_features(self.patterns, names, self.never)
        if not columns:
            has = ", ".join(name for name in names if name)[:200]
            raise BadInput(path, "file", f"no column matches source.reshape.wide; the file has {has}")
        return columns

    def times_of(self, path: str, columns: Sequence[str]) -> pa.Array | None:
        """The times of some columns, by their names; None where they count.

        Raises:
          BadInput: if a name is no time.
        """
        if self.time is None:
            return None
        try:
            times = names_as(self.type, columns)
            ticks = self.units.ticks(times)
        except pa.ArrowInvalid:
            bad = next(name for name in columns if not _is(self.type, name))
            raise BadInput(path, f"column {bad}", "its name is not a number, unlike in the other files") from None
        except BadTime as wrong:
            raise BadInput(path, f"column {columns[wrong.row]}", f"its name is no time: {wrong.fault}") from None
        utc = pa.timestamp("ns", "UTC" if self.units.zone else None)
        return pa.array(ticks).cast(utc) if self.units.kind == "timestamp" else times


def name_type(names: Sequence[str]) -> pa.DataType:
    """Whether names of columns are whole numbers, numbers or text."""
    return next((type_ for type_ in (pa.int64(), pa.float64()) if all(_is(type_, name) for name in names)), pa.string())


def names_as(type_: pa.DataType, names: Sequence[str]) -> pa.Array:
    """Names of columns as a column of this type."""
    return pa.array(list(names), pa.string()).cast(type_)


def _is(type_: pa.DataType, name: str) -> bool:
    try:
        number = names_as(type_, [name])
    except pa.ArrowInvalid:
        return False
    return not pa.types.is_integer(type_) or str(number[0]) == name  # `007` and `+7` are texts


@dataclass(frozen=True)
class SeriesSchema:
    """The columns that every file of the job must hold.

    Attributes:
      time: the column of times, or of dates; None where rows count.
      time_type: as the sampled files have it.
      time_units: what the times mean.
      features: the columns to train on, in order.
      asset: with asset: {column: ...} of the files.
      split: with split: {by: column} of the files.
      booleans: features that a CSV writes as true and false.
      labels: the columns that labels come from.
      ranges: of features, by their place: the lowest and highest value.
      more_times: columns that times are read from beside `time`: of the time of the day, or month, day, hour and so on.
      lacking: whether a file may lack columns of features, whose values are missing then.
      text: how texts are written.
      wide: where columns of the files are times; of the others, `time` and the feature are then made of these.
      inputs: where the user's own steps make `features` and `labels`, from what.
      remarks: what was found out of the files that the user did not say.
    """

    time: str | None
    time_type: pa.DataType
    time_units: TimeUnits
    features: tuple[str, ...]
    asset: str | None
    split: str | None
    booleans: frozenset[str] = frozenset()
    labels: tuple[LabelColumn, ...] = ()
    ranges: tuple[tuple[int, float, float], ...] = ()
    more_times: tuple[str, ...] = field(default=(), kw_only=True)
    lacking: bool = field(default=False, kw_only=True)
    text: TextOptions = field(default=TextOptions(), kw_only=True)
    wide: Wide | None = field(default=None, kw_only=True)
    inputs: Inputs | None = field(default=None, kw_only=True)
    remarks: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def time_columns(self) -> list[str]:
        """The columns that times are read from."""
        return [] if self.time is None else [self.time, *self.more_times]

    @property
    def names(self) -> list[str]:
        """All of them, each once, in the order they are read."""
        return list(dict.fromkeys([*self.keys, *self._values]))

    @property
    def keys(self) -> list[str]:
        """The columns that say which row one is."""
        return [*self.time_columns, *(name for name in (self.asset, self.split) if name)]

    @property
    def _values(self) -> list[str]:
        if self.inputs is not None:
            return [name for name, _ in self.inputs.types]
        return [*self.features, *(label.column for label in self.labels)]

    @property
    def optional(self) -> frozenset[str]:
        """Columns that a file may lack."""
        if not self.lacking:
            return frozenset()
        if self.inputs is not None:
            return frozenset(self._values) - {*self.keys}
        return frozenset(self.features) - {*self.keys, *(label.column for label in self.labels)}

    @property
    def csv_types(self) -> dict[str, pa.DataType]:
        """The types that the columns of a text are parsed as."""
        types = dict.fromkeys(self.time_columns, self._time_of_text)
        types.update({name: pa.string() for name in (self.asset, self.split) if name})
        if self.inputs is not None:
            return {**{name: _as_parsed(type_) for name, type_ in self.inputs.types}, **types}
        classes = {label.column: label.type for label in self.labels if label.classes is not None}
        features = {name: pa.bool_() if name in self.booleans else pa.float32() for name in self.features}
        numbers = {label.column: label.type for label in self.labels}
        return {**numbers, **features, **classes, **types}  # what names something must not be rounded

    @property
    def _time_of_text(self) -> pa.DataType:
        """Times that Arrow reads by itself; or text, which `time_units` reads."""
        units = self.time_units
        if units.kind != "timestamp":
            return self.time_type
        if units.text == PARTS:
            return pa.float64()
        if self.more_times or units.text != "ymd" or units.aware is None:
            return pa.string()
        return pa.timestamp("ns", "UTC" if units.aware else None)

    def check(self, path: str, schema: pa.Schema) -> None:
        """Raises BadInput if a column is missing or of the wrong type."""
        require_columns(path, self.names, schema.names, self.optional)
        if self.time is not None:
            types = [schema.field(name).type for name in self.time_columns]
            if fault := self.time_units.fault(*types):
                hint = "" if "zone" in fault else f", the other files have {self.time_type} for the time"
                raise BadInput(path, f"column {self.time}", fault + hint)
        for key in filter(None, (self.asset, self.split)):
            if not is_name(schema.field(key).type):
                raise BadInput(path, f"column {key}", f"is {schema.field(key).type}, text is needed")
        if self.inputs is not None:
            self.inputs.check(path, schema)
            return
        names = frozenset(schema.names)
        for name in self.features:
            if name in names and not is_number(schema.field(name).type):
                raise BadInput(path, f"column {name}", f"is {schema.field(name).type}, a number is needed")
        for label in self.labels:
            if fault := label.fault(schema.field(label.column).type):
                raise BadInput(path, f"column {label.column}", fault)


def _as_parsed(type_: pa.DataType) -> pa.DataType:
    """The type that a column of a text is parsed as for the user's own steps."""
    if pa.types.is_boolean(type_) or pa.types.is_float32(type_):  # float32: of columns that are times
        return type_
    return pa.float64() if is_number(type_) else pa.string()
