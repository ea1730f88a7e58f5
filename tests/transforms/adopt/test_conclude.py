"""What all shards together come to: splits, types, notes. Of files that TensorFlow wrote, in one process."""

import foreign
import pytest
from foreign import example, sequence_example

from beamfeed.contract import storage
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.transforms.adopt import scan
from beamfeed.transforms.adopt.conclude import conclude, fingerprint_of
from beamfeed.transforms.adopt.files import list_shards
from beamfeed.transforms.adopt.request import Request
from beamfeed.transforms.adopt.scan import scan_or_reject
from beamfeed.transforms.tfds.read import Described, Hint


def adopt(folder, described=Described(), **what) -> Manifest:
    request = Request(str(folder), str(folder), "lake", **what)
    candidates = list_shards(request.folder)
    found = [scan_or_reject(stat, request.watched) for stat in candidates.shards]
    return conclude(request, candidates, found[::-1], described, "f" * 64).manifest


def write(folder, name, *rows, compression=""):
    return foreign.write(folder / name, [example(row) for row in rows], compression)


def test_splits_of_tensorflow_datasets(tmp_path):
    for split, rows in (("train", 3), ("validation", 2), ("unsupervised", 1)):
        write(tmp_path, f"train_set-{split}.tfrecord-00000-of-00001", *[{"x": 1.0, "y": n} for n in range(rows)])
    templates = dict.fromkeys(("train", "validation", "unsupervised"), "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}")
    described = Described("train_set", {"y": Hint((), ("a", "b", "c"), role="target")},
                          {"train": 3, "validation": 5, "unsupervised": 1}, templates)  # fmt: skip
    manifest = adopt(tmp_path, described)
    assert {name: info.windows for name, info in manifest.splits.items()} == {"train": 3, "eval": 2, "test": 0}
    assert manifest.field("y").classes == ["a", "b", "c"]
    assert manifest.notes == [
        "splits: those of tensorflow-datasets (train is train, validation is eval)",
        "split 'unsupervised' of tensorflow-datasets is none of train, eval, test: left out",
        "split 'validation': 2 records, dataset_info.json says 5",
    ]


def test_a_packed_record_of_more_than_is_read_sets_its_file_aside(tmp_path, monkeypatch):
    """A record of zeros that fills the memory is packed into a thousandth."""
    monkeypatch.setattr(scan, "PACKED_BYTES", 1000)
    for name, compression in (("packed", "GZIP"), ("plain", "")):
        write(tmp_path, f"{name}.tfrecord", {"x": bytes(2000)}, compression=compression)
    packed, plain = (scan_or_reject(stat, frozenset()) for stat in list_shards(str(tmp_path)).shards)
    assert (packed.place, plain.records) == ("record 0, byte 0", 1)
    assert "of a packed file it must have 1,000 at most" in packed.reason


def test_targets_are_counted_by_split(tmp_path):
    write(tmp_path, "train.tfrecord", *[{"y": n % 3, "z": float(n)} for n in range(8)])
    write(tmp_path, "test.tfrecord", {"y": 2, "z": 5.0})
    manifest = adopt(tmp_path, targets=("y", "z"), classes={"y": ()})
    train, test = manifest.splits["train"].targets, manifest.splits["test"].targets
    assert (train["y"].counts, test["y"].counts) == ([3, 3, 2], [0, 0, 1])
    assert (train["z"].mean, train["z"].min, train["z"].max, test["z"].std) == (3.5, 0, 7, 0)


def test_what_is_left_out_is_told(tmp_path):
    write(tmp_path, "train.tfrecord", {"x": 1.0})
    foreign.write(tmp_path / "eval.tfrecord", [b""])
    (tmp_path / "about.md").write_text("about")
    (tmp_path / "part-00001").touch()
    notes = adopt(tmp_path).notes
    assert "files without a record: 2" in notes
    assert "files that hold no TFRecords: 1" in notes


def test_types_go_by_most_records(tmp_path):
    write(tmp_path, "train-0.tfrecord", {"x": 1}, {"x": 2})
    write(tmp_path, "train-1.tfrecord", *[{"x": 1.0}] * 3)
    write(tmp_path, "train-2.tfrecord", {"x": 1.0}, {"x": b"text"})
    manifest = adopt(tmp_path)
    assert manifest.field("x").dtype == "float32"
    assert manifest.counts.rejected_files == 2
    assert [shard.file for shard in manifest.splits["train"].shards] == ["train-1.tfrecord"]


def test_a_feature_may_be_missing_from_whole_files(tmp_path):
    write(tmp_path, "train-0.tfrecord", {"x": 1.0, "y": 3})
    write(tmp_path, "train-1.tfrecord", {"x": 2.0})
    assert adopt(tmp_path).field("y").shape == (None,)
    assert adopt(tmp_path, defaults={"y": 0}).field("y").default == 0


def test_what_is_wrong_with_all_of_them(tmp_path):
    write(tmp_path, "test.tfrecord", {"x": 1.0})
    with pytest.raises(UserError, match=r"no file is in the split train .*; --split train=GLOB says which ones are"):
        adopt(tmp_path)
    write(tmp_path, "train.tfrecord", {"x": 1.0}, compression="GZIP")
    with pytest.raises(UserError, match=r"1 files are compressed and 1 are not \(.*train.tfrecord is, "):
        adopt(tmp_path)
    for name in ("test", "train"):
        foreign.write(tmp_path / f"{name}.tfrecord", [b"no protobuf at all"])
    with pytest.raises(JobFailed, match=r"none of 2 files can be used: .*test.tfrecord: record 0: no tf.train.Example"):
        adopt(tmp_path)


def test_the_fingerprint_is_of_the_files_and_of_what_was_asked_for(tmp_path):
    path = write(tmp_path, "train.tfrecord", {"x": 1.0})
    files = [storage.stat(str(path))]
    request = Request(str(tmp_path), str(tmp_path), "lake")
    nothing = Described()
    first = fingerprint_of(request, files, nothing)
    assert fingerprint_of(request, files, nothing) == first
    assert fingerprint_of(Request(str(tmp_path), "elsewhere", "lake"), files, nothing) != first
    assert fingerprint_of(Request(str(tmp_path), str(tmp_path), "lake", keys=("x",)), files, nothing) != first
    assert fingerprint_of(request, files, Described(hints={"x": Hint((1,))})) != first
    write(tmp_path, "train.tfrecord", {"x": 1.0}, {"x": 1.0})
    assert fingerprint_of(request, [storage.stat(str(path))], nothing) != first


def test_a_target_and_a_feature_list_of_one_name_are_two(tmp_path):
    records = [sequence_example({"y": n % 2}, {"y": [[0.5]] * n, "n": [[n]]}) for n in (1, 2, 3)]
    foreign.write(tmp_path / "train-0", records)
    manifest = adopt(tmp_path, targets=("y",), classes={"y": ()})
    told = {field.name: (field.role, field.dtype, field.in_records) for field in manifest.fields}
    assert told == {"n": ("input", "int64", "n"), "y": ("target", "int64", "y"), "y_2": ("input", "float32", "y")}
    assert manifest.splits["train"].targets["y"].counts == [1, 2]
