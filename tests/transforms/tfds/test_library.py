"""The real tensorflow-datasets: what it writes is adopted, and it reads what we write."""

import os

import numpy as np
import pytest
import tensorflow as tf
from datasets import write_dataset

import beamfeed
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import read_manifest
from beamfeed.pipelines import adopt
from beamfeed.pipelines.preprocess import main as preprocess
from beamfeed.transforms.tfds.write import tfds_files

pytestmark = pytest.mark.slow
ONE_THREAD = "--direct_num_workers=1"


@pytest.fixture(scope="module")
def tfds():
    return pytest.importorskip("tensorflow_datasets", reason="tensorflow-datasets is not installed (extra slow)")


@pytest.fixture(scope="module")
def builder(tfds, tmp_path_factory):
    """A dataset that the library wrote from data of this process."""
    pixels = np.random.default_rng(5).integers(0, 256, (60, 6, 5, 3), np.uint8)

    class Tiny(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            features = tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(None, None, 3), encoding_format="png"),
                    "label": tfds.features.ClassLabel(names=["daisy", "rose", "tulip"]),
                    "grid": tfds.features.Tensor(shape=(2, 3), dtype=np.float32),
                    "raw": tfds.features.Tensor(shape=(2, 2), dtype=np.uint8, encoding=tfds.features.Encoding.BYTES),
                    "objects": tfds.features.Sequence(
                        {"bbox": tfds.features.BBoxFeature(), "kind": tfds.features.ClassLabel(num_classes=4)}
                    ),
                    "title": tfds.features.Text(),
                }
            )
            return self.dataset_info_from_configs(features=features, supervised_keys=("image", "label"))

        def _split_generators(self, dl_manager):
            return {"train": self._rows(0, 40), "test": self._rows(40, 55), "unlabelled": self._rows(55, 60)}

        def _generate_examples(self, rows):
            return rows

        def _rows(self, start, end):
            for number in range(start, end):
                boxes = number % 3
                yield (
                    number,
                    {
                        "image": pixels[number],
                        "label": number % 3,
                        "grid": np.arange(6, dtype=np.float32).reshape(2, 3) + number,
                        "raw": pixels[number, :2, :2, 0],
                        "objects": [
                            {"bbox": tfds.features.BBox(0.0, 0.1, 0.5, 1.0), "kind": box} for box in range(boxes)
                        ],
                        "title": f"flower {number}",
                    },
                )

    found = Tiny(data_dir=str(tmp_path_factory.mktemp("tfds")))
    found.download_and_prepare()
    return found


@pytest.fixture(scope="module")
def adopted(builder):
    assert adopt.main([str(builder.data_dir), ONE_THREAD, "--quiet"]) == 0
    return str(builder.data_dir)


def test_what_the_library_says_is_taken_over(adopted):
    manifest = read_manifest(adopted)
    fields = {field.name: field for field in manifest.fields}
    assert {name: (one.dtype, one.shape, one.role) for name, one in fields.items()} == {
        "image": ("bytes", (), "input"),
        "label": ("int64", (), "target"),
        "grid": ("float32", (2, 3), "key"),
        "raw": ("uint8", (2, 2), "key"),
        "objects_bbox": ("float32", (None, 4), "key"),
        "objects_kind": ("int64", (None,), "key"),
        "title": ("bytes", (), "key"),
    }
    assert (fields["image"].content, fields["label"].classes) == ("image", ["daisy", "rose", "tulip"])
    assert {name: info.windows for name, info in manifest.splits.items()} == {"train": 40, "eval": 0, "test": 15}
    assert any("'unlabelled'" in note for note in manifest.notes)


def test_values_are_those_that_the_library_reads(adopted, builder, tfds):
    names = ["grid", "raw", "label", "title", "objects_bbox", "objects_kind", "image"]
    plain = {row["title"]: row for row in tfds.as_numpy(builder.as_dataset(split="train"))}
    seen = 0
    for batch in beamfeed.load_dataset(adopted, "train", batch_size=8, fields=names, shuffle=40):
        for place, title in enumerate(batch["title"].numpy().tolist()):
            row = plain[title]
            np.testing.assert_array_equal(batch["grid"][place], row["grid"])
            np.testing.assert_array_equal(batch["raw"][place], row["raw"])
            np.testing.assert_array_equal(batch["objects_bbox"][place], row["objects"]["bbox"])
            np.testing.assert_array_equal(batch["objects_kind"][place], row["objects"]["kind"])
            assert int(batch["label"][place]) == row["label"]
            np.testing.assert_array_equal(tf.io.decode_image(batch["image"][place]), row["image"])
            seen += 1
    assert seen == 40


