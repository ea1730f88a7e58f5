"""Counts of values: those of a Counter, in whatever order and pieces they are added."""

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from beamfeed.transforms.statistics import value_counts
from beamfeed.transforms.statistics.value_counts import ValueCounts

VALUES = st.sampled_from(["a", "b", "ä", "", "zz", None]) | st.text(max_size=2)
PIECES = st.lists(st.lists(VALUES, max_size=8), max_size=8)


@given(PIECES, st.randoms(), st.sampled_from([1, 3, 1 << 16]))
def test_is_a_counter_in_any_order(pieces, random, slack):
    columns = [ValueCounts.of(pa.array(piece, pa.string()), 1000) for piece in pieces]
    expected = Counter(value for piece in pieces for value in piece if value is not None)
    before, value_counts._SLACK = value_counts._SLACK, slack
    try:
        random.shuffle(columns)
        cut = random.randint(0, len(columns))
        halves = [sum(part, ValueCounts.zero(1000)) for part in (columns[:cut], columns[cut:])]
        found = halves[0] + halves[1]
        assert dict(found.items()) == expected
        assert [value for value, _ in found.items()] == sorted(expected, key=str.encode)
        ordered = sorted(expected, key=lambda value: (-expected[value], value.encode()))
        assert found.frequent(1, None) == ordered
        assert found.frequent(2, 3) == [value for value in ordered if expected[value] > 1][:3]
    finally:
        value_counts._SLACK = before


def test_too_many_values_are_told_and_not_kept():
    most = 5
    few = [ValueCounts.of(pa.array([f"{number}"]), most) for number in range(5)]
    assert not sum(few, ValueCounts.zero(most)).over
    many = sum([*few, ValueCounts.of(pa.array(["other"]), most)], ValueCounts.zero(most))
    assert many._settle().over
    assert len(many._settle().values) == 0
    assert (many._settle() + few[0]).over
    assert ValueCounts.of(pa.array([f"{number}" for number in range(6)]), most).over


def test_long_values_are_bounded_by_their_text(monkeypatch):
    monkeypatch.setattr(value_counts, "MOST_BYTES", 100)
    few = [ValueCounts.of(pa.array([letter * 25] * 9), 1000) for letter in "abcd"]
    assert not sum(few, ValueCounts.zero(1000)).over
    for column in ([*few, ValueCounts.of(pa.array(["e"]), 1000)], [ValueCounts.of(pa.array(["x" * 101]), 1000), *few]):
        assert sum(column, ValueCounts.zero(1000)).over
