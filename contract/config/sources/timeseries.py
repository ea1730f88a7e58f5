"""Sensor series: the section `source` with `kind: timeseries`."""

import re
import zoneinfo
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from beamfeed.contract.config.section import Section, names_groups
from beamfeed.contract.config.sources.csv import Csv
from beamfeed.contract.config.sources.formats import FilesOfRows
from beamfeed.contract.errors import near_miss


class AssetFrom(Section):
    """Which rows belong to one asset (a machine, a sensor, a patient)."""

    example: ClassVar[str] = "{column: machine}"

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
    def _pattern_has_groups(cls, value: str | None) -> str | None:
        return None if value is None else names_groups(value, "(?P<asset>[^/]+)")

    @model_validator(mode="after")
    def _one_way(self) -> "AssetFrom":
        if (self.from_ is None) == (self.column is None):
            raise ValueError("give either 'from: path' or 'column: <name>'")
        if self.from_ and self.pattern and "asset" not in re.compile(self.pattern).groupindex:
            raise ValueError(f"pattern {self.pattern!r} has no group named 'asset', such as (?P<asset>[^/]+)")
        return self


# What a time format may hold, after its %; docs/files.md explains them.
FORMAT_LETTERS = frozenset("YymdeHIMSfpbBhjzaATRFD%")
MOST_TIMES = 6  # columns: year, month, day, hour, minute, second


class TimeColumn(Section):
    """What orders the rows of an asset."""

    example: ClassVar[str] = "{column: cycle}"

    column: str | list[str] | None = Field(
        default=None,
        description="The column that orders the rows of an asset; two, [DATE, TIME]; or columns of numbers: "
        "[year, month, day, hour], up to the second.",
    )
    from_: Literal["row"] | None = Field(
        default=None, alias="from", description="row: rows are numbered as they stand in the files, in path order."
    )
    unit: Literal["ns", "us", "ms", "s", "m", "h", "d"] | None = Field(
        default=None,
        description="The unit of a numeric column, or between rows. Timestamps need none; without one, durations are "
        "plain numbers.",
    )
    format: str | None = Field(
        default=None, description="How times are written as text, such as '%d.%m.%Y %H:%M:%S'; detected if left out."
    )
    zone: str | None = Field(
        default=None, description="The time zone of times without one, such as Europe/Berlin or +01:00."
    )

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns: none with `from: row`, several where times are split into them."""
        if self.column is None:
            return ()
        return (self.column,) if isinstance(self.column, str) else tuple(self.column)

    @field_validator("column")
    @classmethod
    def _one_or_more(cls, value: str | list[str] | None) -> str | list[str] | None:
        if isinstance(value, list) and not 2 <= len(value) == len(set(value)) <= MOST_TIMES:
            raise ValueError(
                f"{value!r} is not allowed, it must be a name, two: [DATE, TIME], or parts: [year, month, day, hour]"
            )
        return value

    @field_validator("format")
    @classmethod
    def _known_letters(cls, value: str | None) -> str | None:
        if value is None:
            return None
        letters = re.findall(r"%(.?)", value)
        if not letters:
            raise ValueError(f"{value!r} holds no %, it must be such as '%d.%m.%Y %H:%M:%S'")
        if wrong := [letter for letter in letters if letter not in FORMAT_LETTERS or not letter]:
            allowed = " ".join(f"%{letter}" for letter in sorted(FORMAT_LETTERS, key=str.lower))
            raise ValueError(f"{value!r} holds %{wrong[0]}, which is not known (known: {allowed})")
        return value

    @field_validator("zone")
    @classmethod
    def _known_zone(cls, value: str | None) -> str | None:
        if value is None or re.fullmatch(r"[+-](0\d|1[0-4]):[0-5]\d", value):
            return value
        try:
            zoneinfo.ZoneInfo(value)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            near = near_miss(value, sorted(zoneinfo.available_timezones()))
            raise ValueError(f"{value!r} is not a time zone{near} (such as Europe/Berlin, UTC, +01:00)") from None
        return value

    @model_validator(mode="after")
    def _one_way(self) -> "TimeColumn":
        if (self.from_ is None) == (self.column is None):
            raise ValueError("give either 'column: <name>' or 'from: row'")
        if self.from_ is not None:
            for key in ("format", "zone"):
                if getattr(self, key) is not None:
                    raise ValueError(f"{key} does not go with 'from: row', which is no time")
        if self.unit is not None and self.format is not None:
            raise ValueError("give either unit, for numbers, or format, for text")
        return self


class Reshape(Section):
    """For files that do not have a row for each time."""

    example: ClassVar[str] = '{wide: "20*"}'

    wide: str | Annotated[list[str], Field(min_length=1)] = Field(
        description="Names and globs of columns whose names are times: a row holds the whole series of an asset. "
        "time.column then names the column that their names become, and features the one of their values.",
    )

    @property
    def patterns(self) -> tuple[str, ...]:
        """`wide` as a list, whether it is one or not."""
        return (self.wide,) if isinstance(self.wide, str) else tuple(self.wide)


class TimeseriesSource(FilesOfRows):
    """Sensor series: files of rows with a time, one asset or several in each."""

    sections: ClassVar[dict[str, bool]] = {"prepare": False, "windows": True, "label": False}
    noun: ClassVar[str] = "window"
    split_by: ClassVar[tuple[str, ...]] = ("asset", "time", "rows", "column")
    has_graph: ClassVar[bool] = True
    output_keys: ClassVar[tuple[str, ...]] = ("grow", "keep")

    kind: Literal["timeseries"] = Field(description="What the files hold.")
    asset: AssetFrom = Field(
        default_factory=lambda: AssetFrom(**{"from": "path"}),
        description="If left out, {from: path}: a file is an asset.",
    )
    time: TimeColumn
    reshape: Reshape | None = Field(default=None, description="For files whose columns are times.")
    features: list[str] = Field(min_length=1, description="Names and globs of the numeric columns to train on.")
    missing_columns: Literal["reject", "missing"] = Field(
        default="reject",
        description="What becomes of a file that lacks a feature's column: it is set aside, or the values are missing.",
    )
    csv: Csv = Csv()

    @model_validator(mode="after")
    def _names_what_is_made(self) -> "TimeseriesSource":
        if self.reshape is None:
            return self
        if self.asset.column is None:
            raise ValueError("reshape.wide needs asset: {column: NAME}, which says whose series a row holds")
        if len(self.time.columns) > 1:
            raise ValueError(
                f"reshape.wide makes one column of times, time.column names {len(self.time.columns)}; give one name"
            )
        if len(self.features) > 1 or any(c in self.features[0] for c in "*?"):
            raise ValueError(
                f"reshape.wide makes one column of values, and features is what it is called: {self.features} is not "
                "allowed, it must be one name, such as [value]"
            )
        return self
