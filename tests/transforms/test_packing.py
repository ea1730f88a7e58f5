"""Descriptors that travel packed."""

import pickle

from beamfeed.contract.storage import FileStat
from beamfeed.transforms.packing import BUCKETS, TOGETHER, Packed, bucket_of, by_name, runs_of_small
from beamfeed.transforms.sources.readers import Group
from beamfeed.transforms.sources.timeseries.scan import FileSlice


def test_items_come_back_in_order_also_from_another_process():
    packed, more = Packed(range(2 * TOGETHER + 5)), Packed("ab")
    packed.extend(more)
    packed.append("c")
    expected = [*range(2 * TOGETHER + 5), "a", "b", "c"]
    assert len(packed) == len(expected)
    assert list(packed) == list(packed) == list(pickle.loads(pickle.dumps(packed))) == expected
    assert list(more) == ["a", "b"]
    assert list(pickle.loads(pickle.dumps(Packed()))) == []


def test_a_small_files_slice_weighs_little():
    slices = []
    for i in range(1000):
        path = f"gs://raw/fleet/2024/{i // 100:03d}/machine-{i:06d}.csv"
        file = FileStat(path, 500 + i % 37, 1_700_000_000_000_000_000 + i * 7919)
        slices.append(FileSlice(f"machine-{i:06d}", path, 20, 0, 19, (Group(0, 20, i * 512, 480),), file=file))
    assert len(pickle.dumps(slices[0])) > 300
    assert len(pickle.dumps(Packed(slices))) < 80 * len(slices)


def test_small_things_go_together_and_large_ones_alone():
    sizes = [3, 3, 3, 20, 1, 9, 10]
    assert list(runs_of_small(sizes, int, 10)) == [[3, 3, 3], [20], [1, 9], [10]]


def test_names_are_spread_over_all_buckets():
    buckets = {bucket_of(f"m{i}") for i in range(20 * BUCKETS)}
    assert buckets == set(range(BUCKETS))
    assert bucket_of("\udcff") in buckets  # of a path that is no text
    assert by_name([("b", 1), ("a", 2), ("b", 3)]) == {"b": [1, 3], "a": [2]}
