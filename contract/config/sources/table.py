"""Tables of labelled rows: the section `source` with `kind: table`."""

from typing import ClassVar, Literal

from pydantic import Field

from beamfeed.contract.config.sources.base import SourceSection
from beamfeed.contract.config.sources.csv import Csv
from beamfeed.contract.config.sources.timeseries import OTHERS, PACKED, TABLES, TEXTS, tell_suffixes_of_rows


class TableSource(SourceSection):
    """Rows that stand for themselves: files of columns, and folders `key=value`, whose keys are columns too."""

    suffixes: ClassVar[tuple[str, ...]] = (*TABLES, *TEXTS, *(text + packed for text in TEXTS for packed in PACKED))
    other_suffixes: ClassVar[tuple[str, ...]] = OTHERS
    sections: ClassVar[dict[str, bool]] = {"features": True, "label": False}
    split_by: ClassVar[tuple[str, ...]] = ("row", "key", "time", "column")
    split_keys: ClassVar[tuple[str, ...]] = ("train_from", "gap", "stratify")
    output_keys: ClassVar[tuple[str, ...]] = ("partition_by", "rows_per_record")

    kind: Literal["table"] = Field(description="What the files hold.")
    key: str | None = Field(
        default=None, description="A column whose rows belong together, such as a customer: for split.by: key."
    )
    time: str | None = Field(default=None, description="A column of times or dates, for split.by: time.")
    csv: Csv = Csv()

    @classmethod
    def tell_suffixes(cls) -> str:
        return tell_suffixes_of_rows()
