"""The residual network: its shapes, that it learns, and what it does not take."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from beamfeed.contract.config.model import Residual
from beamfeed.contract.errors import UserError
from beamfeed.trainer import models
from beamfeed.trainer.models.signature import Input, Output, Signature

IMAGE = Input((16, 12, 3))
CLASSES = Output(((4,),), "classes", units=4, logits=True)
NUMBER = Output(((1,), ()), "a number", units=1, scale=2.0, offset=5.0)


def build(inputs=None, outputs=None, **section):
    signature = Signature(inputs or {"image": IMAGE}, outputs or {"label": CLASSES})
    return models.build(Residual(name="residual", **{"filters": [4, 8], "blocks": 1, **section}), signature, seed=3)


def test_outputs_and_numbers_of_weights():
    model = build()
    assert model(tf.zeros([2, 16, 12, 3])).shape == (2, 4)

    def convolution(width, before, after):
        return width * width * before * after + 2 * after  # and the scale and offset of the normalization

    expected = convolution(3, 3, 4)  # the stem
    expected += 2 * convolution(3, 4, 4)
    expected += convolution(3, 4, 8) + convolution(3, 8, 8) + convolution(1, 4, 8)
    expected += 8 * 4 + 4
    assert sum(int(np.prod(one.shape)) for one in model.trainable_variables) == expected


@pytest.mark.parametrize("stem", [1, 2, 4])
def test_sides_that_are_odd_and_any_stem(stem):
    model = build({"image": Input((17, 31, 1))}, stem=stem, filters=[4, 4], blocks=2, dense=[6], dropout=0.5)
    assert model(tf.zeros([3, 17, 31, 1])).shape == (3, 4)


def test_other_inputs_stand_beside_images():
    inputs = {"image": IMAGE, "other": Input((8, 8, 1)), "numbers": Input((3,), columns=("a", "b", "c"))}
    model = build(inputs, {"label": CLASSES, "size": NUMBER})
    found = model({name: tf.zeros([2, *one.shape]) for name, one in inputs.items()})
    assert {name: one.shape for name, one in found.items()} == {"label": (2, 4), "size": (2, 1)}


def test_it_is_plain_keras(tmp_path):
    model = build(dropout=0.1)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    images = tf.random.stateless_uniform([3, 16, 12, 3], (1, 2))
    np.testing.assert_allclose(again(images), model(images), atol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "section", "message"),
    [
        ({"values": Input((8, 3), in_rows=True)}, {}, "'residual' needs images, and the dataset has none"),
        ({"image": Input((8, 8, 3), "uint8")}, {}, "'residual' needs images, and the dataset has none"),
        ({"image": Input((4, 40, 3))}, {"stem": 4}, "is [4, 40], the model 'residual' needs at least 8 by 8"),
        ({"image": IMAGE, "text": Input((5,), "int64", sizes=(9,))}, {}, "'residual' takes no text, and 'text' is one"),
    ],
)
def test_what_it_does_not_take(inputs, section, message):
    with pytest.raises(UserError) as caught:
        build(inputs, **section)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
