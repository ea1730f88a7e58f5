"""A dataset that has grown is compacted: the same windows in fewer shards, or without those that are too old."""

import os

import numpy as np
import pytest

from beamfeed.contract.dataset.manifest import Shard, find_manifest
from beamfeed.launcher.cli import main as command
from beamfeed.trainer.feed.batching import Batching
from beamfeed.trainer.numpy_feed.batches import BatchReader
from beamfeed.trainer.tools.verify_dataset import verify
from beamfeed.transforms.compact import plan_merges
from tests.fleets import Fleet, make_table
from tests.tables import Lake
from tests.tables import make_table as make_lake

SPLITS = ("train", "eval", "test")


def shard(size, folder=""):
    return Shard(records=1, windows=1, rows=1, bytes=size, crc32c="0" * 8, folder=folder)


@pytest.mark.parametrize(
    ("sizes", "count", "merged"),
    [
        ([10, 10, 1, 1, 1, 1], 4, [(0,), (1,), (2, 3, 4, 5)]),  # a usual shard has 6
        ([1] * 8, 2, [(0, 1, 2, 3), (4, 5, 6, 7)]),
        ([1, 1, 9, 1, 1], 2, [(0, 1), (2,), (3, 4)]),
        ([5], 1, [(0,)]),
        ([], 3, []),
        ([0, 0, 4], 1, [(0, 1), (2,)]),
        ([0, 0], "auto", [(0, 1)]),  # of a split in which no asset has a window
    ],
)
def test_small_neighbours_become_one_and_large_shards_stay(sizes, count, merged):
    assert [tuple(merge) for merge in plan_merges([shard(size) for size in sizes], count)] == merged


def test_shards_of_partitions_are_merged_by_themselves():
    shards = [shard(1, folder) for folder in ("c=a", "c=b", "c=a", "c=b")]
    assert plan_merges(shards, "auto") == [[0, 2], [1, 3]]


def lake_of(folder, days, **job):
    lake = Lake(folder)
    lake.job["output"] |= {"grow": True, "shards": 1, **job.pop("output", {})}
    lake.job |= {"label": {"column": "fraud", "classes": "auto"}, **job}
    for day in range(days):
        lake.write(f"{day}.parquet", make_lake(300, seed=day))
        assert lake.preprocess() == 0
    return lake


def epoch_of(output, split="train", seed=4):
    """The values of an epoch of a training run, in order."""
    batching = Batching(batch_size=16, seed=seed, shuffle=200)
    return [batch.fields for batch in BatchReader(str(output), split, batching, ["row", "numbers"]).read()]


def assert_equal_epochs(one, other):
    assert len(one) == len(other) > 0
    for batch, like in zip(one, other, strict=True):
        for name, values in batch.items():
            np.testing.assert_array_equal(values, like[name])


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_the_same_windows_in_the_same_order_and_fewer_shards(tmp_path, capfd, compression):
    lake = lake_of(tmp_path, 3, output={"compression": compression})
    before = find_manifest(str(lake.output))
    epochs = {split: epoch_of(lake.output, split) for split in SPLITS}
    capfd.readouterr()
    assert command(["compact", str(tmp_path / "job.yaml")]) == 0
    assert "train: 3 shards are 1 now" in capfd.readouterr().out
    after = find_manifest(str(lake.output))
    assert {len(info.shards) for info in after.splits.values()} == {1}
    kept = {"data", "previous", "older", "base", "splits"}
    assert after.model_dump(exclude=kept) == before.model_dump(exclude=kept)
    for split in SPLITS:
        assert_equal_epochs(epoch_of(lake.output, split), epochs[split])
    assert verify(after, str(lake.output)) == []
    assert verify(before, str(lake.output)) == []  # who still reads it can
    assert command(["compact", str(tmp_path / "job.yaml")]) == 0
    assert "Nothing to do" in capfd.readouterr().out
    if compression == "gzip":  # on which what follows does not hang
        return
    assert lake.preprocess() == 0
    assert find_manifest(str(lake.output)) == after  # complete, with the same files
    if compression == "gzip":  # what comes now reads none of these shards' records
        return
    for day in (3, 4):
        lake.write(f"{day}.parquet", make_lake(300, seed=day))
        assert lake.preprocess() == 0
    grown = find_manifest(str(lake.output))
    assert [one.files for one in grown.increments] == [1] * 5
    assert verify(grown, str(lake.output)) == []
    whole = {path.name for path in lake.output.iterdir() if (path / "schema.pbtxt").exists()}
    assert whole == {grown.data, grown.base[0]}
    os.utime(lake.files / "4.parquet", ns=(1, 1))
    assert lake.preprocess() == 0  # the last run is done again, on what was compacted
    again = find_manifest(str(lake.output))
    assert verify(again, str(lake.output)) == []
    assert again.increments[:-1] == grown.increments[:-1]
    assert {name: (info.windows, info.targets) for name, info in again.splits.items()} == {
        name: (info.windows, info.targets) for name, info in grown.splits.items()
    }
    os.utime(lake.files / "1.parquet", ns=(1, 1))
    capfd.readouterr()
    assert lake.preprocess() == 0
    assert "as it was, and beamfeed compact has merged what its run added with others" in capfd.readouterr().out


