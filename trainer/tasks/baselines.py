"""What a few lines of scikit-learn reach on the same windows: a linear model, and gradient boosting.

They are fitted to training windows, flattened, with the library's defaults; a model should beat them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from beamfeed.contract.imports import sklearn_imports
from beamfeed.trainer.models.signature import Input
from beamfeed.trainer.tasks.base import Guess, Guesses, TrainingWindows
from beamfeed.trainer.tasks.linear import LEAST_PROBABILITY, TrainingRows, fit_linear
from beamfeed.trainer.tasks.rows import MOST_WEIGHTS, WORK, Layout, Rows

MOST_CATEGORIES = 255  # of a column, which boosting takes as such; with more, their numbers count as an order
BOOSTING = "gradient boosting"

Predict = Callable[[Rows], np.ndarray]


def fit_baselines(
    inputs: Mapping[str, Input], windows: TrainingWindows, of: int,
    classes: int | None = None, class_weights: Sequence[float] | None = None,
) -> Guesses:  # fmt: skip
    """A linear model and gradient boosting.

    Args:
      inputs: of the model.
      windows: training windows in an order that does not matter; truth is int64 `[n]` of classes, float32 `[n]` or
        `[n, k]` of numbers.
      of: how many training windows there are.
      classes: how many; None where numbers are to be told.
      class_weights: how much a window of each class counts; None where all count alike.
    """
    layout = Layout(inputs)
    if layout.unfit:
        return Guesses({}, [f"linear model, {BOOSTING}: {layout.unfit}"])
    linear_name = "a linear model" if classes is None else "logistic regression"
    outputs = classes if classes is not None and classes > 2 else 1
    most = max(1, WORK // (max(1, layout.width + layout.words) * outputs))
    rows, truth = _collect(layout, windows, most)
    if len(np.unique(truth)) < 2:
        return Guesses({}, [f"{linear_name}, {BOOSTING}: all training windows looked at have the same target"])
    training = TrainingRows(rows, truth, None if class_weights is None else np.array(class_weights)[truth])
    fits = {linear_name: _linear, BOOSTING: _boosted}
    unfit = {}
    if layout.weights * outputs > MOST_WEIGHTS:
        unfit[linear_name] = f"would have {layout.weights * outputs:,} weights, more than {MOST_WEIGHTS:,}"
    if layout.texts:
        unfit[BOOSTING] = "takes no text"
    elif truth.ndim > 1:
        unfit[BOOSTING] = f"is of one number, the target has {truth.shape[1]}"
    by_name: dict[str, Guess] = {}
    for name, fit in fits.items():
        if name not in unfit:
            try:
                by_name[name] = _as_guess(layout, fit(layout, training, classes), truth, classes)
            except ValueError as error:  # as of values that are not finite; the model is reviewed without it
                unfit[name] = f"cannot be fitted: {str(error).splitlines()[0]}"
    some = [f"{', '.join(by_name)}: fitted to {len(rows):,} of {of:,} that train"] if by_name and len(rows) < of else []
    return Guesses(by_name, [*some, *(f"{name}: {why}" for name, why in unfit.items())])


def _collect(layout: Layout, windows: TrainingWindows, most: int) -> tuple[Rows, np.ndarray]:
    """At most so many windows, and their targets."""
    parts, truths, count = [], [], 0
    for x, truth in windows():
        parts.append([tensor.numpy()[: most - count] for tensor in layout.tensors(x)])
        truths.append(truth[: most - count])
        count += len(truths[-1])
        if count >= most:
            break
    return layout.rows(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True))), np.concatenate(truths)


def _linear(layout: Layout, training: TrainingRows, classes: int | None) -> Predict:
    fitted = fit_linear(layout, training, classes)
    return lambda some: fitted.predict(layout, some, classes)


def _boosted(layout: Layout, training: TrainingRows, classes: int | None) -> Predict:
    with sklearn_imports():
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    columns = [layout.width - len(layout.sizes) + at for at, size in enumerate(layout.sizes) if size <= MOST_CATEGORIES]
    if classes is not None:  # early stopping divides each class, and cannot divide a single row
        training = training.take(np.isin(training.truth, np.flatnonzero(np.bincount(training.truth) > 1)))
    kind = HistGradientBoostingRegressor if classes is None else HistGradientBoostingClassifier
    fitted = kind(categorical_features=columns, random_state=0)
    fitted.fit(layout.dense(training.rows), training.truth, sample_weight=training.weights)

    def predict(rows: Rows) -> np.ndarray:
        if classes is None:
            return fitted.predict(layout.dense(rows))
        probabilities = np.zeros((len(rows), classes))  # of a class that was not among the training windows
        probabilities[:, fitted.classes_] = fitted.predict_proba(layout.dense(rows))
        return probabilities

    return predict


def _as_guess(layout: Layout, predict: Predict, truth: np.ndarray, classes: int | None) -> Guess:
    """As a model's output: logits `[batch, classes]`, or numbers `[batch, k]`."""
    units = classes if classes is not None else truth.shape[1] if truth.ndim > 1 else 1

    def numpy(*arrays: np.ndarray) -> np.ndarray:
        values = predict(layout.rows(*arrays))
        if classes is not None:
            values = np.log(np.maximum(values, LEAST_PROBABILITY))
        return values.reshape(-1, units).astype(np.float32)

    def guess(x: Any, _: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.numpy_function(numpy, layout.tensors(x), tf.float32), [None, units])

    return guess
