"""By how much a feature is moved and divided: from statistics to an offset and a divisor."""

from dataclasses import dataclass, replace

import numpy as np

from beamfeed.transforms.statistics.moments import Moments

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)  # what `how: robust` asks of a sample
SIZES = 280  # float32 has that many powers of two, from -149 to 127 and some to spare
SCALE_FILE = "scale_by_asset.tsv"  # with each asset's, among the files of the transform graph
FIRST_LINE = b"-\t\n"  # of that file, of no asset: its key is the base64 of nothing
ASSET, VALUES, UNCLIPPED = "asset", "values", "unclipped"  # what the transform graph takes and gives
FLEET = "fleet"  # the mark of the fleet's scaling in the transform graph
_WIDE = 4096  # numbers that are scaled in one run
_RESOLUTION = 2.0**-23  # of float32: neighbouring values are this part of themselves apart, or half of it


@dataclass(frozen=True, eq=False)
class Scaling:
    """What the features of the fleet or of an asset are scaled by: (x - offset) / divisor.

    Attributes:
      offset: float32 [features]; NaN where no row has a value.
      divisor: float32 [features]; 0 where the feature is constant, which is divided by one.
      usual: float32 [features], of the fleet: about what its assets' own divisors are, see `with_usual`.
    """

    offset: np.ndarray
    divisor: np.ndarray
    usual: np.ndarray | None = None

    @classmethod
    def of(cls, moments: Moments, method: str, quantiles: np.ndarray | None = None) -> "Scaling":
        """The scaling that statistics ask for.

        standard: (x - mean) / standard deviation of the population.
        minmax: (x - min) / (max - min).
        robust: (x - median) / (range of the middle half). Where that is 0, the range of the middle nine tenths; where
        that is 0 too, or no row of the sample has a value, the standard deviation.
        none: as they are.

        A divisor that is less than float32 can tell apart at the offset says nothing: the feature is constant.

        Args:
          moments: of the rows.
          method: standard, minmax, robust or none.
          quantiles: float64 [QUANTILES, features] of the same rows, for robust.

        Raises:
          ValueError: if `method` is none of these, or robust without quantiles.
        """
        if method == "none":
            features = len(moments.count)
            return cls(np.zeros(features, np.float32), np.ones(features, np.float32))
        low = np.where(np.isfinite(moments.low), moments.low, 0)
        high = np.where(np.isfinite(moments.high), moments.high, 0)
        if method == "minmax":
            offset, divisor = low, high - low
        elif method == "standard":
            offset, divisor = moments.mean(), moments.std()
        elif method == "robust" and quantiles is not None:
            offset, divisor = _robust(moments, quantiles)
        else:
            raise ValueError(f"how is {method!r}, it must be standard, minmax, none, or robust with quantiles")
        # The mean of equal values may be off in its last bit; their minimum is not.
        offset = np.where(high > low, offset, low)
        offset = np.where(np.asarray(moments.count) > 0, offset, np.nan)
        divisor = np.where(divisor > np.abs(offset) * _RESOLUTION, divisor, 0)
        return cls(offset.astype(np.float32), divisor.astype(np.float32))

    def with_flags(self, moments: Moments) -> "Scaling":
        """The scaling where columns of two values are divided by no less than their distance: 0 and 1 stay one apart.

        A deviation would make a state that is rare in training ten or a hundred times as large as other values, and
        such columns the most of an error, though nothing foretells them.

        Args:
          moments: of the rows.
        """
        flags = moments.two_valued()
        distance = np.where(flags, moments.high, 0) - np.where(flags, moments.low, 0)
        return replace(self, divisor=np.maximum(self.divisor, distance).astype(np.float32))

    @property
    def sizes(self) -> np.ndarray:
        """int64 [features, SIZES]: 1 at the power of two of each divisor, nothing where the feature is constant."""
        powers = np.frexp(self.divisor)[1] + 150  # exact, and no less than 1
        return ((powers[:, None] == np.arange(SIZES)) & (self.divisor > 0)[:, None]).astype(np.int64)

    def with_usual(self, sizes: np.ndarray) -> "Scaling":
        """The fleet's scaling with what its assets' own divisors usually are: the median, to within a third.

        Deviations of the fleet would mix in how far apart the assets' levels are. Counts add up in any order.

        Args:
          sizes: int64 [features, SIZES], the sum of those of the assets.
        """
        counts = sizes.cumsum(axis=1)
        power = (2 * counts >= counts[:, -1:]).argmax(axis=1) - 151  # the median lies between this one and the next
        usual = np.where(counts[:, -1] > 0, np.ldexp(np.float32(1.5), power), self.divisor)
        return replace(self, usual=usual.astype(np.float32))

    def under_min(self, fleet: "Scaling", min_divisor: float) -> np.ndarray:
        """The features, bool [features], whose divisor of an asset is less than `min_divisor` times the usual one."""
        usual = fleet.divisor if fleet.usual is None else fleet.usual
        return ~np.isnan(self.offset) & (self.divisor < np.float32(min_divisor) * usual)

    def count_under(self, fleet: "Scaling", min_divisor: float) -> np.ndarray:
        """int64 [3, features], to be added up over assets: under the least; of these not constant; 1 for the asset."""
        under = self.under_min(fleet, min_divisor)
        return np.stack([under, under & (self.divisor > 0), np.ones_like(under)]).astype(np.int64)

    def at_least(self, fleet: "Scaling", min_divisor: float) -> "Scaling":
        """The scaling of an asset with no divisor under the least.

        What is constant in the asset says nothing of its range: it gets the fleet's divisor. So rows that come later,
        or that another split has, are not blown up. What is constant in the fleet has none. A feature of which the
        asset has no value gets all of the fleet's.
        """
        usual = fleet.divisor if fleet.usual is None else fleet.usual
        least = np.where(self.divisor > 0, np.float32(min_divisor) * usual, fleet.divisor)
        divisor = np.where(self.under_min(fleet, min_divisor), least, self.divisor)
        nothing = np.isnan(self.offset)
        return replace(
            self,
            offset=np.where(nothing, fleet.offset, self.offset),
            divisor=np.where(nothing, fleet.divisor, divisor),
        )

    @property
    def rows(self) -> np.ndarray:
        """float32 [2, features]: the offsets, and the divisors as they are used."""
        return np.stack([np.nan_to_num(self.offset), np.where(self.divisor > 0, self.divisor, np.float32(1))])


