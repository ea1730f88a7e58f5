"""The windows of one asset -> the scores of its rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from beamfeed.transforms.scoring.rows import How, rows_of_run, runs_of, smoothed
from beamfeed.transforms.scoring.tails import Tail

LEAST_OWN = 100  # windows of training from which on an asset has a distribution of its own


@dataclass(frozen=True)
class Windows:
    """Windows of an asset, by rising start.

    Attributes:
      start: int64 `[n]`, the position of the first row of each.
      time, until: float64 `[n]`, the times of its first and last row.
      measures: float64 `[n, parts]`, how unusual it is by each measure.
    """

    start: np.ndarray
    time: np.ndarray
    until: np.ndarray
    measures: np.ndarray


@dataclass(frozen=True)
class ScoredRows:
    """Rows of an asset that follow each other.

    Attributes:
      first: the position of the first.
      time: float64 `[rows]`.
      scores: float64 `[rows, 1 + parts]`: the score, and the rarity by each measure.
    """

    first: int
    time: np.ndarray
    scores: np.ndarray


def tails_of(own: np.ndarray, fleet: Sequence[Tail]) -> Sequence[Tail]:
    """The distribution of each measure in training: the asset's own, or with few windows that of the fleet.

    Args:
      own: float64 `[n, parts]`, of the asset's windows of training.
      fleet: of each measure.
    """
    return fleet if len(own) < LEAST_OWN else [Tail.of(own[:, part]) for part in range(own.shape[1])]


def score_rows(windows: Windows, tails: Sequence[Tail], length: int, how: How, smooth: int) -> Iterator[ScoredRows]:
    """The scores of an asset's rows, run by run.

    Each measure of a window becomes its rarity, `-log10` of how often training has one as large; the score is the
    largest of these. A row has the mean (or max, or last) of the windows that it is in.

    Args:
      windows: of the asset.
      tails: of each measure.
      length: rows of a window.
      how: see `rows_of_run`.
      smooth: rows whose mean a row gets.
    """
    for run in runs_of(windows.start, length):
        start, measures = windows.start[run], windows.measures[run]
        rarities = np.stack([tail.rarity(measures[:, part]) for part, tail in enumerate(tails)], axis=1)
        largest = np.nanmax(rarities, axis=1, keepdims=True)
        values = smoothed(rows_of_run(start, length, np.concatenate([largest, rarities], axis=1), how), smooth)
        position = np.concatenate([start, start + length - 1])
        times = np.concatenate([windows.time[run], windows.until[run]])
        order = np.argsort(position, kind="stable")
        rows = start[0] + np.arange(len(values))
        yield ScoredRows(int(start[0]), np.interp(rows, position[order], times[order]), values)
