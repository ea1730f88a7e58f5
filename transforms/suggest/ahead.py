"""Whether a label of series is to be forecast, how far ahead, and from how long windows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from beamfeed.contract.dataset.batches import choose_batch
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.transforms.sources.columns.numbers import pack
from beamfeed.transforms.suggest.columns import MOSTLY_MISSING, Column, tokens
from beamfeed.transforms.suggest.label import classifies
from beamfeed.transforms.suggest.timeline import lost_rows, survey
from beamfeed.transforms.suggest.times import Time
from beamfeed.transforms.suggest.traits import Traits

REGULAR = 0.9  # of the steps, which are alike: else rows ahead are no times
ROWS = 24  # that are forecast where no period is found
_PERIODS = 8  # of a window: of days, those of a week, which differ, and one more
_PART = 0.15  # of an asset, at most: the part that evaluates must have windows
_RUN = 0.5  # of rows without a gap, at most: windows need not begin where these do
_EVALUATE = 3  # of these, at least
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
      room: rows of a window and of those ahead, at most: those of the part that evaluates, or fewer.
      least: rows of a window: a period and the row before, to tell the last row from that of a period ago, if they fit.
      longest: rows of a window; None where only `room` bounds them.
    """

    rows: int
    period: int | None
    usual: int
    room: int
    least: int
    longest: int | None = None

    def within(self, longest: int) -> "Outlook":
        """The same with fewer rows of a window, and no more ahead."""
        return replace(self, rows=min(self.rows, longest), least=min(self.least, longest), longest=longest)

    def frame(self, length: int, stride: int, rows: int) -> tuple[int, int, int]:
        """Length and stride of windows, and the batch.

        Args:
          length: as a job without a forecast has it.
          stride: likewise.
          rows: of all files, about.
        """
        longer = max(self.least, min(_PERIODS * self.rows, self.room // 2 - self.rows))
        if self.longest is not None:
            longer = min(longer, self.longest)
        if longer > length:
            length, stride = longer, round(rows / _WINDOWS)
        stride = max(1, min(stride, (self.room - length - self.rows) // _EVALUATE))
        windows = count_windows(self.usual, length + self.rows, stride) * max(1.0, rows / self.usual)
        return length, stride, choose_batch(0.7 * windows)


def find_outlook(
    label: Column, columns: Mapping[str, Column], batches: Sequence[pa.RecordBatch], time: Time | None,
    groups: Sequence[Sequence[np.ndarray]],
) -> Outlook | None:  # fmt: skip
    """How a label is forecast; None if it is no number, a class, counts what is left, or its rows are not regular.

    Args:
      label: that the user names.
      columns: of the files.
      batches: sampled rows.
      time: that orders the rows; None where they count themselves.
      groups: the rows of each asset in each of the batches, int64.
    """
    keys = () if time is None else time.columns
    numbers = [
        name
        for name, column in columns.items()
        if column.kind == "number" and not (column.constant or column.identity or name in keys)
    ]
    if label.name not in numbers or label.missing > MOSTLY_MISSING:
        return None
    values, at = [pack(batch, numbers) for batch in batches], numbers.index(label.name)
    line = survey(time, groups, lost_rows(values))
    if not line.assets or line.even < REGULAR:
        return None
    assets = [tuple(values[place][run] for run in runs) for place, runs in line.parts]
    counts_down = _counts_down([run[:, at] for runs in assets for run in runs])
    if counts_down or classifies(label) or _LIFE & {*tokens(label.name)}:
        return None
    alone = [tuple(run[:, [at]] for run in runs) for runs in assets]
    period = Traits(tuple(alone)).any_period or Traits(tuple(assets)).period
    usual = _usual(line.runs)
    room = int(min(_PART * _usual(line.assets), _RUN * usual))
    rows = min(period or ROWS, room // 4)
    least = next((size for size in (period + 1, period) if size + _EVALUATE <= room), 0) if period else 0
    rows = min(rows, room - (_EVALUATE - 1) - least) if least else rows
    return Outlook(rows, period or None, usual, room, max(1, least)) if rows >= 1 else None


def _usual(runs: Sequence[int]) -> int:
    """Rows that runs, or assets, have in which most of all rows are."""
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
