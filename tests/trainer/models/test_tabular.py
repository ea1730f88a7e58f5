"""Models over numbers, categories and texts: their shapes, what they learn, and that Keras reads them alone."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from beamfeed.contract.config.model import Linear, Tabular, TextModel
from beamfeed.contract.errors import UserError
from beamfeed.trainer import models
from beamfeed.trainer.loop.model import computing_in
from beamfeed.trainer.models.parts import embedding_size
from beamfeed.trainer.models.signature import Input, Output, Signature

NUMBERS = Input((3,), "float32", False, ("a", "b", "c"))
CATEGORIES = Input((2,), "int64", False, ("kind", "city"), (4, 50))
TEXT = Input((6,), "int64", False, (), (20,))
CLASSES = Output(((2,),), "a number for each class", units=2, logits=True)
NUMBER = Output(((1,), ()), "a number", units=1, scale=10.0, offset=100.0)
SECTIONS = [
    Tabular(name="tabular", units=[8, 8], dropout=0.1),
    Tabular(name="tabular", wide=True, embedding=3, members=1),
    Linear(name="linear"),
]
TEXTS = [TextModel(name="text", layer=layer, units=5, dense=[4]) for layer in ("convolution", "gru", "lstm", "mean")]


@pytest.mark.parametrize("section", SECTIONS, ids=["deep", "wide", "linear"])
@pytest.mark.parametrize("inputs", [{"numbers": NUMBERS}, {"categories": CATEGORIES}, None], ids=["n", "c", "both"])
def test_shapes(section, inputs):
    outputs = {"fraud": CLASSES} if inputs else {"fraud": CLASSES, "price": NUMBER}
    signature = Signature(inputs or {"numbers": NUMBERS, "categories": CATEGORIES}, outputs)
    model = models.build(section, signature, 1)
    found = model(signature.zeros(7))
    found = found if len(outputs) > 1 else {"fraud": found}
    assert {name: tuple(one.shape) for name, one in found.items()} == {
        name: (7, output.units) for name, output in outputs.items()
    }
    assert all(one.dtype == tf.float32 for one in found.values())


@pytest.mark.parametrize("section", TEXTS, ids=lambda section: section.layer)
def test_texts_beside_other_inputs(section):
    signature = Signature({"note": TEXT, "numbers": NUMBERS}, {"fraud": CLASSES})
    model = models.build(section, signature, 1)
    batch = {"note": tf.constant([[3, 4, 5, 0, 0, 0]] * 2, tf.int64), "numbers": tf.zeros([2, 3])}
    assert model(batch).shape == (2, 2)
    alone = models.build(section, Signature({"note": TEXT}, {"fraud": CLASSES}), 1)
    assert alone(batch["note"]).shape == (2, 2)


@pytest.mark.parametrize("section", [TextModel(name="text", layer=one) for one in ("gru", "lstm", "mean")])
def test_what_a_text_is_filled_up_with_makes_no_difference(section):
    short, long = (Input((size,), "int64", False, (), (20,)) for size in (3, 9))
    found = []
    for one, ids in ((short, [[3, 4, 5]]), (long, [[3, 4, 5, 0, 0, 0, 0, 0, 0]])):
        model = models.build(section, Signature({"note": one}, {"fraud": CLASSES}), 1)
        found.append(model(tf.constant(ids, tf.int64)).numpy())
    np.testing.assert_allclose(*found, atol=1e-6)


@pytest.mark.parametrize("section", TEXTS)
def test_a_text_without_a_word_has_an_answer(section):
    model = models.build(section, Signature({"note": TEXT}, {"fraud": CLASSES}), 1)
    assert np.isfinite(model(tf.zeros([2, *TEXT.shape], tf.int64)).numpy()).all()


def test_linear_is_a_sum():
    signature = Signature({"numbers": NUMBERS, "categories": CATEGORIES}, {"price": NUMBER})
    model = models.build(Linear(name="linear"), signature, 1)
    rng = np.random.default_rng(0)
    model.set_weights([rng.normal(size=weight.shape) for weight in model.get_weights()])
    by_name = {weight.path: weight.numpy() for weight in model.weights}
    numbers, categories = rng.normal(size=(5, 3)).astype("f4"), np.array([[0, 7], [3, 1], [2, 2], [1, 49], [0, 0]])
    expected = numbers @ by_name["price_numbers_weights/kernel"] + by_name["price_numbers_weights/bias"]
    expected += (
        by_name["price_categories_kind/embeddings"][categories[:, 0]]
        + by_name["price_categories_city/embeddings"][categories[:, 1]]
    )
    found = model({"numbers": tf.constant(numbers), "categories": tf.constant(categories)})
    np.testing.assert_allclose(found, expected * 10 + 100, rtol=1e-5)


@pytest.mark.slow
def test_keras_reads_them_without_the_project(tmp_path):
    signature = Signature({"numbers": NUMBERS, "categories": CATEGORIES, "note": TEXT}, {"fraud": CLASSES})
    for place, section in enumerate([*SECTIONS, *TEXTS]):
        inputs = signature.inputs if isinstance(section, TextModel) else dict(list(signature.inputs.items())[:2])
        models.build(section, Signature(inputs, signature.outputs), 1).save(tmp_path / f"{place}.keras")
    program = (
        "import glob, keras, sys; "
        "print([keras.saving.load_model(path).name for path in sorted(glob.glob('*.keras'))]); "
        "assert not any(name.startswith('beamfeed') for name in sys.modules)"
    )
    told = subprocess.check_output([sys.executable, "-c", program], cwd=tmp_path, text=True)
    assert told.strip() == str(["tabular", "tabular", "linear", "text", "text", "text", "text"])


@pytest.mark.parametrize(
    ("section", "inputs", "message"),
    [
        (SECTIONS[0], {"note": TEXT}, "'tabular' takes no text, and 'note' is one; use 'text'"),
        (SECTIONS[2], {"x": Input((), "string")}, "'linear' takes numbers and categories, and 'x' holds strings"),
        (SECTIONS[0], {"x": Input((), "int64")}, "'x' holds an unknown number of values"),
        (TEXTS[0], {"numbers": NUMBERS}, "'text' needs a text, and the dataset has none; there is 'tabular'"),
        (TEXTS[0], {"note": Input((None,), "int64", False, (), (20,))}, "length: ragged is for your own model"),
    ],
)
def test_inputs_that_do_not_fit_are_one_line(section, inputs, message):
    with pytest.raises(UserError, match=message):
        models.build(section, Signature(inputs, {"fraud": CLASSES}), 1)


def test_sizes_of_embeddings():
    assert [embedding_size(size) for size in (2, 10, 1000, 10**6)] == [2, 6, 50, 50]


def test_they_compute_in_half_precision():
    signature = Signature({"numbers": NUMBERS, "categories": CATEGORIES}, {"fraud": CLASSES})
    with computing_in("mixed_bfloat16"):
        for section in SECTIONS:
            assert models.build(section, signature, 1)(signature.zeros(3)).dtype == tf.float32


def test_bins_are_exact_in_half_precision():
    with computing_in("mixed_bfloat16"):
        model = models.build(SECTIONS[0], Signature({"numbers": NUMBERS}, {"fraud": CLASSES}), 1)
    layer = model.get_layer("numbers_bins")
    layer.set_weights([np.full((3, 64), 10.0), np.tile(-10 * np.linspace(2000, 2006.3, 64), (3, 1))])
    x = np.linspace(2000, 2006, 601, dtype="f4")[:, None].repeat(3, axis=1)
    expected = 10 * (x[:, :, None] - np.linspace(2000, 2006.3, 64))
    np.testing.assert_allclose(layer(x), expected, atol=0.01)


def test_tables_do_not_forecast():
    forecast = Output(((4, 2),), "4 rows of 2 columns", units=8, scale=(1.0, 1.0), offset=(0.0, 0.0), continues=(0, 1))
    for section in SECTIONS:
        with pytest.raises(UserError, match="does not forecast; use 'dlinear', 'recurrent' or your own class"):
            models.build(section, Signature({"numbers": NUMBERS}, {"later": forecast}), 1)


def test_sections_are_strict():
    with pytest.raises(ValueError, match="extra"):
        Tabular(name="tabular", unit=[3])
