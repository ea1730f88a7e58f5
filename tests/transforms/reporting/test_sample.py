"""A bounded part of a dataset, and single windows, against records that TensorFlow reads."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from datasets import write_dataset

from beamfeed.contract import storage
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.blocks import write_blocks
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Shard, read_manifest
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.reporting import sample as module
from beamfeed.transforms.reporting.sample import Place, Sample
from beamfeed.transforms.reporting.samples import place_of
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


def test_only_what_is_packed_is_read_from_its_beginning_on(fleet, monkeypatch):
    """In a bucket each piece of it would be a request; of the rest, a place is one."""
    manifest = read_manifest(fleet.output)
    other = "open_input" if manifest.compression == "gzip" else "open_stream"
    sample = Sample(str(fleet.output), manifest)
    sample.places("train")
    monkeypatch.setattr(storage, other, None)
    assert len(sample.windows("train", [(0, 0), (0, 1)])) == 2


def test_windows_without_a_time_are_named_by_their_row(tmp_path):
    field = Field(name="values", dtype="float32", shape=(2,), role="input", columns=["a", "b"])
    record = {"values": np.ones((5, 2), "f4")}
    splits = {"train": [[record] * 3], "eval": [], "test": []}
    manifest = write_dataset(str(tmp_path), [field], splits, Windows(length=3))
    windows = Sample(str(tmp_path), manifest).windows("train", [(0, number) for number in (1, 5, 6)])
    assert [place_of(window, manifest) for window in windows] == [f"row {row} of its record" for row in (1, 2, 0)]


def test_the_index_of_very_many_blocks(tmp_path):
    """Places take some tens of bytes each, and the block of a window is found in all of them."""
    count = 100_000
    field = Field(name="values", dtype="float32", role="input")
    written = write_dataset(str(tmp_path), [field], {"train": [[{"values": np.ones(1, "f4")}]], "eval": [], "test": []})
    shard = Shard(records=2 * count, windows=2 * count, rows=2 * count, bytes=10 * count, crc32c="0" * 8)
    info = written.splits["train"].model_copy(update={"shards": [shard, shard], "windows": 4 * count})
    manifest = written.model_copy(update={"splits": {**written.splits, "train": info}})
    index = pa.table({"shard": np.repeat([0, 1], count), "records": np.full(2 * count, 2),
                      "windows": np.full(2 * count, 2), "bytes": np.full(2 * count, 10)})  # fmt: skip
    write_blocks(manifest.data_layout(str(tmp_path)).blocks("train"), index)
    sample = Sample(str(tmp_path), manifest)
    tracemalloc.start()
    try:
        places = sample.places("train")
        assert tracemalloc.get_traced_memory()[1] < 200 * len(places)
    finally:
        tracemalloc.stop()
    assert Place(*places[-1].tolist()) == Place(1, 10 * count - 10, 10, 2, 2 * count - 2, 2)


def test_a_sample_is_bounded_and_the_same_again(fleet, monkeypatch):
    manifest = read_manifest(fleet.output)
    total = sum(int(block.rows.sum()) for block in Sample(str(fleet.output), manifest).blocks("train"))
    monkeypatch.setattr(module, "BYTES", 70_000)
    some = [block.values["values"] for block in Sample(str(fleet.output), manifest).blocks("train")]
    again = [block.values["values"] for block in Sample(str(fleet.output), manifest).blocks("train")]
    assert 0 < sum(map(len, some)) < total
    for one, other in zip(some, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_damaged_shard_is_told(fleet):
    manifest = read_manifest(fleet.output)
    path = fleet.output / manifest.data / "eval"
    shard = max(path.glob("*.tfrecord"), key=lambda one: one.stat().st_size)  # of few assets some are empty
    whole = shard.read_bytes()
    middle = len(whole) // 2
    try:
        for damaged in (whole[:middle], whole[:middle] + b"\xff" * 64 + whole[middle + 64 :]):
            shard.write_bytes(damaged)
            with pytest.raises(JobFailed, match=r"tfrecord: (damaged|cannot be read)"):
                list(Sample(str(fleet.output), manifest).blocks("eval"))
    finally:
        shard.write_bytes(whole)
