"""What the assets' own scales are together: the usual divisors, and how many are under the floor."""

import apache_beam as beam
import numpy as np

from beamfeed.transforms.statistics.scaling import SIZES
from beamfeed.transforms.statistics.sums import AddUp


class AddUsual(beam.PTransform):
    """PCollection of one Scaling, the fleet's -> the same with the usual divisors of its assets.

    Args:
      assets: PCollection of Scaling, of the assets that train.
      features: how many.
    """

    def __init__(self, assets: beam.PCollection, features: int):
        super().__init__()
        self._assets, self._features = assets, features

    def expand(self, fleet: beam.PCollection) -> beam.PCollection:
        sizes = (
            self._assets
            | "Sizes" >> beam.Map(lambda own: own.sizes)
            | "AddUpSizes" >> beam.CombineGlobally(AddUp(np.zeros((self._features, SIZES), np.int64)))
        )
        return fleet | "WithUsual" >> beam.Map(
            lambda fleet, sizes: fleet.with_usual(sizes), beam.pvalue.AsSingleton(sizes)
        )


class CountUnderFloor(beam.PTransform):
    """PCollection of (asset's name, Scaling) -> PCollection of one array, the sum of `Scaling.count_under`.

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
            | "UnderFloor" >> beam.Map(lambda named, fleet, floor: named[1].count_under(fleet, floor),
                                       beam.pvalue.AsSingleton(self._fleet), self._floor)
            | "AddUpUnderFloor" >> beam.CombineGlobally(AddUp(np.zeros((3, self._features), np.int64)))
        )  # fmt: skip
