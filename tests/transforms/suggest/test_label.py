"""Which column is to be learned, and which columns tell it."""

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from beamfeed.transforms.suggest.columns import describe
from beamfeed.transforms.suggest.label import choose_label, named_label
from beamfeed.transforms.suggest.leaks import find_leaks
from beamfeed.transforms.suggest.options import Options

ROWS = 400
RNG = np.random.default_rng(0)
YES = np.where(RNG.random(ROWS) < 0.4, "yes", "no")
THREE = RNG.choice(["red", "green", "blue"], ROWS)
WHOLE = RNG.integers(0, 10, ROWS)
AMOUNT = RNG.normal(50, 9, ROWS).round(2)


def others(count):
    return {f"x{k}": RNG.normal(size=ROWS).round(3) for k in range(count)}


def choice(**columns):
    return choose_label(describe([pa.record_batch(columns)]), Options())


@pytest.mark.parametrize(
    ("name", "label"),
    [("label", True), ("TX_FRAUD", True), ("isFraud", True), ("changepoint", True), ("y_axis", False),
     ("classic", False), ("gyros_belt_y", False), ("fraud_score", False)],
)  # fmt: skip
def test_what_is_to_be_learned_by_its_name(name, label):
    assert named_label(describe([pa.record_batch({name: [0, 1] * 10})])[name]) is label


@pytest.mark.parametrize(
    ("values", "able"),
    [([0.5, 1.5], True), ([True, False], True), (["a", "b"], True), ([b"\x00", b"\x01"], False),
     ([datetime(2024, 1, 1), datetime(2024, 1, 2)], False), ([timedelta(1), timedelta(2)], False),
     ([[1], [2, 3]], False), ([{"a": 1}, {"a": 2}], False)],
)  # fmt: skip
def test_a_label_is_of_numbers_or_words(values, able):
    label = choice(x=np.arange(40) % 7, target=pa.array(values * 20)).label
    assert (label is not None and label.name == "target") is able


@pytest.mark.parametrize(
    ("name", "values"),
    [(name, YES) for name in ("Churn", "Attrition", "default", "fraud", "Class", "y", "income", "Exited", "diagnosis")]
    + [("species", THREE), ("Type", THREE), ("quality", WHOLE), ("classe", THREE)]
    + [(name, AMOUNT) for name in ("charges", "price", "medv", "SalePrice", "strength", "Chance of Admit")],
)
def test_a_last_column_of_such_a_name_is_learned(name, values):
    assert choice(**others(4), who=THREE, **{name: values}).label.name == name


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("survived", YES),
        ("Attrition", YES),
        ("diagnosis", YES),
        ("target", AMOUNT),
        ("churned", YES),
        ("price", AMOUNT),
    ],
)
def test_a_name_that_leaves_no_doubt_is_learned_wherever_it_stands(name, values):
    first = choice(**{name: values}, **others(3), who=THREE)
    middle = choice(**others(2), **{name: values}, who=THREE)
    assert first.label.name == name
    assert middle.label.name == name


@pytest.mark.parametrize(
    "columns",
    [
        {"carat": AMOUNT, "x": AMOUNT + 1, "y": AMOUNT + 2, "z": AMOUNT + 3},  # lengths
        {"roll": AMOUNT, "gyros_belt_y": AMOUNT + 1, "who": THREE, "gyros_belt_z": AMOUNT},
        {"sex": YES, "class": THREE, "deck": THREE, "age": AMOUNT},  # in the middle a word for many things
        {"date_of_month": WHOLE, "day": WHOLE, "births": AMOUNT},
        {"x0": AMOUNT, "x1": AMOUNT, "group": THREE, "sex": YES},
        {"country": THREE, "latitude": AMOUNT, "longitude": AMOUNT},
        {"label": np.arange(ROWS).astype(str), "abv": AMOUNT},  # names of beers
    ],
)
def test_without_evidence_none_is_learned_and_some_are_told(columns):
    found = choice(**columns)
    assert found.label is None
    assert found.candidates


def test_letters_alone_before_many_numbers_are_learned():
    rows = 2000
    letters = RNG.choice(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), rows)
    numbers = {f"x{k}": RNG.integers(0, 16, rows) for k in range(9)}
    assert choose_label(describe([pa.record_batch({"letter": letters, **numbers})]), Options()).label.name == "letter"
    of_things = describe([pa.record_batch({"country": letters, **numbers})])
    assert choose_label(of_things, Options()).label is None
    few = choose_label(describe([pa.record_batch({"letter": letters[:200], "x0": numbers["x0"][:200]})]), Options())
    assert few.label is None


def test_numbers_that_may_name_rows_are_no_first_column():
    numbers = RNG.permutation(10**6)[:ROWS]
    assert choice(Cell=numbers, Class=YES, **others(4)).label.name == "Class"
    assert choice(**others(1), Class=YES, x8=AMOUNT, x9=AMOUNT).label is None


def test_a_class_alone_beside_a_text_is_learned():
    texts = [f"this is message number {k}" for k in range(ROWS)]
    assert choice(f0=YES, f1=texts).label.name == "f0"


def test_two_columns_as_sure_as_each_other_are_left_to_the_user():
    found = choice(x=AMOUNT, target=YES, outcome=YES, z=AMOUNT)
    assert found.label is None
    assert [one.name for one in found.candidates[:2]] == ["target", "outcome"]


def leaks(label, **columns):
    batch = pa.record_batch({**columns, "label": label})
    described = describe([batch])
    target = described.pop("label")
    return set(find_leaks([batch], target, described))


def test_a_column_that_tells_the_classes_is_found():
    codes = (YES == "yes").astype(int)
    assert leaks(codes, alive=YES, part=np.where(THREE == "red", "yes", YES), x=AMOUNT) == {"alive"}
    # Of more values than the label has, each of one class; ids, of which each is there once, tell nothing.
    fine = np.char.add(YES, (WHOLE % 3).astype(str))
    assert leaks(codes, fine=fine, number=np.arange(ROWS), name=np.arange(ROWS).astype(str)) == {"fine"}
    # How the steak is liked, where it is eaten: nothing is an answer. Some rows, in which both may be, have no label.
    unknown = np.where(np.arange(ROWS) % 20 == 0, "", YES)
    assert leaks(unknown, liked=np.where(YES == "yes", fine, "")) == {"liked"}


def test_numbers_that_part_the_classes_or_follow_the_amount_are_found():
    today = AMOUNT - 50
    up = np.where(today > 0, "Up", "Down")
    assert leaks(up, today=today, lag=np.roll(today, 1)) == {"today"}
    assert leaks(AMOUNT, cents=100 * AMOUNT, square=-(AMOUNT**2), near=AMOUNT + RNG.normal(size=ROWS)) == {
        "cents",
        "square",
    }


def test_a_few_rows_tell_nothing():
    assert leaks(["a", "b", "a", "b"], x=["c", "d", "c", "d"]) == set()
