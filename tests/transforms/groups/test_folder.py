"""The records of a group: all of them, in a dataset that a trainer reads, and those of no other."""

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from fleets import Fleet, make_table, read_windows

from beamfeed.contract.dataset.manifest import read_manifest
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.trainer.feed.dataset import load_dataset
from beamfeed.transforms.groups.folder import copy_preparation, preparation_layout, read_place, write_dataset
from beamfeed.transforms.groups.places import ROWS, SIZE, Group, Place, key_field, partitions, scan_groups

NAMES = ("a", "b/c", "größe 3")  # of files' columns


@pytest.fixture(scope="module", params=["segments", "windows"])
def fleet(request, tmp_path_factory) -> Fleet:
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    rows = (400, 260, 90)
    for number, name in enumerate(NAMES):
        fleet.write(f"{number}.parquet", make_table(rows[number], number, name=np.full(rows[number], name)))
    fleet.job["source"]["asset"] = {"column": "name"}
    fleet.job["split"] = {"by": "time", "train": 0.6, "eval": 0.2, "test": 0.2}
    fleet.job["output"] |= {"records": request.param, "shards": 3}
    assert fleet.preprocess() == 0
    return fleet


def groups_of(fleet: Fleet) -> dict[str, Group]:
    manifest = fleet.manifest
    key = key_field(manifest, "asset")
    places: dict[str, list[Place]] = {}
    for split in reversed(manifest.splits):  # in any order
        for number, path in enumerate(manifest.shard_paths(str(fleet.output), split)):
            for name, records in scan_groups(path, manifest, key).items():
                places.setdefault(name, []).append(Place(split, number, records))
    return {name: Group.of(name, found, manifest.windows) for name, found in places.items()}


def written(fleet: Fleet, group: Group, folder: Path):
    copy_preparation(str(fleet.output), fleet.manifest, str(folder))
    paths = {split: fleet.manifest.shard_paths(str(fleet.output), split) for split in fleet.manifest.splits}
    return write_dataset(str(folder), fleet.manifest, paths, "asset", group)


def test_a_dataset_of_each_group_holds_its_windows_and_no_others(fleet, tmp_path):
    groups = groups_of(fleet)
    assert set(groups) == set(NAMES)
    for number, name in enumerate(NAMES):
        folder = tmp_path / str(number)
        manifest = written(fleet, groups[name], folder)
        assert manifest == read_manifest(folder)
        for split in manifest.splits:
            expected = fleet.windows(split).get(name, {})
            assert groups[name].windows.get(split, 0) == len(expected) == manifest.splits[split].windows
            (found,) = read_windows(folder, split).values()
            assert found.keys() == expected.keys()
            for start, window in expected.items():
                np.testing.assert_array_equal(found[start], window)


def test_a_trainer_reads_it(fleet, tmp_path):
    written(fleet, groups_of(fleet)["b/c"], tmp_path)
    batches = load_dataset(tmp_path, "train", batch_size=4, fields=["values", "asset"], shuffle=100, remainder="pad")
    names, windows = Counter(), []
    for fields, weights in batches:
        there = weights.numpy() > 0
        names.update(fields["asset"].numpy()[there].tolist())
        windows.append(fields["values"].numpy()[there])
    expected = np.stack([*fleet.windows("train")["b/c"].values()])
    assert names == {b"b/c": len(expected)}
    rows = np.concatenate(windows)
    np.testing.assert_array_equal(*(np.sort(each.reshape(len(each), -1), axis=0) for each in (rows, expected)))


