"""How unusual a window is among those of training, by what costs nothing: measures beside a model's own error.

They go into the SavedModel, so that whoever asks the model gets them, too. A model that learned to give back what it
never saw has a small error there; its window is far from those of training all the same.
"""

import warnings

import numpy as np
import tensorflow as tf

from beamfeed.trainer.models.components import VectorSums

CENTERS = 64  # of k-means
ROUNDS = 20  # of the same
COMPONENTS = 8  # where a model has no encoder that says how many
MOST_COMPONENTS = 64
LEAST_VARIANCE = 1e-6  # of a component, as a part of that of the first: less is rounding
PCA_Q, PCA_T2, NEAREST = "pca_q", "pca_t2", "nearest"


def find_centers(vectors: np.ndarray, count: int) -> np.ndarray:
    """The centres of k-means, which begins with vectors far from each other (k-means++, Arthur and Vassilvitskii 2007).

    By SciPy, whose import takes a third of scikit-learn's; it chooses the first centres in a time that grows with the
    square of their number, so that is done here.

    Args:
      vectors: float32 `[n, numbers]`, finite.
      count: of centres; some are alike where fewer vectors differ.

    Returns:
      float32 `[count, numbers]`, always the same ones.
    """
    from scipy.cluster.vq import kmeans2

    rng = np.random.default_rng(0)
    squares = np.einsum("ij,ij->i", vectors, vectors)
    apart = np.ones(len(vectors))  # how likely each is the next one: its squared distance from the nearest so far
    chosen: list[int] = []
    while len(chosen) < count:
        added_up = apart.cumsum(dtype=np.float64)
        chosen.append(int(np.searchsorted(added_up, rng.uniform() * added_up[-1])))
        center = vectors[chosen[-1]]
        distances = np.maximum(squares - 2 * (vectors @ center) + center @ center, 0)
        apart = np.minimum(apart, distances) if len(chosen) > 1 else distances
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # of a centre that no vector is nearest to
        return kmeans2(vectors, vectors[chosen], iter=ROUNDS, minit="matrix")[0]


class Unusual:
    """The measures.

    pca_q: the mean square of what is left of a window without its principal components (the statistic Q).
    pca_t2: Hotelling's T squared of the components, the sum of s^2 / variance over their scores s (Jackson 1991,
    "A User's Guide to Principal Components", section 1.7). nearest: the distance to the nearest of `CENTERS` centres.

    Attributes:
      centers: float32 `[centers, numbers]`.

    Args:
      vectors: float32 `[n, numbers]`, windows of training, flattened; more than `CENTERS`.
      count: of components; None where a model does not say.
    """

    def __init__(self, vectors: np.ndarray, count: int | None):
        sums = VectorSums(vectors.shape[1])
        sums.add(vectors)
        count = min(count or COMPONENTS, MOST_COMPONENTS, max(1, sums.most - 1))
        components = sums.components(count)
        variances = ((vectors - sums.mean) @ components).var(axis=0)
        used = variances > LEAST_VARIANCE * variances[0]
        self.centers = tf.constant(find_centers(vectors, CENTERS), tf.float32)
        self._mean = tf.constant(sums.mean, tf.float32)
        self._components = tf.constant(components, tf.float32)
        self._weights = tf.constant(np.where(used, 1 / np.where(used, variances, 1), 0), tf.float32)

    def measure(self, windows: tf.Tensor) -> dict[str, tf.Tensor]:
        """Of windows `[batch, ...]`, each measure `[batch]`, float32."""
        vectors = tf.reshape(tf.cast(windows, tf.float32), [-1, len(self._mean)])
        apart = vectors - self._mean
        scores = apart @ self._components
        left = apart - scores @ tf.transpose(self._components)
        return {
            PCA_Q: tf.reduce_mean(tf.square(left), axis=1),
            PCA_T2: tf.reduce_sum(tf.square(scores) * self._weights, axis=1),
            NEAREST: tf.norm(vectors - self.nearest(vectors), axis=1),
        }

    def nearest(self, vectors: tf.Tensor) -> tf.Tensor:
        """The nearest centre of each vector, both float32 `[batch, numbers]`."""
        # But for the square of the vector, which is the same for all.
        apart = tf.reduce_sum(tf.square(self.centers), axis=1) - 2 * vectors @ tf.transpose(self.centers)
        return tf.gather(self.centers, tf.argmin(apart, axis=1))
