"""What a model or a loss of the user's own may not do in training, told before anything is trained."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from beamfeed.contract.config.train import Train
from beamfeed.contract.errors import UserError
from beamfeed.trainer.loop.model import make_model
from beamfeed.trainer.models.signature import Input, Output, Signature
from beamfeed.trainer.tasks.named import Trial, find_loss, try_loss

BACK = Signature({"values": Input((8, 3), in_rows=True)}, {"reconstruct": Output(((8, 3),), "shaped as the windows")})

MODULE = """
import itertools, random
import keras, numpy as np, tensorflow as tf
from keras import layers

sizes = []


class Base(keras.Model):
    def __init__(self, length, features, **kwargs):
        super().__init__(**kwargs)
        self.settings = {"length": length, "features": features}
        self.dense = layers.Dense(features)
        self.more(features)

    def more(self, features):
        pass

    def call(self, windows, training=False):
        return self.dense(windows) + (self.noise(windows) if training else 0.0)

    def noise(self, windows):
        return 0.0

    def get_config(self):
        return self.settings


class TrainStep(Base):
    def train_step(self, data):
        raise RuntimeError


class TestStep(Base):
    def test_step(self, data):
        raise RuntimeError


class Between(TrainStep):
    pass


class ComputeLoss(Base):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        raise RuntimeError


class Compiled(Base):
    def more(self, features):
        self.compile(optimizer="sgd", loss="mae")


class Noise(Base):
    def noise(self, windows):
        return keras.random.normal(keras.ops.shape(windows))


class Stateful(Base):
    def noise(self, windows):
        return tf.random.normal(tf.shape(windows))


class Inner(Base):
    def noise(self, windows):
        return tf.map_fn(lambda one: tf.random.uniform(tf.shape(one)), windows)


class Branch(Base):
    def noise(self, windows):
        return tf.cond(tf.reduce_sum(windows) > 0, lambda: tf.random.shuffle(windows), lambda: windows)


class Generator(Base):
    def more(self, features):
        self.generator = tf.random.Generator.from_seed(1)

    def noise(self, windows):
        return self.generator.normal(tf.shape(windows))


class Numpy(Base):
    def noise(self, windows):
        return np.random.normal(size=3).astype("f4")


class Python(Base):
    def noise(self, windows):
        return random.random()


class Callback(Base):
    def noise(self, windows):
        return tf.ensure_shape(tf.py_function(lambda one: one, [windows], tf.float32), windows.shape)


class Strange(Base):
    def more(self, features):
        self.gain = tf.Variable(tf.ones([features]))

    def noise(self, windows):
        return windows * self.gain


class Counting(Base):
    def more(self, features):
        self.calls = tf.Variable(0.0, trainable=False)

    def noise(self, windows):
        self.calls.assign_add(1.0)
        return self.calls


class Regularized(Base):
    def more(self, features):
        self.dense = layers.Dense(features, kernel_regularizer=lambda one: tf.reduce_sum(one) * tf.random.uniform([]))


class Constrained(Base):
    def more(self, features):
        self.dense = layers.Dense(features, kernel_constraint=lambda one: one * tf.random.uniform([]))


class Sampled(Base):
    '''A latent state that is drawn also when it predicts, as in many examples of VAEs.'''

    def more(self, features):
        self.seed = keras.random.SeedGenerator(3)

    def call(self, windows, training=False):
        return self.dense(windows) + keras.random.normal(keras.ops.shape(windows), seed=self.seed)


class Tracked(Base):
    def more(self, features):
        self.tracker = keras.metrics.Mean(name="seen")

    def call(self, windows, training=False):
        self.tracker.update_state(keras.ops.mean(windows))
        return self.dense(windows)


class Chance(Base):
    def call(self, windows, training=False):
        return self.dense(windows) + (0.0 if training else tf.random.normal(tf.shape(windows)))


CALLS = itertools.count()


