"""features.json and dataset_info.json, as tensorflow-datasets writes them, read without it."""

import json

import pytest

from beamfeed.contract.errors import UserError
from beamfeed.transforms.tfds.read import Hint, describe

OF = "tensorflow_datasets.core.features"


def tensor(dtype, *size, encoding="none"):
    shape = {"dimensions": [str(one) for one in size]} if size else {}
    return {
        "pythonClassName": f"{OF}.tensor_feature.Tensor",
        "tensor": {"dtype": dtype, "encoding": encoding, "shape": shape},
    }


FEATURES = {
    "pythonClassName": f"{OF}.features_dict.FeaturesDict",
    "featuresDict": {
        "features": {
            "image": {"image": {"dtype": "uint8", "shape": {"dimensions": ["-1", "-1", "3"]}}},
            "label": {"classLabel": {"numClasses": "2"}},
            "count": {"classLabel": {"numClasses": "3"}},
            "grid": tensor("float32", 2, 3),
            "pixels": tensor("uint8", 4, 4, encoding="bytes"),
            "zipped": tensor("uint8", 4, 4, encoding="zlib"),
            "name": {"text": {}},
            "objects": {
                "sequence": {
                    "length": "-1",
                    "feature": {
                        "featuresDict": {
                            "features": {
                                "bbox": {"boundingBox": {"dtype": "float32", "shape": {"dimensions": ["4"]}}},
                                "label": {"classLabel": {"numClasses": "2"}},
                                "nested": {"sequence": {"feature": tensor("int64")}},
                            }
                        }
                    },
                }
            },
        }
    },
}
INFO = {
    "name": "flowers",
    "version": "1.0.0",
    "splits": [
        {
            "name": "train",
            "shardLengths": ["3", "2"],
            "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
        },
        {"name": "unsupervised", "shardLengths": ["1"]},
    ],
    "supervisedKeys": {"tuple": {"items": [{"featureKey": "image"}, {"featureKey": "label"}]}},
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "features.json").write_text(json.dumps(FEATURES))
    (tmp_path / "dataset_info.json").write_text(json.dumps(INFO))
    (tmp_path / "label.labels.txt").write_text("daisy\nrose\n")
    (tmp_path / "objects-label.labels.txt").write_text("bee\nfly\n")
    return tmp_path


def test_hints(folder):
    found = describe(str(folder))
    assert found.has_target
    assert dict(found.hints) == {
        "image": Hint((), content="image", role="input"),
        "label": Hint((), ("daisy", "rose"), role="target"),
        "count": Hint((), ("0", "1", "2"), role="key"),
        "grid": Hint((2, 3), role="key"),
        "pixels": Hint((4, 4), raw="uint8", role="key"),
        "zipped": Hint(role="key"),
        "name": Hint((), role="key"),
        "objects/bbox": Hint((None, 4), role="key"),
        "objects/label": Hint((None,), ("bee", "fly"), role="key"),
        "objects/nested": Hint(role="key"),
    }


def test_splits(folder):
    found = describe(str(folder))
    assert (found.name, found.splits) == ("flowers", {"train": 5, "unsupervised": 1})
    assert found.split_of("flowers-train.tfrecord-00000-of-00002") == "train"
    assert found.split_of("flowers-unsupervised.tfrecord-00000-of-00001") == "unsupervised"
    assert found.split_of("flowers-test.tfrecord-00000-of-00001") is None
    assert found.split_of("label.labels.txt") is None


def test_without_supervised_keys_features_have_no_role(folder):
    (folder / "dataset_info.json").unlink()
    assert {hint.role for hint in describe(str(folder)).hints.values()} == {None}


def test_other_folders_and_other_files(tmp_path):
    assert describe(str(tmp_path)) is None
    (tmp_path / "features.json").write_text("{")
    with pytest.raises(UserError, match="is not JSON"):
        describe(str(tmp_path))
    (tmp_path / "features.json").write_text('{"featuresDict": 3}')
    with pytest.raises(UserError, match="is not as tensorflow-datasets writes it"):
        describe(str(tmp_path))


def test_what_would_take_more_than_there_is_is_not_as_the_library_writes_it(folder):
    refused = "is not as tensorflow-datasets writes it"
    split = {"name": "train", "filepathTemplate": "{FILEFORMAT}" * 12}
    (folder / "dataset_info.json").write_text(json.dumps({"splits": [split]}))
    with pytest.raises(UserError, match=f"{refused}: ValueError: filepathTemplate has {{FILEFORMAT}} more than once"):
        describe(str(folder))
    split["filepathTemplate"] = "{FILEFORMAT}{SHARD_INDEX}{NUM_SHARDS}{SHARD_X_OF_Y}"
    (folder / "dataset_info.json").write_text(json.dumps({"splits": [split]}))
    assert describe(str(folder)).split_of("1" * 250) is None  # soon
    for feature, fault in (
        ('{"classLabel": {"numClasses": "1000000000000"}}', f"{refused}: ValueError: a has 1,000,000,000,000 classes"),
        ('{"sequence": {"feature": ' * 400 + "1" + "}}" * 400, refused),
    ):
        (folder / "features.json").write_text(f'{{"featuresDict": {{"features": {{"a": {feature}}}}}}}')
        with pytest.raises(UserError, match=fault):
            describe(str(folder))
    (folder / "features.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match="is not JSON"):
        describe(str(folder))
