"""Learning rates, and the steps of an optimizer against NumPy."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from beamfeed.contract.config.load import parse_job
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.config.task import Reconstruct
from beamfeed.contract.config.train import Devices, Optimizer, Schedule
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Counts, Manifest
from beamfeed.contract.errors import UserError
from beamfeed.trainer.loop.optimizer import LearningRate, averaged, learning_rate, make_optimizer, state_of
from beamfeed.trainer.loop.steps import make_train_steps, zero_train
from beamfeed.trainer.tasks.objective import Objective


def rate(step, **section):
    return float(LearningRate(2.0, Schedule(**section), steps=20)(step))


@pytest.mark.parametrize(
    ("section", "step", "expected"),
    [
        ({}, 0, 2.0),
        ({"warmup_steps": 4}, 0, 0.5),
        ({"warmup_steps": 4}, 3, 2.0),
        ({"warmup_steps": 4}, 100, 2.0),
        ({"name": "linear", "decay_steps": 10, "final_fraction": 0.5}, 5, 1.5),
        ({"name": "linear", "decay_steps": 10, "final_fraction": 0.5}, 99, 1.0),
        ({"name": "cosine", "decay_steps": 10, "final_fraction": 0.0}, 0, 2.0),
        ({"name": "cosine", "decay_steps": 10, "final_fraction": 0.0}, 5, 1.0),
        ({"name": "cosine", "decay_steps": 10, "final_fraction": 0.1, "warmup_steps": 2}, 12, 0.2),
        ({"name": "exponential", "decay_steps": 10, "final_fraction": 0.01}, 5, 0.2),
        ({"name": "linear", "final_fraction": 0.0, "warmup_steps": 4}, 8, 1.5),  # of a run of 20 steps
        ({"name": "cosine", "final_fraction": 0.1, "warmup_steps": 4}, 20, 0.2),
    ],
)
def test_schedules(section, step, expected):
    assert rate(step, **section) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def job_text(optimizer: str) -> str:
    return f"""
