"""Tables of labelled rows: the section `source` with `kind: table`."""

from typing import ClassVar, Literal

from pydantic import Field

from beamfeed.contract.config.sources.csv import Csv
from beamfeed.contract.config.sources.formats import FilesOfRows


class TableSource(FilesOfRows):
    """Rows that stand for themselves: files of columns, and folders `key=value`, whose keys are columns too."""

    sections: ClassVar[dict[str, bool]] = {"features": True, "label": False}
    split_by: ClassVar[tuple[str, ...]] = ("row", "key", "time", "column")
    split_keys: ClassVar[tuple[str, ...]] = ("train_from", "gap", "stratify")
    has_graph: ClassVar[bool] = True
    output_keys: ClassVar[tuple[str, ...]] = ("partition_by", "rows_per_record", "grow")

    kind: Literal["table"] = Field(description="What the files hold.")
    key: str | None = Field(
        default=None, description="A column whose rows belong together, such as a customer: for split.by: key."
    )
    time: str | None = Field(default=None, description="A column of times or dates, for split.by: time.")
    csv: Csv = Csv()
