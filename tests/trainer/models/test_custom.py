"""Models: ours, and one of the user's own, from the page that explains it."""

import re
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
import yaml

from beamfeed.contract.config.load import parse_job
from beamfeed.contract.config.model import CustomModel, RecurrentAutoencoder
from beamfeed.contract.config.prepare import Missing, Windows
from beamfeed.contract.config.task import Reconstruct
from beamfeed.contract.config.train import Train
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.fingerprint import run_fingerprint
from beamfeed.contract.dataset.manifest import Counts, Manifest
from beamfeed.contract.errors import UserError
from beamfeed.trainer import models
from beamfeed.trainer.export.saved_model import save_serving
from beamfeed.trainer.loop.model import computing_in
from beamfeed.trainer.models.latent import with_latent
from beamfeed.trainer.models.signature import Input, Output, Signature
from beamfeed.trainer.tasks.objective import Objective, input_of

JOB = """
name: own
source: {{kind: timeseries, files: x, time: {{column: t}}, features: [a]}}
windows: {{length: 8}}
output: {{path: data}}
train: {{workdir: model, model: {}}}
"""

PREFIX = """
import keras
from keras import layers
"""


BACK = Signature({"values": Input((8, 3), in_rows=True)}, {"reconstruct": Output(((8, 3),), "shaped as the windows")})
CLASSES = Output(((2,),), "a number for each class", units=2)
NUMBER = Output(((1,), ()), "a number", units=1)
CLASSIFY = Signature(BACK.inputs, {"classify": CLASSES})
REGRESS = Signature(BACK.inputs, {"regress": NUMBER})
SEVERAL = Signature(BACK.inputs, {"fault": CLASSES, "back": BACK.outputs["reconstruct"], "life": NUMBER})
TWO_INPUTS = Signature({"values": Input((8, 3), in_rows=True), "site": Input((), "int64")}, {"classify": CLASSES})


@pytest.fixture
def data_of():
    """A manifest of windows of some length."""
    return lambda length: Manifest(
        name="x", kind="handmade", fingerprint="f" * 64, data="d", fields=[], windows=Windows(length=length),
        records="segments", compression="none", splits={},
        counts=Counts(files=1, assets=1, rejected_assets=0, rejected_files=0, rows_read=1),
    )  # fmt: skip


def parse_model(text: str):
    return parse_job(JOB.format(text)).train.model


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module that can be imported for the time of the test; returns what writes it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names = []

    def write(name: str, code: str) -> None:
        (tmp_path / f"{name}.py").write_text(code)
        names.append(name)

    yield write
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_first_weights_follow_the_seed(cell):
    section = RecurrentAutoencoder(name="recurrent_autoencoder", cell=cell, units=[6, 4], latent=2)
    one, same, other = (models.build(section, BACK, seed).get_weights() for seed in (7, 7, 8))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one[0], other[0])


def blocks_of(page):
    """The job files and the modules of a page."""
    text = page.read_text()
    sections = [yaml.safe_load(one) for one in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]
    return sections, re.findall(r"```python\n(.*?)```", text, re.DOTALL)


LABELLED = Manifest(
    name="tiny", kind="timeseries", fingerprint="f", data="data-f", windows=Windows(length=8), records="segments",
    fields=[
        Field(name="values", dtype="float32", shape=(3,), role="input"),
        Field(name="label", dtype="int64", role="target", per="window", classes=["ok", "worn", "broken"]),
    ],
    compression="none", splits={},
    counts=Counts(files=1, assets=1, rejected_assets=0, rejected_files=0, rows_read=1),
)  # fmt: skip


@pytest.mark.parametrize("number", [1, 2])
def test_the_models_with_labels_of_the_page_of_own_models(root, module, tmp_path, number):
    sections, codes = blocks_of(root / "docs" / "own_model.md")
    module("conv_networks", codes[1])
    train = Train(**sections[number]["train"], workdir="model")
    signature = Objective(train.task, LABELLED).signature
    model = models.build(train.model, signature, seed=7)
    windows = np.random.default_rng(0).normal(size=(5, 8, 3)).astype("f4")
    found = model(windows)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")(windows)
    if number == 2:
        assert {name: tuple(one.shape) for name, one in found.items()} == {"fault": (5, 3), "window": (5, 8, 3)}
        assert len(model.losses) == 1  # the regularizer
        found, again = found["fault"], again["fault"]
    np.testing.assert_allclose(again, found, atol=1e-6)


