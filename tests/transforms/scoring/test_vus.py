"""VUS-PR against a plain loop over its definition."""

import numpy as np
import pytest

from beamfeed.transforms.scoring.vus import THRESHOLDS, vus_pr


def plain(unusual: np.ndarray, scores: np.ndarray, most: int) -> float:
    areas = []
    ranked = np.sort(scores)[::-1]
    cuts = sorted({ranked[int(at)] for at in np.linspace(0, len(ranked) - 1, THRESHOLDS)}, reverse=True)
    edges = [row for row in range(len(unusual)) if unusual[row]]
    for buffer in range(most + 1):
        weights = [0.0] * len(unusual)
        for row in range(len(unusual)):
            apart = min(abs(row - edge) for edge in edges)
            if apart <= buffer // 2:
                weights[row] = (1 - apart / buffer) ** 0.5 if apart else 1.0
        area, before = 0.0, 0.0
        for cut in cuts:
            said = [row for row in range(len(scores)) if scores[row] >= cut]
            near = sum(weights[row] for row in said if not unusual[row])
            found = sum(weights[row] for row in said)
            ranges, hit, inside, any_said = 0, 0, False, False
            for row in [*range(len(weights)), None]:
                if row is not None and weights[row] > 0:
                    inside, any_said = True, (inside and any_said) or scores[row] >= cut
                elif inside:
                    ranges, hit, inside, any_said = ranges + 1, hit + any_said, False, False
            recall = min(1, found / (len(edges) + near / 2)) * hit / ranges
            area, before = area + (recall - before) * found / len(said), recall
        areas.append(area)
    return float(np.mean(areas))


@pytest.mark.parametrize("seed", range(6))
def test_the_definition(seed):
    rng = np.random.default_rng(seed)
    unusual = np.zeros(120, bool)
    for first in rng.integers(0, 120, 3):
        unusual[first : first + 8] = True
    scores = np.round(rng.normal(size=120) + unusual * rng.random(), seed % 3)
    assert vus_pr(unusual, scores, 9) == pytest.approx(plain(unusual, scores, 9), abs=1e-9)


def test_known_and_unknown():
    unusual = np.zeros(1000, bool)
    unusual[300:340] = True
    assert vus_pr(unusual, unusual.astype(float), 0) == 1
    assert vus_pr(unusual, -unusual.astype(float), 20) < 0.1
