"""Columns that labels come from: numbers, or values that name classes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.label import Label
from beamfeed.contract.config.section import class_name
from beamfeed.contract.config.split import Split
from beamfeed.contract.dataset.fields import Dtype, Field, Per
from beamfeed.contract.errors import UserError, near_miss
from beamfeed.transforms.sources.columns.numbers import is_number, is_text, to_float32

_SHOWN = 10  # classes of a list, in a message
CLASS_WORDS = ("None", "none", "nil", "-", "--", "---")  # that stand for nothing elsewhere, and may well be a class


@dataclass(frozen=True)
class LabelColumn:
    """A column of the files that a label comes from."""

    column: str
    type: pa.DataType  # that a CSV is parsed as
    classes: tuple[str, ...] | None = None  # names, in order; None where values are numbers
    auto: bool = False  # the classes are those that are found; until they are known there are none

    @property
    def row_bytes(self) -> int:
        """Of one row in memory, about: a number, or the name of a class."""
        return 4 if self.classes is None else 24

    def why_unlisted(self, value: pa.Scalar) -> str:
        """What is wrong with a value that the list of classes does not hold."""
        classes = list(self.classes or ())
        shown = ", ".join(classes[:_SHOWN]) + (f" and {len(classes) - _SHOWN:,} more" if len(classes) > _SHOWN else "")
        return f"{self.column} is {value.as_py()!r}, which is not in label.classes ({shown})"

    def fault(self, type_: pa.DataType) -> str | None:
        """What is wrong with the type of the column, if something is."""
        if is_number(type_) or (self.classes is not None and is_text(type_)):
            return None
        return f"is {type_}, {'a number is needed' if self.classes is None else 'text, integers or bools are needed'}"


def check_of_rows(labels: Sequence[Label], split: Split, whose: str) -> None:
    """Raises UserError at a label that only windows have, or a split by classes that there are none of.

    Args:
      labels: of a job whose rows stand for themselves.
      split: of the job.
      whose: what has labels, such as `a table`.
    """
    for label in labels:
        if label.column is None or label.at != "end":
            setting = f"derive: {label.derive}" if label.derive else f"at: {label.at}"
            raise UserError(f"label: {setting} is for series; {whose} needs label.column")
    if split.stratify and (not labels or labels[0].classes is None):
        raise UserError("split.stratify: is by the classes of the label; give the label 'classes: auto'")


def resolve_labels(labels: Sequence[Label], types: Mapping[str, Sequence[pa.DataType]]) -> tuple[LabelColumn, ...]:
    """The columns of the labels that have one.

    Args:
      labels: of the job.
      types: of the files' columns, in each of some files.

    Raises:
      UserError: if there is no such column, or not of a type that fits.
    """
    columns = []
    for label in labels:
        if label.column is None:
            continue
        if label.column not in types:
            hint = near_miss(label.column, list(types))
            raise UserError(
                f"label.column: {label.column!r} is not a column of the files{hint} (they have: {', '.join(types)})"
            )
        found_types = types[label.column]
        auto = label.classes == "auto"
        classes = None if label.classes is None else () if auto else tuple(map(class_name, label.classes))
        column = LabelColumn(label.column, _csv_type(found_types, classes), classes, auto)
        usual, _ = Counter(found_types).most_common(1)[0]
        if fault := column.fault(usual):
            if is_text(usual):
                fault = f"is {usual}; numbers are needed, or classes: auto"
            raise UserError(f"label.column: {label.column!r} {fault}")
        columns.append(column)
    return tuple(columns)


def _csv_type(types: Sequence[pa.DataType], classes: Sequence[str] | None) -> pa.DataType:
    """The type that holds the values of all files.

    Args:
      types: that the column has in some files; of no type where it is empty at the beginning of a file.
      classes: that the job lists; none where they are to be found, None where values are numbers.
    """
    typed = [type_ for type_ in types if not pa.types.is_null(type_)]
    if typed and all(map(pa.types.is_boolean, typed)) and not (classes and set(classes) - {"true", "false"}):
        return pa.bool_()
    if classes is None:
        return pa.float32()
    plain = typed and all(_name(_number(name)) == name for name in classes)  # 1 is, 001 is not
    if plain and all(map(pa.types.is_integer, typed)):
        return pa.int64()
    return pa.float64() if plain and all(is_number(t) and not pa.types.is_boolean(t) for t in typed) else pa.string()


def _number(name: str) -> int | float | None:
    """The number that a text writes, if it does."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(name)
    return None