@pytest.mark.parametrize("length", [8, 30])
def test_the_page_of_own_models(root, module, helpers, tmp_path, length):
    sections, codes = blocks_of(root / "docs" / "own_model.md")
    module("conv_autoencoder", codes[0])
    section = parse_model(str(sections[0]["train"]["model"]))
    assert isinstance(section, CustomModel)

    segments = {"train": helpers.segments_of([64, 64], 3)}
    written = helpers.write_dataset(str(tmp_path / "data"), segments, length=length, stride=2)
    windows = written.windows["train"]
    objective = Objective(Reconstruct(name="reconstruct"), written.manifest)
    model = models.build(section, objective.signature, seed=7)
    assert np.array_equal(models.build(section, objective.signature, seed=7).get_weights()[0], model.get_weights()[0])

    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(windows, training=True) - windows))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    losses = [float(step()) for _ in range(20)]
    assert losses[-1] < 0.7 * losses[0]

    reconstruction = model(windows, training=False)
    model.save(tmp_path / "model.keras")
    np.testing.assert_allclose(keras.saving.load_model(tmp_path / "model.keras")(windows), reconstruction, atol=1e-6)
    folder = str(tmp_path / "saved_model")
    save_serving(model, objective, written.manifest, str(tmp_path / "absent"), Missing(), folder)
    served = tf.saved_model.load(str(tmp_path / "saved_model")).signatures["preprocessed"](windows=tf.constant(windows))
    np.testing.assert_allclose(served["reconstruction"], reconstruction, atol=1e-6)
    np.testing.assert_allclose(served["latent"], model.encoder(windows), atol=1e-6)
    np.testing.assert_allclose(served["score"], np.mean((reconstruction - windows) ** 2, (1, 2)), rtol=1e-5)


def test_a_function_will_do(module):
    module("wired", PREFIX + "def make(length, features):\n    return keras.Sequential([layers.Dense(features)])\n")
    model = models.build(parse_model("{class: 'wired:make'}"), BACK, seed=7)
    assert with_latent(model)(BACK.zeros(1))[0] is None
    assert len(model.get_weights()) == 2


PARTS = (
    PREFIX
    + """
class Gate(layers.Layer):
    def call(self, state, skip=None):
        return state if skip is None else state * skip


def wired(length, features, end):
    windows = keras.Input((length, features))
    encoder = keras.Sequential([keras.Input((length, features)), layers.Dense(features)], name="encoder")
    state = encoder(windows * 2.0 if end == "scaled" else windows)
    if end == "twice":
        return keras.Model(windows, encoder(state))
    ends = {"gate": lambda: Gate()(state, skip=windows), "scaled": lambda: layers.Dense(features)(state)}
    return keras.Model(windows, ends.get(end, lambda: layers.Add()([windows, state]))())


class Parts(keras.Model):
    def __init__(self, length, features, scale=1.0):
        super().__init__()
        self.settings = {"length": length, "features": features, "scale": scale}
        self.encoder, self.head = layers.Dense(2), layers.Dense(features)

    def call(self, windows, training=False):
        return windows + self.head(self.encoder(windows * self.settings["scale"]))

    def get_config(self):
        return self.settings
"""
)


@pytest.mark.parametrize("model", ["wired, args: {end: gate}", "wired, args: {end: add}", "wired, args: {end: twice}",
                                   "wired, args: {end: scaled}", "Parts"])  # fmt: skip
def test_the_saved_model_gives_what_the_model_gives(module, helpers, tmp_path, model):
    """Whatever a model does with its encoder; once `decoder(encoder(windows))` was served for a gate with a skip."""
    module("parts", PARTS)
    class_, _, rest = model.partition(",")
    section = parse_model(f"{{class: 'parts:{class_}'{', ' + rest if rest else ''}}}")
    written = helpers.write_dataset(str(tmp_path / "data"), {"train": helpers.segments_of([40], 3)}, length=8, stride=2)
    windows = written.windows["train"]
    objective = Objective(Reconstruct(name="reconstruct"), written.manifest)
    made = models.build(section, objective.signature, seed=7)
    folder = str(tmp_path / "saved_model")
    save_serving(made, objective, written.manifest, str(tmp_path / "absent"), Missing(), folder)
    served = tf.saved_model.load(folder).signatures["preprocessed"](windows=tf.constant(windows))
    np.testing.assert_allclose(served["reconstruction"], made(windows), atol=1e-6)
    encoder = made.encoder if class_ == "Parts" else made.get_layer("encoder")
    # In a functional model the encoder's place says what it gets.
    np.testing.assert_allclose(served["latent"], encoder(windows * (2 if "scaled" in model else 1)), atol=1e-6)