name: small
source: {{kind: timeseries, files: in, time: {{column: t}}, features: ["a"]}}
windows: {{length: 8}}
output: {{path: out/data}}
train: {{model: {{name: recurrent_autoencoder}}, workdir: out/model, optimizer: {optimizer}}}
"""


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        ("{schedule: {decay_steps: 5}}", "decay_steps goes with a name that is not constant"),
        ("{schedule: {name: exponential, decay_steps: 5, final_fraction: 0}}", "exponential never reaches"),
        ("{clip_norm: 0}", "clip_norm"),
    ],
)
def test_mistakes_are_told(optimizer, message):
    with pytest.raises(UserError, match=message):
        parse_job(job_text(optimizer))


def one_weight(section: Optimizer, windows: np.ndarray, scale_loss: bool = False, **devices):
    """Trains w in w * x -> x with batches of all windows; returns w and the totals after one step."""
    objective = Objective(Reconstruct(name="reconstruct"), MANIFEST)
    model = keras.Sequential([keras.Input((2, 1)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    model.layers[0].kernel.assign([[3.0]])
    optimizer = make_optimizer(section, model.trainable_variables, scale_loss)
    strategy = tf.distribute.get_strategy()
    run = make_train_steps(strategy, model, objective, optimizer, len(windows), section.clip_norm, Devices(**devices))
    batches = iter(tf.data.Dataset.from_tensors({"values": tf.constant(windows)}).repeat())
    totals, heard = run(batches, tf.constant(1), zero_train(objective), tf.constant([5.0]))
    return float(model.layers[0].kernel.numpy()[0, 0]), totals, heard.numpy()


MANIFEST = Manifest(
    name="tiny", kind="handmade", fingerprint="f", data="data-f", windows=Windows(length=2), records="segments",
    fields=[Field(name="values", dtype="float32", shape=(1,), role="input")], compression="none", splits={},
    counts=Counts(files=1, assets=1, rejected_assets=0, rejected_files=0, rows_read=1),
)  # fmt: skip
WINDOWS = np.array([[[1.0], [2.0]], [[0.0], [1.0]]], "f4")
LOSS = np.mean((2 * WINDOWS) ** 2)  # w is 3
GRADIENT = np.mean(2 * (2 * WINDOWS) * WINDOWS)


@pytest.mark.parametrize("xla", [False, True])
def test_a_step_is_that_of_the_formula(xla):
    weight, totals, heard = one_weight(Optimizer(name="sgd", learning_rate=0.1), WINDOWS, xla=xla)
    assert weight == pytest.approx(3 - 0.1 * GRADIENT)
    assert float(totals["loss"]) == pytest.approx(LOSS)
    assert float(totals["norm"]) == pytest.approx(GRADIENT)
    assert heard == [5.0]


@pytest.mark.parametrize("parts", [2, 3, 5])
@pytest.mark.parametrize("xla", [False, True])
def test_a_step_in_parts_is_that_of_the_whole_batch(parts, xla):
    windows = np.random.default_rng(0).normal(size=(8, 2, 1)).astype("f4")  # 3 and 5 do not divide it
    whole, expected, _ = one_weight(Optimizer(name="sgd", learning_rate=0.1, clip_norm=0.5), windows)
    weight, totals, heard = one_weight(
        Optimizer(name="sgd", learning_rate=0.1, clip_norm=0.5), windows, accumulate=parts, xla=xla
    )
    assert weight == pytest.approx(whole, rel=1e-6)
    assert {k: float(v) for k, v in totals.items() if k != "waited"} == pytest.approx(
        {k: float(v) for k, v in expected.items() if k != "waited"}, rel=1e-6
    )
    assert heard == [5.0]


def test_more_parts_than_windows_are_as_many_as_windows():
    assert one_weight(Optimizer(name="sgd", learning_rate=0.1), WINDOWS, accumulate=9)[0] == pytest.approx(
        3 - 0.1 * GRADIENT
    )


@pytest.mark.parametrize("scale_loss", [False, True])
@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "rmsprop"])
def test_what_has_one_dimension_does_not_decay(name, scale_loss):
    kernel, bias = keras.Variable(np.ones((2, 1), "f4")), keras.Variable(np.ones(2, "f4"))
    optimizer = make_optimizer(Optimizer(name=name, learning_rate=0.5, weight_decay=0.1), [kernel, bias], scale_loss)
    optimizer.apply_gradients([(tf.zeros((2, 1)), kernel), (tf.zeros(2), bias)])
    np.testing.assert_allclose(kernel.numpy(), 1 - 0.5 * 0.1)
    np.testing.assert_array_equal(bias.numpy(), 1)


def test_no_bias_decays_of_whatever_shape():
    model = keras.Sequential([keras.Input((4, 3)), keras.layers.GRU(2, bias_initializer="ones"), keras.layers.Dense(1)])
    weights = model.trainable_variables
    before = [weight.numpy() for weight in weights]
    optimizer = make_optimizer(Optimizer(name="sgd", learning_rate=0.5, weight_decay=0.1), weights)
    optimizer.apply_gradients([(tf.zeros(weight.shape), weight) for weight in weights])
    for weight, was in zip(weights, before, strict=True):
        expected = was if "bias" in weight.path else was * (1 - 0.5 * 0.1)
        np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-6)
    assert {len(weight.shape) for weight in weights if "bias" in weight.path} == {1, 2}


@pytest.mark.parametrize("scale_loss", [False, True])
def test_the_average_is_that_of_the_formula_and_is_put_back(scale_loss):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    weights = model.trainable_variables
    optimizer = make_optimizer(Optimizer(name="sgd", learning_rate=0.5, ema=0.75), weights, scale_loss)
    average = None
    for step in range(5):
        optimizer.apply_gradients([(tf.fill(one.shape, step - 1.5), one) for one in weights])
        now = [one.numpy() for one in weights]
        average = now if average is None else [0.75 * a + 0.25 * n for a, n in zip(average, now, strict=True)]
    with averaged(model, optimizer):
        for one, expected in zip(model.trainable_variables, average, strict=True):
            np.testing.assert_allclose(one.numpy(), expected, rtol=1e-6)
    for one, expected in zip(model.trainable_variables, now, strict=True):
        np.testing.assert_array_equal(one.numpy(), expected)


def test_before_the_first_step_there_is_none():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    before = [one.numpy() for one in model.trainable_variables]
    with averaged(model, make_optimizer(Optimizer(ema=0.9), model.trainable_variables, scale_loss=True)):
        for one, expected in zip(model.trainable_variables, before, strict=True):
            np.testing.assert_array_equal(one.numpy(), expected)


def test_without_one_the_weights_stay():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    before = [one.numpy() for one in model.trainable_variables]
    with averaged(model, make_optimizer(Optimizer(), model.trainable_variables)):
        for one, expected in zip(model.trainable_variables, before, strict=True):
            np.testing.assert_array_equal(one.numpy(), expected)


def test_the_gradients_are_clipped_together():
    weight, totals, _ = one_weight(Optimizer(name="sgd", learning_rate=0.1, clip_norm=0.5), WINDOWS)
    assert weight == pytest.approx(3 - 0.1 * 0.5)
    assert float(totals["norm"]) == pytest.approx(GRADIENT)  # before clipping


def test_a_step_whose_gradients_overflow_is_skipped_and_does_not_count_in_the_norm():
    """The scale begins at 2**15: gradients of 1e34 are infinite with it, and the loss is not."""
    large = WINDOWS * np.float32(1e17)
    weight, totals, _ = one_weight(Optimizer(name="sgd", learning_rate=0.1), large, scale_loss=True)
    assert weight == 3
    assert np.isfinite(float(totals["loss"]))
    assert (float(totals["norm"]), float(totals["norms"])) == (0, 0)
    _, totals, _ = one_weight(Optimizer(name="sgd", learning_rate=0.1), WINDOWS, scale_loss=True)
    assert float(totals["norm"]) == pytest.approx(GRADIENT)
    assert float(totals["norms"]) == 1


def test_what_a_checkpoint_keeps_does_not_depend_on_the_rate():
    variable = keras.Variable(np.zeros((2, 3), "f4"))

    def kept(scale_loss, **options):
        optimizer = make_optimizer(Optimizer(learning_rate=0.125, **options), [variable], scale_loss)
        assert 0.125 not in [float(one) for one in state_of(optimizer).values() if not tuple(one.shape)]
        return {name: (tuple(one.shape), one.path.rpartition("/")[2]) for name, one in state_of(optimizer).items()}

    for scale_loss in (False, True):
        # The step and two moments; of the scale: its own step, counter and value, and a rate of 0 that nobody reads.
        assert len(kept(scale_loss)) == 3 + 4 * scale_loss
        assert kept(scale_loss) == kept(scale_loss, schedule=Schedule(warmup_steps=3))


def test_weights_decay():
    plain, _, _ = one_weight(Optimizer(name="sgd", learning_rate=0.1), WINDOWS)
    decayed, _, _ = one_weight(Optimizer(name="sgd", learning_rate=0.1, weight_decay=0.5), WINDOWS)
    assert plain - decayed == pytest.approx(3 * 0.5 * 0.1, rel=1e-4)


def test_the_rate_is_that_of_the_next_step():
    variable = keras.Variable(1.0)
    optimizer = make_optimizer(Optimizer(learning_rate=0.5, schedule=Schedule(warmup_steps=10)), [variable])
    assert learning_rate(optimizer) == pytest.approx(0.05)
    optimizer.apply_gradients([(tf.constant(1.0), variable)])
    assert learning_rate(optimizer) == pytest.approx(0.1)
    assert learning_rate(make_optimizer(Optimizer(learning_rate=0.25), [variable])) == 0.25
    scaled = make_optimizer(Optimizer(learning_rate=0.25), [variable], scale_loss=True)
    assert math.isclose(learning_rate(scaled), 0.25)
