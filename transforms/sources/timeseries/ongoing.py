"""Assets that go on in new files: their new rows are checked, and the windows written that have at least one of them.

The windows across the seam need rows that were there: those of the last files, which are read again.
"""

from collections.abc import Sequence
from dataclasses import replace

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.sources.timeseries import TimeseriesSource
from beamfeed.transforms.sources.descriptors import CannotGoOn, KnownAsset
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset, time_cuts
from beamfeed.transforms.sources.timeseries.scan import FileSlice
from beamfeed.transforms.sources.timeseries.spec import PreprocessSpec
from beamfeed.transforms.splits import split_of_asset


def may_go_on(job: Job) -> bool:
    """Whether windows that are there stay as they are, whatever rows come behind them."""
    source, split = job.source, job.split
    assert isinstance(source, TimeseriesSource)
    has_cuts = split.by == "time" and (split.eval_from is not None or split.test_from is not None)
    return (
        (split.by == "asset" or has_cuts)
        and not any(label.derive for label in job.label)
        and job.prepare.missing.fill != "linear"  # which looks ahead
        and source.time.from_ is None  # rows that count on from file to file
        and source.reshape is None
    )


def go_on(known: KnownAsset, tail: Sequence[FileSlice], new: Sequence[FileSlice], spec: PreprocessSpec) -> SeriesAsset:
    """See `Source.go_on`.

    Raises:
      CannotGoOn: if the new rows are not all behind the others, by a step of the grid where there is one.
    """
    every, job = spec.every or 1, spec.job
    tail_rows = sum(piece.rows for piece in tail)
    if known.skipped + tail_rows != known.rows:
        raise CannotGoOn(
            f"the last files of asset {known.asset} hold {tail_rows} rows, not {known.rows - known.skipped}"
        )
    more = sorted((piece for piece in new if piece.rows), key=lambda piece: (piece.first, piece.path))
    for piece in more:
        if piece.first <= known.last:
            raise CannotGoOn(f"{piece.path} begins before the rows of asset {known.asset} that are there end")
        if piece.first // every == known.last // every:
            raise CannotGoOn(f"{piece.path} begins in the last step of prepare.resample that asset {known.asset} has")
    ordered = [*sorted((piece for piece in tail if piece.rows), key=lambda piece: piece.first), *more]
    asset = SeriesAsset(
        known.asset,
        tuple(replace(piece, number=number) for number, piece in enumerate(ordered)),
        split_of_asset(known.asset, job.split) if job.split.by == "asset" else None,
        total=known.rows + sum(piece.rows for piece in more),
        last=max((piece.last for piece in more), default=known.last),
        offset=known.skipped,
        empty=len(new) - len(more),
        known=known,
    )
    return replace(asset, cuts=time_cuts(asset, job, spec.schema.time_units)) if job.split.by == "time" else asset


def known_of(asset: SeriesAsset, spec: PreprocessSpec) -> KnownAsset:
    """See `Source.known`.

    Its `tail` is as short as it can be: with the rows around a window that holds the last row and the next one.
    """
    if not may_go_on(spec.job) or asset.sort or asset.merge or asset.apart or asset.by_path:
        return KnownAsset(asset.name, asset.rows, asset.last)
    windowing, pieces = spec.windowing, asset.pieces
    context = windowing.length + windowing.ahead + windowing.before
    number, skipped = len(pieces), asset.end
    if spec.every is None:
        while number and skipped > asset.end - context:
            number -= 1
            skipped -= pieces[number].rows
    else:  # and the step at which the first file begins may have rows in the one before it
        earliest = (asset.last // spec.every - context - 1) * spec.every
        while number and (number == len(pieces) or pieces[number].first >= earliest):
            number -= 1
            skipped -= pieces[number].rows
    return KnownAsset(
        asset.name, asset.rows, asset.last, skipped, tail=tuple(piece.path for piece in pieces[number:])
    )  # fmt: skip


def seam(asset: SeriesAsset, spec: PreprocessSpec) -> tuple[int, int]:
    """Of an asset that goes on: the first row to read, and the first position at which a new window may begin."""
    assert asset.known is not None
    windowing = spec.windowing
    needed = windowing.length + windowing.ahead - 1
    if spec.every is not None:
        return asset.offset, asset.known.last // spec.every + 1 - needed
    position = max(0, asset.known.rows - needed)
    return max(asset.offset, position - windowing.before), position
