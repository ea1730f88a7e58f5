"""First weights of tables: a model with a linear part begins as scikit-learn's, fitted to the same rows."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from beamfeed.contract.config.model import Linear, Tabular
from beamfeed.trainer import models
from beamfeed.trainer.models.signature import Input, Output, Signature
from beamfeed.trainer.tasks import first_fits
from beamfeed.trainer.tasks.classify import Classify
from beamfeed.trainer.tasks.first_fits import begins_trained, make_fits
from beamfeed.trainer.tasks.linear import STRENGTHS, TrainingRows, best_strength, fit_linear
from beamfeed.trainer.tasks.objective import Examples
from beamfeed.trainer.tasks.regress import Regress
from beamfeed.trainer.tasks.rows import MOST_WEIGHTS, Layout, Rows

RNG = np.random.default_rng(3)
ROWS = 600
NUMBERS = Input((3,), "float32", False, ("a", "b", "c"))
AGE = Input((), "float32")
CATEGORIES = Input((2,), "int64", False, ("kind", "city"), (4, 30))
SHOP = Input((), "int64", False, (), (5,))
TABLE = {"age": AGE, "categories": CATEGORIES, "numbers": NUMBERS, "shop": SHOP}
VALUES = {
    "numbers": (RNG.normal(size=(ROWS, 3)) * [1, 1000, 0.01] + [0, 50, 0]).astype("f4"),
    "age": RNG.uniform(20, 60, ROWS).astype("f4"),
    "categories": np.stack([RNG.integers(0, 4, ROWS), RNG.integers(0, 30, ROWS)], axis=1),
    "shop": RNG.integers(0, 5, ROWS),
}
SCORE = VALUES["numbers"][:, 0] + (VALUES["categories"][:, 0] == 2) + RNG.normal(size=ROWS) / 2
PRICE = (1000 * SCORE + 5000).astype("f4")
SECTIONS = {
    "linear": Linear(name="linear"),
    "ensemble": Tabular(name="tabular", wide=True),
    "one": Tabular(name="tabular", wide=True, members=1, bins=0),
}


class _Classify(Classify):
    """Of so many classes, without a dataset."""

    def __init__(self, classes):
        self.class_names = [str(number) for number in range(classes)]

    classes = property(lambda self: self.class_names)


class _Regress(Regress):
    def __init__(self):
        pass

    output = property(lambda self: Output(((1,), ()), "a number", units=1, scale=float(PRICE.std()), offset=5000.0))


def begin(section, inputs, task, truth, values=VALUES, weights=None):
    """The model's outputs of the rows that its first weights were fitted to, and how many fits there were."""
    signature = Signature(inputs, {"target": task.output})
    model = models.build(section, signature, 1)
    x = {name: tf.constant(values[name]) for name in inputs}
    x = x if len(x) > 1 else next(iter(x.values()))
    of_rows = {} if weights is None else {"target": tf.constant(weights)}
    fits = make_fits(section, model, SimpleNamespace(signature=signature, tasks={"target": task}))
    for fit, variables in fits:
        fit.add(Examples(x, {"target": tf.constant(truth)}, of_rows))
        for variable, value in zip(variables, fit.values([one.numpy() for one in variables]), strict=True):
            variable.assign(value)
    return model(x).numpy(), len(fits)


def predict(names, truth, classes):
    """Numbers or probabilities of the rows, by scikit-learn as its users call it."""
    numbers = [
        StandardScaler().fit_transform(VALUES[name].reshape(ROWS, -1)) for name in names if name in ("age", "numbers")
    ]
    columns = [column for name in names if TABLE[name].sizes for column in VALUES[name].reshape(ROWS, -1).T]
    x = np.hstack([*numbers, *(np.eye(column.max() + 1)[column] for column in columns)])
    if classes is None:
        return Ridge().fit(x, truth).predict(x)[:, None]
    learner = LogisticRegression(max_iter=1000).fit(x, truth)
    shares = np.zeros((ROWS, classes))
    shares[:, learner.classes_] = learner.predict_proba(x)
    return shares


@pytest.mark.parametrize(
    ("section", "names"),
    [(section, list(TABLE)) for section in SECTIONS] + [("linear", [name]) for name in TABLE],
    ids=str,
)
@pytest.mark.parametrize("target", ["number", "two classes", "four classes of which one is not there"])
def test_a_linear_part_begins_as_the_baseline(section, names, target, monkeypatch):
    monkeypatch.setattr(first_fits, "best_strength", lambda *_: 1.0)
    inputs = {name: TABLE[name] for name in names}
    if target == "number":
        task, truth, classes = _Regress(), PRICE, None
    elif target == "two classes":
        task, truth, classes = _Classify(2), (SCORE > 0.5).astype("i8"), 2
    else:
        task, truth, classes = _Classify(4), np.where(SCORE > 1, 3, np.where(SCORE > 0, 1, 0)), 4
    output, _ = begin(SECTIONS[section], inputs, task, truth)
    expected = predict(names, truth, classes)
    if classes is None:
        np.testing.assert_allclose(output, expected, rtol=1e-3, atol=2)
    else:
        shares = tf.nn.softmax(output).numpy()
        absent = sorted(set(range(classes)) - set(truth))
        assert (shares[:, absent] < 0.01).all()
        shares[:, absent] = 0
        np.testing.assert_allclose(shares / shares.sum(axis=1, keepdims=True), expected, atol=2e-4)


def fitted_strength(numbers, truth, classes, weights=None):
    inputs = {"numbers": Input((numbers.shape[1],), "float32")}
    rows = Rows(numbers.astype("f4"), np.zeros((len(numbers), 0), int))
    return best_strength(Layout(inputs), TrainingRows(rows, truth, weights), classes)