def test_an_encoder_that_gets_something_else_is_one_line(module):
    module("parts", PARTS)
    with pytest.raises(UserError, match=r"parts:Parts does not give its input to its encoder unchanged, .* state$"):
        models.build(parse_model("{class: 'parts:Parts', args: {scale: 2.0}}"), BACK, seed=7)


MODULE = (
    PREFIX
    + """
class NoConfig(keras.Model):
    def __init__(self, length, features, units=3):
        super().__init__()
        self.settings = {"length": length, "features": features, "units": units}
        self.dense = layers.Dense(features)

    def call(self, windows, training=False):
        return self.dense(windows)


class Base(NoConfig):
    def get_config(self):
        return self.settings


class Shorter(Base):
    def call(self, windows, training=False):
        return self.dense(windows)[:, 1:]


class Pair(Base):
    def call(self, windows, training=False):
        return windows, self.dense(windows)


class Half(Base):
    def call(self, windows, training=False):
        return keras.ops.cast(self.dense(windows), "float16")


class Whole(Base):
    def call(self, windows, training=False):
        return keras.ops.cast(self.dense(windows), "int32")


class Broken(Base):
    def call(self, windows, training=False):
        return self.dense(keras.ops.reshape(windows, (7, -1)))


class Eager(Base):
    def call(self, windows, training=False):
        return self.dense(windows.numpy() + 1)


class ListEncoder(Base):
    def __init__(self, length, features):
        super().__init__(length, features)
        self.encoder = Pair(length, features)


class Weightless(Base):
    def call(self, windows, training=False):
        return windows


class NotKeras:
    def __init__(self, length, features):
        self.shape = length, features


constant = 3
"""
)


SOFT = """
import keras

def soft(length, features, outputs):
    windows = keras.Input((length, features))
    state = keras.layers.Flatten()(windows)
    return keras.Model(windows, keras.layers.Dense(outputs, activation="softmax")(state))
"""


def test_probabilities_where_logits_are_needed_are_one_line(module):
    module("soft_model", SOFT)
    section = parse_model("{class: 'soft_model:soft'}")
    logits = Output(((2,),), "a number for each class", units=2, logits=True)
    with pytest.raises(UserError, match=r"soft_model:soft makes probabilities .* leave the softmax out$"):
        models.build(section, Signature(BACK.inputs, {"classify": logits}), seed=7)
    models.build(section, CLASSIFY, seed=7)  # where the numbers are no logits, they may add up to 1