@pytest.mark.slow
def test_partitions_are_compacted_in_another_order_which_no_half_done_training_goes_on_with(tmp_path):
    lake = lake_of(tmp_path, 3, output={"partition_by": ["kind"]})
    before, rows = find_manifest(str(lake.output)), {split: set(lake.rows(split)) for split in SPLITS}
    assert command(["compact", str(tmp_path / "job.yaml"), "--json"]) == 0
    after = find_manifest(str(lake.output))
    assert after.fingerprint != before.fingerprint
    for split, info in after.splits.items():
        folders = [shard.folder for shard in info.shards]
        assert folders == sorted(folders)
        assert len(folders) < len(before.splits[split].shards)
        assert set(lake.rows(split)) == rows[split]
    assert verify(after, str(lake.output)) == []
    assert lake.preprocess() == 0
    assert find_manifest(str(lake.output)) == after
    lake.write("9.parquet", make_lake(300, seed=9))
    assert lake.preprocess() == 0
    assert find_manifest(str(lake.output)).grows == after.grows


def test_a_compaction_that_fails_leaves_the_dataset(tmp_path, monkeypatch, capfd):
    from beamfeed.pipelines.compact import main
    from beamfeed.transforms import compact

    lake = lake_of(tmp_path, 3)
    before, names = find_manifest(str(lake.output)), sorted(os.listdir(lake.output))
    with monkeypatch.context() as patch:
        patch.setattr(compact, "replace_manifest", lambda *_: 1 / 0)
        assert main(["--job", str(tmp_path / "job.yaml"), "--", "--direct_num_workers=1"]) == 1
    assert find_manifest(str(lake.output)) == before
    assert sorted(os.listdir(lake.output)) == names
    shard = lake.output / before.splits["train"].shards[1].file
    content = bytearray(shard.read_bytes())
    content[100] ^= 1
    shard.write_bytes(content)
    capfd.readouterr()
    assert main(["--job", str(tmp_path / "job.yaml")]) == 1
    assert f"{shard}: cannot be read: record" in capfd.readouterr().err
    assert find_manifest(str(lake.output)) == before
    assert lake.preprocess() == 0  # which removes what workers that were slower than the failure may have written
    assert sorted(os.listdir(lake.output)) == names


DAYS = 3


def fleet_of(folder, **job):
    """A fleet of six assets whose rows came day by day, but for two: one came late, and one ended early."""
    fleet = Fleet(folder)
    del fleet.job["train"]
    fleet.job["source"]["asset"] = {"from": "path", "pattern": "(?P<asset>[^/]+)/[^/]+$"}
    fleet.job["output"] |= {"grow": True, "records": "windows", "keep": 150}
    fleet.job |= {"prepare": {"scale": {"how": "none"}}, "split": {"seed": 3, "train": 0.6, "eval": 0.2, "test": 0.2}}
    fleet.job["label"] = {"column": "x1", "at": "end"}
    for day in range(DAYS):
        for seed, name in enumerate("abcdef"):
            if (name, day) not in (("f", 0), ("e", 1), ("e", 2)):
                fleet.write(f"{name}/{day}.parquet", make_table(600, seed=seed)[100 * day : 100 * day + 100])
        assert fleet.preprocess() == 0
    return fleet


def held(fleet):
    return {
        (split, name, start): values
        for split in SPLITS
        for name, windows in fleet.windows(split).items()
        for start, values in windows.items()
    }


