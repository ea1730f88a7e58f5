"""Which arrays a job reads, what they are, and what a record holds of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from beamfeed.contract.arrays.catalog import NamedArray, Role, find_arrays
from beamfeed.contract.arrays.npy import TEXTS
from beamfeed.contract.config.section import class_name
from beamfeed.contract.config.sources.array import ROW, ArraySource, InputArray, NamedFiles, OutputArray
from beamfeed.contract.dataset.fields import Dtype, Field
from beamfeed.contract.errors import UserError, near_miss
from beamfeed.contract.storage import FileStat

ROLES: dict[str, Role] = {"inputs": "input", "outputs": "target", "weights": "weight", "keys": "key"}


@dataclass(frozen=True)
class ArrayColumn:
    """An array of the job.

    Attributes:
      array: where it is.
      role: what it is for.
      section: of the job.
      classes: of a target, their names in order; () where they are not known yet, None where its values are numbers.
    """

    array: NamedArray
    role: Role
    section: NamedFiles
    classes: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """Of the array."""
        return self.array.name

    @property
    def is_text(self) -> bool:
        """Whether its values are texts."""
        return self.array.dtype in TEXTS

    @property
    def is_float(self) -> bool:
        """Whether its values can be NaN."""
        return self.array.dtype.startswith(("float", "complex"))

    @property
    def scale(self) -> str:
        """How it is scaled: none, but of inputs."""
        return self.section.scale if isinstance(self.section, InputArray) else "none"

    @property
    def is_scaled(self) -> bool:
        """Whether it is an input that is scaled."""
        return self.scale != "none"

    @property
    def scales(self) -> int:
        """Into how many numbers a row falls that are scaled each by itself."""
        return self.array.shape[0] if len(self.array.shape) == 1 else 1

    @property
    def is_checked(self) -> bool:
        """Whether a row may be set aside or left out for what is in it."""
        if isinstance(self.section, InputArray):
            return self.is_float and self.section.missing == "reject"
        return self.role != "key"

    @property
    def auto(self) -> bool:
        """Whether its classes are those of the training rows."""
        return isinstance(self.section, OutputArray) and self.section.classes == "auto"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a value in a record: what is to be told is one number also where files give it an axis of length one."""
        is_scalar = self.role in ("target", "weight") and math.prod(self.array.shape) == 1
        return () if is_scalar else self.array.shape

    def field(self) -> Field:
        """What a record holds of it."""
        dtype: Dtype = "bytes" if self.is_text else self.array.dtype  # type: ignore[assignment]
        if self.classes is not None:
            dtype = "int64"
        elif self.is_scaled or self.role in ("target", "weight"):
            dtype = "float32"
        return Field(name=self.name, dtype=dtype, shape=self.shape, role=self.role, classes=list(self.classes or ()))


@dataclass(frozen=True)
class ArraySchema:
    """The arrays of a job.

    Attributes:
      columns: the arrays.
      rows: how many rows they have.
      split: the array that tells the splits, with split: {by: column}.
    """

    columns: tuple[ArrayColumn, ...]
    rows: int
    split: str | None = None

    @property
    def row_bytes(self) -> int:
        """Of one row in all files."""
        return sum(column.array.row_bytes for column in self.columns)

    @property
    def scaled(self) -> list[ArrayColumn]:
        """The inputs that are scaled."""
        return [column for column in self.columns if column.is_scaled]

    @property
    def auto(self) -> list[ArrayColumn]:
        """The targets whose classes are those of the training rows."""
        return [column for column in self.columns if column.auto]

    def fields(self) -> list[Field]:
        """What a record holds: the arrays, and the number of each row."""
        return [Field(name=ROW, dtype="int64", role="key"), *(column.field() for column in self.columns)]


def resolve_schema(source: ArraySource, split: str | None, files: Sequence[FileStat]) -> ArraySchema:
    """Finds the arrays of a job by the heads of its files; `split` is the array that tells the splits, if one does.

    Raises:
      UserError: if an array cannot be used as the job says, or they do not go together.
    """
    specs = source.array_specs(files)
    arrays = find_arrays(specs)
    columns = []
    for (group, _, section), spec, array in zip(source.arrays(), specs, arrays, strict=True):
        classes = None
        if isinstance(section, OutputArray) and section.classes is not None:
            classes = () if section.classes == "auto" else tuple(map(class_name, section.classes))
        column = ArrayColumn(array, ROLES[group], section, classes)
        _check(column, spec.key)
        columns.append(column)
    names = [column.name for column in columns]
    if split is not None and split not in names:
        has = ", ".join(names)
        raise UserError(f"split.column: {split!r} is none of the arrays{near_miss(split, names)} (there are: {has})")
    of_split = next((column for column in columns if column.name == split), None)
    if of_split is not None and (math.prod(of_split.array.shape) != 1 or of_split.is_float):
        actual = f"{of_split.array.dtype} {list(of_split.array.shape)}"
        raise UserError(f"split.column: {split!r} is {actual}; one integer or text for each row is needed")
    return ArraySchema(tuple(columns), arrays[0].rows, split)


def _check(column: ArrayColumn, key: str) -> None:
    array = column.array
    kind = f"{array.dtype} {list(array.shape)}"
    if column.is_scaled and (column.is_text or array.dtype.startswith("complex")):
        raise UserError(f"{key}.scale: the array is {kind}; only numbers can be scaled")
    if column.classes is not None:
        if column.shape:
            raise UserError(f"{key}.classes: the array has rows of the shape {list(array.shape)}; a class is one value")
        if column.is_float:
            raise UserError(f"{key}.classes: the array is {array.dtype}; classes are integers, bools or texts")
    elif column.role in ("target", "weight"):
        if column.is_text:
            raise UserError(f"{key}: the array holds texts; they can be classes: auto")
        if array.dtype.startswith("complex"):
            raise UserError(f"{key}: the array is {array.dtype}; real numbers are needed")
    if column.role == "weight" and column.shape:
        raise UserError(f"{key}: the array has rows of the shape {list(array.shape)}; a weight is one number")
