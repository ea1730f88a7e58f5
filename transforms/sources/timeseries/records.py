"""What a record of a series holds."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from beamfeed.contract.dataset.fields import Field
from beamfeed.transforms.sources.record_block import RecordBlock
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.windowing import Segments

# `start` is the position of a record's first row in the asset, `first_time` and `last_time` are ticks, see
# time_units.py; `values` are the features of each row.
ASSET, FIRST_TIME, LAST_TIME, START, VALUES = "asset", "first_time", "last_time", "start", "values"


def record_fields(features: Sequence[str]) -> list[Field]:
    """The fields of the records of series."""
    numbers = [Field(name=name, dtype="int64", role="key", per="record") for name in (FIRST_TIME, LAST_TIME, START)]
    values = Field(name=VALUES, dtype="float32", shape=(len(features),), role="input", columns=list(features))
    return [Field(name=ASSET, dtype="bytes", role="key", per="record"), *numbers, values]


def record_block(asset: str, rows: Rows, values: np.ndarray, segments: Segments) -> RecordBlock:
    """The records of a block of rows.

    Args:
      asset: its name.
      rows: of the block.
      values: float32 [n, features], the filled values of `rows`.
      segments: row ranges of the block, a record each.
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
        },
    )