@pytest.mark.slow
def test_what_is_older_than_it_keeps_goes_and_series_go_on(tmp_path, capfd):
    fleet = fleet_of(tmp_path)
    before, windows = fleet.manifest, held(fleet)
    job = str(tmp_path / "job.yaml")
    capfd.readouterr()
    assert command(["compact", job]) == 0
    length = fleet.job["windows"]["length"]
    since = 100 * DAYS - 1 - 150
    late = {"f": 100}  # the time of its first row
    stay = {at: values for at, values in windows.items() if late.get(at[1], 0) + at[2] + length - 1 >= since}
    gone = sum(place[0] == "train" and place not in stay for place in windows)
    assert f"train: {len(before.splits['train'].shards)} shards are" in (printed := capfd.readouterr().out)
    assert f", without {gone} windows from before {since}" in printed
    after = fleet.manifest
    assert after.fingerprint != before.fingerprint
    assert after.counts == before.counts  # of what was found in files
    assert verify(after, str(fleet.output)) == []

    tables = {name: make_table(600, seed=seed).to_pandas() for seed, name in enumerate("abcdef")}

    def rows_of(place):
        first = late.get(place[1], 0) + place[2]
        return tables[place[1]][first : first + length]

    def check(expected):
        found = held(fleet)
        assert found.keys() == expected.keys()
        for place, values in expected.items():
            np.testing.assert_array_equal(found[place], values)
        for split, info in fleet.manifest.splits.items():
            ends = [rows_of(place)["x1"].iloc[-1] for place in expected if place[0] == split]
            assert info.windows == len(ends)
            assert info.assets == len({place[1] for place in expected if place[0] == split})
            (target,) = info.targets.values()
            assert (target.mean, target.max) == pytest.approx((np.mean(ends), max(ends)) if ends else (None, None))

    check(stay)
    assert fleet.preprocess() == 0
    assert fleet.manifest == after  # complete
    fleet.write("e/late.parquet", make_table(600, seed=4)[100 * DAYS : 100 * DAYS + 1])  # which ends no window
    assert fleet.preprocess() == 0
    assert fleet.manifest.counts.rejected_assets == 0
    check(stay)
    after = fleet.manifest
    for day in range(DAYS - 1):  # files that are gone take nothing with them
        for path in fleet.files.glob(f"*/{day}.parquet"):
            path.unlink()
    capfd.readouterr()
    assert fleet.preprocess() == 0
    assert "is complete" in capfd.readouterr().out
    assert fleet.manifest == after
    for name in "abcdf":
        fleet.write(f"{name}/{DAYS}.parquet", make_table(600, seed="abcdef".index(name))[100 * DAYS : 100 * DAYS + 100])
    capfd.readouterr()
    assert fleet.preprocess() == 0
    assert "assets go on" in capfd.readouterr().out
    splits = {name: split for split, name, _ in windows}
    for name in "abcdf":
        for end in range(100 * DAYS, 100 * (DAYS + 1)):  # of the last row of a window
            place = splits[name], name, end - length + 1 - late.get(name, 0)
            if place[2] % fleet.job["windows"]["stride"] == 0:
                stay[place] = rows_of(place)[fleet.manifest.features].to_numpy(np.float32)
    check(stay)
    grown = fleet.manifest
    fleet.write(f"e/{DAYS}.parquet", make_table(600, seed=4)[100 * DAYS :])
    capfd.readouterr()
    assert fleet.preprocess() == 2  # its rows before that are gone
    message = capfd.readouterr().err
    assert "output.keep: all files have to be prepared again, as" in message
    assert (
        "e/0.parquet is gone, which holds the rows before new ones; but what files held that are gone would be lost"
        in message
    )
    assert fleet.manifest == grown
    (fleet.files / "e" / f"{DAYS}.parquet").unlink()
    assert fleet.preprocess("windows.stride=3") == 2
    message = capfd.readouterr().err
    assert "as keys of the job changed, or another version of Beamfeed made the dataset; but what files held" in message
    assert fleet.manifest == grown
    fleet.write("z/0.parquet", make_table(50, t=np.arange(50) + 10**6))
    assert fleet.preprocess() == 0
    grown = fleet.manifest
    assert command(["compact", job]) == 1  # one wrong clock lets nothing go
    message = capfd.readouterr().err
    assert "would be left, as the newest row, of asset z, is from 1000049; nothing was changed" in message
    assert fleet.manifest == grown
    assert verify(grown, str(fleet.output)) == []


def test_files_of_the_last_run_that_are_gone_take_nothing_with_them(tmp_path, capfd):
    fleet = fleet_of(tmp_path)
    windows = held(fleet)
    (fleet.files / "a" / f"{DAYS - 1}.parquet").unlink()
    path = fleet.files / "b" / f"{DAYS - 1}.parquet"
    os.utime(path, ns=(1, 1))
    assert fleet.preprocess() == 0
    assert "1 asset is prepared again" in capfd.readouterr().out  # the run is not done again, without that file
    assert held(fleet).keys() == windows.keys()
