"""Which rows of series a sample is taken of, for prepare.scale.how: robust.

The sample of a unit holds only what it may add to that of its asset, or of the fleet, as told by how many rows these
have that train. So all samples of a run are some megabytes together, however large the fleet is.
"""

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.prepare import Scale
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset
from beamfeed.transforms.statistics.moments import Moments
from beamfeed.transforms.statistics.quantiles import RowSample, share
from beamfeed.transforms.statistics.scaling import QUANTILES, Scaling

# How many times a sample is allowed for. Of a fleet many rows may not train, or be rejected; of an asset most count.
_SPARE_FLEET, _SPARE_ASSET = 16, 2
_UNKNOWN = 16  # where a column says which rows train: as if so small a part of them did


def empty_sample(features: int, job: Job) -> RowSample | None:
    """A sample of no rows; None where the job needs none."""
    return RowSample.zero(features) if job.prepare.scale.how == "robust" else None


def training_rows(asset: SeriesAsset) -> int:
    """About how many rows of an asset train: with absolute cuts, as if its files had their rows evenly in time."""
    if asset.split is not None:
        return asset.rows if asset.split == "train" else 0
    if asset.row_cuts is not None:
        return asset.row_cuts[0]
    if asset.by_path:
        return sum(piece.rows for piece in asset.pieces if piece.split == "train")
    if asset.cuts is not None:
        shares = ((asset.cuts[0] - piece.first) / (piece.last - piece.first + 1) for piece in asset.pieces)
        return sum(
            int(piece.rows * min(max(share, 0.0), 1.0)) for piece, share in zip(asset.pieces, shares, strict=True)
        )
    return asset.rows // _UNKNOWN


def part_of_rows(asset: SeriesAsset, features: int, job: Job) -> float:
    """The part of the hashes of an asset's rows that its units look at."""
    if job.prepare.scale.per == "asset":  # of one that is in eval or test as a whole, all rows count
        is_undivided = asset.split is not None or asset.only is not None
        return share(asset.rows if is_undivided else training_rows(asset), features, _SPARE_ASSET)
    return share(asset.fleet_rows, features, _SPARE_FLEET)


def settle(sample: RowSample | None, asset: SeriesAsset, features: int, job: Job) -> RowSample | None:
    """The sample of a whole asset, as it goes on.

    An asset with a scale of its own has its quantiles taken now. Of its rows only those stay that the fleet's sample
    may need, so that nobody holds a sample of each asset.
    """
    if sample is None or sample.settled is not None or job.prepare.scale.per != "asset":
        return sample
    return sample.settle(QUANTILES, share(asset.fleet_rows, features, _SPARE_FLEET))


def scaling_of(moments: Moments, sample: RowSample | None, scale: Scale, *, settled: bool = False) -> Scaling:
    """What statistics are scaled by.

    Args:
      moments: of the rows.
      sample: of the same rows; None where there are none, or none is needed.
      scale: the job's section prepare.scale.
      settled: by the quantiles of an asset that were taken when it was whole.
    """
    quantiles = None
    if scale.how == "robust":
        sample = RowSample.zero(len(moments.count)) if sample is None else sample
        quantiles = sample.settled if settled else None
        quantiles = sample.quantiles(QUANTILES) if quantiles is None else quantiles
    scaling = Scaling.of(moments, scale.how, quantiles)
    return scaling.with_flags(moments) if scale.flags == "range" else scaling
