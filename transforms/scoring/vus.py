"""VUS-PR: how well scores find anomalous ranges, without hanging on where exactly these begin.

The volume under the surface of precision and recall over thresholds and buffers (Paparrizos et al. 2022, "Volume Under
the Surface"). Each range gets a buffer of b rows in all, half before and half behind, whose weights fall as
sqrt(1 - distance / b); recall counts a range the more the more of it is found, times the share of ranges of which
anything is; the value is the mean over b = 0, 1, ..., most.
"""

import numpy as np

from beamfeed.transforms.scoring.alarms import intervals

THRESHOLDS = 250


def vus_pr(unusual: np.ndarray, scores: np.ndarray, most: int) -> float:
    """The mean area over buffers.

    Args:
      unusual: bool `[n]`, some of them.
      scores: `[n]`, the higher the more unusual.
      most: rows of the largest buffer.
    """
    ordered = np.sort(scores)[::-1]
    cuts = np.unique(ordered[np.linspace(0, len(ordered) - 1, THRESHOLDS).astype(int)])[::-1]
    said_from = np.searchsorted(-cuts, -scores)  # the first cut at which a row is flagged
    return float(np.mean([_area(unusual, scores, cuts, said_from, buffer) for buffer in range(most + 1)]))


def _area(unusual: np.ndarray, scores: np.ndarray, cuts: np.ndarray, flagged_from: np.ndarray, buffer: int) -> float:
    weights = buffered(unusual, buffer)

    def flagged(some: np.ndarray | None = None) -> np.ndarray:
        """The sum of some weights, or the number, of the rows that are flagged, `[cuts]`."""
        return np.bincount(flagged_from, some, len(cuts)).cumsum()

    weighted = flagged(weights)  # of what is anomalous or near
    inside = float(unusual.sum())
    # As many positives as there are rows of ranges and, half of it, the flagged weights of their buffers.
    positives = (inside + inside + weighted - flagged(unusual)) / 2
    edges = intervals(weights > 0, 1, 0).ravel()
    highest = np.maximum.reduceat(np.append(scores, -np.inf), edges)[::2]
    exists = (highest >= cuts[:, None]).mean(axis=1)
    recall = np.minimum(weighted / positives, 1) * exists
    precision = weighted / flagged()
    return float(np.sum(np.diff(recall, prepend=0) * precision))


def buffered(unusual: np.ndarray, buffer: int) -> np.ndarray:
    """Weights `[n]`: 1 in ranges, falling in the buffers around them, 0 elsewhere."""
    weights = unusual.astype(float)
    half = buffer // 2
    apart = np.arange(1, half + 1)
    falling = np.sqrt(1 - apart / buffer) if half else np.zeros(0)
    for first, end in intervals(unusual, 1, 0).tolist():
        for places in (first - apart, end - 1 + apart):
            inside = (places >= 0) & (places < len(weights))
            np.maximum.at(weights, places[inside], falling[inside])
    return weights