def test_the_same_group_has_the_same_bytes(fleet, tmp_path):
    for number in range(2):
        written(fleet, groups_of(fleet)["a"], tmp_path / str(number))
    one, other = (
        {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (tmp_path / "0", tmp_path / "1")
    )
    assert one == other
    assert any(name.endswith(".tfrecord") for name in one)


def test_a_preparation_that_is_half_copied_does_not_count(fleet, tmp_path):
    dataset, folder = tmp_path / "data", tmp_path / "group"
    shutil.copytree(fleet.output, dataset)
    broken = dataset / fleet.manifest.data / "zz"  # is read last
    broken.symlink_to("nowhere")
    with pytest.raises(OSError, match="zz"):
        copy_preparation(str(dataset), fleet.manifest, str(folder))
    copied = Path(preparation_layout(str(folder)).root)
    assert not copied.exists()
    broken.unlink()
    copy_preparation(str(dataset), fleet.manifest, str(folder))
    assert (copied / "stats.json").exists()
    assert [path.name for path in folder.iterdir()] == [copied.name]


@pytest.mark.parametrize("sizes", ["equal", "unequal"])
def test_records_near_each_other_are_read_together(tmp_path, sizes):
    """Ten groups in turns, in 12 MB, and after a gap of 4 MB once more: the bytes are those of a plain loop."""
    rng = np.random.RandomState(0)
    size = np.full(3000, 4000) if sizes == "equal" else rng.randint(1, 8000, 3000)
    size[2000] = 4 << 20
    content = rng.bytes(int(size.sum()))
    (tmp_path / "shard").write_bytes(content)
    offset = np.cumsum(size) - size
    for group in range(1, 10):
        records = np.stack([offset, size, size])[:, group::10]
        parts = list(read_place(str(tmp_path / "shard"), Place("train", 0, records), "preprocess again"))
        assert b"".join(parts) == b"".join(content[at : at + many] for at, many, _ in records.T)
        assert len(parts) <= 4  # edges of 8 MB, and the gap
    (tmp_path / "shard").write_bytes(content[:-1])
    with pytest.raises(JobFailed, match=f"ends before byte {len(content)}: it changed; preprocess again"):
        list(read_place(str(tmp_path / "shard"), Place("train", 0, records), "preprocess again"))


def test_places_tell_bytes_and_rows(fleet):
    for split, info in fleet.manifest.splits.items():
        places = [place for group in groups_of(fleet).values() for place in group.places if place.split == split]
        for number, shard in enumerate(info.shards):
            of_shard = np.concatenate([place.records for place in places if place.shard == number], axis=1)
            assert (of_shard[SIZE].sum(), of_shard[ROWS].sum()) == (shard.bytes, shard.rows)


def test_a_shard_that_is_cut_off_is_told(fleet, tmp_path):
    manifest, group = fleet.manifest, groups_of(fleet)["a"]
    (path,) = [fleet.output / manifest.data / "train" / "part-00000-of-00003.tfrecord"]
    short = tmp_path / "short"
    short.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(JobFailed, match=r"short: damaged: record \d+, byte \d+: the file ends 7 bytes before its end"):
        scan_groups(str(short), manifest, key_field(manifest, "asset"))
    paths = {split: [str(short)] * 3 for split in manifest.splits}
    with pytest.raises(JobFailed, match=r"it changed; preprocess again"):
        write_dataset(str(tmp_path / "out"), manifest, paths, "asset", group)


@pytest.mark.parametrize("name", ["region", "values", "start"])
def test_what_is_no_key_is_refused(fleet, name):
    with pytest.raises(UserError, match=rf"--by {name}: dataset test has no such key .*\(it can be asset\)"):
        key_field(fleet.manifest, name)


def test_partitions_are_groups(fleet):
    text = json.loads(fleet.manifest.model_dump_json())
    for number in range(3):
        text["splits"]["train"]["shards"].setdefault("folder", []).append(f"country={('DE', 'a%2Fb', 'DE')[number]}")
    for split in ("eval", "test"):
        text["splits"][split]["shards"]["folder"] = ["country=DE"] * 3
    manifest = type(fleet.manifest).model_validate(text)
    shards = manifest.splits["train"].shards
    found = {group.name: group.windows for group in partitions(manifest, "country")}
    assert found["a/b"] == ({"train": shards[1].windows} if shards[1].windows else {})
    assert found["DE"]["train"] == shards[0].windows + shards[2].windows
    assert partitions(manifest, "region") is None
