"""By which operations the layers of a training run's model compute."""

import keras
import pytest

from beamfeed.contract.config.train import Train
from beamfeed.trainer.loop.model import make_model
from beamfeed.trainer.models.signature import Input, Output, Signature

WINDOWS = {"values": Input((8, 3), in_rows=True)}
BACK = Signature(WINDOWS, {"reconstruct": Output(((8, 3),), "shaped as the windows")})
CLASSES = Signature(WINDOWS, {"classify": Output(((2,),), "a number for each class", units=2)})

OWN = """
import keras

def own(length, features):
    rows = keras.Input((length, features))
    return keras.Model(rows, keras.layers.GRU(features, return_sequences=True)(rows))
"""


def layers_of(signature, model, **devices):
    """The recurrent layers of the job's model, and whether each is quick."""
    made = make_model(Train.model_validate({"model": model, "workdir": "none", "devices": devices}), signature)
    layers = [layer for layer in made._flatten_layers() if isinstance(layer, keras.layers.RNN)]
    return layers, ["inner_loop" in vars(layer) for layer in layers]


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_recurrent_layers_of_our_models_are_quick(cell):
    assert layers_of(BACK, {"name": "recurrent_autoencoder", "cell": cell, "units": [5, 4]})[1] == [True] * 4
    assert layers_of(CLASSES, {"name": "recurrent", "cell": cell, "units": [5], "dropout": 0.5})[1] == [True]


def test_with_xla_they_are_of_what_it_can_compile():
    layers, quick = layers_of(BACK, {"name": "recurrent_autoencoder"}, xla=True)
    assert quick == [False, False]
    assert not any(layer.use_cudnn for layer in layers)


def test_other_precisions_are_left_to_keras():
    model = {"name": "recurrent_autoencoder"}
    assert layers_of(BACK, model, precision="mixed_bfloat16")[1] == [False, False]
    assert layers_of(BACK, model)[1] == [True, True]  # the precision was of that model alone


def test_a_model_of_the_users_own_keeps_the_loop_of_keras(tmp_path, monkeypatch):
    """It may differentiate twice, for a penalty on gradients; the quick layers would give a wrong answer, or none."""
    (tmp_path / "own_rows.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    assert layers_of(BACK, {"class": "own_rows:own"})[1] == [False]
