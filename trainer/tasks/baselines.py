"""What a few lines of scikit-learn reach on the same windows: a linear model, and gradient boosting.

They are fitted to training windows, flattened, with the library's defaults; a model should beat them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from beamfeed.trainer.models.parts import are_categories, is_text
from beamfeed.trainer.models.signature import Input
from beamfeed.trainer.tasks.base import Guess, Guesses, TrainingWindows

WIDEST = 2048  # numbers of a window, of wider ones nothing is fitted
MOST_CATEGORIES = 255  # of a column, which boosting takes as such; with more, their numbers count as an order
WORK = 10_000_000  # training windows * columns or words * classes: some ten seconds
MOST_WEIGHTS = 2_000_000  # of a linear model: categories and words, for each class
LEAST_PROBABILITY = 1e-7
BOOSTING = "gradient boosting"

Predict = Callable[["Rows"], np.ndarray]


@dataclass(frozen=True)
class Rows:
    """Windows as scikit-learn takes them.

    Attributes:
      numbers: float32 `[n, numbers]`.
      categories: int64 `[n, columns]`.
      words: int64 `[n, words]` of each text.
    """

    numbers: np.ndarray
    categories: np.ndarray
    words: tuple[np.ndarray, ...] = ()

    def __len__(self) -> int:
        return len(self.numbers)


class Layout:
    """How a model's inputs become `Rows`.

    Args:
      inputs: of the model.
    """

    def __init__(self, inputs: Mapping[str, Input]):
        self._inputs = inputs
        self.numbers = [name for name, field in inputs.items() if field.dtype == "float32"]
        self.categories = [name for name, field in inputs.items() if are_categories(field)]
        self.texts = [name for name, field in inputs.items() if is_text(field)]
        self.sizes = [size for name in self.categories for size in inputs[name].sizes]
        self.vocabularies = [inputs[name].sizes[0] for name in self.texts]
        self.width = len(self.sizes) + sum(inputs[name].numbers for name in self.numbers)
        self.words = sum(inputs[name].numbers for name in self.texts)
        self.weights = self.width + sum(self.sizes) + sum(self.vocabularies)  # of a linear model of one number

    @property
    def unfit(self) -> str:
        """Why nothing can be fitted to such inputs; empty where something can."""
        known = {*self.numbers, *self.categories, *self.texts}
        if known != set(self._inputs) or any(None in field.shape for field in self._inputs.values()):
            return "inputs are not numbers and categories of one size"
        if self.width > WIDEST:
            return f"windows of {self.width:,} numbers, more than {WIDEST:,}"
        return ""

    def tensors(self, x: Any) -> list[tf.Tensor]:
        """What `rows` takes: numbers, categories, and the words of each text; `[n, columns]` each."""
        by_name = x if isinstance(x, dict) else dict.fromkeys(self._inputs, x)
        batch = tf.shape(next(iter(by_name.values())))[0]

        def flat(names: Sequence[str], dtype: tf.DType) -> tf.Tensor:
            parts = [tf.reshape(tf.cast(by_name[name], dtype), [batch, -1]) for name in names]
            return tf.concat(parts, 1) if parts else tf.zeros([batch, 0], dtype)

        texts = [flat([name], tf.int64) for name in self.texts]
        return [flat(self.numbers, tf.float32), flat(self.categories, tf.int64), *texts]

    def rows(self, numbers: np.ndarray, categories: np.ndarray, *words: np.ndarray) -> Rows:
        """Of the arrays of `tensors`."""
        return Rows(numbers, categories, words)

    def sparse(self, rows: Rows) -> Any:
        """Numbers, a column for each category, and how often each word is there: a sparse matrix for linear models."""
        from scipy import sparse

        parts = [sparse.csr_matrix(rows.numbers)]
        ends = np.arange(len(rows) + 1)
        for column, size in enumerate(self.sizes):
            ones = np.ones(len(rows), np.float32)
            parts.append(sparse.csr_matrix((ones, rows.categories[:, column], ends), (len(rows), size)))
        for words, size in zip(rows.words, self.vocabularies, strict=True):
            at = np.nonzero(words)  # 0 is no word
            counts = sparse.coo_matrix((np.ones(len(at[0]), np.float32), (at[0], words[at])), (len(rows), size))
            parts.append(counts.tocsr())
        return sparse.hstack(parts, "csr")

    def dense(self, rows: Rows) -> np.ndarray:
        """Numbers and categories side by side, for trees."""
        return np.concatenate([rows.numbers, rows.categories], axis=1)


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
    weights = None if class_weights is None else np.array(class_weights)[truth]
    skipped = [] if len(rows) >= of else [f"{linear_name}, {BOOSTING}: fitted to {len(rows):,} of {of:,} windows"]
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
                by_name[name] = _as_guess(layout, fit(layout, rows, truth, weights, classes), truth, classes)
            except ValueError as error:  # as of values that are not finite; the model is reviewed without it
                unfit[name] = f"cannot be fitted: {str(error).splitlines()[0]}"
    return Guesses(by_name, [*skipped, *(f"{name}: {why}" for name, why in unfit.items())])


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


def _linear(layout: Layout, rows: Rows, truth: np.ndarray, weights: np.ndarray | None, classes: int | None) -> Predict:
    """Logistic regression or ridge regression, of numbers in their standard deviations."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    learner = Ridge() if classes is None else LogisticRegression(max_iter=1000)
    if layout.texts:  # words count as they are: rare ones would outweigh all
        fitted = learner.fit(layout.sparse(rows), truth, sample_weight=weights)
    else:
        fitted = make_pipeline(StandardScaler(with_mean=False), learner)
        fitted.fit(layout.sparse(rows), truth, **{f"{type(learner).__name__.lower()}__sample_weight": weights})
    return lambda some: _predicted(fitted, layout.sparse(some), classes)


def _boosted(layout: Layout, rows: Rows, truth: np.ndarray, weights: np.ndarray | None, classes: int | None) -> Predict:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    columns = [layout.width - len(layout.sizes) + at for at, size in enumerate(layout.sizes) if size <= MOST_CATEGORIES]
    if classes is not None:  # early stopping divides each class, and cannot divide a single row
        often = np.isin(truth, np.flatnonzero(np.bincount(truth) > 1))
        rows = Rows(rows.numbers[often], rows.categories[often])
        truth, weights = truth[often], None if weights is None else weights[often]
    kind = HistGradientBoostingRegressor if classes is None else HistGradientBoostingClassifier
    fitted = kind(categorical_features=columns, random_state=0).fit(layout.dense(rows), truth, sample_weight=weights)
    return lambda some: _predicted(fitted, layout.dense(some), classes)


def _predicted(fitted: Any, rows: Any, classes: int | None) -> np.ndarray:
    """Numbers, or probabilities `[n, classes]`; of a class that was not among the training windows, 0."""
    if classes is None:
        return fitted.predict(rows)
    probabilities = np.zeros((rows.shape[0], classes))
    probabilities[:, fitted.classes_] = fitted.predict_proba(rows)
    return probabilities


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
