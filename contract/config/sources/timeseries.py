"""Sensor series: the section `source` with `kind: timeseries`."""

import re
from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from beamfeed.contract.config.section import Section
from beamfeed.contract.config.sources.base import SourceSection


class AssetFrom(Section):
    """Which rows belong to one asset (a machine, a sensor, a patient)."""

    from_: Literal["path"] | None = Field(
        default=None, alias="from", description="path: each file's path names its asset."
    )
    pattern: str | None = Field(
        default=None,
        description="Regular expression found in the path; its named groups are columns of the path, "
        "and the group 'asset' names the asset. Without it the file's stem does.",
    )
    column: str | None = Field(default=None, description="A column of the files that names the asset of each row.")

    @field_validator("pattern")
    @classmethod
    def _pattern_names_asset(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            groups = re.compile(value).groupindex
        except re.error as error:
            raise ValueError(f"{value!r} is not a regular expression: {error}") from None
        if not groups:
            raise ValueError(f"{value!r} has no named group such as (?P<asset>[^/]+)")
        return value

    @model_validator(mode="after")
    def _one_way(self) -> "AssetFrom":
        if (self.from_ is None) == (self.column is None):
            raise ValueError("give either 'from: path' or 'column: <name>'")
        if self.from_ and self.pattern and "asset" not in re.compile(self.pattern).groupindex:
            raise ValueError(f"pattern {self.pattern!r} has no group named 'asset', such as (?P<asset>[^/]+)")
        return self


class TimeColumn(Section):
    """What orders the rows of an asset."""

    column: str = Field(description="The column that orders the rows of an asset.")
    unit: Literal["ns", "us", "ms", "s", "m", "h", "d"] | None = Field(
        default=None,
        description="The unit of a numeric column. Timestamps need none; without one, durations are plain numbers.",
    )


class TimeseriesSource(SourceSection):
    """Sensor series: files of rows with a time, one asset or several in each."""

    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".csv", ".csv.gz")
    sections: ClassVar[dict[str, bool]] = {"prepare": False, "windows": True, "label": False}
    split_by: ClassVar[tuple[str, ...]] = ("asset", "time", "column")

    kind: Literal["timeseries"] = Field(description="What the files hold.")
    files: str = Field(
        min_length=1, description="Local or gs:// file, glob (** crosses folders) or folder; .parquet .csv .csv.gz"
    )
    asset: AssetFrom = Field(
        default_factory=lambda: AssetFrom(**{"from": "path"}),
        description="If left out, {from: path}: a file is an asset.",
    )
    time: TimeColumn
    features: list[str] = Field(min_length=1, description="Names and globs of the numeric columns to train on.")
