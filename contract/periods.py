"""The period of series: after how many rows values repeat, by how they correlate with themselves."""

from collections.abc import Sequence

LEAST_RISE = 0.1  # of the correlation, from the lowest one before a peak: less is noise
LEAST_PEAK = 0.1
NEARLY = 0.8  # of the highest peak: multiples of a period peak as high, or a little higher


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
