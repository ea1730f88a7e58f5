"""What a record of a series holds."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.label import Label
from beamfeed.contract.dataset.fields import Field, Time
from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.columns.labels import LabelColumn, label_field
from beamfeed.transforms.sources.record_block import RecordBlock
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.windowing import Segments

# `start` is the position of a record's first row in the asset, `first_time` and `last_time` are ticks, see
# time_units.py; `values` are the features of each row.
ASSET, FIRST_TIME, LAST_TIME, START, VALUES = "asset", "first_time", "last_time", "start", "values"
TIME = "time"  # of each row, in ticks


def check_names(labels: Sequence[Label]) -> None:
    """Raises UserError if a label has the name of another field."""
    reserved = (ASSET, FIRST_TIME, LAST_TIME, START, VALUES)
    for label in labels:
        if label.name in reserved:
            raise UserError(f"label.name: {label.name!r} is a field of every series (taken: {', '.join(reserved)})")


def record_fields(
    features: Sequence[str],
    labels: Sequence[Label] = (),
    columns: Sequence[LabelColumn] = (),
    time: Time | None = None,
    part: tuple[int, int] | None = None,
) -> list[Field]:
    """The fields of the records of series.

    Args:
      features: columns of the values.
      labels: of the job, those that are values of a window.
      columns: those that the labels come from, with their classes known.
      time: what times count.
      part: the rows of a window that a model gets; None where these are all.
    """
    numbers = [
        Field(name=name, dtype="int64", role="key", per="record", time=None if name == START else time)
        for name in (FIRST_TIME, LAST_TIME, START)
    ]
    values = Field(
        name=VALUES, dtype="float32", shape=(len(features),), role="input", columns=list(features), part=part
    )
    classes = iter(columns)
    label_fields = [label_field(label, next(classes).classes if label.column else None, "window") for label in labels]
    return [Field(name=ASSET, dtype="bytes", role="key", per="record"), *numbers, values, *label_fields]


def record_block(
    asset: str, rows: Rows, values: np.ndarray, segments: Segments, labels: Mapping[str, np.ndarray] | None = None
) -> RecordBlock:
    """The records of a block of rows.

    Args:
      asset: its name.
      rows: of the block.
      values: float32 [n, features], the filled values of `rows`.
      segments: row ranges of the block, a record each.
      labels: by name, of all windows of the segments, in order, or of all rows.
    """
    last = segments.first + segments.rows - 1
    return RecordBlock(
        asset,
        segments.first,
        segments.rows,
        {
            ASSET: pa.array([asset.encode()] * len(segments), pa.large_binary()),
            FIRST_TIME: rows.time[segments.first],
            LAST_TIME: rows.time[last],
            START: rows.position[segments.first],
            VALUES: values,
            **(labels or {}),
        },
        pa.RecordBatch.from_pydict({TIME: rows.time}),
    )
