"""The section `label`: what a model is to tell of a window, from a column of the files or derived from the series."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from beamfeed.contract.config.section import FieldName, Section, class_name

MOST_CLASSES = 1000


def wrong_classes(classes: Sequence[str | int | bool]) -> str | None:
    """What is wrong with a list of classes in a job file, in words; None where nothing is."""
    names = [class_name(item) for item in classes]
    if len(names) < 2:
        return f"{classes!r} must name at least two classes"
    if twice := [name for name in names if names.count(name) > 1]:
        return f"the class {twice[0]!r} is given twice"
    if len(names) > MOST_CLASSES:
        return f"{len(names)} classes, at most {MOST_CLASSES} are supported"
    return None


class Ahead(Section):
    """The rows behind a window, for the task forecast."""

    example: ClassVar[str] = "{rows: 24}"

    rows: Annotated[int, Field(ge=1, le=10_000)] = Field(description="How many rows behind the window are forecast.")
    columns: list[str] = Field(
        default=[], description="Those of the features that are forecast, names and globs; left out, all of them."
    )


class Label(Section):
    """One number or class for each window, or the rows behind it; windows for which it is not known are left out."""

    example: ClassVar[str] = "{column: fault}"

    name: FieldName = Field(
        default="label", description="Name of the field in the dataset, which a task gives as its target."
    )
    column: str | None = Field(default=None, description="A column of the files.")
    derive: Literal["remaining_life"] | None = Field(
        default=None, description="remaining_life: rows from the window's last one to the last one of its asset."
    )
    ahead: Ahead | None = Field(
        default=None, description="The rows behind the window, in the units of the files: the target of a forecast."
    )
    at: Literal["end", "any", "horizon"] = Field(
        default="end",
        description="end: the value at the window's last row. any: the highest value, or class, of its rows. "
        "horizon: the value 'horizon' rows after its last one.",
    )
    horizon: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="With at: horizon, rows ahead."
    )
    classes: Literal["auto"] | list[str | int | bool] | None = Field(
        default=None,
        description="The values of the column are names of classes: a list of them, or auto for those of the training "
        "rows, in order. Left out, the values are numbers.",
    )
    cap: Annotated[float, Field(gt=0)] | None = Field(default=None, description="Higher numbers count as this one.")
    role: Literal["target", "weight"] = Field(
        default="target", description="target: what is learned. weight: how much a window counts."
    )

    @field_validator("classes")
    @classmethod
    def _differ(cls, value: list[str | int | bool] | str | None) -> list[str | int | bool] | str | None:
        if isinstance(value, list):
            if "" in value:
                raise ValueError("an empty text is no name of a class: it is a missing value")
            if problem := wrong_classes(value):
                raise ValueError(problem)
        return value

    @model_validator(mode="after")
    def _fits(self) -> "Label":
        if self.ahead is not None:
            if written := [key for key in self.model_fields_set if key not in ("name", "ahead")]:
                raise ValueError(f"ahead goes with name alone, not with {min(written)}: it names its columns itself")
            return self
        if (self.column is None) == (self.derive is None):
            raise ValueError("give either 'column: <name>', 'derive: remaining_life' or 'ahead: {rows: <rows>}'")
        if (self.at == "horizon") != (self.horizon is not None):
            raise ValueError(
                "at: horizon needs 'horizon: <rows>'"
                if self.at == "horizon"
                else f"'horizon' goes with at: horizon, not with at: {self.at}"
            )
        if self.derive is not None and self.at != "end":
            raise ValueError(f"derive: {self.derive} goes with at: end, not with at: {self.at}")
        if self.classes is not None and (self.derive or self.cap or self.role == "weight"):
            key = "derive" if self.derive else "cap" if self.cap else "role: weight"
            raise ValueError(f"classes do not go with {key}: that is of numbers")
        return self

    @property
    def reach(self) -> int:
        """Rows after a window's last one that its value comes from."""
        return self.horizon or self.rows_ahead

    @property
    def rows_ahead(self) -> int:
        """Rows behind a window that are its value."""
        return 0 if self.ahead is None else self.ahead.rows
