"""A bounded part of a dataset, and single windows, against records that TensorFlow reads."""

import numpy as np
import pytest

from beamfeed.contract.dataset.manifest import read_manifest
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.reporting import sample as module
from beamfeed.transforms.reporting.sample import Sample
from tests.fleets import Fleet, make_table, read_records


@pytest.fixture(scope="module", params=[("none", "segments"), ("gzip", "segments"), ("none", "windows")])
def fleet(tmp_path_factory, request) -> Fleet:
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    for number in range(8):
        fleet.write(f"m{number}.parquet", make_table(3000, seed=number))
    compression, records = request.param
    fleet.job["output"] |= {"compression": compression, "records": records, "shards": 3}
    assert fleet.preprocess() == 0
    return fleet


def windows_of_shards(fleet: Fleet) -> list[np.ndarray]:
    """All training windows, in the order of shards and records."""
    found = []
    for feature in read_records(fleet.output, "train"):
        values = np.array(feature["values"].float_list.value, "f4").reshape(-1, 3)
        found += [values[first : first + 8] for first in range(0, len(values) - 8 + 1, 2)]
    return found


def test_single_windows(fleet):
    manifest = read_manifest(fleet.output)
    sample, shards = Sample(str(fleet.output), manifest), manifest.splits["train"].shards
    assert len(shards) > 1
    before = np.cumsum([0, *(shard.windows for shard in shards)])
    every = windows_of_shards(fleet)
    assert len(every) == before[-1]
    rng = np.random.default_rng(0)
    numbers = [(at, int(rng.integers(shard.windows))) for at, shard in enumerate(shards) for _ in range(3)]
    numbers += [(0, 0), (len(shards) - 1, shards[-1].windows - 1)]
    rng.shuffle(numbers)
    found = sample.windows("train", [tuple(map(int, one)) for one in numbers])
    assert len(found) == len(numbers)
    for window, (shard, number) in zip(found, numbers, strict=True):
        np.testing.assert_array_equal(window.values["values"], every[before[shard] + number])


def test_a_sample_is_bounded_and_the_same_again(fleet, monkeypatch):
    manifest = read_manifest(fleet.output)
    total = sum(int(block.rows.sum()) for block in Sample(str(fleet.output), manifest).blocks("train"))
    monkeypatch.setattr(module, "BYTES", 70_000)
    some = [block.values["values"] for block in Sample(str(fleet.output), manifest, seed=3).blocks("train")]
    again = [block.values["values"] for block in Sample(str(fleet.output), manifest, seed=3).blocks("train")]
    assert 0 < sum(map(len, some)) < total
    for one, other in zip(some, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_damaged_shard_is_told(fleet):
    manifest = read_manifest(fleet.output)
    path = fleet.output / manifest.data / "eval"
    shard = max(path.glob("*.tfrecord"), key=lambda one: one.stat().st_size)  # of few assets some are empty
    whole = shard.read_bytes()
    try:
        shard.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(JobFailed, match=r"tfrecord: (damaged|cannot be read)"):
            list(Sample(str(fleet.output), manifest).blocks("eval"))
    finally:
        shard.write_bytes(whole)
