"""The files with which tensorflow-datasets reads a dataset; what it makes of them is in test_library.py."""

import json

import pytest

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Counts, Manifest, Shard, SplitInfo
from beamfeed.transforms.tfds.read import Hint, describe
from beamfeed.transforms.tfds.write import dataset_name, tfds_files

FIELDS = [
    Field(name="values", dtype="float32", shape=(3,), role="input"),
    Field(name="pixels", dtype="uint8", shape=(2, 2), role="key"),
    Field(name="tokens", dtype="int64", shape=(None,), role="key"),
    Field(name="photo", dtype="bytes", role="key", content="image"),
    Field(name="name", dtype="bytes", role="key"),
    Field(name="label", dtype="int64", role="target", classes=["a", "b c"]),
]


def manifest(fields=FIELDS, windows=4, records=4, length=1, **what):
    shards = [Shard(records=records, windows=windows, rows=4, bytes=10, crc32c="0" * 8, **what)]
    info = SplitInfo(assets=1, windows=windows, records=records, bytes=10, shards=shards)
    nothing = SplitInfo(assets=0, windows=0, records=0, bytes=0, shards=[])
    return Manifest(
        name="My-Fleet", kind="any", fingerprint="f" * 64, data="data-f", fields=fields, windows=Windows(length=length),
        records="windows", compression="none", splits={"train": info, "eval": nothing},
        counts=Counts(files=1, assets=1, rejected_assets=0, rejected_files=0, rows_read=4),
    )  # fmt: skip


def test_what_is_written_is_what_is_read(tmp_path):
    for name, text in tfds_files(manifest()).items():
        (tmp_path / name).write_text(text)
    found = describe(str(tmp_path))
    assert (found.name, found.splits) == ("my_fleet", {"train": 4})
    assert found.split_of("train/part-00000-of-00001.tfrecord") == "train"
    assert dict(found.hints) == {
        "values": Hint((3,), role="input"),
        "pixels": Hint((2, 2), raw="uint8", role="key"),
        "tokens": Hint((None,), role="key"),
        "photo": Hint((), content="image", role="key"),
        "name": Hint((), role="key"),
        "label": Hint((), ("a", "b c"), role="target"),
    }


def test_windows_of_rows_have_their_length():
    features = json.loads(tfds_files(manifest(FIELDS[:1], length=8))["features.json"])
    shape = features["featuresDict"]["features"]["values"]["tensor"]["shape"]
    assert shape == {"dimensions": ["8", "3"]}


@pytest.mark.parametrize(
    "other",
    [
        manifest(windows=9),
        manifest(folder="country=DE"),
        manifest().model_copy(update={"compression": "gzip"}),
        manifest().model_copy(update={"adopted": ""}),
        manifest([FIELDS[2]], length=2),
        manifest([FIELDS[1]], length=2),
    ],
)
def test_nothing_is_written_where_it_could_not_be_read(other):
    assert tfds_files(other) == {}


def test_names():
    assert [dataset_name(name) for name in ("a", "Fleet-2.1", "3d")] == ["a", "fleet_2_1", "d_3d"]
