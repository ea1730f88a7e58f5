"""Counts that were written are what they were, and their sum is that of all rows."""

import pyarrow as pa

from beamfeed.contract.config.features import MOST_TERMS
from beamfeed.transforms.sources.table.staged import gather_counts, read_counts, write_counts
from beamfeed.transforms.statistics.value_counts import ValueCounts


def counts_of(*values):
    return ValueCounts.of(pa.array(values, pa.string()), MOST_TERMS)


def test_counts_come_back_and_add_up(tmp_path):
    first = [counts_of("a", "b", "a"), counts_of(), counts_of("ä", "")]
    second = [counts_of("b"), counts_of("x"), counts_of()]
    for name, counts in (("1", first), ("2", second)):
        write_counts(str(tmp_path / name), counts)
        assert [one.items() for one in read_counts(str(tmp_path / name))] == [one.items() for one in counts]
    zero = [ValueCounts.zero(MOST_TERMS)] * 3
    found = gather_counts(zero, [str(tmp_path / name) for name in "12"])
    assert [one.items() for one in found] == [[("a", 2), ("b", 2)], [("x", 1)], [("", 1), ("ä", 1)]]


def test_too_many_stay_too_many(tmp_path):
    over = ValueCounts.of(pa.array(["a", "b", "c"]), 2)
    assert over.over
    write_counts(str(tmp_path / "1"), [counts_of("a"), over])
    fine, many = gather_counts([ValueCounts.zero(MOST_TERMS)] * 2, [str(tmp_path / "1")])
    assert not fine.over
    assert many.over
