"""What columns look like, told from small tables."""

import pyarrow as pa
import pytest

from beamfeed.transforms.suggest.columns import describe, tokens, why_fillers


def column(values, name="x", **more):
    found = describe([pa.record_batch({name: pa.array(values)}, **more)])
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
        (list(range(25)) * 10, "CUSTOMER_ID", True),
        (list(range(25)) * 10, "CUSTOMER_ID_COUNT", False),
        ([5, 5, 7, 7] * 10, "CUSTOMER_ID", False),  # of a few values, whatever its name
        (["Public", "Secret", None, "Public"] * 10, "ID", False),
        ([1, 2, 1, 0] * 10, "ring_number", False),
        ([f"A-{i}" for i in range(50)], "code", True),
        (["a", "b"] * 25, "code", False),
        ([0.5, 1.5], "id", False),
    ],
)
def test_what_names_rows(values, name, identity):
    assert column(values, name).identity is identity


def test_texts_and_categories():
    assert column([f"this is message number {i}" for i in range(10)]).prose
    assert not column(["State gov", "Private"] * 10).prose


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([-200, *range(90)], True),
        ([9999, *range(90)], True),
        ([-1, *range(90)], False),  # next to the others
        ([0, *range(1000, 1090)], False),
        ([-200, *range(-90, 0)], False),  # others are negative, too
        ([-200, *[0, 1] * 45], False),
        ([-200, *range(900)], False),  # too seldom, and near to what is there
    ],
)
def test_numbers_that_may_stand_for_missing_values(values, expected):
    columns = describe([pa.record_batch({"a": values, "b": values, "c": list(range(len(values)))})])
    lines = why_fillers(columns.values())
    assert bool(lines) is expected
    if expected:
        assert f"{values[0]} may stand for a missing value in a, b. " in lines[0]
