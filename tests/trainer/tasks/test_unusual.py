"""Measures of how unusual windows are, against scikit-learn and plain sums."""

import numpy as np
import tensorflow as tf
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances

from beamfeed.trainer.tasks.unusual import CENTERS, Unusual, find_centers


def vectors(rows: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(rows, 3)) @ rng.normal(size=(3, 12)) + 0.1 * rng.normal(size=(rows, 12)) + 5).astype("f4")


def test_measures():
    seen, new = vectors(500), np.concatenate([vectors(20), np.full((1, 12), 40, "f4")])
    unusual = Unusual(seen, 3)
    found = {name: value.numpy() for name, value in unusual.measure(tf.constant(new.reshape(-1, 4, 3))).items()}
    pca = PCA(3).fit(seen)
    scores = pca.transform(new)
    np.testing.assert_allclose(found["pca_t2"], (scores**2 / pca.transform(seen).var(axis=0)).sum(axis=1), rtol=1e-3)
    left = new - pca.inverse_transform(scores)
    np.testing.assert_allclose(found["pca_q"], (left**2).mean(axis=1), rtol=1e-3, atol=1e-5)
    assert unusual.centers.shape == (CENTERS, 12)
    apart = pairwise_distances(new, unusual.centers).min(axis=1)
    np.testing.assert_allclose(found["nearest"], apart, rtol=1e-3, atol=1e-3)
    assert all(value.argmax() == 20 for value in found.values())


def test_centers_are_as_near_as_those_of_another_library():
    seen = vectors(2000)
    seen[:40] += 30  # a few that are far away have centers of their own

    def spread(of):
        return np.square(pairwise_distances(seen, of).min(axis=1)).sum()

    centers = find_centers(seen, CENTERS)
    np.testing.assert_array_equal(centers, find_centers(seen, CENTERS))
    assert spread(centers) < 1.05 * spread(KMeans(CENTERS, n_init=3, random_state=1).fit(seen).cluster_centers_)


def test_vectors_that_do_not_differ_have_centers():
    same = np.repeat(vectors(3), 50, axis=0)
    centers = find_centers(same, CENTERS)
    assert np.isfinite(centers).all()
    assert pairwise_distances(same, centers).min(axis=1).max() < 1e-2


def test_columns_that_never_vary_do_no_harm():
    seen = vectors(300)
    seen[:, 4:] = 7
    found = Unusual(seen, 8).measure(tf.constant(seen))
    assert all(np.isfinite(value.numpy()).all() for value in found.values())
    assert found["pca_t2"].numpy().max() < 60  # no variance of 0 is divided by
