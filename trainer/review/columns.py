"""Means and deviations of the columns of inputs, so that splits that differ can be told."""

import math

import numpy as np

from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer.review.reading import Fields

MOST_COLUMNS = 10  # columns


class Columns:
    """Sums over the numbers of each column.

    Args:
      manifest: of the dataset; inputs of numbers whose columns have names count.
    """

    def __init__(self, manifest: Manifest):
        self._fields: list[Field] = [
            field
            for field in manifest.fields
            if field.role == "input" and field.dtype == "float32" and field.columns and not field.is_ragged
        ]
        self._sums = {name: np.zeros(3) for field in self._fields for name in field.columns}  # 1, x, x * x

    def add(self, fields: Fields) -> None:
        """Adds a batch without padding."""
        for field in self._fields:
            if field.name in fields:
                values = fields[field.name].numpy().reshape(-1, len(field.columns)).astype(np.float64)
                sums = np.stack([np.full(values.shape[1], len(values)), values.sum(0), np.square(values).sum(0)])
                for name, more in zip(field.columns, sums.T, strict=True):
                    self._sums[name] = self._sums[name] + more

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added."""
        return not any(sums[0] for sums in self._sums.values())

    def moments(self) -> dict[str, tuple[float, float]]:
        """Mean and standard deviation by column, of those that were added."""
        return {
            name: (float(total / count), float(np.sqrt(max(0.0, squares / count - (total / count) ** 2))))
            for name, (count, total, squares) in self._sums.items()
            if count
        }


def drift(train: Columns, split: Columns) -> dict[str, float]:
    """How far the means of a split are away from those of train, in train's deviations: the farthest columns first.

    Columns that are always the same in train are left out.
    """
    moments = train.moments()
    away = {}
    for name, (mean, _) in split.moments().items():
        before, deviation = moments.get(name, (0.0, 0.0))
        if deviation > 1e-6 * max(1.0, abs(before)) and math.isfinite(mean):
            away[name] = (mean - before) / deviation
    return dict(sorted(away.items(), key=lambda item: -abs(item[1]))[:MOST_COLUMNS])
