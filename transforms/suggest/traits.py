"""What the sampled values of series are like: how they are to be scaled, their period, and how alike assets are.

Scales here are those that a job would learn of the sample. Windows are drawn evenly from all of it, some hundreds, so
that the looks at them take a fraction of a second.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from beamfeed.contract.records.pieces import ranges
from beamfeed.transforms.statistics.moments import Moments
from beamfeed.transforms.statistics.scaling import Scaling

_LEAST_ROWS = 8  # of an asset that says how far values are spread
BETWEEN = 2.0  # times as large is the variance of all values as that within an asset, if assets differ as much between
_PERIODS = 6  # that an asset must have in the sample
_SHORTEST = 4  # rows of a period
_STRENGTH = 0.25  # of a period: how far the autocorrelation rises from half a period to a whole one
_OF_STEPS = 0.5  # the same of the steps between values, which are noisier
_FIRST = 0.7  # of the strength of the strongest: the shortest of such periods is the main one, the others its multiples
_COLUMNS = 16  # that are asked for a period
_WINDOWS = 512  # that are looked at
_FEWEST, _COMPARED = 4, 48  # assets that are compared
_EARLY = 0.7  # of an asset: its beginning
_PIECE = 4  # lengths of a window
_SOLID = 0.9  # of the variance: what less is left of is noise for the most part
_EXPLAINED = 0.99  # of the variance, which a latent state is to explain
_FEW = 8  # the same, where even these explain too little
_SHARE, MOST_LATENT = 8, 32  # a latent state has at most one in eight of the numbers of a window, and at most so many


class Likeness(NamedTuple):
    """Errors of a model of the beginnings of some assets, times that on rows between those that it learned of.

    Attributes:
      other: on other assets.
      later: on the ends of the same ones.
    """

    other: float
    later: float


@dataclass(frozen=True)
class Traits:
    """What values are like.

    Attributes:
      assets: of each asset in each table, its runs: values float32 [rows, features], NaN where one is missing.
    """

    assets: tuple[tuple[np.ndarray, ...], ...]

    @cached_property
    def _moments(self) -> list[Moments]:
        """Of each asset; of too short ones none."""
        whole = [np.concatenate(runs) for runs in self.assets if runs]
        return [Moments.of(values) for values in whole if len(values) >= _LEAST_ROWS]

    @cached_property
    def _fleet(self) -> Moments:
        features = self.assets[0][0].shape[1] if self.assets and self.assets[0] else 0
        return sum(self._moments, Moments.zero(features))

    @cached_property
    def flags(self) -> int:
        """How many features have two values."""
        return int(self._fleet.two_valued().sum())

    @cached_property
    def apart(self) -> float:
        """How many times as large the variance of all values is as that of an asset's, for the middle feature.

        1 where that is unknown, as of one asset. Features that vary in less than half of the assets do not count.
        """
        if len(self._moments) < 2:
            return 1.0
        within = np.median([np.square(moments.std()) for moments in self._moments], axis=0)
        varying = within > 0
        if not varying.any():
            return 1.0
        return float(np.median(np.square(self._fleet.std()[varying]) / within[varying]))

    @cached_property
    def least_divisor(self) -> float:
        """The smallest deviation of an asset as a fraction of the usual one, of any feature; 1 of none."""
        deviations = np.array([moments.std() for moments in self._moments])
        if not deviations.size:
            return 1.0
        deviations = np.where(deviations > 0, deviations, np.nan)
        fine = deviations[:, np.isfinite(deviations).any(axis=0)]
        return float(np.nanmin(np.nanmin(fine, axis=0) / np.nanmedian(fine, axis=0), initial=1.0))

    @cached_property
    def period(self) -> int:
        """The rows after which values mostly repeat; 0 where they do not.

        The autocorrelation rises from half a period to a whole one, and again to two. That is what is asked for: it
        does not rise so in a trend, however high it stands. The mean of features and the middle one of assets tell.
        """
        return self._period(_STRENGTH)

    @cached_property
    def any_period(self) -> int:
        """The same; where values wander too far to show it, the rows after which their steps repeat."""
        steps = Traits(tuple(tuple(np.diff(run, axis=0) for run in runs) for runs in self.assets))
        return self.period or steps._period(_OF_STEPS)

    def _period(self, least: float) -> int:
        by_asset = [_strengths(max(runs, key=len)) for runs in self.assets if runs]
        strength = np.zeros((len(by_asset), max(map(len, by_asset), default=0)))
        for asset, strengths in enumerate(by_asset):
            strength[asset, : len(strengths)] = strengths  # a short asset shows no long periods
        strength = np.median(strength, axis=0) if len(by_asset) else strength.reshape(-1)
        if strength.max(initial=0) < least:
            return 0
        first = int(np.argmax(strength >= _FIRST * strength.max()))
        around = strength[first : first + (first + _SHORTEST) // 2]
        return _SHORTEST + first + int(np.argmax(around))

    def scaled(self, per_asset: bool) -> "Traits":
        """The same in scaled units, without missing values."""
        fleet = _scaling(self._fleet)
        assets = []
        for runs in self.assets:
            scaling = fleet
            if per_asset and runs:
                scaling = _scaling(Moments.of(np.concatenate(runs))).at_least(fleet, 0.0)
            offset, divisor = scaling.rows
            assets.append(tuple(_filled((run - offset) / divisor) for run in runs))
        return Traits(tuple(assets))

    def latent(self, length: int) -> tuple[int, float]:
        """Numbers that explain most of the variance of windows, as far as a small part of theirs does; and their share.

        Args:
          length: of the windows. Values must be scaled ones.
        """
        windows = _windows([run for runs in self.assets for run in runs], length, _WINDOWS)
        if len(windows) < 2:
            return 1, 1.0
        explained = _components(windows)[2]
        enough = int(np.searchsorted(explained, _EXPLAINED)) + 1
        count = max(1, min(enough, windows.shape[1] // _SHARE, len(explained)))
        if explained[count - 1] < _SOLID:  # what cannot be compressed is better left out than half of it kept
            count = min(count, _FEW)
        return count, float(explained[count - 1])

    def likeness(self, length: int) -> Likeness:
        """What differs more from the beginnings of some assets: their ends, or other assets.

        Principal components of two thirds of the beginnings of every second asset are asked for the last third, for
        the ends of the same assets, and for the beginnings of the others; then it is the others' turn.

        Args:
          length: of the windows. Values must be scaled ones.
        """
        step = max(1, -(-len(self.assets) // _COMPARED))
        parts = [_divided(runs, length) for runs in self.assets[::step]]
        parts = [part for part in parts if all(max(map(len, runs), default=0) >= length for runs in part)]
        if len(parts) < _FEWEST:
            return Likeness(1.0, 1.0)
        each = max(4, _WINDOWS // len(parts))
        near, late = ([_windows(part[place], length, each) for part in parts] for place in (1, 2))
        same = other = later = 0.0
        for half in (0, 1):
            mean, directions, explained = _components(
                _windows([run for part in parts[half::2] for run in part[0]], length, _WINDOWS)
            )
            # All of them would leave rounding errors alone.
            principal = directions[:, : min(int(np.searchsorted(explained, _SOLID)) + 1, len(directions) - 1)]
            errors = [_error(windows, mean, principal) for windows in near]
            same += sum(errors[half::2])
            other += sum(errors[1 - half :: 2])
            later += sum(_error(windows, mean, principal) for windows in late[half::2])
        return Likeness(other / same, later / same) if same > 0 else Likeness(1.0, 1.0)


def _scaling(moments: Moments) -> Scaling:
    return Scaling.of(moments, "standard").with_flags(moments)


def _filled(values: np.ndarray) -> np.ndarray:
    """Values `[rows, features]` with lines through the missing ones."""
    missing = ~np.isfinite(values)
    for column in np.flatnonzero(missing.any(axis=0)):
        gaps = missing[:, column]
        rows = np.flatnonzero(~gaps)
        values[gaps, column] = np.interp(np.flatnonzero(gaps), rows, values[rows, column]) if len(rows) else 0.0
    return values


def _strengths(run: np.ndarray) -> np.ndarray:
    """How strongly values repeat after `_SHORTEST` rows and each number above; none of short ones."""
    rows = len(run)
    most = rows // _PERIODS
    if most < _SHORTEST:
        return np.zeros(0)
    step = -(-run.shape[1] // _COLUMNS)
    values = _filled(run[:, ::step].astype(np.float64))
    apart = values - values.mean(axis=0)
    line = np.linspace(-1, 1, rows)
    apart -= np.outer(line, line @ apart / (line @ line))  # a trend would outweigh what repeats
    size = 1 << (2 * rows - 1).bit_length()
    spectrum = np.square(np.abs(np.fft.rfft(apart, size, axis=0)))
    products = np.fft.irfft(spectrum, size, axis=0)[: 2 * most + 1]
    varying = products[0] > 1e-9 * rows * np.square(np.abs(values).max(axis=0))
    if not varying.any():
        return np.zeros(most - _SHORTEST + 1)
    pairs = (rows - np.arange(len(products)))[:, None] / rows
    correlation = (products[:, varying] / products[0, varying] / pairs).mean(axis=1)
    period = np.arange(_SHORTEST, most + 1)
    halves = [(correlation[odd * period // 2] + correlation[-(-odd * period // 2)]) / 2 for odd in (1, 3)]
    return (correlation[period] + correlation[2 * period] - sum(halves)) / 2


def _windows(runs: Sequence[np.ndarray], length: int, count: int) -> np.ndarray:
    """About so many windows, evenly spread over all runs: float64 `[n, length * features]`."""
    counts = [max(0, len(run) - length + 1) for run in runs]
    total = sum(counts)
    if not total:
        return np.empty((0, 0))
    run = np.repeat(np.arange(len(runs)), counts)
    first = ranges(0, np.array(counts))
    chosen = np.unique(np.linspace(0, total - 1, min(count, total)).astype(np.int64))  # some hundreds
    places = zip(run[chosen], first[chosen], strict=True)
    return np.stack([runs[run][first : first + length].reshape(-1) for run, first in places]).astype(np.float64)


def _components(windows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first principal components of windows, by the products of windows or of numbers, whichever are fewer.

    Returns:
      Mean `[numbers]`, directions `[numbers, n]`, and the fraction `[n]` of the variance that the first n explain.
    """
    mean = windows.mean(axis=0)
    apart = windows - mean
    of_windows = len(apart) < apart.shape[1]  # some hundreds, and a window may hold a few numbers or thousands
    variances, vectors = np.linalg.eigh(apart @ apart.T if of_windows else apart.T @ apart)
    variances = np.maximum(variances[::-1], 0)  # the smallest came first; noise may be below 0
    shares = np.cumsum(variances[:MOST_LATENT]) / max(variances.sum(), 1e-30)
    directions = vectors[:, ::-1][:, :MOST_LATENT]
    if of_windows:
        directions = apart.T @ directions / np.sqrt(np.maximum(variances[:MOST_LATENT], 1e-30))
    return mean, directions, shares


def _error(windows: np.ndarray, mean: np.ndarray, directions: np.ndarray) -> float:
    """The mean square of what the directions leave of the windows."""
    apart = windows - mean
    return float(np.square(apart - apart @ directions @ directions.T).mean())


def _divided(runs: Sequence[np.ndarray], length: int) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Two of three pieces of the beginning of an asset, the third ones, and its end; each as runs."""
    cut = int(_EARLY * sum(map(len, runs)))
    pieces, ends = [], []
    for run in runs:
        begin = run[: max(0, cut)]
        pieces += [begin[first : first + _PIECE * length] for first in range(0, len(begin), _PIECE * length)]
        ends.append(run[max(0, cut) :])
        cut -= len(run)
    return [piece for i, piece in enumerate(pieces) if i % 3 < 2], pieces[2::3], ends
