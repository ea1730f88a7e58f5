"""The sections `output` and `limits`: the dataset to write, and when to give up."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from beamfeed.contract.config.duration import checked_duration
from beamfeed.contract.config.section import Duration, FolderPath, Fraction, Section

OUTPUT_KEYS = ("partition_by", "rows_per_record", "grow", "keep")  # that not every kind of source knows


class Output(Section):
    """Where the dataset goes, and how it is stored."""

    example: ClassVar[str] = "{path: out/data}"

    path: FolderPath = Field(min_length=1, description="The folder of the dataset, local or gs://")
    records: Literal["segments", "windows"] = Field(
        default="segments",
        description="segments: a record is a run of rows that the trainer frames into windows (smaller, faster). "
        "windows: one record per window, for readers that expect it.",
    )
    partition_by: list[str] = Field(
        default=[],
        description="Of tables: columns whose values are folders below each split, country=DE, so that training can "
        "read only some of them (train.feed.where).",
    )
    rows_per_record: Annotated[int, Field(ge=1, le=65_536)] | None = Field(
        default=None,
        description="Of tables, images and arrays: rows that a record holds; left out, about 64 KB of them. Other "
        "readers expect 1.",
    )
    grow: bool = Field(
        default=False,
        description="A later run prepares the new files alone, with the statistics of the first run, and adds them to "
        "the dataset.",
    )
    keep: Duration | None = Field(
        default=None,
        description="Of series in a dataset that grows: beamfeed compact removes records whose rows are all older than "
        "this, as seen from the newest row. Files that are gone take nothing with them.",
    )
    compression: Literal["none", "gzip"] = Field(
        default="none", description="Of the shards. gzip costs a copy on the trainer's machine."
    )
    shards: Literal["auto"] | Annotated[int, Field(ge=1, le=100_000)] = Field(
        default="auto", description="Files per split. auto: about 128 MB each and enough to share among workers."
    )

    _keep = field_validator("keep")(checked_duration)


class Limits(Section):
    """When a job gives up."""

    example: ClassVar[str] = "{max_rejected_fraction: 0.1}"

    max_rejected_fraction: Fraction = Field(
        default=0.01,
        description="The fraction of assets, and of rows, that may be set aside before the job fails; and of files "
        "that may hold rows of any asset.",
    )
    max_rejected_assets: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="The number of assets that may be set aside; max_rejected_fraction then counts where it is given.",
    )
    max_drift: Annotated[float, Field(ge=0.5)] | None = Field(
        default=None,
        description="Of a dataset that grows: how many deviations the mean of a feature in new training rows may be "
        "away from that of the first run, before the job fails.",
    )
    sort_memory_mb: Annotated[int, Field(ge=0)] = Field(
        default=512, description="An asset whose rows are not in order of time is sorted in memory up to this size."
    )
