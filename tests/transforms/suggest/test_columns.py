"""What columns look like, told from small tables."""

from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from beamfeed.transforms.suggest.columns import describe, tokens


def column(values, name="x", **more):
    found = describe([pa.table({name: pa.array(values)}, **more)])
    return found[name]


def test_words_of_a_name():
    assert tokens("TX_FRAUD") == tokens("txFraud") == tokens("tx fraud") == ["tx", "fraud"]
    assert tokens("Temp [°C]") == ["temp", "c"]


def test_numbers():
    found = column([1.5, None, 3.0, float("nan")])
    assert (found.kind, found.missing, found.distinct, found.whole) == ("number", 0.5, 2, False)
    assert column([7, 7, 7]).constant
    assert not column([7]).constant  # of one row nothing follows
    assert column([True, False]).kind == "bool"
    assert column([None, None]).kind == "nothing"


def test_words_that_stand_for_nothing_are_missing():
    found = column(["red", "?", "blue", None])
    assert (found.kind, found.missing) == ("text", 0.5)


@pytest.mark.parametrize(
    ("values", "name", "identity"),
    [
        (list(range(1, 101)), "n", True),  # counts rows
        (list(range(0, 200, 2)), "n", False),
        ([5, 5, 7, 7] * 10, "CUSTOMER_ID", True),
        ([5, 5, 7, 7] * 10, "CUSTOMER_ID_COUNT", False),
        ([f"A-{i}" for i in range(50)], "code", True),
        (["a", "b"] * 25, "code", False),
        ([0.5, 1.5], "id", False),
    ],
)
def test_what_names_rows(values, name, identity):
    assert column(values, name).identity is identity


@pytest.mark.parametrize(
    ("name", "label"),
    [("label", True), ("TX_FRAUD", True), ("isFraud", True), ("y", True), ("y_axis", False), ("classic", False)],
)
def test_what_is_to_be_learned_by_its_name(name, label):
    assert column([0, 1], name).label is label


def test_texts_and_categories():
    assert column([f"this is message number {i}" for i in range(10)]).prose
    assert not column(["State gov", "Private"] * 10).prose


@pytest.mark.parametrize(
    ("values", "label"),
    [([0.5, 1.5], True), ([True, False], True), (["a", "b"], True), ([b"\x00", b"\x01"], False),
     ([datetime(2024, 1, 1), datetime(2024, 1, 2)], False), ([timedelta(1), timedelta(2)], False),
     ([[1], [2, 3]], False), ([{"a": 1}, {"a": 2}], False)],
)  # fmt: skip
def test_a_label_is_of_numbers_or_words(values, label):
    assert column(values, "fault").label is label
