"""The quick recurrent layers against Keras's own loop over rows: values, gradients, and what is left to Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from beamfeed.trainer.models import recurrence
from beamfeed.trainer.models.recurrence import quicken

LAYERS = {"gru": keras.layers.GRU, "lstm": keras.layers.LSTM}


def layer_of(cell, quick, units=6, features=3, length=9, seed=5, **options):
    """A model of one layer whose weights, biases too, are random; the layer."""
    layer = LAYERS[cell](units, **options)
    rows = keras.Input((length, features))
    model = keras.Model(rows, layer(rows))
    random = np.random.default_rng(seed)
    for weight in layer.weights:
        weight.assign(random.normal(0, 0.7, weight.shape))
    if quick:
        quicken(model)
    return model, layer


def is_quick(layer):
    return "inner_loop" in vars(layer)


def computed(model, layer, rows, states=(), **call):
    """What the layer gives, the gradients of a function of all of that, and what its graph is made of."""

    @tf.function
    def run(rows, *states):
        with tf.GradientTape() as tape:
            tape.watch([rows, *states])
            given = tf.nest.flatten(layer(rows, initial_state=list(states) or None, **call))
            # Another weight for each number, so that no error hides in a sum.
            weights = [tf.reshape(tf.cos(tf.range(tf.size(one), dtype=tf.float32)), tf.shape(one)) for one in given]
            loss = tf.add_n([tf.reduce_sum(one * weight) for one, weight in zip(given, weights, strict=True)])
        return given, tape.gradient(loss, [rows, *states, *layer.trainable_weights])

    sources = [tf.constant(one) for one in (rows, *states)]
    given, gradients = run(*sources)
    return [np.asarray(one) for one in (*given, *gradients)], operations(run.get_concrete_function(*sources))


def operations(function):
    """The kinds of operation in a function and in those that it calls."""
    graph = function.graph.as_graph_def()
    nodes = [*graph.node, *(node for one in graph.library.function for node in one.node_def)]
    return {node.op for node in nodes}


def compare(cell, rows, states=(), **options):
    """The layer computed by our functions, and by Keras."""
    (ours, our_operations), (theirs, keras_operations) = (
        computed(*layer_of(cell, quick, length=rows.shape[1], **options), rows, states) for quick in (True, False)
    )
    assert our_operations != keras_operations  # it was not Keras's loop twice
    for mine, keras_own in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, keras_own, rtol=2e-5, atol=2e-5)
    return len(ours)


def rows_of(batch, length, features=3):
    return np.random.default_rng(3).normal(size=(batch, length, features)).astype(np.float32)


@pytest.mark.parametrize("cell", LAYERS)
@pytest.mark.parametrize(("length", "batch"), [(1, 7), (3, 7), (4, 7), (5, 7), (9, 1)])  # rows go four at once
def test_values_and_gradients_are_those_of_keras(cell, length, batch):
    found = compare(cell, rows_of(batch, length), return_sequences=True, return_state=True)
    assert found == {"gru": 2 + 4, "lstm": 3 + 4}[cell]


@pytest.mark.parametrize("cell", LAYERS)
@pytest.mark.parametrize("options", [{}, {"go_backwards": True}, {"go_backwards": True, "return_sequences": True}])
def test_with_the_options_of_a_layer(cell, options):
    compare(cell, rows_of(5, 9), **options)


@pytest.mark.parametrize("cell", LAYERS)
def test_from_a_state_that_is_given(cell):
    states = [np.random.default_rng(place).normal(size=(5, 6)).astype(np.float32) for place in (1, 2)]
    compare(cell, rows_of(5, 9), states[: {"gru": 1, "lstm": 2}[cell]], return_state=True)


@pytest.mark.parametrize("cell", LAYERS)
def test_the_gradient_is_that_of_small_differences(cell):
    """An oracle that is neither ours nor Keras's."""
    model, layer = layer_of(cell, quick=True, units=3, features=2, length=6, return_sequences=True)
    rows = rows_of(2, 6, 2)
    weight = layer.cell.recurrent_kernel

    def loss():
        return tf.reduce_sum(tf.sin(3 * model(rows)))

    with tf.GradientTape() as tape:
        value = loss()
    gradient = np.asarray(tape.gradient(value, weight.value))
    start = weight.numpy()
    for place in [(0, 0), (1, 4), (2, 8), (2, 3)]:
        sides = []
        for step in (1e-2, -1e-2):
            moved = start.copy()
            moved[place] += step
            weight.assign(moved)
            sides.append(float(loss()))
        weight.assign(start)
        assert gradient[place] == pytest.approx((sides[0] - sides[1]) / 2e-2, rel=2e-2, abs=2e-2)


