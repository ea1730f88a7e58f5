"""The sections `prepare` and `windows`: from the rows of an asset to the windows of a model."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from beamfeed.contract.config.duration import checked_duration
from beamfeed.contract.config.section import Duration, Float32, Section, names_code

STEPS = "prepare.steps"


class Missing(Section):
    """What happens to missing values, NaN and infinity."""

    example: ClassVar[str] = "{fill: linear}"

    fill: Literal["forward", "linear", "constant", "drop"] = Field(
        default="forward",
        description="forward repeats the last value, linear draws a line between neighbours, constant puts 'value', "
        "drop leaves the row out.",
    )
    limit: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=5,
        description="forward fills at most this many rows of a run of missing ones; linear fills only runs up to it.",
    )
    then: Literal["drop", "constant"] = Field(default="drop", description="What happens to rows still missing a value.")
    value: Float32 = Field(default=0.0, description="The constant, in scaled units.")


class Resample(Section):
    """Puts irregular rows on a regular grid of time."""

    example: ClassVar[str] = "{every: 1s}"

    every: Duration = Field(description="The step of the regular time grid: 1s, 250ms, or a number.")
    how: Literal["mean", "first", "last", "min", "max"] = Field(
        default="mean", description="One row from those in a step."
    )

    _every = field_validator("every")(checked_duration)


class Scale(Section):
    """How values are scaled."""

    example: ClassVar[str] = "{how: minmax}"

    how: Literal["standard", "minmax", "robust", "none"] = Field(
        default="standard",
        description="standard: mean 0, deviation 1. minmax: from 0 to 1. robust: median 0, the middle half of the "
        "values 1 wide. none: as they are.",
    )
    per: Literal["fleet", "asset"] = Field(
        default="fleet", description="fleet: statistics of all training rows. asset: of each asset's own rows."
    )
    clip: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="Scaled values are clipped to [-clip, clip]."
    )
    flags: Literal["scale", "range"] = Field(
        default="scale",
        description="What columns of two values, such as 0 and 1, are divided by. scale: as how says. range: their "
        "distance, so that a value that is rare does not become large.",
    )
    min_divisor: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.01,
        description="With per: asset, the smallest divisor of a feature, as a share of its median over all assets. 0: "
        "no limit.",
    )

    @model_validator(mode="after")
    def _fits(self) -> "Scale":
        if self.clip is not None and self.how == "none":
            raise ValueError(f"clip: {self.clip:g} is in scaled units, and how: none scales nothing; for limits in the "
                             "files' own units there is prepare.range")  # fmt: skip
        if self.flags == "range" and self.how == "none":
            raise ValueError("flags: range divides columns of two values, and how: none scales nothing")
        return self


class Prepare(Section):
    """What happens to values between reading and windows."""

    example: ClassVar[str] = "{max_gap: 1h}"

    steps: list[str] = Field(
        default=[],
        description="Your own functions from Arrow table to Arrow table, or Beam DoFns, as module:name. All rows pass "
        "through them, one step after the other, before anything else is done.",
    )
    step_columns: list[str] = Field(
        default=[],
        description="Names and globs of columns that the steps get beside those that the job names elsewhere.",
    )
    range: dict[str, tuple[float | None, float | None]] = Field(
        default={},
        description="Lowest and highest possible value by column name or glob, such as {sensor_1: [0, 300]}; values "
        "outside count as missing. null is open.",
    )
    duplicates: Literal["first", "last", "mean", "reject"] = Field(
        default="first",
        description="What happens to rows of an asset at the same time: one of them stays, or their mean, or the "
        "asset is set aside. With resample, all of them count in their step unless it is reject.",
    )
    missing: Missing = Missing()
    resample: Resample | None = None
    max_gap: Duration | None = Field(default=None, description="No window spans a longer gap in time.")
    scale: Scale = Scale()

    _max_gap = field_validator("max_gap")(checked_duration)

    @field_validator("steps")
    @classmethod
    def _names_functions(cls, value: list[str]) -> list[str]:
        return [names_code(path, "function", "my_package.steps:add_power") for path in value]

    @model_validator(mode="after")
    def _steps_for_columns(self) -> "Prepare":
        if self.step_columns and not self.steps:
            raise ValueError("step_columns: there are no steps that could get them")
        return self

    @field_validator("range")
    @classmethod
    def _ordered(cls, value: dict[str, tuple[float | None, float | None]]) -> Any:
        for name, (low, high) in value.items():
            if low is not None and high is not None and not low <= high:
                raise ValueError(f"{name}: [{low:g}, {high:g}] holds no value; the lowest comes first")
        return value


class Windows(Section):
    """The shape of a window, and the rows from one to the next."""

    example: ClassVar[str] = "{length: 30}"

    length: Annotated[int, Field(ge=1, le=1_000_000)] = Field(description="Rows in a window.")
    stride: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=1, description="Rows from one window to the next."
    )
