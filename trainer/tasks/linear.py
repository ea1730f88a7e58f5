"""Linear models of tables and texts by scikit-learn: ridge regression of numbers, logistic regression of classes."""

import warnings
from typing import NamedTuple

import numpy as np

from beamfeed.contract.imports import sklearn_imports
from beamfeed.trainer.tasks.rows import Layout, Rows

STRENGTHS = (1.0, 0.1, 0.01, 0.001, 10.0)  # that cross-validation chooses from; of equals the first
FOLDS = 5
LEAST_PROBABILITY = 1e-7


class LinearModel(NamedTuple):
    """Numbers, or logits of classes: a weighted sum of numbers, then the columns of `Layout.ones`.

    Attributes:
      kernel: float64 `[columns, units]`.
      bias: float64 `[units]`.
    """

    kernel: np.ndarray
    bias: np.ndarray

    def predict(self, layout: Layout, rows: Rows, classes: int | None) -> np.ndarray:
        """Numbers, or probabilities of classes: `[n, units]`."""
        from scipy.special import softmax

        count = rows.numbers.shape[1]
        sums = rows.numbers @ self.kernel[:count] + layout.ones(rows) @ self.kernel[count:] + self.bias
        return sums if classes is None else softmax(sums, axis=1)


class TrainingRows(NamedTuple):
    """What a linear model is fitted to.

    Attributes:
      rows: `[n]`.
      truth: classes int64 `[n]`, or numbers `[n]` or `[n, k]`.
      weights: of the rows, `[n]`; None where all count alike.
    """

    rows: Rows
    truth: np.ndarray
    weights: np.ndarray | None

    def take(self, chosen: np.ndarray) -> "TrainingRows":
        """The rows that are chosen, bool `[n]`."""
        return TrainingRows(
            self.rows.take(chosen), self.truth[chosen], None if self.weights is None else self.weights[chosen]
        )

    def can_fit(self, classes: int | None) -> bool:
        """Whether all is finite, weights are not negative, some rows count, and of classes two do."""
        weights = np.ones(len(self.rows)) if self.weights is None else self.weights
        if not all(np.isfinite(values).all() for values in (self.rows.numbers, self.truth, weights)):
            return False
        counting = self.truth[weights > 0]
        return bool((weights >= 0).all()) and (len(counting) > 0 if classes is None else len(np.unique(counting)) > 1)


def fit_linear(layout: Layout, training: TrainingRows, classes: int | None, strength: float = 1.0) -> LinearModel:
    """Ridge regression, or logistic regression of classes.

    Numbers are in standard deviations of theirs; a category is 0 or 1, so that one of few rows counts little.

    Args:
      layout: of the rows.
      training: at least one row.
      classes: how many; None of numbers.
      strength: the inverse of what is added to the loss for large weights: C, or 1 / alpha.

    Raises:
      ValueError: if values are not finite, or all rows are of one class.
    """
    from scipy import sparse

    with sklearn_imports():
        from sklearn.linear_model import LogisticRegression, Ridge

    learner = Ridge(alpha=1 / strength) if classes is None else LogisticRegression(C=strength, max_iter=1000)
    numbers = training.rows.numbers.astype(np.float64)
    mean, scale = numbers.mean(axis=0), numbers.std(axis=0)
    scale[scale == 0] = 1.0
    scaled, ones = (numbers - mean) / scale, layout.ones(training.rows)
    columns = sparse.hstack([sparse.csr_matrix(scaled), ones], "csr") if ones.shape[1] else scaled
    with warnings.catch_warnings():  # of many classes, or of an end before the best weights: both will do
        warnings.simplefilter("ignore")
        learner.fit(columns, training.truth, sample_weight=training.weights)
    kernel = np.atleast_2d(learner.coef_).T.copy()
    kernel[: len(scale)] /= scale[:, None]
    bias = np.atleast_1d(learner.intercept_) - mean @ kernel[: len(mean)]
    if classes is None:
        return LinearModel(kernel, bias)
    if len(learner.classes_) == 2:
        kernel, bias = np.hstack([-kernel, kernel]) / 2, np.hstack([-bias, bias]) / 2
    # The logit of a class that no row had is as if less than one had it.
    of_all = LinearModel(np.zeros((len(kernel), classes)), np.full(classes, -np.log(len(numbers))))
    of_all.kernel[:, learner.classes_], of_all.bias[learner.classes_] = kernel, bias
    return of_all


def best_strength(layout: Layout, training: TrainingRows, classes: int | None) -> float:
    """That of `fit_linear` with the lowest loss of rows that were left out (cross-validation)."""
    fold_of = np.random.default_rng(0).permutation(len(training.rows)) % FOLDS  # rows may come in turns
    totals = dict.fromkeys(STRENGTHS, 0.0)
    for fold in range(FOLDS):
        rest, others = training.take(fold_of != fold), training.take(fold_of == fold)
        for strength in STRENGTHS if rest.can_fit(classes) and len(others.rows) else ():
            fitted = fit_linear(layout, rest, classes, strength)
            predicted = fitted.predict(layout, others.rows, classes)
            if classes is None:
                losses = np.square(predicted - others.truth.reshape(predicted.shape)).mean(axis=1)
            else:
                losses = -np.log(np.maximum(predicted[np.arange(len(predicted)), others.truth], LEAST_PROBABILITY))
            totals[strength] += float(np.sum(losses if others.weights is None else losses * others.weights))
    return min(STRENGTHS, key=lambda strength: totals[strength])
