"""Slurm's lists of hosts and counts, and who sits where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamfeed.contract.cluster.slurm import deal, expand_counts, expand_hosts


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("login5", "login5"),
        ("gpu[01-03,07],login5", "gpu01 gpu02 gpu03 gpu07 login5"),
        ("rack[1-2]n[1-2]", "rack1n1 rack1n2 rack2n1 rack2n2"),
        ("gpu[01-03,07],login5,rack[1-2]n[1-2]", "gpu01 gpu02 gpu03 gpu07 login5 rack1n1 rack1n2 rack2n1 rack2n2"),
        ("n[8-11]", "n8 n9 n10 n11"),
        ("n[08-11]-ib.example.org", "n08-ib.example.org n09-ib.example.org n10-ib.example.org n11-ib.example.org"),
        ("n[099-101]", "n099 n100 n101"),
        ("[1-2]x,a-b", "1x 2x a-b"),
    ],
)
def test_expand_hosts(text, hosts):
    assert expand_hosts(text) == hosts.split()


@pytest.mark.parametrize(
    "text",
    ["", ",", "a,", "a,,b", "a[", "a]", "a[]", "a[1", "a[1-]", "a[x]", "a[2-1]", "a[[1]]", "a b", "a[1-999999999]",
     "a[1-999][1-999]", "a[1-2", "a[1]],b"],
)  # fmt: skip
def test_what_is_no_host_list_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        expand_hosts(text)


@pytest.mark.parametrize(
    ("text", "counts"), [("1", [1]), ("2(x3),1", [2, 2, 2, 1]), ("1,2(x1)", [1, 2]), ("16(x2)", [16, 16])]
)
def test_expand_counts(text, counts):
    assert expand_counts(text) == counts


@pytest.mark.parametrize("text", ["", "a", "2(3)", "2(x)", "2(x3", "2,,1", "-1", "2(x999999999)"])
def test_what_is_no_list_of_counts_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        expand_counts(text)


def compress(numbers, width):
    """Runs of numbers as Slurm writes them, by a plain loop."""
    runs = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in runs)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["gpu", "n-", "rack1.n"]), st.sets(st.integers(0, 300), min_size=1), st.integers(1, 5)
        ),
        min_size=1,
        max_size=4,
    )
)
def test_what_slurm_compresses_is_expanded(groups):
    text = ",".join(f"{prefix}[{compress(sorted(numbers), width)}]" for prefix, numbers, width in groups)
    expected = [f"{prefix}{n:0{width}d}" for prefix, numbers, width in groups for n in sorted(numbers)]
    assert expand_hosts(text) == expected


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.booleans())
def test_every_task_has_a_seat_of_its_own(counts, cyclic):
    seats = deal(counts, cyclic)
    assert sorted(seats) == [(node, local) for node, count in enumerate(counts) for local in range(count)]
    # On every node, the earlier task has the lower index.
    assert all(
        [s for s in seats if s[0] == node] == [(node, i) for i in range(counts[node])] for node in range(len(counts))
    )
