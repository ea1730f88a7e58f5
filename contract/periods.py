"""The period of series: after how many rows values repeat, by how they correlate with themselves."""

import numpy as np

LEAST_PEAK = 0.1  # above the lowest correlation before it: less is noise
LEAST_CORRELATION = 0.1
NEARLY = 0.8  # of the highest peak: its multiples peak as high, or a little higher


def autocovariance(series: np.ndarray) -> np.ndarray:
    """How rows vary with those some rows later, the mean over several series, each without its own mean.

    By the fast Fourier transform, with as many zeros behind as there are rows (Wiener-Khinchin).

    Args:
      series: float `[series, time]`, no value missing.

    Returns:
      float64 `[time // 2 + 1]`, by how many rows later; later ones are means of few pairs.

    Example:
      >>> autocovariance(np.array([[1.0, -1.0, 1.0, -1.0]])).tolist()
      [1.0, -1.0, 1.0]
    """
    length = series.shape[1]
    apart = series - series.mean(axis=1, keepdims=True, dtype=np.float64)
    power = (np.abs(np.fft.rfft(apart, 2 * length, axis=1)) ** 2).mean(axis=0)
    lags = np.arange(length // 2 + 1)
    covariance: np.ndarray = np.fft.irfft(power)[: len(lags)] / (length - lags)
    return covariance.round(12)


def main_period(covariance: np.ndarray) -> int | None:
    """After how many rows values repeat: the first of the highest peaks; None where nothing repeats.

    Args:
      covariance: as `autocovariance` gives it.

    Example:
      >>> hours = np.arange(240)
      >>> main_period(autocovariance(np.sin(2 * np.pi * hours / 24)[None]))
      24
    """
    if len(covariance) < 4 or not covariance[0] > 0:
        return None
    correlation = covariance / covariance[0]
    middle = correlation[1:-1]
    peaks = np.flatnonzero((middle > correlation[:-2]) & (middle >= correlation[2:])) + 1
    lowest = np.minimum.accumulate(correlation)
    risen = (correlation[peaks] - lowest[peaks] > LEAST_PEAK) & (correlation[peaks] > LEAST_CORRELATION)
    peaks = peaks[risen & (peaks > 1)]
    if not len(peaks):
        return None
    high = correlation[peaks] >= NEARLY * correlation[peaks].max()
    return int(peaks[high][0])
