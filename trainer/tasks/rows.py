"""Windows as scikit-learn takes them: numbers, categories and words of a model's inputs, flattened."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from beamfeed.trainer.models.parts import are_categories, is_text
from beamfeed.trainer.models.signature import Input

WIDEST = 2048  # numbers of a window, of wider ones nothing is fitted
WORK = 10_000_000  # training windows * columns or words * classes that are fitted to: some ten seconds
MOST_WEIGHTS = 2_000_000  # of a linear model: categories and words, for each class


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

    def take(self, chosen: np.ndarray) -> "Rows":
        """Those that are chosen, bool `[n]`."""
        return Rows(self.numbers[chosen], self.categories[chosen], tuple(words[chosen] for words in self.words))


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
        numbers = sum(inputs[name].numbers for name in self.numbers)
        self.width = len(self.sizes) + numbers
        self.words = sum(inputs[name].numbers for name in self.texts)
        self.weights = numbers + sum(self.sizes) + sum(self.vocabularies)  # of a linear model of one number

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

    def holds(self, rows: Rows) -> bool:
        """Whether all categories and words are among those that the inputs say: `ones` does not look."""
        sizes = [*zip(rows.categories.T, self.sizes, strict=True), *zip(rows.words, self.vocabularies, strict=True)]
        return all(((numbers >= 0) & (numbers < size)).all() for numbers, size in sizes)

    def ones(self, rows: Rows) -> Any:
        """A column for each category, and how often each word is there: a sparse matrix for linear models."""
        from scipy import sparse

        parts = [sparse.csr_matrix((len(rows), 0), dtype=np.float32)]
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