class Secret(Base):
    def call(self, windows, training=False):
        return self.dense(windows) + (1000 << next(CALLS) % 8)


class Unseeded(Base):
    def more(self, features):
        start = lambda shape, dtype: np.random.default_rng().normal(size=shape).astype("f4")
        self.dense = layers.Dense(features, kernel_initializer=start)


class Drawn(Base):
    '''What it draws when it is made is no weight, and so not in a checkpoint.'''

    def more(self, features):
        self.shift = np.random.default_rng().normal(size=[features]).astype("f4")

    def call(self, windows, training=False):
        return self.dense(windows) + self.shift


class Growing(Base):
    def more(self, features):
        sizes.append(len(sizes) + 1)
        self.wide = layers.Dense(sizes[-1])

    def call(self, windows, training=False):
        return self.dense(self.wide(windows))


class PredictStep(Base):
    def predict_step(self, data):
        raise RuntimeError


class Float64(Base):
    def more(self, features):
        self.dense = layers.Dense(features, dtype="float64")


class Float16(Base):
    def more(self, features):
        self.dense = layers.Dense(features, dtype="mixed_float16")


class Synchronized(Base):
    def more(self, features):
        self.dense = layers.BatchNormalization(synchronized=True)


class Failing(Base):
    def noise(self, windows):
        return windows[:, :2]


class Late(Base):
    def more(self, features):
        self.other = layers.Dense(features)

    def noise(self, windows):
        return self.other(windows)


class Allowed(Base):
    '''What looks alike and holds: seeds that are kept, layers that are frozen, constants, metrics of its own.'''

    def more(self, features):
        self.seed = keras.random.SeedGenerator(3)
        self.drop, self.norm = layers.Dropout(0.5), layers.BatchNormalization()
        self.frozen = layers.Dense(features, trainable=False)
        self.places = tf.Variable(tf.ones([features]), trainable=False)
        self.tracker = keras.metrics.Mean(name="kl")
        self.rows = layers.LSTM(features, return_sequences=True)
        for layer in (self.drop, self.norm, self.frozen, self.rows):
            layer.build((None, 8, features))

    def noise(self, windows):
        self.tracker.update_state(keras.ops.mean(windows))
        self.add_loss(keras.ops.mean(windows))
        found = keras.random.normal(keras.ops.shape(windows), seed=self.seed) * self.places
        return self.norm(self.rows(self.drop(found, training=True)), training=True) + self.frozen(windows)


def steady(y, found):
    return tf.reduce_mean(tf.square(y - found), -1)


def drawn(y, found):
    return steady(y, found) * tf.random.uniform([])


def fixed(y, found):
    return steady(y, found) * np.random.uniform()