def _robust(moments: Moments, quantiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    p05, p25, median, p75, p95 = quantiles
    offset = np.where(np.isnan(median), moments.mean(), median)
    divisor = moments.std()
    for wide in (p95 - p05, p75 - p25):
        divisor = np.where(wide > np.abs(offset) * _RESOLUTION, wide, divisor)
    return offset, divisor


def scale_rows(values: np.ndarray, rows: np.ndarray, clip: float | None = None) -> np.ndarray:
    """Scaled values, to the bit as the transform graph gives them; NaN stays NaN.

    But for numbers under 2**-126 in size, which TensorFlow takes for 0.

    Args:
      values: float32 `[n, features]`.
      rows: float32 `[2, features]`, see `Scaling.rows`.
      clip: the largest size of a scaled value.
    """
    scaled = np.empty_like(values, order="C")
    count, features = values.shape
    together = max(1, _WIDE // max(1, features))  # rows: NumPy takes long over many short runs
    whole = count - count % together
    for first, end, width in ((0, whole, together), (whole, count, 1)):
        wide = scaled[first:end].reshape(-1, width * features)
        np.subtract(values[first:end].reshape(wide.shape), np.tile(rows[0], width), out=wide)
        np.divide(wide, np.tile(rows[1], width), out=wide)
    if clip is not None:
        np.maximum(scaled, np.float32(-clip), out=scaled)
        np.minimum(scaled, np.float32(clip), out=scaled)
    return scaled
