"""The section `features`: what becomes of the columns of a table. One class a type, and the one look-up of types."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from beamfeed.contract.config.section import Float32, InWords, OneOf, Positive, Section, names_code

MOST_TERMS = 1_000_000  # different values of a column that a vocabulary is counted from
Reads = Literal["number", "text", "time"]  # what the values of a column are read as
Size = Annotated[int, Field(ge=1, le=100_000_000)]


class Feature(Section):
    """A feature: its name is its key in the job file, a glob of columns, or any name where `column` is given.

    Attributes:
      reads: what its column is read as.
    """

    reads: ClassVar[Reads] = "text"

    type: str = Field(description="What the column holds, and what becomes of it.")
    column: str | None = Field(default=None, description="The column; left out, the one that the feature is named by.")
    required: bool = Field(default=False, description="A row without a value is set aside.")


class Numeric(Feature):
    """A number, scaled. float32; part of the field `numbers`."""

    reads: ClassVar[Reads] = "number"

    type: Literal["numeric"]
    scale: Literal["standard", "minmax", "robust", "log", "none"] = Field(
        default="standard",
        description="standard: mean 0, deviation 1. minmax: from 0 to 1. robust: median 0, the middle half of the "
        "values 1 wide. log: the logarithm of 1 + x (-log(1 - x) where x is negative), then standard. none: as it is.",
    )
    missing: Literal["mean"] | Float32 = Field(
        default="mean", description="What a missing value counts as: the mean of the training rows, or a number."
    )
    indicator: bool = Field(default=False, description="Adds <name>_missing: 1 where the value is missing, else 0.")
    clip: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="Scaled values are clipped to [-clip, clip]."
    )

    @model_validator(mode="after")
    def _fits(self) -> "Numeric":
        if self.clip is not None and self.scale == "none":
            raise ValueError("clip is in scaled units, and scale: none scales nothing")
        return self


class Categorical(Feature):
    """A category, as a number. int64; part of the field `categories`. 0 is missing, then come unseen values."""

    type: Literal["categorical"]
    min_count: Positive = Field(default=1, description="A value that fewer training rows have counts as unseen.")
    max_size: Size | None = Field(
        default=None, description="The most frequent values, at most this many; others are unseen."
    )
    unseen: Size = Field(default=1, description="How many numbers unseen values are hashed to.")
    hash: Annotated[int, Field(ge=2, le=100_000_000)] | None = Field(
        default=None,
        description="Instead of a vocabulary, values are hashed to this many numbers; for very many values.",
    )

    @model_validator(mode="after")
    def _hash_alone(self) -> "Categorical":
        unused = {"min_count", "max_size", "unseen"} & self.model_fields_set
        if self.hash is not None and unused:
            raise ValueError(f"{sorted(unused)[0]} does not go with hash, which keeps no vocabulary")
        return self


class Bucket(Feature):
    """A number as the bucket that it falls into. int64; part of the field `categories`. 0 is missing."""

    reads: ClassVar[Reads] = "number"

    type: Literal["bucket"]
    buckets: Annotated[int, Field(ge=2, le=1000)] | None = Field(
        default=None, description="Number of buckets, with equally many training rows each as far as values differ."
    )
    edges: list[float] = Field(default=[], description="Where one ends and the next begins, in rising order.")

    @model_validator(mode="after")
    def _one_way(self) -> "Bucket":
        if (self.buckets is None) == (not self.edges):
            raise ValueError("give either 'buckets: 10' or 'edges: [0, 10, 100]'")
        if any(low >= high for low, high in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError(f"edges: {self.edges} do not rise")
        return self


class Text(Feature):
    """A text as numbers of its words. int64 `[length]`, a field of its own. 0 is nothing, 1 is unseen."""

    type: Literal["text"]
    split: Literal["words", "spaces", "characters"] = Field(
        default="words",
        description="words: letters, digits, _ and apostrophes; every other character is a word of its own. spaces: "
        "what stands between white space. characters: each by itself.",
    )
    lower: bool = Field(default=True, description="Lowercase the text.")
    min_count: Positive = Field(
        default=2, description="A word that is in the training rows fewer times counts as unseen."
    )
    max_size: Size | None = Field(default=20_000, description="The most frequent words, at most this many.")
    length: Annotated[int, Field(ge=1, le=65_536)] | Literal["ragged"] = Field(
        default=64, description="Words per text: longer ones are cut, shorter ones padded with 0. ragged: as they are."
    )


DATE_PARTS = {"minute": 60, "hour": 24, "weekday": 7, "day": 31, "month": 12}


class DateParts(Feature):
    """Parts of a time: numbers in `categories` (0 is missing), or with `cyclic` sine and cosine in `numbers`."""

    reads: ClassVar[Reads] = "time"

    type: Literal["date"]
    parts: list[Literal["minute", "hour", "weekday", "day", "month"]] = Field(
        default=["hour", "weekday"], min_length=1, description="Which parts; the week begins with Monday."
    )
    cyclic: bool = Field(default=False, description="Each part as a place on a circle: December is beside January.")

    @field_validator("parts")
    @classmethod
    def _once(cls, value: list[str]) -> list[str]:
        if twice := [part for part in value if value.count(part) > 1]:
            raise ValueError(f"{twice[0]} is given twice")
        return value


class Cross(Section):
    """Values of several columns together, as one of `hash` numbers. int64; part of the field `categories`."""

    reads: ClassVar[Reads] = "text"

    type: Literal["cross"]
    of: Annotated[list[str], Field(min_length=2, max_length=8), InWords("a list of 2 to 8 columns")] = Field(
        description="The columns."
    )
    hash: Annotated[int, Field(ge=2, le=100_000_000)] = Field(description="How many numbers they are hashed to.")


class Pass(Feature):
    """The value as it is, a field of its own: numbers as float32, or text; as an input or, with `role: key`, a name."""

    type: Literal["pass"]
    as_: Literal["number", "text"] = Field(default="text", alias="as", description="What it is read as.")
    role: Literal["input", "key"] = Field(
        default="key", description="input: a model gets it. key: it names the row, and readers may ask for it."
    )


class Own(Section):
    """Your own function in the style of tensorflow-transform: columns by name in, tensors by name out, each a field."""

    type: Literal["own"]
    function: str = Field(description="module:function, from a dict of tensors to a dict of tensors.")
    columns: dict[str, Reads] = Field(min_length=1, description="The columns that it gets, and what each is read as.")

    @field_validator("function")
    @classmethod
    def _names_function(cls, value: str) -> str:
        return names_code(value, "function", "my_package.my_module:preprocessing_fn")


# What each does is in beamfeed/transforms/sources/table/graph.py.
FEATURES: tuple[type[Section], ...] = (Numeric, Categorical, Bucket, Text, DateParts, Cross, Pass, Own)

AnyFeature = Annotated[Section, OneOf("type", FEATURES)]


def own_functions(features: Mapping[str, Section]) -> dict[str, str]:
    """The functions of the user's own, `module:name`, by their keys in the job file."""
    return {
        f"features.{name}.function": feature.function for name, feature in features.items() if isinstance(feature, Own)
    }


def key_columns(features: Mapping[str, Section]) -> frozenset[str]:
    """The columns that only name rows: those of `pass` with `role: key` that no other feature names."""
    passed, used = set(), set()
    for name, section in features.items():
        if isinstance(section, Pass) and section.role == "key":
            passed.add(section.column or name)
        elif isinstance(section, Cross):
            used |= set(section.of)
        elif isinstance(section, Own):
            used |= set(section.columns)
        elif isinstance(section, Feature):
            used.add(section.column or name)
    return frozenset(passed - used)
