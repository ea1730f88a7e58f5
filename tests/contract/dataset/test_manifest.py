"""The manifest: what is written is read, it stays small, and other versions are told apart."""

import json

import datasets
import numpy as np
import pytest

from beamfeed.contract import storage
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import (
    OldFormat,
    Shard,
    SplitInfo,
    find_fingerprint,
    find_manifest,
    find_replaceable,
    read_manifest,
    write_manifest,
)
from beamfeed.contract.dataset.published import leftovers, read_complete
from beamfeed.contract.errors import UserError

FIELDS = [
    Field(name="values", dtype="float32", shape=(2,), role="input", columns=["a", "b"]),
    Field(name="label", dtype="int64", role="target", per="window", classes=["no", "yes"]),
]


@pytest.fixture
def written(tmp_path):
    """A dataset of two shards, and its folder."""
    record = {"values": np.ones((5, 2), "f4"), "label": [0, 1, 1]}
    output = str(tmp_path)
    manifest = datasets.write_dataset(
        output, FIELDS, {"train": [[record, record], [record]], "eval": [[record]], "test": []}, Windows(length=3)
    )
    return output, manifest


def test_what_is_written_is_read(written):
    output, manifest = written
    assert find_manifest(output) == read_manifest(output) == manifest
    assert manifest.features == ["a", "b"]
    assert manifest.field("label").classes == ["no", "yes"]
    assert manifest.splits["train"].targets["label"].counts == [3, 6]
    assert read_complete(output, "f" * 64) == manifest
    assert read_complete(output, "e" * 64) is None
    assert find_fingerprint(output) == "f" * 64


def test_an_unknown_field_is_told_with_those_there_are(written):
    with pytest.raises(UserError, match=r"has no field 'lable'; did you mean 'label'\? \(it has: values, label\)"):
        written[1].field("lable")


@pytest.mark.parametrize("name", ["train/part-00001-of-00002.tfrecord", "train/blocks.parquet"])
def test_a_dataset_with_a_hole_is_not_complete(written, tmp_path, name):
    output, manifest = written
    (tmp_path / manifest.data / name).unlink()
    assert read_complete(output, "f" * 64) is None


def test_a_shard_of_another_size_is_not_complete(written, tmp_path):
    output, manifest = written
    path = tmp_path / manifest.data / "train/part-00001-of-00002.tfrecord"
    path.write_bytes(path.read_bytes()[:-1])
    assert read_complete(output, "f" * 64) is None


def adopted(written, folder):
    """The manifest as if its shards were of others, in this folder."""
    manifest = written[1]
    splits = {
        name: info.model_copy(
            update={"shards": [shard.model_copy(update={"file": f"{name}/{place}"})
                               for place, shard in enumerate(info.shards)]}
        )
        for name, info in manifest.splits.items()
    }  # fmt: skip
    return manifest.model_copy(update={"adopted": folder, "splits": splits})


def test_shards_of_others_are_asked_for_and_what_is_beside_them_is_not_listed(written, tmp_path, monkeypatch):
    manifest = adopted(written, str(tmp_path / "lake"))
    paths = [path for name in ("train", "eval") for path in manifest.shard_paths("out", name)]
    for path in paths[:2]:
        storage.write_text(path, path)
    monkeypatch.setattr("beamfeed.contract.storage.files.match", None)
    monkeypatch.setattr(storage, "match", None)
    found = manifest.list_shards("out", "train", "eval")
    assert {path: stat.size for path, stat in found.items()} == {path: len(path) for path in paths[:2]}
    assert manifest.list_shards("out", "test") == {}


@pytest.mark.parametrize(("most", "expected"), [(1000, {"stat": 3, "match": 0}), (2, {"stat": 0, "match": 1})])
def test_very_many_shards_of_others_in_a_bucket_are_listed_once(written, monkeypatch, most, expected):
    manifest = adopted(written, "gs://bucket/lake")
    seen = {"stat": 0, "match": 0}

    def stat(path):
        seen["stat"] += 1
        if path.endswith("train/1"):
            raise FileNotFoundError(path)
        return storage.FileStat(path, 1, 0)

    def match(folder, suffixes):
        seen["match"] += 1
        assert (folder, suffixes) == ("gs://bucket/lake", ("",))
        return [storage.FileStat(f"{folder}/{name}", 1, 0) for name in ("train/0", "eval/0", "notes")]

    for name, one in (("MOST_STATS", most), ("stat", stat), ("match", match)):
        monkeypatch.setattr(f"beamfeed.contract.storage.files.{name}", one)
    found = manifest.list_shards("out", "train", "eval")
    assert {"gs://bucket/lake/train/0", "gs://bucket/lake/eval/0"} == set(found) - {"gs://bucket/lake/notes"}
    assert seen == expected


