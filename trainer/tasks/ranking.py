"""Metrics of how well scores score yes from no, from counts of scores that add up over steps and workers.

Scores are counted in bins of their logits, by yes and no. What follows from the
counts is exact but for the order of scores in one bin: bins are so narrow that
areas differ by less than 1e-3, mostly 1e-4.
"""

import re
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf

BINS = 4096
MOST = 16.0  # logits beyond count as this


def logits_of(edges: np.ndarray | float) -> np.ndarray | float:
    """Bin edges, in places from 0 to BINS, as logits."""
    return edges * (2 * MOST / BINS) - MOST


class ScoreCounts(keras.metrics.Metric):
    """Counts of yes and no by score; what they score is the subclass's `score`.

    Args:
      num_thresholds: how many bins.
    """

    _direction: ClassVar[str] = "up"
    tells_few_apart: ClassVar[bool] = True  # right from wrong scores, where there are few

    def __init__(self, num_thresholds: int = BINS, name: str | None = None):
        super().__init__(name=name)
        self.counts = self.add_variable((2, num_thresholds), "zeros", name="counts", dtype="float32")

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> None:
        """Counts scores.

        Args:
          y_true: `[batch]`, 1 is yes.
          y_pred: `[batch]`, probabilities of yes.
          sample_weight: `[batch]`, how much each counts.
        """
        yes, score = (tf.reshape(tf.cast(values, tf.float32), [-1]) for values in (y_true, y_pred))
        bins = self.counts.shape[1]
        weight = tf.ones_like(score) if sample_weight is None else tf.reshape(tf.cast(sample_weight, tf.float32), [-1])
        logit = tf.math.log(score) - tf.math.log1p(-score)
        place = tf.clip_by_value((logit + MOST) * (bins / (2 * MOST)), 0, bins - 1)
        place = tf.cast(tf.where(tf.math.is_nan(place), 0.0, place), tf.int32)
        weights = tf.stack([weight * (1 - yes), weight * yes], axis=-1)
        counts = tf.math.unsorted_segment_sum(weights, place, bins)
        self.counts.assign(self.counts + tf.transpose(counts))

    def result(self) -> tf.Tensor:
        """The metric, a number; NaN where there is no yes or no no."""
        no, yes = np.asarray(keras.ops.convert_to_numpy(self.counts), np.float64)
        return tf.constant(self.score(no, yes) if no.sum() and yes.sum() else np.nan, tf.float32)

    def score(self, no: np.ndarray, yes: np.ndarray) -> float:
        """What the counts by bin score, both float64 [bins], from the lowest scores to the highest."""
        raise NotImplementedError


class RocAuc(ScoreCounts):
    """The share of pairs of a yes and a no of which the yes has the higher score; ties count half."""

    def score(self, no: np.ndarray, yes: np.ndarray) -> float:
        """The area under the curve of true positives over false ones."""
        below = np.cumsum(no) - no / 2
        return float((yes * below).sum() / (yes.sum() * no.sum()))


class AveragePrecision(ScoreCounts):
    """The mean over the yes of the precision at each one's score: the area under precision over recall, in steps."""

    def score(self, no: np.ndarray, yes: np.ndarray) -> float:
        """As scikit-learn's average_precision_score, where the scores of a bin are one."""
        hits, counted = np.cumsum(yes[::-1]), np.cumsum((yes + no)[::-1])
        precision = hits / np.maximum(counted, 1e-30)
        return float((yes[::-1] * precision).sum() / yes.sum())


class PrecisionAt(ScoreCounts):
    """The share of yes among the highest scores.

    Args:
      top: how many of them.
      is_share: whether `top` is a share of all.
    """

    tells_few_apart: ClassVar[bool] = False

    def __init__(self, top: float, is_share: bool = False, num_thresholds: int = BINS, name: str | None = None):
        super().__init__(num_thresholds, name)
        self.top, self.is_share = top, is_share

    def score(self, no: np.ndarray, yes: np.ndarray) -> float:
        """Of a bin that is only in part among them, its mean."""
        hits, counted = np.cumsum(yes[::-1]), np.cumsum((yes + no)[::-1])
        top = self.top * counted[-1] if self.is_share else min(self.top, counted[-1])
        return float(np.interp(top, [0, *counted], [0, *hits]) / top)


class CalibrationError(ScoreCounts):
    """How far probabilities are from the shares of yes among those that have them: the mean over 15 bins of scores."""

    _direction: ClassVar[str] = "down"

    def score(self, no: np.ndarray, yes: np.ndarray) -> float:
        """The expected calibration error (Guo et al. 2017), over 15 bins of equal width."""
        middle = logits_of(np.arange(len(no)) + 0.5)
        probability, total = 1 / (1 + np.exp(-middle)), no + yes
        place = np.minimum((probability * 15).astype(int), 14)
        predicted, actual = (np.bincount(place, weights, 15) for weights in (probability * total, yes))
        return float(np.abs(predicted - actual).sum() / total.sum())


class BestF1(ScoreCounts):
    """The highest F1 that a threshold can give."""

    def score(self, no: np.ndarray, yes: np.ndarray) -> float:
        """The harmonic mean of precision and recall at the best threshold."""
        return float(_f1(no, yes).max())


class BestThreshold(ScoreCounts):
    """The probability from which on yes is said for the highest F1."""

    def score(self, no: np.ndarray, yes: np.ndarray) -> float:
        """The lower edge of its bin; of equally good ones, the highest."""
        f1 = _f1(no, yes)
        place = len(f1) - 1 - int(f1[::-1].argmax())
        return float(1 / (1 + np.exp(-logits_of(float(place)))))


def _f1(no: np.ndarray, yes: np.ndarray) -> np.ndarray:
    """Float64 [bins]: F1 where all scores from a bin on are said to be yes."""
    hits, counted = np.cumsum(yes[::-1])[::-1], np.cumsum((yes + no)[::-1])[::-1]
    return 2 * hits / (counted + yes.sum())


RANKING: dict[str, type[ScoreCounts]] = {
    "roc_auc": RocAuc,
    "average_precision": AveragePrecision,
    "calibration_error": CalibrationError,
    "best_f1": BestF1,
    "best_threshold": BestThreshold,
}
PRECISION_AT = re.compile(r"precision_at_([1-9]\d*)(_percent)?")


def find_ranking(name: str) -> ScoreCounts | None:
    """The metric of a name, such as `roc_auc`, `precision_at_100`, `precision_at_1_percent`; None if there is none."""
    if match := PRECISION_AT.fullmatch(name):
        top, is_share = int(match[1]), bool(match[2])
        return None if is_share and top > 100 else PrecisionAt(top / 100 if is_share else top, is_share)
    return RANKING[name]() if name in RANKING else None
