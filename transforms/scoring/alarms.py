"""A threshold that is learned without labels, and the intervals that are over it."""

import numpy as np

from beamfeed.contract.records.pieces import ranges

BODY = 0.98  # of the scores of training lie under the threshold from which on peaks are looked at
LEAST_PEAKS = 20


def peaks_over_threshold(scores: np.ndarray, risk: float) -> float:
    """The score that a row of usual operation exceeds with the probability `risk`.

    Excesses over a high quantile t follow a generalized Pareto distribution with shape g and scale s, so that
    z = t + s / g * ((risk * n / peaks) ** -g - 1) (Siffer et al. 2017, "Anomaly Detection in Streams with Extreme Value
    Theory", equation 1). Where peaks are few, or `risk` is no rarer than they are, the quantile of the scores.

    Args:
      scores: of training, `[n]`, n above 0.
      risk: between 0 and 1.
    """
    from scipy.stats import genpareto

    scores = scores[np.isfinite(scores)]
    if not len(scores):
        return np.inf
    edge = np.quantile(scores, BODY)
    excesses = scores[scores > edge] - edge
    if len(excesses) < LEAST_PEAKS or risk >= len(excesses) / len(scores):
        return float(np.quantile(scores, 1 - risk))
    shape, _, scale = genpareto.fit(excesses, floc=0)
    ratio = risk * len(scores) / len(excesses)
    above = -scale * np.log(ratio) if abs(shape) < 1e-8 else scale / shape * (ratio**-shape - 1)
    return float(edge + above)


def intervals(flagged: np.ndarray, least: int, gap: int) -> np.ndarray:
    """Runs of flagged rows, bool `[n]`, int64 `[intervals, 2]`: the first row, and that after the last one.

    Args:
      flagged: rows over the threshold.
      least: rows of an interval; shorter ones are none.
      gap: rows that are not flagged and lie between two runs, by which these are still one.
    """
    edges = np.diff(np.concatenate([[0], flagged.astype(np.int8), [0]]))
    first, end = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    if not len(first):
        return np.empty((0, 2), np.int64)
    apart = first[1:] - end[:-1] > gap
    first, end = first[np.concatenate([[True], apart])], end[np.concatenate([apart, [True]])]
    long = end - first >= least
    return np.stack([first[long], end[long]], axis=1)


def pairs_of(starts: np.ndarray, length: int, firsts: np.ndarray, lasts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which windows touch which intervals: the places of both, int64 `[pairs]`.

    Args:
      starts: of the windows, int64 `[windows]`, in any order.
      length: rows of a window.
      firsts: of the intervals, int64 `[intervals]`, rising; they are apart.
      lasts: likewise the last row of each.
    """
    begins = np.searchsorted(lasts, starts)
    ends = np.maximum(begins, np.searchsorted(firsts, starts + length))
    counts = ends - begins
    return np.repeat(np.arange(len(starts)), counts), ranges(begins, counts)
