"""Simple models beside the trained one: each learns what it can, and says what it cannot."""

import numpy as np
import pytest
import tensorflow as tf
from sklearn.ensemble import HistGradientBoostingRegressor

from beamfeed.trainer.models.signature import Input
from beamfeed.trainer.tasks.baselines import BOOSTING, fit_baselines
from beamfeed.trainer.tasks.rows import Layout, Rows

RNG = np.random.default_rng(0)
NUMBERS = Input((3,), "float32", False, ("a", "b", "c"))
CATEGORIES = Input((2,), "int64", False, ("kind", "city"), (4, 50))
RAGGED = Input((None,), "int64", False, (), (20,))
TEXT = Input((6,), "int64", False, (), (20,))
TABLE = {"numbers": NUMBERS, "categories": CATEGORIES}


def table(rows, seed=0):
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(rows, 3)).astype("f4")
    categories = np.stack([rng.integers(0, 4, rows), rng.integers(0, 50, rows)], axis=1)
    return {"numbers": numbers, "categories": categories}


def batches(x, truth, size=100):
    """As `fit_baselines` gets windows."""

    def read():
        for at in range(0, len(truth), size):
            part = {name: tf.constant(values[at : at + size]) for name, values in x.items()}
            yield (part if len(part) > 1 else next(iter(part.values()))), truth[at : at + size]

    return read


def output(guess, x):
    parts = {name: tf.constant(values) for name, values in x.items()}
    return guess(parts if len(parts) > 1 else next(iter(parts.values())), None).numpy()


def test_linear_truth_of_numbers_and_categories():
    def truth_of(x):
        of_kind = np.array([0.0, 5.0, -3.0, 1.0])[x["categories"][:, 0]]
        return (1000 * x["numbers"][:, 0] + 100 * of_kind + 7).astype("f4")

    x, other = table(2000), table(300, seed=1)
    fitted = fit_baselines(TABLE, batches(x, truth_of(x)), 2000)
    assert fitted.skipped == []
    truth = truth_of(other)
    errors = {name: np.abs(output(guess, other)[:, 0] - truth).mean() for name, guess in fitted.by_name.items()}
    assert errors["a linear model"] < 10 < errors[BOOSTING] < 0.3 * np.abs(truth - truth.mean()).mean()


def test_boosting_is_that_of_the_library():
    x, truth = table(500), RNG.normal(size=500).astype("f4")
    guess = fit_baselines({"numbers": NUMBERS}, batches({"numbers": x["numbers"]}, truth), 500).by_name[BOOSTING]
    expected = HistGradientBoostingRegressor(random_state=0).fit(x["numbers"], truth).predict(x["numbers"])
    np.testing.assert_allclose(output(guess, {"numbers": x["numbers"]})[:, 0], expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["logistic regression", BOOSTING])
def test_logits_of_classes_of_which_one_is_not_there(name):
    x = table(2000)
    truth = np.where(x["categories"][:, 0] == 2, 3, np.where(x["numbers"][:, 1] > 0, 1, 0))
    guess = fit_baselines(TABLE, batches(x, truth), 2000, classes=4).by_name[name]
    logits = output(guess, table(400, seed=2))
    probabilities = tf.nn.softmax(logits).numpy()
    assert logits.shape == (400, 4)
    assert probabilities[:, 2].max() < (1e-6 if name == BOOSTING else 1 / 2000)
    other = table(400, seed=2)
    right = np.where(other["categories"][:, 0] == 2, 3, np.where(other["numbers"][:, 1] > 0, 1, 0))
    assert (probabilities.argmax(axis=1) == right).mean() > 0.9


def test_weights_of_classes_move_the_probabilities():
    x, truth = table(3000), (RNG.random(3000) < 0.1).astype(int)
    plain, weighted = (
        fit_baselines(TABLE, batches(x, truth), 3000, 2, weights).by_name["logistic regression"]
        for weights in (None, [1.0, 9.0])
    )
    means = [tf.nn.softmax(output(guess, x)).numpy()[:, 1].mean() for guess in (plain, weighted)]
    assert means == pytest.approx([0.1, 0.5], abs=0.04)


def test_words_count_for_the_linear_model_alone():
    words = RNG.integers(0, 20, (1000, 6))
    truth = (words == 7).any(axis=1).astype(int)
    fitted = fit_baselines({"note": TEXT}, batches({"note": words}, truth), 1000, classes=2)
    assert fitted.skipped == [f"{BOOSTING}: takes no text"]
    logits = output(fitted.by_name["logistic regression"], {"note": words})
    assert (logits.argmax(axis=1) == truth).mean() == 1


def test_categories_and_words_are_columns_of_a_sparse_matrix():
    layout = Layout({**TABLE, "note": TEXT})
    rows = Rows(np.array([[1, 2, 3]], np.float32), np.array([[2, 49]]), (np.array([[5, 5, 0, 1, 0, 0]]),))
    dense = layout.ones(rows).toarray()[0]
    assert np.nonzero(dense)[0].tolist() == [2, 4 + 49, 54 + 1, 54 + 5]
    assert dense[54 + 5] == 2


def test_a_class_of_one_row_among_many_and_numbers_that_are_none():
    x, truth = RNG.normal(size=(10_050, 1)).astype("f4"), RNG.integers(0, 2, 10_050)
    truth[77] = 2  # of more than 10,000 rows, boosting divides each class
    inputs = {"x": Input((1,), "float32", False, ("a",))}
    assert len(fit_baselines(inputs, batches({"x": x}, truth), 10_050, classes=3).by_name) == 2
    x[5] = np.nan  # trees take what is missing
    fitted = fit_baselines(inputs, batches({"x": x[:100]}, truth[:100]), 100, classes=3)
    assert list(fitted.by_name) == [BOOSTING]
    assert fitted.skipped[0].startswith("logistic regression: cannot be fitted: Input X contains NaN")


def test_linear_models_of_very_many_categories_are_left_out():
    inputs = {"id": Input((), "int64", False, (), (3_000_000,))}
    fitted = fit_baselines(inputs, batches({"id": np.arange(50)}, np.arange(50.0)), 50)
    assert list(fitted.by_name) == [BOOSTING]
    assert fitted.skipped == ["a linear model: would have 3,000,000 weights, more than 2,000,000"]


@pytest.mark.parametrize(
    ("inputs", "truth", "line"),
    [
        ({"x": Input((None,), "float32")}, np.arange(2), "inputs are not numbers and categories of one size"),
        (
            {"x": Input((None,), "int64", False, (), (20,))},
            np.arange(2),
            "inputs are not numbers and categories of one size",
        ),
        ({"x": Input((3000,), "float32")}, np.arange(2), "windows of 3,000 numbers, more than 2,048"),
        ({"numbers": NUMBERS}, np.ones(20), "all training windows looked at have the same target"),
        ({"numbers": NUMBERS}, np.ones((20, 2)) * [[1, 2]], "is of one number, the target has 2"),
        ({"numbers": NUMBERS}, np.arange(20), "fitted to 20 of 50 that train"),
    ],
)
def test_what_cannot_be_fitted_is_told(inputs, truth, line):
    x = {"numbers": table(len(truth))["numbers"]}
    skipped = fit_baselines(inputs, batches(x, truth.astype("f4")), 50 if "50" in line else len(truth)).skipped
    assert len(skipped) == 1
    assert skipped[0].endswith(line)
