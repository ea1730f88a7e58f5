"""Which files of a folder are shards, and which split each is in."""

import foreign
import pytest

from beamfeed.contract import storage
from beamfeed.contract.errors import UserError
from beamfeed.transforms.adopt.files import deal, list_shards, named_split, partition_of
from beamfeed.transforms.adopt.request import Request


def request(**what):
    return Request("lake", "lake", "lake", **what)


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("train/part-0.tfrecord", "train"),
        ("flowers-train.tfrecord-00000-of-00002", "train"),
        ("flowers-validation.tfrecord-00000-of-00002", "eval"),
        ("Split-eval/data_tfrecord-00000-of-00001.gz", "eval"),
        ("split=test/country=DE/part-r-00000", "test"),
        ("test_data/train_3.tfrecord", "train"),
        ("2024/val/x", "eval"),
        ("trainer/contest.tfrecord", None),
        ("train-test/part-0", None),
        ("a/part-0", None),
    ],
)
def test_names_tell_splits(path, split):
    assert named_split(path) == split


def test_partitions_are_the_folders_with_a_key():
    assert partition_of("country=DE/split=train/kind=a%2Fb/part-0") == "country=DE/kind=a%2Fb"
    assert partition_of("a/part=0.tfrecord") == ""


def test_files_are_known_by_how_they_begin(tmp_path):
    foreign.write(tmp_path / "a" / "noname", [b"x"])
    foreign.write(tmp_path / "b.gz", [b"x"], "GZIP")
    foreign.write(tmp_path / "_temporary" / "c.tfrecord", [b"x"])
    foreign.write(tmp_path / "empty.gz", [], "GZIP")
    (tmp_path / "d.tfrecord").write_bytes(b"this is none, but its name says so")
    (tmp_path / "notes.txt").write_text("some notes")
    (tmp_path / "packed.gz").write_bytes(b"\x1f\x8b not really")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "part-r-00003").touch()
    folder = str(tmp_path)
    found = list_shards(folder)
    assert [storage.below(stat.path, [folder]) for stat in found.shards] == [
        "a/noname",
        "b.gz",
        "d.tfrecord",
        "empty.gz",
    ]
    assert (found.empty, found.others) == (1, 2)


def test_a_folder_without_any(tmp_path):
    with pytest.raises(UserError, match="is not a folder with files"):
        list_shards(str(tmp_path))
    (tmp_path / "notes.txt").write_text("some notes")
    with pytest.raises(UserError, match="holds no TFRecord file"):
        list_shards(str(tmp_path))
    with pytest.raises(UserError, match="is not a folder with files"):
        list_shards(str(tmp_path / "notes.txt"))


def test_globs_and_what_is_wrong_with_them():
    paths = ["2022/a", "2022/b", "2023/a"]
    dealt = deal(paths, request(splits={"train": "2022/*", "eval": "2023/*"}))
    assert dealt.splits == {"2022/a": "train", "2022/b": "train", "2023/a": "eval"}
    assert "1 files are in none" in deal(paths, request(splits={"train": "2022/*"})).how
    with pytest.raises(UserError, match=r"--split eval=2024/\*: no file fits \(there is 2022/a\)"):
        deal(paths, request(splits={"train": "2022/*", "eval": "2024/*"}))
    with pytest.raises(UserError, match="2022/a is in train as well"):
        deal(paths, request(splits={"train": "2022/*", "eval": "*/a"}))


def test_names_deal_files_out_and_those_without_one_are_left():
    dealt = deal(["train/a", "val/a", "extra/a"], request())
    assert dealt.splits == {"train/a": "train", "val/a": "eval"}
    assert "1 files whose names give no split are in none" in dealt.how


def test_a_hash_deals_out_what_has_no_names():
    paths = [f"part-{number}" for number in range(10)]
    dealt = deal(paths, request())
    assert set(dealt.splits.values()) == {"train", "eval", "test"}
    assert deal(paths[::-1], request()).splits == dealt.splits
    halves = deal(paths, request(splits={"eval": 0.5}))
    assert set(halves.splits.values()) == {"train", "eval"}
    assert deal(paths[:2], request()).splits == {"part-0": "train", "part-1": "train"}
    with pytest.raises(UserError, match="there are 1 files for 2 splits"):
        deal(paths[:1], request(splits={"eval": 0.5}))
    with pytest.raises(UserError, match="must add up to 1"):
        deal(paths, request(splits={"train": 0.5, "eval": 0.2}))
