"""The rows behind a window, for forecasts: in the units of the files, as they are and never filled.

They are rows of the same segments as the windows' own, and stored once, however many windows they are behind.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from beamfeed.contract.config.columns import match_features
from beamfeed.contract.config.label import Label
from beamfeed.contract.dataset.fields import Field, Unit
from beamfeed.contract.errors import UserError, near_miss
from beamfeed.transforms.sources.timeseries.windowing import Windowing, WindowRuns
from beamfeed.transforms.statistics.moments import Moments
from beamfeed.transforms.statistics.scaling import Scaling

ScaleRows = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class RowsAhead:
    """A label that is the rows behind a window.

    Attributes:
      name: of its field.
      rows: how many.
      places: of its columns, among the features.
    """

    name: str
    rows: int
    places: tuple[int, ...]


def find_ahead(labels: Sequence[Label], features: Sequence[str]) -> tuple[RowsAhead, ...]:
    """The labels of a job that are rows behind a window.

    Raises:
      UserError: if one names a column that is no feature.
    """
    rows_ahead: list[RowsAhead] = []
    for label in labels:
        if label.ahead is None:
            continue
        columns = label.ahead.columns or list(features)
        for pattern in columns:
            if not match_features([pattern], features, ()):
                raise UserError(
                    f"label.ahead.columns: {pattern!r} is none of source.features{near_miss(pattern, features)} "
                    f"(they are: {', '.join(features)})"
                )
        names = match_features(columns, features, ())
        rows_ahead.append(RowsAhead(label.name, label.ahead.rows, tuple(map(features.index, names))))
    return tuple(rows_ahead)


def scale_beside(values: np.ndarray, scaler: ScaleRows | None, ahead: Sequence[RowsAhead]) -> np.ndarray:
    """Rows scaled, and beside them the columns to forecast as they are: float32 `[n, features + columns]`.

    Beside them they are resampled alike.

    Args:
      values: float32 `[n, features]`, as the files have them; NaN is missing.
      scaler: scales them; None leaves them as they are.
      ahead: of the job.
    """
    scaled = values if scaler is None else scaler(values)
    return np.concatenate([scaled, *(values[:, label.places] for label in ahead)], axis=1) if ahead else scaled


def by_name(raw: np.ndarray, ahead: Sequence[RowsAhead]) -> dict[str, np.ndarray]:
    """Of the columns to forecast, float32 `[n, columns]`, those of each label."""
    ends = np.cumsum([len(label.places) for label in ahead], dtype=int)
    return {label.name: raw[:, end - len(label.places) : end] for label, end in zip(ahead, ends, strict=True)}


def keep_known(
    runs: WindowRuns, raw: np.ndarray, is_filled: np.ndarray | None, ahead: Sequence[RowsAhead], windowing: Windowing
) -> WindowRuns:
    """The windows behind which no value is missing in the columns to forecast.

    Args:
      runs: windows of a block.
      raw: float32 `[n, columns]` of its rows, those of each label beside those of the one before; NaN is missing.
      is_filled: bool `[n]`, where filled values come from rows behind them too: a window that ends in such a row would
        know what it is to forecast, and is left out. None where none do.
      ahead: of the job.
      windowing: of the job.
    """
    start, _ = runs.starts(windowing.stride)
    end = start + windowing.inputs
    is_known = np.ones(len(start), bool)
    for label, columns in zip(ahead, by_name(raw, ahead).values(), strict=True):
        missing = np.concatenate([[0], np.cumsum(np.isnan(columns).any(axis=1))])  # rows before each
        is_known &= missing[end + label.rows] == missing[end]
    if is_filled is not None:
        is_known &= ~is_filled[end - 1]
    return runs if is_known.all() else runs.keep(is_known, windowing.stride)


def ahead_fields(
    ahead: Sequence[RowsAhead], features: Sequence[str], length: int, moments: Moments, scale: np.ndarray
) -> list[Field]:
    """The field of each label: a value per row, of which a window has those behind its own.

    Args:
      ahead: of the job.
      features: names of all.
      length: rows of a window that a model gets.
      moments: of the features of training rows.
      scale: float32 `[2, features]`, the offsets and divisors of the features.
    """
    std = Scaling.of(moments, "standard").divisor  # 0 where a column is constant
    return [
        Field(
            name=label.name,
            dtype="float32",
            shape=(len(label.places),),
            role="target",
            columns=[features[place] for place in label.places],
            part=(length, length + label.rows),
            units=[
                Unit(std=float(std[place]), offset=float(scale[0, place]), divisor=float(scale[1, place]))
                for place in label.places
            ],
        )
        for label in ahead
    ]