def read_label(column: pa.Array, spec: LabelColumn) -> pa.Array:
    """A column as Arrow float32 [n], or with classes as string [n] of names; NaN and null are missing."""
    return pa.array(to_float32(column)) if spec.classes is None else class_names(column)


def class_names(column: pa.Array) -> pa.StringArray:
    """The values of a column as names of classes, string [n]; null where one is missing, empty or not a number."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    if pa.types.is_float32(encoded.dictionary.type):  # 0.1, and not what it is in more digits
        values = [None if value is None else float(str(np.float32(value))) for value in values]
    names = pa.array(map(_name, values), pa.string())
    return names.take(encoded.indices)


def _name(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, float | Decimal):
        if not np.isfinite(float(value)):
            return None
        if value == int(value):
            value = int(value)
        elif isinstance(value, Decimal):  # 1.50 and 1.5 are one
            return format(value.normalize(), "f")
    return class_name(value)


def words_for_no_class(label: LabelColumn, words: Sequence[str]) -> list[str]:
    """Those of some words for nothing that name no class: not what the job lists, nor what may well be one."""
    return [word for word in words if word not in {*(label.classes or ()), *CLASS_WORDS}]


def without(texts: pa.StringArray, words: Sequence[str]) -> pa.StringArray:
    """The texts; those that stand for a missing value are null."""
    missing = pc.is_in(texts, value_set=pa.array(words, pa.string()))
    return pc.if_else(missing, pa.scalar(None, pa.string()), texts) if pc.any(missing).as_py() else texts


def label_numbers(labels: Sequence[pa.Array], specs: Sequence[LabelColumn], rows: int) -> np.ndarray:
    """float32 [rows, labels]: numbers as they are, of classes their place; NaN is missing.

    Args:
      labels: of each spec, what `read_label` gives.
      specs: with their classes known.
      rows: how many there are.
    """
    numbers = np.empty((rows, len(specs)), np.float32)
    for k, (column, spec) in enumerate(zip(labels, specs, strict=True)):
        if spec.auto and not spec.classes:  # not known yet: any will do
            is_known = column.is_valid()
            column = pc.if_else(is_known, pa.scalar(0, pa.float32()), pa.scalar(float("nan"), pa.float32()))
        elif spec.classes is not None:
            place = pc.index_in(column, value_set=pa.array(spec.classes, pa.string()))
            column = pc.fill_null(place.cast(pa.float32()), float("nan"))
        numbers[:, k] = column.to_numpy(zero_copy_only=False)
    np.copyto(numbers, np.nan, where=np.isinf(numbers))
    return numbers


def label_field(label: Label, classes: Sequence[str] | None, per: Per = "row") -> Field:
    """The field of a label.

    Args:
      label: of the job.
      classes: as far as they are known; None where it is a number.
      per: what has a value.
    """
    dtype: Dtype = "float32" if classes is None else "int64"
    return Field(name=label.name, dtype=dtype, role=label.role, per=per, classes=list(classes or ()))


def label_values(
    columns: Sequence[pa.Array], labels: Sequence[Label], specs: Sequence[LabelColumn], rows: int
) -> dict[str, np.ndarray]:
    """The values of labels that are of a row each, by name, `[rows]`.

    Args:
      columns: of each spec, what `read_label` gives.
      labels: of the job.
      specs: their columns, with classes known.
      rows: how many there are.
    """
    numbers = label_numbers(columns, specs, rows)
    by_name = {}
    for label, column in zip(labels, numbers.T, strict=True):
        if label.cap is not None:
            column = np.minimum(column, np.float32(label.cap))
        by_name[label.name] = column if label.classes is None else column.astype(np.int64)
    return by_name


def find_unlisted(column: pa.Array, label: LabelColumn) -> np.ndarray:
    """Bool [n]: the values that are none of the classes that the job lists; `why_unlisted` tells of one."""
    if label.classes is None or label.auto:
        return np.zeros(len(column), bool)
    is_class = pc.is_in(column, value_set=pa.array(label.classes, pa.string()))
    return pc.and_(column.is_valid(), pc.invert(is_class)).to_numpy(zero_copy_only=False)


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """The classes in order: numbers as numbers if all are, else as text. The same in every process."""
    ordered = sorted(names)
    try:
        numbers = [float(name) for name in ordered]
    except ValueError:
        return tuple(ordered)
    if not np.isfinite(numbers).all():  # "nan" is the name of a class, and has no place among numbers
        return tuple(ordered)
    return tuple(name for _, name in sorted(zip(numbers, ordered, strict=True)))
