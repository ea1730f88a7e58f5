"""The section `split`: which rows train, and which evaluate and test."""

from datetime import date
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from beamfeed.contract.config.duration import checked_duration
from beamfeed.contract.config.section import Duration, Fraction, Section, class_name
from beamfeed.contract.splits import SPLIT_WORDS as SPLIT_WORDS
from beamfeed.contract.splits import SPLITS as SPLITS
from beamfeed.contract.splits import SplitName as SplitName

SPLIT_KEYS = ("train_from", "gap", "stratify")  # that not every kind of source knows
Rows = Annotated[int, Field(ge=2)]
Time = str | int | float
_PART = "A fraction; with by: rows, also a number of rows, or rest; with by: column, a list of values."


class Split(Section):
    """How the rows fall into train, eval and test."""

    example: ClassVar[str] = "{train: 0.8, eval: 0.1, test: 0.1}"

    by: Literal["asset", "time", "rows", "column", "row", "key"] = Field(
        default="asset",
        description="asset: whole assets, by a seeded hash of the name. time: the first part of each asset's time "
        "trains, or what is before eval_from. rows: the first rows of each asset train. column: by the values of a "
        "column of the file, or of the path: a named group of source.asset.pattern, or the key of a key=value folder. "
        "Of tables, images and arrays also: row, each by itself, by a hash of its place (of an image, of its path); of "
        "tables and images: key, by a hash of source.key.",
    )
    column: str | None = Field(default=None, description="With by: column, its name.")
    train: Fraction | Rows | list[str] = Field(default=0.8, description=_PART)
    eval: Fraction | Rows | Literal["rest"] | list[str] = Field(default=0.1, description=_PART)
    test: Fraction | Rows | Literal["rest"] | list[str] = Field(default=0.1, description=_PART)
    eval_from: Time | None = Field(
        default=None, description="With by: time, the time at which all assets go from train to eval: 2024-01-31."
    )
    test_from: Time | None = Field(
        default=None, description="With by: time, the time at which all assets go from eval (or train) to test."
    )
    train_from: Time | None = Field(default=None, description="With by: time of a table: rows before are not used.")
    gap: Duration | None = Field(
        default=None,
        description="With by: time of a table: rows within this time before the first cut are not used, such as 7d.",
    )
    stratify: bool = Field(
        default=False, description="With by: row, each class of the label has its exact share in each split."
    )
    seed: int = Field(default=7, description="Where a hash decides, another seed splits assets or rows differently.")

    _gap = field_validator("gap")(checked_duration)

    @field_validator("train", "eval", "test", mode="before")
    @classmethod
    def _values_as_text(cls, value: Any) -> Any:
        return [class_name(item) for item in value] if isinstance(value, list) else value

    @field_validator("train_from", "eval_from", "test_from", mode="before")
    @classmethod
    def _as_written(cls, value: Any) -> Any:
        return value.isoformat() if isinstance(value, date) else value  # YAML reads a date as one

    @model_validator(mode="after")
    def _fits(self) -> "Split":
        parts = {name: getattr(self, name) for name in SPLITS}
        for key in ("train_from", "eval_from", "test_from", "gap"):
            if getattr(self, key) is not None and self.by != "time":
                raise ValueError(f"{key!r} goes with by: time, not by: {self.by}")
        if self.stratify and self.by not in ("row", "asset"):  # asset: nothing was said, and a table has rows
            raise ValueError(f"stratify goes with by: row, not by: {self.by}")
        if (self.train_from, self.gap) != (None, None) and (self.eval_from, self.test_from) == (None, None):
            raise ValueError("train_from and gap go with eval_from or test_from")
        if self.eval_from is not None or self.test_from is not None:
            if written := [name for name in SPLITS if name in self.model_fields_set]:
                raise ValueError(f"give either eval_from and test_from or fractions, not {written[0]} too")
            object.__setattr__(self, "eval", 0.0 if self.eval_from is None else self.eval)
            object.__setattr__(self, "test", 0.0 if self.test_from is None else self.test)
            return self
        if self.by == "column":
            if self.column is None:
                raise ValueError("by: column needs 'column: <name>'")
            # What was not written is empty, not a default fraction.
            for name, part in parts.items():
                if name not in self.model_fields_set:
                    object.__setattr__(self, name, [])
                elif not isinstance(part, list):
                    raise ValueError(f"by: column needs a list of values for {name}, not {part!r}")
            values = [value for name in SPLITS for value in getattr(self, name)]
            if not self.train:
                raise ValueError("by: column needs a list of values for train")
            twice = {value for value in values if values.count(value) > 1}
            if twice:
                raise ValueError(f"the value {sorted(twice)[0]!r} is in more than one split")
            return self
        if self.column is not None:
            raise ValueError(f"'column' goes with by: column, not by: {self.by}")
        for name, part in parts.items():
            if isinstance(part, list):
                raise ValueError(f"by: {self.by} needs a fraction for {name}, not a list")
            if counts_rows(part) and self.by != "rows":
                raise ValueError(f"by: {self.by} needs a fraction for {name}, not {part}; by: rows counts rows")
        if any(map(counts_rows, parts.values())):
            return self._check_rows()
        total = sum(parts.values())
        if abs(total - 1) > 1e-6:
            raise ValueError(f"train + eval + test is {total:g}, it must be 1")
        if not parts["train"]:
            raise ValueError("train is 0, there would be nothing to train on")
        return self

    def _check_rows(self) -> "Split":
        """Numbers of rows. Of eval and test the first that is not written is the rest, another one is nothing."""
        if isinstance(self.train, str) or not counts_rows(self.train) or "train" not in self.model_fields_set:
            raise ValueError("by: rows needs a number of rows for train, such as 400")
        for name in ("eval", "test"):
            part = getattr(self, name)
            if name not in self.model_fields_set:
                object.__setattr__(self, name, 0 if self.eval == "rest" else "rest")
            elif part != 0 and not counts_rows(part):
                raise ValueError(f"by: rows needs numbers of rows or fractions, not both: {name} is {part}")
        if self.eval == "rest" and self.test:
            raise ValueError("eval is the rest, so that nothing is left for test")
        return self


def counts_rows(part: Any) -> bool:
    """Whether a part of a split is given in rows: a number of them, or the rest."""
    return part == "rest" or (isinstance(part, int) and part > 1)
