"""What a record holds: its fields, the same for every kind of source."""

import math
import unicodedata
from typing import Annotated, Literal, cast, get_args

from pydantic import AfterValidator, model_validator
from pydantic import Field as Key

from beamfeed.contract.dataset.strict import Strict

Dtype = Literal[
    "float32", "int64", "bytes",
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "float16", "float64",
    "complex64", "complex128",
]  # fmt: skip
Role = Literal["input", "target", "weight", "key"]
Per = Literal["row", "window", "record"]
Time = Literal["instant", "duration", "decimal", "number"]
Stored = Literal["rows", "list", "steps"]
Listed = Literal["float32", "int64", "bytes"]  # what a feature of an Example can hold
LISTED: tuple[Listed, ...] = get_args(Listed)
# Of one number; of a string, of the place it is at.
BYTES: dict[Dtype, int] = {
    "float32": 4, "int64": 8, "bytes": 8,
    "bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "uint64": 8,
    "float16": 2, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip
LENGTHS = ".lengths"  # ends the name of the feature that says how many values each of a field of any length has


def is_field_name(name: str) -> bool:
    """Whether a field may be called so: letters of any script, digits and _, and no digit first."""
    return name[:1].isidentifier() and all(map(_in_names, name))


def field_name(text: str) -> str:
    """The name of a field made of any text: `hours-per-week` becomes `hours_per_week`, `m²` `m2`; `温度` stays."""
    plain = "".join(
        unicodedata.normalize("NFKC", char) if unicodedata.category(char) == "No" else char for char in text
    )
    parts = "".join(char if _in_names(char) else " " for char in plain).split()
    name = "_".join(parts).strip("_") or "_"
    return name if is_field_name(name) else f"_{name}"


def _in_names(character: str) -> bool:
    kind = unicodedata.category(character)
    return character == "_" or kind[0] in "LM" or kind == "Nd"


def _checked(name: str) -> str:
    if not is_field_name(name):
        raise ValueError(f"{name!r} is not a field name: use letters, digits and _, and no digit first")
    return name


class Unit(Strict):
    """What a column of a forecast counts in: value = input * divisor + offset.

    Attributes:
      std: the deviation of the training rows.
      offset, divisor: what the dataset scaled the input of the same column by.
    """

    std: float
    offset: float
    divisor: float


class Field(Strict):
    """One field of the records.

    In a record it is a feature of the `tf.train.Example`: the values of all rows (windows) of the record one after the
    other, in row-major order. Where a value may be of any length, a second feature, `<name>.lengths`, int64, says how
    many entries each has along that axis. Of a dtype that an Example cannot list, each value is one string: its memory,
    little-endian. Records that others wrote hold one row each; `feature`, `stored` and `default` say how they differ.
    """

    name: Annotated[str, AfterValidator(_checked)]
    dtype: Dtype
    shape: tuple[int | None, ...] = Key(
        default=(), description="Of one value: [] a single one, [8], [28, 28, 1]; [null] or [null, 3] of any length."
    )
    role: Role = Key(description="input: for the model. target: predicted by it. weight: of a window. key: a name.")
    per: Per = Key(default="row", description="What has a value: each row, each window, or the record as a whole.")
    columns: list[str] = Key(default=[], description="Names of the parts of its last axis, such as sensors.")
    sizes: list[int] = Key(
        default=[], description="Of numbers that stand for categories: how many there are, for each of its columns."
    )
    classes: list[str] = Key(default=[], description="Of a target whose numbers stand for classes: their names.")
    content: str = Key(
        default="", description="Of bytes that a trainer decodes before a model gets them, the name of what is in them."
    )
    time: Time | None = Key(
        default=None,
        description="Of a time, what it counts. instant: nanoseconds since 1970. duration: nanoseconds since whenever "
        "the files begin to count. decimal: 1e-9 of the files' numbers. number: the files' numbers, or rows.",
    )

    part: tuple[int, int] | None = Key(
        default=None,
        description="Of a value per row: a window has those of its rows from the first of these up to the second; "
        "left out, of all.",
    )
    units: list[Unit] = Key(default=[], description="Of a forecast, of each of its columns.")

    feature: str = Key(default="", description="Its name in the records, where that is not its own.")
    stored: Stored = Key(
        default="rows",
        description="rows: the values of all rows of a record, as above. Of records of one row, and values of any "
        "length without a feature for the lengths: list: the whole list is the value; steps: it is a feature list of "
        "a SequenceExample, an entry for each step.",
    )
    spelled: bool = Key(
        default=False, description="Of a target with classes: records hold the names of the classes, not the numbers."
    )
    default: int | float | str | None = Key(
        default=None, description="Stands for each number or string of a value that a record of one row lacks."
    )

    @model_validator(mode="after")
    def _fits(self) -> "Field":
        if None in self.shape[1:] or any(size is not None and size < 1 for size in self.shape):
            raise ValueError(f"{self.name}: shape {list(self.shape)}: only the first axis may be of any length")
        if self.columns and (not self.shape or self.shape[-1] != len(self.columns)):
            raise ValueError(f"{self.name}: {len(self.columns)} columns for the shape {list(self.shape)}")
        if self.is_raw and self.is_ragged:
            raise ValueError(f"{self.name}: {self.dtype} of any length; only {', '.join(LISTED)} may be")
        if self.part is not None and (self.per != "row" or self.is_ragged or not 0 <= self.part[0] < self.part[1]):
            raise ValueError(f"{self.name}: part {list(self.part)}: goes with values per row, of one shape")
        if self.units and len(self.units) != len(self.columns):
            raise ValueError(f"{self.name}: {len(self.units)} units for {len(self.columns)} columns")
        if self.stored != "rows" and not self.is_ragged:
            raise ValueError(f"{self.name}: stored as {self.stored}, which goes with values of any length")
        if self.spelled and not (self.classes and self.dtype == "int64"):
            raise ValueError(f"{self.name}: spelled, which goes with classes and int64")
        if self.default is not None and (self.is_ragged or self.is_raw):
            raise ValueError(f"{self.name}: a default goes with values of one shape, of {', '.join(LISTED)}")
        return self

    def rows_of(self, length: int) -> tuple[int, int]:
        """Of a value per row: which of the `length` rows of a window, [first, end), it has."""
        return self.part or (0, length)

    @property
    def in_records(self) -> str:
        """Its name in the records."""
        return self.feature or self.name

    @property
    def shape_text(self) -> str:
        """Its shape as people read it: `[28, any]`."""
        return "[" + ", ".join("any" if size is None else str(size) for size in self.shape) + "]"

    @property
    def is_raw(self) -> bool:
        """Whether each value is stored as one string, as no feature can list its numbers."""
        return self.dtype not in LISTED

    @property
    def listed(self) -> Listed:
        """What its feature lists."""
        return "bytes" if self.is_raw or self.spelled else cast(Listed, self.dtype)

    @property
    def listed_width(self) -> int:
        """As `width`, of what the feature lists."""
        return 1 if self.is_raw else self.width

    @property
    def is_ragged(self) -> bool:
        """Whether values may be of any length."""
        return None in self.shape

    @property
    def width(self) -> int:
        """Numbers (or strings) in one value; in one entry of a value of any length."""
        return math.prod(size or 1 for size in self.shape)

    @property
    def names(self) -> list[str]:
        """Of its numbers, or of its one text: those of its columns, or its own with the place of each."""
        if self.columns:
            return self.columns
        return [self.name] if self.width == 1 else [f"{self.name}[{at}]" for at in range(self.width)]

    @property
    def bytes(self) -> int | None:
        """Of one value in memory; None where that differs from value to value."""
        return None if self.is_ragged or self.dtype == "bytes" else BYTES[self.dtype] * self.width
