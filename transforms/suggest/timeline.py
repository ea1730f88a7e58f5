"""How the rows of assets follow each other: the usual step, gaps, times that are there twice, runs without a gap."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from beamfeed.contract.config.duration import NANOSECONDS
from beamfeed.contract.config.prepare import Missing
from beamfeed.transforms.sources.timeseries.impute import impute
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.suggest.times import Time

_STEPS = 8  # of an asset, from which on it has a usual one of its own, and a spread
GAP = 5  # usual steps, beyond which a step is a gap
FILLED = 5  # rows of a run of missing values that are filled
_MOST_LOST = 0.05  # of all rows: of more, missing values are better filled


@dataclass(frozen=True)
class Timeline:
    """What the sampled rows of the assets tell.

    Attributes:
      step: the usual one, in ticks; 0 where rows count.
      widest: the usual one of the asset where it is the longest, but for an asset in a hundred.
      regular: the fraction of steps that are within a tenth of the usual one.
      working: the fraction of steps from a day to the next one, or over two days of rest, the same in all weeks.
      steady: the fraction of steps that are between half and twice the usual one of their asset.
      repeated: the fraction of rows whose time was there.
      disordered: assets whose rows are not in order of time.
      gaps: steps of more than GAP times the widest.
      longest: the longest of them, in ticks.
      assets: rows of each asset that was looked at.
      parts: of each of them, the number of its table, and its runs: rows that follow each other without a gap and
        without one that is dropped, int64 in order of time.
    """

    step: int
    widest: int
    regular: float
    working: float
    steady: float
    repeated: float
    disordered: int
    gaps: int
    longest: int
    assets: tuple[int, ...]
    parts: tuple[tuple[int, tuple[np.ndarray, ...]], ...]

    @property
    def even(self) -> float:
        """The fraction of steps by which a row ahead is a time ahead."""
        return max(self.regular, self.working)

    @property
    def runs(self) -> list[int]:
        """How many rows each run has."""
        return [len(run) for _, runs in self.parts for run in runs]


def survey(
    time: Time | None, assets: Sequence[Sequence[np.ndarray]], lost: Sequence[np.ndarray] | None = None
) -> Timeline:
    """What the sample tells of how rows follow each other.

    Args:
      time: that orders the rows; None where they count themselves.
      assets: the rows of each asset in each of the sampled tables, int64.
      lost: bool [rows] of each sampled table, rows that preprocessing would drop; None where it drops none.
    """
    groups = [(place, group) for place, parts in enumerate(assets) for group in parts]
    ordered = [_in_order(time, place, group) for place, group in groups]
    steps_of = [np.diff(ticks) for _, ticks in ordered]
    steps = np.concatenate(steps_of)
    total = sum(len(group) if time is None else int(time.valid[place][group].sum()) for place, group in groups)
    step = int(np.median(steps)) if len(steps) else 0
    usual = [np.median(steps) if len(steps) >= _STEPS else step for steps in steps_of]
    widest = max(step, int(np.quantile(usual, 0.99, method="higher"))) if usual else 0
    gap = np.inf if time is None else GAP * widest
    gaps = steps[steps > gap]
    mids = np.repeat(usual, [len(steps) for steps in steps_of])
    steady = (steps >= mids / 2) & (steps <= 2 * mids)
    return Timeline(
        step=step,
        widest=widest,
        regular=_share(np.abs(steps - step) <= 0.1 * step),
        working=_working_days(time, [ticks for _, ticks in ordered]),
        steady=_share(steady),
        repeated=1 - sum(len(ticks) for _, ticks in ordered) / max(1, total),
        disordered=sum(bool((np.diff(rows) < 0).any()) for rows, _ in ordered),
        gaps=len(gaps),
        longest=int(gaps.max(initial=0)),
        assets=tuple(len(ticks) for _, ticks in ordered),
        parts=tuple(
            (place, _runs(rows, steps > gap, None if lost is None else lost[place][rows]))
            for (place, _), (rows, _), steps in zip(groups, ordered, steps_of, strict=True)
        ),
    )


def _share(holds: np.ndarray) -> float:
    return float(holds.mean()) if len(holds) else 1.0


def _working_days(time: Time | None, assets: Sequence[np.ndarray]) -> float:
    """The fraction of the steps of ordered ticks that go from a working day to the next one; 0 where ticks are none.

    Which two days of the week are free is open: a Monday may begin on Sunday in UTC.
    """
    if time is None or time.units.counts != "instant":
        return 0.0
    dates = [(ticks // NANOSECONDS["d"]).astype("M8[D]") for ticks in assets]
    before, after = (np.concatenate([days[part] for days in dates]) for part in (np.s_[:-1], np.s_[1:]))
    return max(_share(np.busday_count(before + shift, after + shift) == 1) for shift in range(7))


def lost_rows(tables: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """Which rows preprocessing would drop for long runs of missing values; None where it should drop none.

    Args:
      tables: values `[rows, features]` of each sampled table, NaN where one is missing.

    Returns:
      bool `[rows]` of each.
    """
    lost = []
    for values in tables:
        place, no_labels = np.arange(len(values)), np.empty((len(values), 0), np.float32)
        rows = Rows(place, place, values, np.zeros(len(values), bool), no_labels)
        lost.append(~impute(rows, Missing(fill="linear", limit=FILLED))[1])
    return lost if sum(map(np.count_nonzero, lost)) <= _MOST_LOST * sum(map(len, lost)) else None


def _in_order(time: Time | None, place: int, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a group in order of time, each time once, and their ticks."""
    if time is None:
        return group, np.arange(len(group))
    valid_rows = group[time.valid[place][group]]
    ticks, first = np.unique(time.ticks[place][valid_rows], return_index=True)
    return valid_rows[first], ticks


def _runs(rows: np.ndarray, breaks: np.ndarray, lost: np.ndarray | None) -> tuple[np.ndarray, ...]:
    """The rows that follow each other, where the k-th break is before row k + 1, and no row that is lost counts."""
    lost = np.zeros(len(rows), bool) if lost is None else lost
    part = np.concatenate([[0], np.cumsum(breaks)])[: len(lost)]
    part = part + np.cumsum(lost)  # a row that is lost also parts those beside it
    if not len(remaining := rows[~lost]):
        return ()
    return tuple(np.split(remaining, np.flatnonzero(np.diff(part[~lost])) + 1))
