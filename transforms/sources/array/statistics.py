"""What is counted of the training rows of arrays; it adds up in any order to equal bytes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from beamfeed.transforms.sources.array.rows import ArrayRows, as_float32, unique_texts
from beamfeed.transforms.sources.array.schema import ArraySchema
from beamfeed.transforms.sources.columns.label_counts import ClassCounts
from beamfeed.transforms.statistics.moments import Moments
from beamfeed.transforms.statistics.sums import add_fields

AT_A_TIME = 1 << 20  # numbers, which are made float64


@dataclass(frozen=True)
class ArrayStatistics:
    """Of some rows.

    Attributes:
      rows: how many train.
      moments: of each scaled input, of each number of a row that is scaled by itself.
      classes: of the targets.
    """

    rows: int
    moments: tuple[Moments, ...]
    classes: ClassCounts

    @classmethod
    def zero(cls, schema: ArraySchema) -> "ArrayStatistics":
        """Of no rows."""
        moments = tuple(Moments.zero(column.scales) for column in schema.scaled)
        return cls(0, moments, ClassCounts.zero(schema.columns))

    def __add__(self, other: "ArrayStatistics") -> "ArrayStatistics":
        return add_fields(self, other)


def statistics_of(rows: ArrayRows, schema: ArraySchema) -> ArrayStatistics:
    """Of those of some rows that can be used."""
    usable = rows.usable
    training, held_out = usable & (rows.places == 0), usable & (rows.places > 0)
    moments = []
    for column in schema.scaled:
        values = rows.values[column.name][training]
        step = max(1, AT_A_TIME // max(1, values[:1].size))
        parts = (_moments(values[at : at + step], column.scales) for at in range(0, len(values), step))
        moments.append(sum(parts, Moments.zero(column.scales)))
    classes = ClassCounts.of(
        *([_texts(rows.values[column.name][mask]) for column in schema.auto] for mask in (training, held_out))
    )
    return ArrayStatistics(int(training.sum()), tuple(moments), classes)


def _moments(values: np.ndarray, scales: int) -> Moments:
    numbers = as_float32(values).reshape(-1, scales)
    return Moments.of(np.where(np.isfinite(numbers), numbers, np.float32(np.nan)))


def _texts(values: np.ndarray) -> pa.StringArray:
    texts, inverse = unique_texts(values)
    return pa.array(texts, pa.string()).take(pa.array(inverse))


def to_json(statistics: ArrayStatistics, schema: ArraySchema) -> dict[str, Any]:
    """For stats.json: of each scaled input what was counted."""
    features: dict[str, Any] = {}
    for column, moments in zip(schema.scaled, statistics.moments, strict=True):
        is_wide = column.scales > 1
        names = [f"{column.name}[{place}]" for place in range(column.scales)] if is_wide else [column.name]
        features |= moments.describe(names)
    return {"rows": statistics.rows, "features": features}