@pytest.mark.parametrize("classes", [None, 2])
def test_cross_validation_finds_how_strong_a_linear_model_may_be(classes):
    """Sixty columns of which one counts: of few rows a weak one is best, of many a strong one."""

    def best_of(rows, noise):
        numbers = np.random.default_rng(1).normal(size=(rows, 60)).astype("f4")
        truth = numbers[:, 0] + noise * np.random.default_rng(2).normal(size=rows)
        if classes:
            truth = (truth > 0).astype("i8")
        return fitted_strength(numbers, truth, classes)

    assert best_of(80, 5.0) < 0.1
    assert best_of(3000, 0.1) >= 1


def test_a_category_of_one_row_counts_little():
    """Each row has a name of its own: it says nothing of other rows, and must not hide what the number says."""
    inputs = {"numbers": Input((1,), "float32"), "name": Input((), "int64", False, (), (ROWS,))}
    rows = Rows(VALUES["numbers"][:, :1], np.arange(ROWS)[:, None])
    truth = 3 * VALUES["numbers"][:, 0] + RNG.normal(size=ROWS)
    kernel, _ = fit_linear(Layout(inputs), TrainingRows(rows, truth, None), None)
    assert kernel[0, 0] == pytest.approx(3, abs=0.2)
    assert np.abs(kernel[1:, 0]).mean() < 0.5


def test_weights_of_rows_count():
    weights = np.where(SCORE > 0.5, 9.0, 1.0).astype("f4")
    truth = (SCORE > 0.5).astype("i8")
    plain, heavy = (
        tf.nn.softmax(begin(SECTIONS["ensemble"], TABLE, _Classify(2), truth, weights=each)[0]).numpy()[:, 1].mean()
        for each in (None, weights)
    )
    assert plain == pytest.approx(truth.mean(), abs=0.01)
    assert heavy > plain + 0.05


@pytest.mark.parametrize(
    ("rows", "positive", "weights"),
    [
        (600, [77], None),
        (600, [5, 55, 105], None),
        (2, [0], None),
        (600, range(300), np.eye(600)[5] + np.eye(600)[400]),
    ],
    ids=["one", "few", "two rows", "two count"],
)
def test_folds_that_lack_a_class_are_left_out(rows, positive, weights):
    truth = np.isin(np.arange(rows), positive).astype("i8")
    assert fitted_strength(VALUES["numbers"][:rows], truth, 2, weights) in STRENGTHS
    assert fitted_strength(VALUES["numbers"][:rows], truth.astype("f8"), None, weights) in STRENGTHS


def test_rows_that_come_in_turns_are_mixed():
    """Of each fifth row, as of a weekday, the others say nothing."""
    weekday = np.arange(500) % 5
    assert fitted_strength(np.eye(5)[weekday], np.array([3.0, -1, 7, 0, 2])[weekday], None) >= 1


def test_of_many_rows_those_from_all_over_are_taken(monkeypatch):
    """Rows that are sorted by their class, of which a tenth are fitted."""
    monkeypatch.setattr(first_fits, "WORK", 10 * ROWS // 10)
    order = np.argsort(SCORE)
    values = {name: column[order] for name, column in VALUES.items()}
    truth = (np.arange(ROWS) > ROWS // 2).astype("i8")
    output, _ = begin(SECTIONS["linear"], {"numbers": NUMBERS}, _Classify(2), truth, values)
    assert (output.argmax(axis=1) == truth).mean() > 0.7


@pytest.mark.parametrize(
    "broken", ["number", "one class", "weight", "one class that counts", "target", "no weight", "category"]
)
def test_what_cannot_be_fitted_leaves_the_first_weights(broken):
    values, truth, weights, task = dict(VALUES), (SCORE > 0).astype("i8"), np.ones(ROWS, "f4"), _Classify(2)
    if broken == "number":
        values["numbers"] = np.where(np.arange(ROWS)[:, None] == 5, np.nan, VALUES["numbers"]).astype("f4")
    elif broken == "one class":
        truth = np.zeros(ROWS, "i8")
    elif broken == "weight":
        weights[3] = -1
    elif broken == "one class that counts":
        weights = truth.astype("f4")
    elif broken == "category":
        values["categories"] = np.where(np.arange(ROWS)[:, None] == 5, 99, VALUES["categories"])
    elif broken == "target":
        truth, task = np.where(np.arange(ROWS) == 5, np.inf, PRICE).astype("f4"), _Regress()
    else:
        weights, truth, task = np.zeros(ROWS, "f4"), PRICE, _Regress()
    signature = Signature({"categories": CATEGORIES, "numbers": NUMBERS}, {"target": task.output})
    model = models.build(SECTIONS["linear"], signature, 1)
    ((fit, variables),) = make_fits(
        SECTIONS["linear"], model, SimpleNamespace(signature=signature, tasks={"target": task})
    )
    first = [variable.numpy() for variable in variables]
    x = {name: tf.constant(values[name]) for name in signature.inputs}
    fit.add(Examples(x, {"target": tf.constant(truth)}, {"target": tf.constant(weights)}))
    for value, before in zip(fit.values(first), first, strict=True):
        np.testing.assert_array_equal(value, before)


def test_very_many_categories_begin_at_zero():
    many = Input((), "int64", False, (), (MOST_WEIGHTS + 1,))
    _, fits = begin(SECTIONS["linear"], {"id": many}, _Classify(2), zeros := np.arange(ROWS) % 2, {"id": zeros})
    assert fits == 0


def test_only_a_model_with_a_linear_part_begins_trained():
    signature = Signature({"numbers": NUMBERS}, {"target": _Classify(2).output})
    assert all(begins_trained(section, signature) for section in SECTIONS.values())
    assert not begins_trained(Tabular(name="tabular", wide=False), signature)