@pytest.mark.parametrize(
    ("per", "shape", "length", "series"),
    [("row", (3,), 8, (8, 3)), ("row", (28, 28), 1, None), ("record", (8, 3), 8, None), ("row", (3,), 1, None)],
)
def test_a_series_is_of_rows_and_not_whatever_has_two_axes(data_of, per, shape, length, series):
    field = Field(name="values", dtype="float32", shape=shape, role="input", per=per)
    signature = Signature({"values": input_of(field, data_of(length))}, {"regress": NUMBER})
    assert signature.series == series


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("{class: 'nowhere.models:My'}", r"train.model.class: there is no module 'nowhere'; .* PYTHONPATH$"),
        ("{class: 'mine.deeper:My'}", r"train.model.class: there is no module 'mine.deeper'"),
        ("{class: 'needs:My'}", r"train.model.class: importing needs failed: .*'absent_one' \(.*needs.py:1\)$"),
        ("{class: 'broken:My'}", r"train.model.class: importing broken failed: SyntaxError: .* \(.*broken.py:2\)$"),
        ("{class: 'mine:Bse'}", r"train.model.class: mine \(.*mine.py\) has no 'Bse'; did you mean 'Base'\?$"),
        ("{class: 'mine:constant'}", r"train.model.class: mine \(.*mine.py\) has no 'constant'"),
        ("{class: 'mine:Base', args: {unit: 3}}", r"train.model.args: Base\(length=8, .*unit=3\) failed: .*'unit'"),
        ("{class: 'mine:NotKeras'}", r"train.model.class: mine:NotKeras makes a NotKeras, it must be a keras.Model$"),
        ("{class: 'mine:Shorter'}", r"makes \[2, 7, 3\] of windows \[2, 8, 3\], it must keep the shape$"),
        ("{class: 'mine:Pair'}", r"mine:Pair returns a tuple, it must be a tensor"),
        ("{class: 'mine:Whole'}", r"mine:Whole returns int32, it must be of floating point numbers$"),
        ("{class: 'mine:Broken'}", r"mine:Broken fails on windows \[2, 8, 3\]: .*\(.*mine.py:\d+\)$"),
        ("{class: 'mine:Eager'}", r"mine:Eager fails in a graph .*\(.*mine.py:\d+\)$"),
        ("{class: 'mine:ListEncoder'}", r"the encoder of mine:ListEncoder must make one tensor"),
        ("{class: 'mine:NoConfig'}", r"mine:NoConfig cannot be saved, it needs a get_config: NotImplementedError"),
        ("{class: 'mine:Weightless'}", r"mine:Weightless has no weights to train$"),
    ],
)
def test_mistakes_are_one_line(module, section, message):
    module("mine", MODULE)
    module("needs", "import absent_one\n")
    module("broken", "x = 1\nclass My(\n")
    with pytest.raises(UserError, match=message) as caught:
        models.build(parse_model(section), BACK, seed=7)
    assert "\n" not in str(caught.value)


TASKS = (
    PREFIX
    + """
def one(length, features, outputs):
    windows = keras.Input((length, features))
    return keras.Model(windows, layers.Dense(outputs)(layers.Flatten()(windows)))


def flat(length, features, outputs):
    model = one(length, features, outputs)
    return keras.Model(model.inputs[0], layers.Reshape(())(model.outputs[0]))


def many(length, features, outputs, leave_out=None, further=None):
    assert outputs == {"fault": 2, "back": [8, 3], "life": 1}
    windows = keras.Input((length, features))
    state = layers.Flatten()(windows)
    found = {"fault": layers.Dense(3 if further == "wide" else 2)(state), "life": layers.Dense(1)(state)}
    found["back"] = layers.Reshape((8, 3))(layers.Dense(24, dtype="float16")(state))
    found = {name: one for name, one in found.items() if name != leave_out}
    return keras.Model(windows, {**found, further: found["life"]} if further == "more" else found)


def inputs(inputs, outputs):
    assert inputs == {"values": [8, 3], "site": []} and outputs == 2
    found = {"values": keras.Input((8, 3)), "site": keras.Input((), dtype="int64")}
    site = layers.Embedding(4, 2)(found["site"])
    state = layers.Concatenate()([layers.Flatten()(found["values"]), layers.Flatten()(site)])
    return keras.Model(found, layers.Dense(outputs)(state))
"""
)


@pytest.mark.parametrize(
    ("make", "signature", "shapes"),
    [
        ("one", CLASSIFY, [2, 2]),
        ("one", REGRESS, [2, 1]),
        ("flat", REGRESS, [2]),
        ("many", SEVERAL, {"fault": [2, 2], "back": [2, 8, 3], "life": [2, 1]}),
        ("inputs", TWO_INPUTS, [2, 2]),
    ],
)
def test_own_models_serve_any_task(module, make, signature, shapes):
    module("tasked", TASKS)
    model = models.build(parse_model(f"{{class: 'tasked:{make}'}}"), signature, seed=7)
    found = model(signature.zeros(2))
    if isinstance(found, dict):
        assert {name: list(one.shape) for name, one in found.items()} == shapes
    else:
        assert list(found.shape) == shapes


