"""Networks of keras.applications by name: without downloads, with weights from a file, and mistakes in one line."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from beamfeed.contract.config.model import Application
from beamfeed.contract.errors import UserError
from beamfeed.trainer import models
from beamfeed.trainer.models.images import find_network
from beamfeed.trainer.models.signature import Input, Output, Signature

CLASSES = Output(((4,),), "classes", units=4, logits=True)
SIZE = (32, 32, 3)


def build(shape=SIZE, network="MobileNetV2", **section):
    signature = Signature({"image": Input(shape)}, {"label": CLASSES})
    return models.build(Application(name="application", network=network, **section), signature, seed=3)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """The weights of a network by itself, and what it makes of images from 0 to 255 as it is documented to be used."""
    path = str(tmp_path_factory.mktemp("weights") / "mobile.weights.h5")
    keras.utils.set_random_seed(11)
    network = keras.applications.MobileNetV2(include_top=False, weights=None, input_shape=SIZE, pooling="avg")
    network.save_weights(path)
    images = np.random.default_rng(0).uniform(0, 255, (2, *SIZE)).astype("f4")
    found = network(keras.applications.mobilenet_v2.preprocess_input(images.copy()))
    return path, images, found.numpy()


def test_images_are_scaled_as_the_network_wants_them(weights, tmp_path):
    path, images, expected = weights
    model = build(weights=path)
    (inner,) = [layer for layer in model.layers if isinstance(layer, keras.Model)]
    inside = keras.Model(model.inputs, inner(model.layers[model.layers.index(inner) - 1].output))
    np.testing.assert_allclose(inside(images / 255), expected, atol=1e-4)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again(images / 255), model(images / 255), atol=1e-5)
    assert model.trainable_variables[0].shape == inner.trainable_variables[0].shape


def test_what_is_frozen_does_not_learn(weights):
    model = build(weights=weights[0], frozen=True, dense=[5])
    assert [tuple(one.shape) for one in model.trainable_variables] == [(1280, 5), (5,), (5, 4), (4,)]


def test_for_who_has_the_weights_no_file_is_read():
    section = Application(name="application", network="MobileNetV2", weights="/nowhere/a.weights.h5", frozen=True)
    signature = Signature({"image": Input(SIZE)}, {"label": CLASSES})
    assert models.build(section.bare, signature, seed=3).count_params() > 1_000_000


def test_networks_and_how_they_are_scaled():
    for name, module in (("ResNet50", "resnet"), ("VGG16", "vgg16"), ("EfficientNetV2B0", "efficientnet_v2")):
        function, found = find_network(name)
        assert function is getattr(keras.applications, name)
        images = np.full((1, 2, 2, 3), 100, "f4")
        expected = getattr(keras.applications, module).preprocess_input(images.copy())
        np.testing.assert_allclose(found.preprocess_input(tf.constant(images)), expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"network": "MobilNetV2"}, "'MobilNetV2' is not a network of keras.applications; did you mean 'MobileNetV2'?"),
        ({"shape": (16, 40, 3)}, "train.inputs.image.size: is [16, 40], MobileNetV2 cannot take it: "),
        ({"shape": (32, 32, 1)}, "train.inputs.image.channels: is 1, and MobileNetV2 takes 3"),
        ({"weights": "/nowhere/a.weights.h5"}, "train.model.weights: there is no file /nowhere/a.weights.h5"),
        ({"weights": "a.ckpt"}, "train.model.weights: a.ckpt must be a file of weights, .weights.h5 or .h5"),
    ],
)
def test_mistakes(arguments, message):
    with pytest.raises(UserError) as caught:
        build(**arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_weights_of_another_network(weights, tmp_path):
    (tmp_path / "a.weights.h5").write_bytes(b"no weights")
    for network, path in (("VGG16", weights[0]), ("MobileNetV2", str(tmp_path / "a.weights.h5"))):
        with pytest.raises(UserError) as caught:
            build(network=network, weights=path)
        assert f"does not hold the weights of {network} without its last layer" in str(caught.value)
        assert "\n" not in str(caught.value)