def test_the_library_still_reads_the_folder(adopted, builder, tfds):
    again = tfds.builder_from_directory(adopted)
    assert len(list(again.as_dataset(split="test"))) == 15


JOB = """\
name: small-table
source: {{kind: table, files: {folder}/*.csv}}
features:
  x: {{type: numeric, scale: none}}
  words: {{type: text, length: ragged}}
  name: {{type: pass, as: text, role: key}}
label: {{column: y, classes: ["no", "yes"]}}
split: {{train: 0.6, eval: 0.2, test: 0.2}}
output: {{path: {folder}/data, rows_per_record: 1, shards: 2}}
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    rows = [
        f"{number}.5,{'a b c'[: 1 + number % 5]},row-{number},{('no', 'yes')[number % 2]}\n" for number in range(60)
    ]
    (folder / "rows.csv").write_text("x,words,name,y\n" + "".join(rows))
    (folder / "job.yaml").write_text(JOB.format(folder=folder))
    assert preprocess(["--job", str(folder / "job.yaml"), ONE_THREAD]) == 0
    return folder / "data"


def test_the_library_reads_a_table_of_one_row_a_record(table, tfds):
    manifest = read_manifest(table)
    found = tfds.builder_from_directory(os.fspath(table / manifest.data))
    assert found.info.features["label"].names == ["no", "yes"]
    for split, info in manifest.splits.items():
        assert found.info.splits[split].num_examples == info.windows
        rows = {row["name"]: row for row in tfds.as_numpy(found.as_dataset(split=split))}
        assert len(rows) == info.windows
        names = ["numbers", "words", "name", "label"]
        for batch in beamfeed.load_dataset(table, split, batch_size=1, fields=names):
            row = rows[batch["name"].numpy()[0]]
            np.testing.assert_array_equal(batch["numbers"][0], row["numbers"])
            np.testing.assert_array_equal(batch["words"][0], row["words"])
            assert int(batch["label"][0]) == row["label"]


def test_the_library_reads_images_raw_numbers_and_windows(tmp_path, tfds):
    fields = [
        Field(name="photo", dtype="bytes", role="input", content="image"),
        Field(name="pixels", dtype="uint8", shape=(2, 3), role="key"),
        Field(name="half", dtype="float16", shape=(2,), role="key"),
        Field(name="boxes", dtype="float32", shape=(None, 2), role="key"),
        Field(name="label", dtype="int64", role="target", classes=["a", "b"]),
    ]
    rng = np.random.default_rng(3)
    rows = [
        {
            "photo": [tf.io.encode_png(rng.integers(0, 256, (4, 5, 3), np.uint8)).numpy()],
            "pixels": [rng.integers(0, 256, (2, 3), np.uint8)],
            "half": [rng.normal(size=2).astype("f2")],
            "boxes": [rng.normal(size=(number % 3, 2)).astype("f4")],
            "label": [number % 2],
        }
        for number in range(7)
    ]
    manifest = write_dataset(str(tmp_path), fields, {"train": [rows[:4], rows[4:]]})
    for name, text in tfds_files(manifest).items():
        (tmp_path / manifest.data / name).write_text(text)
    builder = tfds.builder_from_directory(os.fspath(tmp_path / manifest.data))
    config = tfds.ReadConfig(interleave_cycle_length=1)  # a shard after the other
    found = list(tfds.as_numpy(builder.as_dataset(split="train", read_config=config)))
    assert len(found) == 7
    for row, one in zip(rows, found, strict=True):
        np.testing.assert_array_equal(tf.io.decode_png(row["photo"][0]), one["photo"])
        for name in ("pixels", "half", "boxes", "label"):
            np.testing.assert_array_equal(row[name][0], one[name])
            assert np.asarray(one[name]).dtype == np.asarray(row[name][0]).dtype


def test_slices_of_the_library(table, tfds):
    manifest = read_manifest(table)
    found = tfds.builder_from_directory(os.fspath(table / manifest.data))
    every = [row["name"] for row in tfds.as_numpy(found.as_dataset(split="train"))]
    assert [row["name"] for row in tfds.as_numpy(found.as_dataset(split="train[5:9]"))] == every[5:9]
