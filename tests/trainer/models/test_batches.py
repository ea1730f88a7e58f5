"""What a model makes of a row does not depend on how many rows come with it."""

import numpy as np
import pytest
import tensorflow as tf

from beamfeed.contract.config.model import DenseAutoencoder, DLinear, Recurrent, Residual, Tabular
from beamfeed.trainer import models
from beamfeed.trainer.models.signature import Input, Output, Signature

MOST = 6  # rows of a batch; sizes of models are among the smaller ones
ONE_COLUMN = Input((8, 1), "float32", True, ("a",))
NUMBER = {"price": Output(((1,), ()), "a number", units=1, scale=10.0, offset=100.0)}


def ahead(columns: int) -> dict[str, Output]:
    return {"ahead": Output(((4, columns),), "rows", units=4 * columns, continues=tuple(range(columns)))}


@pytest.mark.parametrize(
    ("section", "values", "outputs"),
    [
        (DLinear(name="dlinear", trend=3), ONE_COLUMN, ahead(1)),
        (DLinear(name="dlinear", trend=3), Input((8, 4), "float32", True, tuple("abcd")), ahead(4)),
        (Recurrent(name="recurrent", units=[3]), ONE_COLUMN, ahead(1)),
        (Recurrent(name="recurrent", units=[3], members=4), ONE_COLUMN, NUMBER),
        (Tabular(name="tabular", units=[5], members=4, wide=True), Input((3,), "float32", False, tuple("abc")), NUMBER),
        (Residual(name="residual", filters=[2], blocks=1, members=4), Input((8, 8, 1), "float32", False, ()), NUMBER),
        (DenseAutoencoder(name="dense_autoencoder", latent=2), Input((4, 1), "float32", True, ("a",)), None),
    ],
    ids=["dlinear", "as many columns", "recurrent", "recurrent members", "tabular members", "residual", "autoencoder"],
)
def test_a_row_has_the_same_answer_in_a_batch_of_any_size(section, values, outputs):
    """Also where a batch has as many rows as a forecast, or as there are members: Keras tells biases by their size."""
    given_back = {"values": Output((values.shape,), "the windows again")}
    model = models.build(section, Signature({"values": values}, outputs or given_back), 1)
    for number, weight in enumerate(model.weights):  # some begin at zero
        weight.assign(tf.abs(tf.random.stateless_normal(weight.shape, (1, number))))
    x = tf.random.stateless_normal([MOST, *values.shape], (2, 3))
    answers = np.concatenate([model(x[row : row + 1]).numpy() for row in range(MOST)])
    for rows in range(2, MOST + 1):
        np.testing.assert_allclose(model(x[:rows]), answers[:rows], rtol=1e-4, err_msg=f"{rows} rows")
