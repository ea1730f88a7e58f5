"""Whether a label of series is to be forecast, how far ahead, and from how long windows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from beamfeed.contract.dataset.batches import choose_batch
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.transforms.suggest.columns import Column, tokens
from beamfeed.transforms.suggest.label import classifies
from beamfeed.transforms.suggest.traits import Traits

REGULAR = 0.9  # of the steps, which are alike: else rows ahead are no times
ROWS = 24  # that are forecast where no period is found
_PERIODS = 8  # of a window: of days, those of a week, which differ, and one more
_PART = 0.15  # of an asset, at most: the part that evaluates must have windows
_WINDOWS = 20_000  # that train, about: with more, windows begin farther apart
_MOST = 0.7  # of all rows, that a window is to fit
_COUNTED = 0.9  # of the steps, which are one down: the label counts what is left
_LIFE = frozenset(("rul", "life", "remaining"))


@dataclass(frozen=True)
class Outlook:
    """How a column is forecast.

    Attributes:
      rows: ahead.
      period: after which values repeat; None where nothing was found to.
      usual: rows that mostly follow each other without a gap.
    """

    rows: int
    period: int | None
    usual: int

    def frame(self, length: int, stride: int, rows: int) -> tuple[int, int, int]:
        """Length and stride of windows, and the batch.

        Args:
          length: as a job without a forecast has it.
          stride: likewise.
          rows: of all files, about.
        """
        longer = min(_PERIODS * self.rows, int(_PART / 2 * self.usual) - self.rows)
        if longer > length:
            length, stride = longer, max(1, round(rows / _WINDOWS))
        windows = count_windows(self.usual, length + self.rows, stride) * max(1.0, rows / self.usual)
        return length, stride, choose_batch(0.7 * windows)


def find_outlook(
    label: Column, values: Sequence[np.ndarray], assets: Sequence[np.ndarray], regular: float, runs: Sequence[int]
) -> Outlook | None:
    """How a label is forecast; None if it is a class, counts what is left, or its rows are not regular.

    Args:
      label: that the user names.
      values: of it, float64 `[rows]` of each asset; NaN where one is missing.
      assets: of all numbers, float64 `[rows, columns]` of each asset.
      regular: the fraction of steps that are about the usual one.
      runs: rows that follow each other without a gap.
    """
    is_varying = label.kind == "number" and not label.constant and not label.identity and not classifies(label)
    if not is_varying or regular < REGULAR or _LIFE & {*tokens(label.name)} or _counts_down(values):
        return None
    period = Traits(tuple((rows,) for rows in assets)).period
    usual = _usual(runs)
    rows = min(period or ROWS, int(_PART / 4 * usual))
    return Outlook(rows, period or None, usual) if rows >= 1 else None


def _usual(runs: Sequence[int]) -> int:
    """Rows that runs have in which most of all rows are."""
    counted = 0
    for run in sorted(runs, reverse=True):
        counted += run
        if counted >= _MOST * sum(runs):
            return run
    return 0


def _counts_down(values: Sequence[np.ndarray]) -> bool:
    steps = np.concatenate([np.diff(rows) for rows in values] or [np.zeros(0)])
    steps = steps[np.isfinite(steps) & (steps != 0)]
    return bool(len(steps)) and float((steps == -1).mean()) >= _COUNTED
