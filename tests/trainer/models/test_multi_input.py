"""The model of several inputs, of whatever shapes and dtypes they are."""

import numpy as np
import pytest
import tensorflow as tf

from beamfeed.contract.config.model import MultiInput
from beamfeed.contract.errors import UserError
from beamfeed.trainer import models
from beamfeed.trainer.models.signature import Input, Output, Signature

HEADS = {
    "digit": Output(((10,),), "a number for each class", units=10, logits=True),
    "centre": Output(((2,),), "2 numbers", units=2, scale=3.0, offset=1.0),
}


def section(**keys):
    return MultiInput(name="multi_input", **keys)


def test_inputs_of_any_shape_and_dtype_become_outputs():
    inputs = {
        "grey": Input((8, 8), "uint8"), "color": Input((5, 9, 3)), "volume": Input((2, 3, 4, 5), "float64"),
        "flat": Input((7,), "int64"), "flag": Input((), "bool"), "small": Input((2, 2), "float16"),
    }  # fmt: skip
    signature = Signature(inputs, HEADS)
    model = models.build(section(units=[16, 16], dropout=0.1), signature, seed=1)
    found = model(signature.zeros(3))
    assert {name: tuple(one.shape) for name, one in found.items()} == {"digit": (3, 10), "centre": (3, 2)}
    convolutions = [layer.name for layer in model.layers if "convolution" in layer.name]
    assert convolutions == ["grey_convolution_0", "color_convolution_0", "grey_convolution_1", "color_convolution_1"]


def test_without_filters_an_image_is_its_pixels():
    signature = Signature({"grey": Input((4, 4), "uint8")}, {"digit": HEADS["digit"]})
    model = models.build(section(filters=[], units=[]), signature, seed=1)
    pixels = np.random.default_rng(0).integers(0, 255, (5, 4, 4), "u1")
    weights, bias = model.get_weights()
    np.testing.assert_allclose(model(pixels), pixels.reshape(5, 16) / 255 @ weights + bias, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (Input((), "string"), r"takes numbers of one shape, and 'x' holds string \[\]"),
        (Input((3,), "complex64"), r"holds complex64 \[3\]"),
        (Input((None,), "float32"), r"holds float32 \[None\]"),
        (Input((1,), "int64", columns=("a",), sizes=(4,)), "holds categories or words"),
    ],
)
def test_what_is_no_number_is_told(one, message):
    with pytest.raises(UserError, match=message):
        models.build(section(), Signature({"x": one}, {"digit": HEADS["digit"]}), seed=1)


def test_it_gives_nothing_back():
    with pytest.raises(UserError, match="'multi_input' gives no input back"):
        models.build(section(), Signature({"x": Input((3,))}, {"x": Output(((3,),), "the input")}), seed=1)


def test_it_can_be_saved(tmp_path):
    import keras

    signature = Signature({"x": Input((6, 6, 2)), "meta": Input((3,), "float64")}, HEADS)
    model = models.build(section(filters=[4]), signature, seed=1)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    batch = signature.noise(4)
    for name, one in model(batch).items():
        tf.debugging.assert_near(one, again(batch)[name])