@pytest.mark.parametrize("cell", LAYERS)
@pytest.mark.parametrize(
    "options",
    [
        {"activation": "relu"},
        {"recurrent_activation": "hard_sigmoid"},
        {"use_bias": False},
        {"dropout": 0.5},
        {"recurrent_dropout": 0.5},
        {"unroll": True},
        {"dtype": "mixed_bfloat16"},
        {"dtype": "float64"},
    ],
    ids=str,
)
def test_other_layers_are_left_to_keras_and_named(cell, options, capsys):
    assert is_quick(layer_of(cell, quick=True)[1])
    assert capsys.readouterr().err == ""
    layer = layer_of(cell, quick=True, **options)[1]
    assert not is_quick(layer)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"train.model: {layer.name} computed row by row, which is slow on a CPU")


def test_other_grus_and_subclasses_are_left_to_keras():
    class Own(keras.layers.LSTM):
        pass

    rows = keras.Input((4, 3))
    layers = [keras.layers.GRU(2, reset_after=False), Own(2), keras.layers.SimpleRNN(2)]
    model = keras.Model(rows, [layer(rows) for layer in layers])
    quicken(model)
    assert not any(is_quick(layer) for layer in layers)


@pytest.mark.parametrize("cell", LAYERS)
def test_masked_windows_and_those_of_unknown_length_are_left_to_keras(cell):
    rows = rows_of(5, 9)
    mask = np.arange(9) < np.array([[9], [4], [1], [0], [8]])
    ours, theirs = (computed(*layer_of(cell, quick), rows, mask=tf.constant(mask)) for quick in (True, False))
    assert ours[1] == theirs[1]
    for mine, keras_own in zip(ours[0], theirs[0], strict=True):
        np.testing.assert_array_equal(mine, keras_own)
    _, layer = layer_of(cell, quick=True, length=None)
    run = tf.function(layer, input_signature=[tf.TensorSpec([None, None, 3])])
    np.testing.assert_allclose(run(rows), layer_of(cell, quick=False)[0](rows), rtol=1e-6)


@pytest.mark.parametrize(
    ("units", "batch", "quick"), [(64, 64, True), (64, 65, False), (65, 8, False), (8, 512, True), (8, 513, False)]
)
def test_large_lstms_are_left_to_keras(units, batch, quick):
    """TensorFlow's operation for a whole window multiplies slowly."""
    _, layer = layer_of("lstm", True, units=units, length=3)
    function = tf.function(layer).get_concrete_function(tf.TensorSpec([batch, 3, 3]))
    assert ("BlockLSTMV2" in operations(function)) is quick


@pytest.mark.parametrize("cell", LAYERS)
def test_a_batch_of_unknown_size(cell):
    """As in evaluation, whose last batch may be smaller: a GRU is quick even so."""
    ours, theirs = (layer_of(cell, quick)[1] for quick in (True, False))
    ours, theirs = (tf.function(one, input_signature=[tf.TensorSpec([None, 9, 3])]) for one in (ours, theirs))
    different = operations(ours.get_concrete_function()) != operations(theirs.get_concrete_function())
    assert different is (cell == "gru")
    for batch in (1, 5):
        rows = rows_of(batch, 9)
        np.testing.assert_allclose(ours(rows), theirs(rows), rtol=2e-5, atol=2e-6)


def test_a_quick_model_is_saved_as_one_of_plain_keras_layers(tmp_path):
    model, _ = layer_of("gru", quick=True, units=4)
    rows = rows_of(5, 9)
    before = model.predict(rows, verbose=0)
    model.save(tmp_path / "model.keras")
    read = keras.saving.load_model(tmp_path / "model.keras")
    assert not is_quick(read.layers[-1])
    np.testing.assert_allclose(read.predict(rows, verbose=0), before, rtol=2e-5, atol=2e-6)


def test_not_where_a_gpu_is(monkeypatch):
    """Its own kernels are quicker."""
    monkeypatch.setattr(recurrence.tf.config, "list_logical_devices", lambda kind=None: [kind])
    assert not is_quick(layer_of("gru", quick=True)[1])