"""


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    (tmp_path / "own_training_models.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_training_models", None)


def make(name, **devices):
    train = {"model": {"class": f"own_training_models:{name}"}, "workdir": "none", "devices": devices}
    return make_model(Train.model_validate(train), BACK)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("TrainStep", "defines train_step, which would not be called: .* self.add_loss"),
        ("Between", "defines train_step"),
        ("TestStep", "defines test_step"),
        ("ComputeLoss", "defines compute_loss"),
        ("Compiled", "is compiled, .* leave compile out"),
        ("Noise", "draws random numbers without a seed, which no checkpoint holds: .*SeedGenerator"),
        ("Stateful", r"draws random numbers that no checkpoint holds \(RandomStandardNormal\): .*SeedGenerator"),
        ("Inner", r"draws random numbers that no checkpoint holds \(RandomUniform\)"),
        ("Branch", r"draws random numbers that no checkpoint holds \(RandomShuffle\)"),
        ("Generator", r"draws random numbers that no checkpoint holds \(RngReadAndSkip\)"),
        ("Numpy", "draws numbers from numpy.random in call: .* the same in each step"),
        ("Python", "draws numbers from Python's random in call"),
        ("Callback", r"calls Python from its graph \(EagerPyFunc\)"),
        ("Strange", "uses the variable 'Variable', which Keras does not know: .* self.add_weight"),
        ("Counting", "uses the variable 'Variable', which Keras does not know"),
        ("Regularized", r"draws random numbers that no checkpoint holds \(RandomUniform\)"),
        ("Constrained", r"draws random numbers that no checkpoint holds \(RandomUniform\)"),
        ("Sampled", r"when it predicts \(training=False\) draws random numbers: .* only if training is true"),
        (
            "Tracked",
            r"when it predicts \(training=False\) changes the variable '.*seen.*': .* only if training is true",
        ),
        ("Chance", r"when it predicts \(training=False\) draws random numbers that no checkpoint holds \(RandomSt"),
        ("Secret", r"predicts other numbers each time it is called with training=False: .* only if training is true"),
        ("Unseeded", r"begins with other weights when it is made again with the same seed \(.*kernel\): .* train.seed"),
        ("Drawn", r"computes something else when it is built again with the same weights, as for the export: "),
        ("Growing", r"has weights of other shapes when it is made again: "),
        ("PredictStep", r"defines predict_step, which would not be called: .*; let call return "),
        ("Float64", r"has weights of float64 \(.*kernel\), they must be float32"),
        ("Float16", r"computes in float16 \(dense.*\), .* train.devices.precision: mixed_float16"),
        ("Late", r"makes weights only when training=True \(.*kernel\), .* let __init__ or build make them"),
        ("Failing", r"fails in training \(training=True\): .*own_training_models.py:\d+\)$"),
    ],
)
def test_what_training_would_pass_over_is_one_line(name, message):
    with pytest.raises(UserError, match=f"^train.model.class: own_training_models:{name} {message}") as caught:
        make(name)
    assert "\n" not in str(caught.value)


def test_what_holds_is_not_refused():
    model = make("Allowed")
    before = [variable.numpy() for variable in model.variables]
    again = [variable.numpy() for variable in make("Allowed").variables]
    assert all(np.array_equal(one, other) for one, other in zip(before, again, strict=True))  # nothing was run
    make("Float16", precision="mixed_float16")


def test_variables_are_known_where_devices_have_copies():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        make("Allowed")
        with pytest.raises(UserError, match="Keras does not know"):
            make("Strange")
        with pytest.raises(UserError, match="draws random numbers: "):
            make("Sampled")


@pytest.mark.parametrize(("devices", "told"), [({"accumulate": 2}, "accumulate: 2"), ({"xla": True}, "xla: true")])
def test_layers_that_exchange_on_several_devices_do_so_in_the_step_alone(monkeypatch, devices, told):
    make("Synchronized", **devices)
    monkeypatch.setattr(tf.distribute.Strategy, "num_replicas_in_sync", 2)
    make("Synchronized")
    message = r"has a synchronized layer \(batch_normalization.*\), which on several devices does not go with"
    with pytest.raises(
        UserError, match=f"^train.model.class: own_training_models:Synchronized {message} train.devices.{told};"
    ):
        make("Synchronized", **devices)


@pytest.mark.parametrize(
    ("name", "message"),
    [("drawn", r"no checkpoint holds \(RandomUniform\): a loss must"), ("fixed", "draws numbers from numpy.random")],
)
def test_a_loss_that_draws_random_numbers_is_one_line(name, message):
    wanted, wrong = tf.ones([4, 3]), tf.constant(np.random.default_rng(0).normal(size=(4, 3)), tf.float32)
    trial = Trial(wanted, wanted, wrong)
    try_loss(find_loss("own_training_models:steady", "k"), trial, "own_training_models:steady", "k")
    with pytest.raises(UserError, match=f"^k: 'own_training_models:{name}' .*{message}"):
        try_loss(find_loss(f"own_training_models:{name}", "k"), trial, f"own_training_models:{name}", "k")
