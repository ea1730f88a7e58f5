"""The section `sweep`: which keys of the job `beamfeed sweep` tries other values of, and how it chooses them."""

import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from beamfeed.contract.config.section import InWords, Positive, Section

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")


def _number(value: Any) -> Any:
    """A value with `1e-4` as the number that people mean; YAML takes it for text, as it has no point."""
    return float(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value


Number = Annotated[int | float, BeforeValidator(_number), InWords("a number")]


class Range(Section):
    """Numbers from which a value is drawn."""

    example: ClassVar[str] = "{low: 0.0001, high: 0.01, log: true}"

    low: Number = Field(description="The lowest.")
    high: Number = Field(description="The highest; it may be drawn, too.")
    log: bool = Field(default=False, description="Whether each power of ten is as likely as another.")
    step: Number | None = Field(default=None, description="Only low, low + step and so on are drawn.")

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low is {self.low}, it must be below high, which is {self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"low is {self.low}, with log it must be above 0")
        if self.log and self.step is not None:
            raise ValueError("log and step do not go together; write the values as a list")
        if self.step is not None and not 0 < self.step <= self.high - self.low:
            raise ValueError(f"step is {self.step}, it must be above 0, up to high - low")
        return self


def _choices(value: Any) -> Any:
    """A list, or a mapping that is to be a range."""
    if isinstance(value, list):
        if len(value) < 2:
            raise ValueError("needs at least two values; a key that stays as it is belongs into its section")
        values = [_number(item) for item in value]
        if twice := [item for at, item in enumerate(values) if item in values[:at]]:
            raise ValueError(f"holds {twice[0]} twice")
        return values
    if isinstance(value, Range):
        return value
    if isinstance(value, dict) and {"low", "high"} & value.keys():
        return Range.model_validate(value)
    if isinstance(value, dict):
        raise ValueError("is a mapping without low and high; keys are written with dots, train.optimizer.learning_rate")
    raise ValueError("must be a list of values, such as [32, 64], or a range, such as " + Range.example)


Choices = Annotated[Range | list[Any], BeforeValidator(_choices)]


class Sweep(Section):
    """A search over keys of the job for the values with the best eval metric."""

    example: ClassVar[str] = (
        "{trials: 20, space: {train.optimizer.learning_rate: {low: 0.0001, high: 0.01, log: true}}}"
    )

    trials: Positive | None = Field(
        default=None, description="Training runs; left out, 20, or with sampler grid as many as it has points."
    )
    sampler: Literal["tpe", "random", "grid"] = Field(
        default="tpe",
        description="tpe: learns from earlier trials where good values are. random. grid: each combination once.",
    )
    pruner: Literal["none", "median", "hyperband"] = Field(
        default="median",
        description="What ends trials that look bad: median: worse than half of the others at the same evaluation. "
        "hyperband: many short trials, few long ones. none: each runs to its end.",
    )
    seed: Annotated[int, Field(ge=0)] = Field(default=7, description="Seed of the choices.")
    space: dict[str, Choices] = Field(
        min_length=1,
        description="Keys of train with the values to try: {train.model.units: [[32], [64]], "
        "train.optimizer.learning_rate: {low: 0.0001, high: 0.01, log: true}}.",
    )

    @model_validator(mode="after")
    def _grid_is_finite(self) -> Self:
        if self.sampler == "grid":
            for key, choices in self.space.items():
                if isinstance(choices, Range) and choices.step is None:
                    raise ValueError(f"sampler: grid needs a list of values, or a step, for {key}")
        return self