def test_shards_stand_as_columns_in_the_file(written, tmp_path):
    shards = json.loads((tmp_path / "manifest.json").read_text())["splits"]["train"]["shards"]
    assert list(shards) == ["records", "windows", "rows", "bytes", "crc32c"]
    assert shards["records"] == [2, 1]
    assert shards["rows"] == [10, 5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda shards: shards.pop("rows"), "must hold the lists records, windows, rows, bytes, crc32c"),
        (lambda shards: shards.update(more=[1, 2]), "must hold the lists"),
        (lambda shards: shards.update(rows=3), "must hold the lists"),
        (lambda shards: shards.update(rows=[1]), "its lists differ in length"),
    ],
)
def test_columns_that_do_not_fit_are_told_in_one_line(written, tmp_path, change, message):
    found = json.loads((tmp_path / "manifest.json").read_text())
    change(found["splits"]["train"]["shards"])
    (tmp_path / "manifest.json").write_text(json.dumps(found))
    with pytest.raises(
        UserError, match=rf"is not a manifest of this version: splits.train.shards: .*{message}"
    ) as caught:
        find_manifest(written[0])
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("place", "path"),
    [
        (("data",), "../../etc"),
        (("data",), "/etc"),
        (("previous",), "gs://other/data-0"),
        (("splits", "train", "shards", "folder"), ["a=1", "../../../home"]),
        (("splits", "train", "shards", "file"), ["a.tfrecord", "/etc/passwd"]),
    ],
)
def test_a_path_that_leads_out_of_the_dataset_is_refused(written, tmp_path, place, path):
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    *parents, last = place
    section = manifest
    for parent in parents:
        section = section[parent]
    section[last] = path
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="leads out of the dataset's folder") as caught:
        find_manifest(written[0])
    assert len(str(caught.value).splitlines()) == 1


def test_a_manifest_of_terabytes_stays_small(written, tmp_path):
    _, manifest = written
    shards = [
        Shard(records=2_000 + i % 97, windows=61_000 + i % 89, rows=4_194_304, bytes=134_217_728 + i, crc32c="89abcdef")
        for i in range(13_411)
    ]
    split = SplitInfo(assets=60_000, windows=1, records=1, bytes=1, shards=shards)
    write_manifest(str(tmp_path), manifest.model_copy(update={"splits": {**manifest.splits, "train": split}}))
    assert (tmp_path / "manifest.json").stat().st_size < 1_000_000
    assert read_manifest(str(tmp_path)).splits["train"].shards == shards


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ('{"format": 2, "data": "data-0123", "features": ["a"]}', "data-0123"),
        ('{"format": 5, "data": "data-0123"}', "data-0123"),
        ('{"format": 2, "data": "/etc"}', None),  # nothing but a folder of data is kept, or removed, by that name
        ('{"format": 2}', None),
    ],
)
def test_another_version_is_refused_by_readers_and_replaced_by_writers(tmp_path, text, data):
    output = str(tmp_path)
    storage.write_text(f"{output}/manifest.json", text)
    for reader in (find_manifest, read_manifest):
        with pytest.raises(OldFormat, match=r"is of format \d, this version reads format 4; preprocess it again$"):
            reader(output)
    assert find_replaceable(output) == (None, data)
    assert read_complete(output, "f" * 64) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 4}', b'{"format": "2"}', b"[" * 99_999, b'{"\xff"'])
def test_what_is_no_manifest_is_refused_by_all(tmp_path, content):
    (tmp_path / "manifest.json").write_bytes(content)
    for reader in (find_manifest, find_replaceable):
        with pytest.raises(UserError, match="is not a manifest") as caught:
            reader(str(tmp_path))
        assert not isinstance(caught.value, OldFormat)
        assert len(str(caught.value).splitlines()) == 1


def test_no_dataset_is_none(tmp_path):
    assert find_manifest(str(tmp_path)) is None
    assert find_replaceable(str(tmp_path)) == (None, None)
    with pytest.raises(UserError, match=r"there is no dataset \(no manifest.json\)"):
        read_manifest(str(tmp_path))


def test_what_belongs_to_no_dataset_is_left_over(written, tmp_path):
    output, manifest = written
    manifest = manifest.model_copy(update={"previous": "data-before"})
    for name in ("data-before", "data-older", f"{manifest.data}/tmp/x"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / f"{manifest.data}/tmp/x/file").touch()
    (tmp_path / "manifest.json.tmp-1").touch()
    assert sorted(path.removeprefix(f"{output}/") for path in leftovers(output, manifest)) == [
        f"{manifest.data}/tmp", "data-older", "manifest.json.tmp-1",
    ]  # fmt: skip
