"""A training run that begins with the weights of another."""

import os
import shutil

import keras
import numpy as np
import pytest
import yaml
from keras import layers

from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.result import write_result
from beamfeed.contract.errors import UserError
from beamfeed.trainer.loop.warm_start import choose, shapes_of, weights_of
from beamfeed.trainer.loop.workdir import describe_changes
from beamfeed.trainer.main import main

HERE = {"encoder/gru/kernel": (3, 4), "encoder/latent/kernel": (4, 2), "head/kernel": (2, 5)}
THERE = {**HERE, "head/kernel": (2, 7)}


def test_layers_are_chosen_by_name():
    assert choose(HERE, HERE, None, "m") == {name: name for name in HERE}
    assert list(choose(HERE, THERE, ["encoder"], "m")) == ["encoder/gru/kernel", "encoder/latent/kernel"]
    assert list(choose(HERE, THERE, ["*/latent", "encoder/gru"], "m")) == [
        "encoder/latent/kernel",
        "encoder/gru/kernel",
    ]


def test_models_that_are_built_alike_need_no_names():
    renamed = {f"other/{name}": shape for name, shape in HERE.items()}
    assert choose(HERE, renamed, None, "m") == dict(zip(HERE, renamed, strict=True))


def test_names_come_before_places():
    branches = {"a/kernel": (3, 4), "b/kernel": (3, 4)}
    assert choose(branches, dict(reversed(branches.items())), None, "m") == {name: name for name in branches}


@pytest.mark.parametrize(
    ("theirs", "chosen", "message"),
    [
        (THERE, None, r"train.init: head/kernel is \[2, 5\] in this model, and in m it is \[2, 7\]; train.init.layers"),
        ({}, ["head"], r"head/kernel is \[2, 5\] in this model, and in m it is missing \(there: \)$"),
        (THERE, ["head"], r"it is \[2, 7\]$"),
        (
            THERE,
            ["encodr/gru"],
            r"encodr/gru names no layer .*encoder/gru, encoder/latent, head.*; did you mean 'encoder/",
        ),
    ],
)
def test_what_does_not_fit_is_told(theirs, chosen, message):
    with pytest.raises(UserError, match=message):
        choose(HERE, theirs, chosen, "m")


def made() -> keras.Model:
    inner = keras.Sequential(
        [layers.Bidirectional(layers.LSTM(4)), layers.BatchNormalization(), layers.Dropout(0.2), layers.Dense(2)],
        name="encoder",
    )
    entrance = keras.Input((5, 3))
    return keras.Model(entrance, layers.Dense(3, name="head")(inner(entrance)))


def test_names_stay_when_a_model_is_kept(tmp_path):
    model = made()
    found = dict(weights_of(model))
    assert {"head/kernel", "head/bias"} <= set(found)
    assert any(name.endswith("moving_variance") for name in found)
    assert not any("seed" in name for name in found)
    assert {id(variable) for variable in found.values()} == {
        id(variable) for variable in model.variables if "float" in str(variable.dtype)
    }
    assert "encoder/batch_normalization/gamma" in found
    assert shapes_of(dict(weights_of(made()))) == shapes_of(found)  # names that Keras counts have gone on
    model.save(tmp_path / "m.keras")
    assert shapes_of(dict(weights_of(keras.saving.load_model(tmp_path / "m.keras")))) == shapes_of(found)


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Trains; the exit code and what was complained of. Exports the model and the result alone, if not `whole`."""

    def save(job, _, trained, *__):
        trained.model.save(RunLayout(job.train.workdir).model)
        write_result(job.train.workdir, trained.result)

    def start(job, *arguments, whole=False):
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(job.model_dump(mode="json", by_alias=True)))
        with monkeypatch.context() as patch:
            if not whole:
                patch.setattr("beamfeed.trainer.export.run.export_run", save)
            return main(["--job", str(tmp_path / "job.yaml"), *arguments]), capsys.readouterr().err

    return start


def weights(job) -> dict[str, np.ndarray]:
    model = keras.saving.load_model(RunLayout(job.train.workdir).model)
    return {name: variable.numpy() for name, variable in weights_of(model)}


@pytest.mark.slow
def test_it_begins_with_the_weights_and_goes_on_without_them(job, run, tmp_path):
    model = {"name": "dense_autoencoder", "units": [4], "latent": 2, "linear": False}  # no kernel is fitted first
    base = job(workdir=str(tmp_path / "base"), max_steps=6, model=model)
    assert run(base, whole=True)[0] == 0
    still = {"name": "adam", "learning_rate": 1e-30}
    tuned = job(
        workdir=str(tmp_path / "tuned"), max_steps=1, optimizer=still, init={"from": base.train.workdir}, seed=5,
        model=model,
    )  # fmt: skip
    assert run(tuned)[0] == 0
    for name, value in weights(base).items():
        np.testing.assert_array_equal(weights(tuned)[name], value)

    part = {"from": RunLayout(base.train.workdir).model, "layers": ["encoder"]}
    some = job(workdir=str(tmp_path / "some"), max_steps=1, optimizer=still, init=part, seed=5, model=model)
    assert run(some)[0] == 0
    for name, value in weights(base).items():
        same = np.array_equal(weights(some)[name], value)
        assert same == (name.startswith("encoder") or not value.any()), name  # biases begin with 0 in both

    shutil.rmtree(base.train.workdir)
    more = tuned.model_copy(update={"train": tuned.train.model_copy(update={"max_steps": 2})})
    assert run(more)[0] == 0
    np.testing.assert_array_equal(weights(more)["encoder/latent/kernel"], weights(tuned)["encoder/latent/kernel"])
    code, told = run(more, "--restart")
    assert (code, "is neither the train.workdir of a finished run" in told) == (2, True)
    assert os.path.exists(RunLayout(tuned.train.workdir).complete)  # nothing was removed


def test_another_place_is_told_by_the_words_of_the_job():
    assert describe_changes({"init": None}, {"init": {"from": "a", "layers": None}}) == [
        "train.init: was not set, is now {from: a, layers: null}"
    ]
    assert describe_changes({"init": {"from": "a"}}, {"init": {"from": "b"}}) == ["train.init.from: was a, is now b"]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("none", "neither the train.workdir"),
        ("run", "choose another train.workdir"),
        ("bad.keras", "cannot be read"),
        ("cut.keras", "cannot be read"),
        ("code.keras", "cannot be read: Requested the deserialization of a `Lambda` layer"),
    ],
)
def test_a_place_without_a_model_is_told(job, run, tmp_path, place, message):
    (tmp_path / "bad.keras").write_text("no zip file")
    entrance = keras.Input((5, 3))
    keras.Model(entrance, layers.Lambda(lambda rows: rows * 2)(entrance)).save(tmp_path / "code.keras")
    content = bytearray((tmp_path / "code.keras").read_bytes())
    content[60] ^= 1
    (tmp_path / "cut.keras").write_bytes(content)
    code, told = run(job(init={"from": str(tmp_path / place)}))
    assert (code, message in told, told.count("\n")) == (2, True, 1), told
