"""Principal components against NumPy's singular values."""

import numpy as np
import pytest

from beamfeed.trainer.models import components as module
from beamfeed.trainer.models.components import VectorSums

RNG = np.random.default_rng(3)
VECTORS = (RNG.normal(size=(60, 4)) @ RNG.normal(size=(4, 20)) + 0.1 * RNG.normal(size=(60, 20)) + 500).astype("f4")


def projection(vectors, count):
    """Onto the first components of all vectors, by the singular values of their matrix."""
    _, _, directions = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    return directions[:count].T @ directions[:count]


def sums_of(vectors, at_once=17):
    sums = VectorSums(vectors.shape[1])
    for first in range(0, len(vectors), at_once):
        sums.add(vectors[first : first + at_once])
    return sums


@pytest.mark.parametrize("widest", [20, 19])
def test_components_are_those_of_the_singular_values(widest, monkeypatch):
    """With sums of products, and where vectors are too wide for these."""
    monkeypatch.setattr(module, "WIDEST", widest)
    sums = sums_of(VECTORS)
    exact = VECTORS.astype("f8")
    assert (sums.count, sums.most) == (60, 20)
    np.testing.assert_allclose(sums.mean, exact.mean(0), rtol=1e-7)
    for count in (1, 3, 4):
        found = sums.components(count)
        np.testing.assert_allclose(found.T @ found, np.eye(count), atol=1e-9)
        np.testing.assert_allclose(found @ found.T, projection(exact, count), atol=1e-6)
    with pytest.raises(ValueError, match="21 components of 20"):
        sums.components(21)


def test_of_wide_vectors_some_are_kept(monkeypatch):
    monkeypatch.setattr(module, "WIDEST", 10)
    monkeypatch.setattr(module, "MOST_KEPT", 9)
    sums = sums_of(VECTORS, at_once=4)
    assert (sums.count, sums.most) == (60, 9)
    np.testing.assert_allclose(sums.mean, VECTORS.astype("f8").mean(0), rtol=1e-7)
    assert sums.components(9).shape == (20, 9)


@pytest.mark.parametrize("widest", [20, 10])
def test_vectors_that_do_not_differ_have_components_too(widest, monkeypatch):
    monkeypatch.setattr(module, "WIDEST", widest)
    found = sums_of(np.full((30, 20), 7.0, "f4")).components(3)
    np.testing.assert_allclose(found.T @ found, np.eye(3), atol=1e-9)
