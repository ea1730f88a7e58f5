"""Autoencoders of series: their parts, and the linear path."""

import keras
import numpy as np
import pytest

from beamfeed.contract.config.model import DenseAutoencoder, RecurrentAutoencoder
from beamfeed.contract.errors import UserError
from beamfeed.trainer import models
from beamfeed.trainer.models.autoencoder import linear_path
from beamfeed.trainer.models.latent import with_latent
from beamfeed.trainer.models.signature import Input, Output, Signature

INPUTS = {"values": Input((8, 3), in_rows=True)}
BACK = Signature(INPUTS, {"reconstruct": Output(((8, 3),), "shaped as the windows")})
WINDOWS = np.random.default_rng(0).normal(size=(64, 8, 3)).astype("f4")
SECTIONS = {
    "lstm": lambda **keys: RecurrentAutoencoder(name="recurrent_autoencoder", units=[6, 5], latent=2, **keys),
    "gru": lambda **keys: RecurrentAutoencoder(name="recurrent_autoencoder", cell="gru", latent=2, **keys),
    "dense": lambda **keys: DenseAutoencoder(name="dense_autoencoder", units=[6, 5], latent=2, **keys),
}


@pytest.mark.parametrize("name", SECTIONS)
def test_its_parts_are_layers_that_keras_reads_by_itself(name, tmp_path):
    model = models.build(SECTIONS[name](), BACK, seed=7)
    encoder, decoder = model.get_layer("encoder"), model.get_layer("decoder")
    assert encoder(WINDOWS).shape == (64, 2)
    np.testing.assert_array_equal(decoder(encoder(WINDOWS)), model(WINDOWS))
    latent, given = with_latent(model)(WINDOWS)
    np.testing.assert_array_equal(latent, encoder(WINDOWS))
    np.testing.assert_array_equal(given, model(WINDOWS))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded).__module__.startswith("keras.")
    np.testing.assert_array_equal(loaded(WINDOWS), model(WINDOWS))


@pytest.mark.parametrize("name", SECTIONS)
def test_at_first_the_linear_path_alone_gives_the_output(name):
    model = models.build(SECTIONS[name](), BACK, seed=7)
    kernel, bias, back, back_bias = (weight.numpy() for weight in linear_path(model))
    assert (kernel.shape, bias.shape, back.shape, back_bias.shape) == ((24, 2), (2,), (2, 24), (24,))
    linear = (WINDOWS.reshape(64, 24) @ kernel + bias) @ back + back_bias
    np.testing.assert_allclose(model(WINDOWS), linear.reshape(64, 8, 3), atol=1e-5)


@pytest.mark.parametrize("name", SECTIONS)
def test_all_layers_learn_by_the_third_step(name):
    """Layers that begin with zeros hide those before them from the first gradient."""
    model = models.build(SECTIONS[name](), BACK, seed=7)
    before = [weight.numpy() for weight in model.trainable_variables]
    model.compile("adam", "mse", run_eagerly=True)
    for _ in range(3):
        model.train_on_batch(WINDOWS, WINDOWS)
    for variable, value in zip(model.trainable_variables, before, strict=True):
        assert (variable.numpy() != value).any(), variable.path


@pytest.mark.parametrize("name", SECTIONS)
def test_without_a_linear_path(name):
    model = models.build(SECTIONS[name](linear=False), BACK, seed=7)
    assert linear_path(model) == []
    assert np.ptp(model(WINDOWS)) > 0


@pytest.mark.parametrize("name", SECTIONS)
def test_it_only_reconstructs_series(name):
    section = SECTIONS[name]()
    classes = Signature(INPUTS, {"classify": Output(((4,),), "a number for each class", units=4)})
    with pytest.raises(UserError, match=f"train.model.name: '{section.name}' only reconstructs"):
        models.build(section, classes, seed=7)
    image = Signature({"image": Input((8, 8, 3))}, {"reconstruct": Output(((8, 8, 3),), "shaped as the windows")})
    with pytest.raises(UserError, match="is for series"):
        models.build(section, image, seed=7)