@pytest.mark.parametrize(
    ("section", "signature", "message"),
    [
        (
            "{class: 'tasked:many', args: {further: wide}}",
            SEVERAL,
            "train.model.class: tasked:many makes [2, 3] for the output 'fault' of windows [2, 8, 3], "
            "the task needs [2, 2]: a number for each class",
        ),
        (
            "{class: 'tasked:many', args: {leave_out: life}}",
            SEVERAL,
            "train.model.class: tasked:many returns no output 'life' (it returns: fault, back; "
            "the task needs: fault, back, life)",
        ),
        (
            "{class: 'tasked:many', args: {further: more}}",
            SEVERAL,
            "train.model.class: tasked:many returns the output 'more', which the task does not have "
            "(it needs: fault, back, life)",
        ),
        (
            "{class: 'wired:make'}",
            CLASSIFY,
            "train.model.class: wired:make makes [2, 8, 2] of windows [2, 8, 3], "
            "the task needs [2, 2]: a number for each class",
        ),
        (
            "{class: 'wired:make'}",
            REGRESS,
            "train.model.class: wired:make makes [2, 8, 1] of windows [2, 8, 3], "
            "the task needs [2, 1] or [2]: a number",
        ),
        (
            "{class: 'wired:make'}",
            Signature(BACK.inputs, {"a": CLASSES, "b": NUMBER}),
            "train.model.args: make(length=8, features=3, outputs={'a': 2, 'b': 1}) failed: ",
        ),
        (
            "{name: recurrent}",
            BACK,
            "train.model.name: 'recurrent' does not reconstruct windows; use 'recurrent_autoencoder', "
            "or your own class",
        ),
        (
            "{name: recurrent_autoencoder}",
            CLASSIFY,
            "train.model.name: 'recurrent_autoencoder' only reconstructs windows, for train.task {name: reconstruct}; "
            "to classify or regress, use 'recurrent' or your own class",
        ),
        (
            "{name: recurrent}",
            TWO_INPUTS,
            "train.model.name: 'recurrent' is for series: windows of rows of numbers",
        ),
    ],
)
def test_what_does_not_fit_the_task_is_one_line(module, section, signature, message):
    module("tasked", TASKS)
    module(
        "wired", PREFIX + "def make(length, features, outputs):\n    return keras.Sequential([layers.Dense(outputs)])\n"
    )
    with pytest.raises(UserError) as caught:
        models.build(parse_model(section), signature, seed=7)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("make", ["Base", "Half"])
@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_any_precision_will_do(module, make, precision):
    module("mine", MODULE)
    with computing_in(precision):
        model = models.build(parse_model(f"{{class: 'mine:{make}'}}"), BACK, seed=7)
    assert {weight.dtype.name for weight in model.get_weights()} == {"float32"}


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            "{}",
            "train.model: needs name: recurrent_autoencoder or dense_autoencoder or recurrent or dlinear or tabular or "
            "linear or text or residual or application or multi_input, or class: ...",
        ),
        ("conv:Model", "train.model: 'conv:Model' is not allowed, it must be a mapping with name: "),
        ("{class: 'm:C', name: recurrent_autoencoder}", "train.model: give either 'name'.* or 'class'"),
        ("{class: 'm:C', latent: 3}", r"train.model: unknown key latent beside 'class' \(allowed: class, args\)"),
        ("{class: m.C}", "train.model.class: 'm.C' must be module:Class, such as"),
        ("{class: 'm-n:C'}", "train.model.class: 'm-n:C' must be module:Class, such as"),
        ("{class: 'm:C', args: 3}", "train.model.args: needs a mapping, such as {name: value}, not 3"),
        ("{class: 'm:C', args: {length: 3}}", "train.model.args: length: the dataset says this"),
        ("{class: 'm:C', args: {outputs: 3}}", "train.model.args: outputs: the dataset says this"),
        ("{name: recurrent_autoencoder, unit: [3]}", "train.model.unit: unknown key; did you mean 'units'"),
        ("{name: lstm}", "train.model: name 'lstm' is not allowed"),
    ],
)
def test_the_job_file_is_checked_without_importing_the_module(section, message):
    with pytest.raises(UserError, match=message) as caught:
        parse_model(section)
    assert "\n" not in str(caught.value)


def test_class_and_args_name_the_training():
    sections = ["{class: 'a:B'}", "{class: 'a:C'}", "{class: 'a:B', args: {x: 1}}", "{class: 'a:B', args: {x: 2}}"]
    found = {run_fingerprint(parse_job(JOB.format(section)).train, "data") for section in sections}
    assert len(found) == 4
