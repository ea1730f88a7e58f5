"""Counts the assets whose own scale is under the floor."""

import apache_beam as beam
import numpy as np

from beamfeed.transforms.statistics.sums import AddUp


class CountUnderFloor(beam.PTransform):
    """PCollection of (asset's name, Scaling) -> PCollection of one tuple: of each feature, the assets under the floor.

    Args:
      fleet: PCollection of one Scaling.
      floor: see `Scaling.at_least`.
      features: how many.
    """

    def __init__(self, fleet: beam.PCollection, floor: float, features: int):
        super().__init__()
        self._fleet, self._floor, self._features = fleet, floor, features

    def expand(self, assets: beam.PCollection) -> beam.PCollection:
        return (
            assets
            | "UnderFloor" >> beam.Map(lambda named, fleet, floor: named[1].under_floor(fleet, floor).astype(np.int64),
                                       beam.pvalue.AsSingleton(self._fleet), self._floor)
            | "AddUpUnderFloor" >> beam.CombineGlobally(AddUp(np.zeros(self._features, np.int64)))
            | "UnderFloorCounts" >> beam.Map(lambda counts: tuple(counts.tolist()))
        )  # fmt: skip
