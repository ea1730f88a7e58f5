"""Columns of predictions, without a model."""

from itertools import permutations

import numpy as np

from beamfeed.transforms.predictions.columns import answer_columns


def test_the_order_of_columns_is_that_of_no_process():
    """A process that loads a model gets its outputs in an order of its own."""
    answers = {"score": np.ones(2), "nearest": np.ones(2), "latent": np.ones((2, 3)), "pca_q": np.ones(2)}
    orders = [list(answer_columns(dict(some), {}, {}, [])) for some in permutations(answers.items())]
    assert orders == [["nearest", "pca_q", "score", "latent"]] * len(orders)
