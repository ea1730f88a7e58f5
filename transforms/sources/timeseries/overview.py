"""What series hold: their columns, and when their rows are."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.overview import Lacking, Overview, Times
from beamfeed.transforms.sources.readers import read_schema
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset
from beamfeed.transforms.sources.timeseries.read import read_chunks
from beamfeed.transforms.sources.timeseries.spec import PreprocessSpec
from beamfeed.transforms.sources.timeseries.survey import SeriesStatistics

MANY_STEPS = 10  # between two rows are a pause, where the job names none
TELLING_STEPS = 100_000  # that tell what is mostly between two rows


def look_over(assets: Sequence[SeriesAsset], statistics: SeriesStatistics, spec: PreprocessSpec) -> Overview:
    """What some assets that can be read hold; `statistics` are of the training rows."""
    schema, moments = spec.schema, statistics.moments
    columns = tuple(schema.names)
    names = read_schema(assets[0].pieces[0].path, schema.text).names if assets else ()
    if schema.wide is not None:
        times = frozenset(schema.wide.columns_of(assets[0].pieces[0].path, names)) if assets else ()
        names = [name for name in names if name not in times]
    return Overview(
        columns,
        tuple(name for name in names if name not in columns),
        tuple(Lacking(name, moments.rows - moments.count[i], moments.rows) for i, name in enumerate(schema.features)),
        moments.rows,
        look_at_times(assets, spec),
    )


def look_at_times(assets: Sequence[SeriesAsset], spec: PreprocessSpec) -> Times | None:
    """When the rows of some assets are; None where there are none."""
    units, every = spec.schema.time_units, chain.from_iterable(_steps(asset, spec) for asset in assets)
    begin, count = [], 0
    for steps in every:
        begin.append(steps)
        count += len(steps)
        if count > TELLING_STEPS:
            break
    if not begin:
        return None
    forward = (first := np.concatenate(begin))[first > 0]
    usual = Counter(forward.tolist()).most_common(1)[0][0] if len(forward) else None
    pause = spec.max_gap if spec.max_gap is not None else MANY_STEPS * (usual or 1)
    pauses = repeats = decreases = longest = 0
    for steps in chain([first], every):
        pauses += int((steps > pause).sum())
        repeats += int((steps == 0).sum())
        decreases += int((steps < 0).sum())
        longest = max(longest, int(steps.max(initial=0)))
    return Times(
        first=units.format(min(piece.first for asset in assets for piece in asset.pieces)),
        last=units.format(max(piece.last for asset in assets for piece in asset.pieces)),
        step=None if usual is None else units.format_span(usual),
        pauses=pauses,
        pause=units.format_span(pause),
        longest=units.format_span(longest) if longest else None,
        repeats=repeats,
        decreases=decreases,
    )


def _steps(asset: SeriesAsset, spec: PreprocessSpec) -> Iterator[np.ndarray]:
    """int64 [n]: the ticks from each row of an asset to the next one, as far as its files can be read."""
    last: np.ndarray | None = None
    try:
        for chunk in read_chunks(asset, spec.schema):
            time = chunk.time[chunk.right]
            yield np.diff(time, prepend=time[:0] if last is None else last)
            last = time[-1:] if len(time) else last
    except BadInput:  # a reject tells
        return
