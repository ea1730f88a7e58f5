"""The recurrent model: its heads, their units, and what loads it."""

import keras
import numpy as np
import pytest

from beamfeed.contract.config.model import Recurrent
from beamfeed.trainer import models
from beamfeed.trainer.loop.model import computing_in
from beamfeed.trainer.models.signature import Input, Output, Signature

INPUTS = {"values": Input((8, 3), in_rows=True)}
CLASSES = Output(((4,),), "a number for each class", units=4)
LIFE = Output(((1,), ()), "a number", units=1, scale=30.0, offset=500.0)
WINDOWS = np.random.default_rng(0).normal(size=(64, 8, 3)).astype("f4")


def build(signature, **section):
    return models.build(Recurrent(name="recurrent", **section), signature, seed=7)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_its_layers_are_those_of_the_section(cell):
    model = build(Signature(INPUTS, {"classify": CLASSES}), cell=cell, units=[6, 5], dense=[7], dropout=0.5)
    names = [type(layer).__name__ for layer in model.layers]
    kind = {"lstm": "LSTM", "gru": "GRU"}[cell]
    assert names == ["InputLayer", kind, "Dropout", kind, "Dropout", "Dense", "Dropout", "Dense"]
    assert [layer.units for layer in model.layers if hasattr(layer, "units")] == [6, 5, 7, 4]
    assert model(WINDOWS).shape == (64, 4)


def test_what_it_regresses_begins_in_the_units_of_the_target():
    found = build(Signature(INPUTS, {"regress": LIFE}))(WINDOWS).numpy()
    assert found.shape == (64, 1)
    assert abs(found.mean() - 500) < 30
    assert 0.1 < found.std() < 60


def test_several_heads_have_names(tmp_path):
    model = build(Signature(INPUTS, {"fault": CLASSES, "life": LIFE}))
    found = model(WINDOWS)
    assert {name: tuple(one.shape) for name, one in found.items()} == {"fault": (64, 4), "life": (64, 1)}
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded).__module__.startswith("keras.")  # no class of ours is needed
    for name, one in loaded(WINDOWS).items():
        np.testing.assert_array_equal(one, found[name])


def test_heads_are_float32_in_mixed_precision():
    with computing_in("mixed_bfloat16"):
        model = build(Signature(INPUTS, {"fault": CLASSES, "life": LIFE}))
    assert {one.dtype.name for one in model(WINDOWS).values()} == {"float32"}
