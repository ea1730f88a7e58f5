"""The section `split`: which rows train, and which evaluate and test."""

from typing import Literal

from pydantic import Field, model_validator

from beamfeed.contract.config.section import Fraction, Section

SplitName = Literal["train", "eval", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "eval", "test")


class Split(Section):
    """How the rows fall into train, eval and test."""

    by: Literal["asset", "time", "column"] = Field(
        default="asset",
        description="asset: whole assets, by a seeded hash of the name. time: the first part of each asset's time "
        "trains. column: by the values of a column of the file, or of a named group of source.asset.pattern.",
    )
    column: str | None = Field(default=None, description="With by: column, its name.")
    train: Fraction | list[str] = Field(default=0.8, description="A fraction; with by: column, a list of values.")
    eval: Fraction | list[str] = Field(default=0.1, description="A fraction; with by: column, a list of values.")
    test: Fraction | list[str] = Field(default=0.1, description="A fraction; with by: column, a list of values.")
    seed: int = Field(default=7, description="Another seed deals the assets out differently.")

    @model_validator(mode="after")
    def _fits(self) -> "Split":
        parts = {name: getattr(self, name) for name in SPLITS}
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
        total = sum(parts.values())
        if abs(total - 1) > 1e-6:
            raise ValueError(f"train + eval + test is {total:g}, it must be 1")
        if not parts["train"]:
            raise ValueError("train is 0, there would be nothing to train on")
        return self
