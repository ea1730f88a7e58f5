"""The members of an ensemble: they are apart from each other, and their mean is what a model gives."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from beamfeed.contract.config.model import Recurrent, Residual, Tabular
from beamfeed.contract.errors import UserError
from beamfeed.trainer import models
from beamfeed.trainer.models.members import with_members
from beamfeed.trainer.models.signature import Input, Output, Signature

NUMBERS = Input((3,), "float32", False, ("a", "b", "c"))
CLASSES = Output(((2,),), "a number for each class", units=2, logits=True)
NUMBER = Output(((1,), ()), "a number", units=1, scale=10.0, offset=100.0)


def build(outputs, **keys):
    section = Tabular(name="tabular", units=[6, 6], **keys)
    model = models.build(section, Signature({"numbers": NUMBERS}, outputs), 1)
    x = tf.random.stateless_normal([9, 3], (1, 2))
    return model, x


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("outputs", [{"price": NUMBER}, {"price": NUMBER, "fraud": CLASSES}], ids=["one", "two"])
def test_the_output_is_the_mean_of_the_members(outputs, wide):
    model, x = build(outputs, members=5, wide=wide)
    for weight in model.weights:  # heads beside a linear model begin at zero
        weight.assign(tf.random.stateless_normal(weight.shape, (3, 4)))
    both = with_members(model)
    output, members = both(x, training=False)
    for name in outputs:
        of_model, of_members = (values[name] if len(outputs) > 1 else values for values in (output, members))
        assert of_members.shape == (9, 5, outputs[name].units)
        np.testing.assert_allclose(of_model, tf.reduce_mean(of_members, axis=1), rtol=1e-5)
        np.testing.assert_allclose(of_model, model(x)[name] if len(outputs) > 1 else model(x), rtol=1e-6)
        assert np.ptp(of_members.numpy(), axis=1).min() > 1e-4  # no two are the same


def test_a_member_does_not_see_the_others():
    """What belongs to one member alone has no gradient from the loss of another."""
    model, x = build({"price": NUMBER}, members=4)
    both = with_members(model)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(both(x, training=True)[1][:, 1])
    gradients = tape.gradient(loss, model.trainable_variables)
    own = [gradient for gradient in gradients if gradient.shape[0] == 4]  # nothing else of this model has four
    assert len(own) == 8  # scales before and after each layer, biases after it; the head's weights and biases
    for gradient in own:
        assert not gradient.numpy()[[0, 2, 3]].any()
        assert gradient.numpy()[1].any()


@pytest.mark.parametrize(
    ("section", "shape"),
    [
        (Recurrent(name="recurrent", units=[4], members=3), (6, 2)),
        (Recurrent(name="recurrent", units=[4, 3], dense=[5], members=3), (6, 2)),
        (Residual(name="residual", filters=[4, 8], blocks=1, members=3), (8, 8, 1)),
    ],
    ids=["recurrent", "deeper", "residual"],
)
def test_networks_with_no_weights_in_common(section, shape):
    columns = ("a", "b") if len(shape) == 2 else ()
    signature = Signature({"values": Input(shape, "float32", len(shape) == 2, columns)}, {"life": NUMBER})
    model = models.build(section, signature, 1)
    single = models.build(section.model_copy(update={"members": 1}), signature, 1)
    assert model.count_params() == 3 * single.count_params()
    both = with_members(model)
    x = tf.random.stateless_normal([7, *shape], (1, 2))
    with tf.GradientTape() as tape:
        output, members = both(x, training=True)
        loss = tf.reduce_sum(members[:, 1])
    np.testing.assert_allclose(output, tf.reduce_mean(members, axis=1), rtol=1e-5)
    assert np.ptp(members.numpy(), axis=1).min() > 1e-4  # no two are the same
    of_weights = tape.gradient(loss, model.trainable_variables)
    seen = sum(gradient is not None and bool(np.any(gradient)) for gradient in of_weights)
    assert seen <= len(single.trainable_variables)  # those of one network, and its part of the heads


def test_a_forecast_takes_one():
    ahead = Output(((3, 2),), "rows", units=6, continues=(0, 1))
    signature = Signature({"windows": Input((6, 2), "float32", True, ("a", "b"))}, {"ahead": ahead})
    with pytest.raises(UserError, match=r"^train.model.members: is 2, and a forecast takes 1$"):
        models.build(Recurrent(name="recurrent", members=2), signature, 1)


def test_one_member_is_a_plain_network():
    model, _ = build({"price": NUMBER}, members=1, bins=0)
    assert with_members(model) is None
    assert model.count_params() == 3 * 6 + 6 + 6 * 6 + 6 + 6 + 1


@pytest.mark.slow
def test_keras_alone_gives_the_same(tmp_path):
    model, x = build({"price": NUMBER}, members=4, wide=True)
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "x.npy", x)
    program = (
        "import keras, numpy as np, sys; model = keras.saving.load_model('model.keras'); "
        "np.save('y.npy', model(np.load('x.npy'))); "
        "assert not any(name.startswith('beamfeed') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), model(x), rtol=1e-6)
    assert [layer.trainable for layer in keras.saving.load_model(tmp_path / "model.keras").layers
            if layer.name == "numbers_bins"] == [False]  # fmt: skip
