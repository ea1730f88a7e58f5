"""No source at all: the job trains on a dataset that is there."""

from typing import ClassVar, Literal

from pydantic import Field

from beamfeed.contract.config.section import FilePath
from beamfeed.contract.config.sources.base import SourceSection


class NoSource(SourceSection):
    """Stands in the place of `source` where a job that only trains has none; no job file can name it."""

    suffixes: ClassVar[tuple[str, ...]] = ()
    noun: ClassVar[str] = "window"

    kind: Literal["none"] = Field(default="none", description="That there is no source.")
    files: list[FilePath] = Field(default=[], description="None.")
