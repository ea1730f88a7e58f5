"""What the rows of a window alone say of those behind it: guesses that a forecast should beat."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

LONGEST = 512  # rows that the linear model takes: sums of products take their square
TOGETHER = 16  # columns of a batch that it is fitted to; of more, each batch has others
TRANSFORMED = 1 << 21  # numbers of a batch at most, in the search for a period
RIDGE = 1e-4  # of the mean square of a row: windows of smooth columns say one thing many times

LEAST_RISE = 0.1  # of the correlation, from the lowest one before a peak: less is noise
LEAST_PEAK = 0.1
NEARLY = 0.8  # of the highest peak: multiples of a period peak as high, or a little higher


@dataclass(frozen=True)
class History:
    """The columns of windows that are forecast.

    Attributes:
      places: of them, among the features.
      divisor, offset: float32 `[columns]`; a value is that of the window, times the one and plus the other.
      ahead: rows to be forecast.
    """

    places: tuple[int, ...]
    divisor: np.ndarray
    offset: np.ndarray
    ahead: int

    def of(self, x: tf.Tensor) -> tf.Tensor:
        """Windows `[batch, length, features]` -> their columns `[batch, length, columns]`, scaled as they are."""
        return tf.gather(x, self.places, axis=-1)

    def in_units(self, x: tf.Tensor) -> tf.Tensor:
        """The same in the units of the files."""
        return self._restored(self.of(x))

    def repeat_last(self, x: tf.Tensor) -> tf.Tensor:
        """Forecasts `[batch, ahead, columns]`: the last row, again and again."""
        return tf.repeat(self.in_units(x)[:, -1:], self.ahead, axis=1)

    def repeat_period(self, x: tf.Tensor, period: int) -> tf.Tensor:
        """The last `period` rows, again and again."""
        place = x.shape[1] - period + np.arange(self.ahead) % period
        return tf.gather(self.in_units(x), place, axis=1)

    def predict(self, x: tf.Tensor, weights: np.ndarray, bias: np.ndarray) -> tf.Tensor:
        """The last row, and what a linear model of the last rows adds: weights `[rows, ahead]`, bias `[ahead]`."""
        columns = self.of(x)
        last = columns[:, -1:]
        apart = tf.transpose(columns[:, -len(weights) :] - last, [0, 2, 1])
        return self._restored(tf.transpose(apart @ weights + bias, [0, 2, 1]) + last)

    def _restored(self, columns: tf.Tensor) -> tf.Tensor:
        return columns * self.divisor + self.offset


class HistorySums:
    """Sums over training windows, for a period and for a linear model that all columns share."""

    def __init__(self, history: History):
        self._history, self._batch = history, 0
        self._covariance: Any = 0.0  # arrays with the first windows
        self._products: Any = 0.0

    def add(self, x: np.ndarray, truth: np.ndarray) -> None:
        """Adds windows `[n, length, features]`, and the rows behind them `[n, ahead, columns]` in units."""
        history = self._history
        every = -(-len(history.places) // TOGETHER)
        chosen = np.arange(self._batch % every, len(history.places), every)
        self._batch += 1
        recent = x[:, -LONGEST:, np.array(history.places)[chosen]]
        columns = recent.transpose(0, 2, 1).reshape(-1, recent.shape[1])
        future = (truth[:, :, chosen] - history.offset[chosen]) / history.divisor[chosen]
        future = future.transpose(0, 2, 1).reshape(-1, history.ahead)
        series = x[:, :, :: -(-x.shape[2] // TOGETHER)].transpose(0, 2, 1)
        series = series[:: -(-series.size // TRANSFORMED)].reshape(-1, x.shape[1])
        self._covariance += len(x) * autocovariance(series)
        last = columns[:, -1:]
        both = np.concatenate([columns - last, np.ones_like(last), future - last], axis=1).astype(np.float64)
        rows = columns.shape[1] + 1
        self._products += both[:, :rows].T @ both

    def period(self) -> int | None:
        """After how many rows values of all features repeat; None where they do not, or there was no window."""
        return main_period(self._covariance.tolist()) if self._batch else None

    def linear(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights `[rows, ahead]` and bias `[ahead]`, float32, by ridge regression; of at least one window."""
        rows = len(self._products) - 1
        squares = self._products[:, : rows + 1].copy()
        squares[np.arange(rows), np.arange(rows)] += RIDGE * max(np.trace(squares[:rows, :rows]) / rows, 1e-12)
        solved = np.linalg.solve(squares, self._products[:, rows + 1 :]).astype(np.float32)
        return solved[:rows], solved[rows]


def autocovariance(series: np.ndarray) -> np.ndarray:
    """How rows vary with those some rows later, the mean over several series, each without its own mean.

    By the fast Fourier transform, with as many zeros behind as there are rows (Wiener and Khinchin).

    Args:
      series: float `[series, time]`, no value missing.

    Returns:
      float64 `[time // 2 + 1]`, by how many rows later; those later still are means of few pairs.
    """
    length = series.shape[1]
    apart = series - series.mean(axis=1, keepdims=True, dtype=np.float64)
    power = (np.abs(np.fft.rfft(apart, 2 * length, axis=1)) ** 2).mean(axis=0)
    lags = np.arange(length // 2 + 1)
    return np.asarray(np.fft.irfft(power)[: len(lags)] / (length - lags))


def main_period(covariance: Sequence[float]) -> int | None:
    """After how many rows values repeat: the first of the highest peaks; None where nothing repeats.

    Args:
      covariance: of rows with those 0, 1, 2, ... rows later.

    Example:
      >>> main_period([3.0, 0.0, -3.0, 0.0, 2.8, 0.0, -2.8, 0.0, 2.9, 0.0])
      4
    """
    if not covariance or not covariance[0] > 0:
        return None
    correlation = [value / covariance[0] for value in covariance]
    lowest, peaks = correlation[0], list[int]()
    for lag in range(2, len(correlation) - 1):
        before, value, behind = correlation[lag - 1 : lag + 2]
        lowest = min(lowest, before)
        if before < value >= behind and value > LEAST_PEAK and value - lowest > LEAST_RISE:
            peaks.append(lag)
    highest = max((correlation[lag] for lag in peaks), default=0.0)
    return next((lag for lag in peaks if correlation[lag] >= NEARLY * highest), None)
