"""Images through the whole pipeline, against their files as Pillow and TensorFlow read them."""

import io
import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import yaml
from albums import TURNS, Album, encoded, picture, turned
from PIL import Image

from tests.pipelines.test_retries import spoil  # noqa: F401 - a fixture

BROKEN = {
    "cats/cut.jpg": (encoded(picture(80, 90), "JPEG")[:700], "pixels: cannot be decoded: image file is truncated"),
    "cats/page.jpg": (b"<html>404</html>", "header: is HTML"),
    "dogs/empty.png": (b"", "file: is empty"),
    "dogs/zeros.png": (b"\0" * 100, "header: begins with zeros"),
}


@pytest.fixture(scope="module")
def album(tmp_path_factory):
    """Sixty small JPEGs of two folders, some of other sorts, and four broken ones."""
    found = Album(tmp_path_factory.mktemp("album"))
    found.fill(30)
    found.write("cats/really_png.jpg", encoded(picture(9, 8), "PNG"))
    found.write("cats/turned.jpg", turned(picture(9, 8), 6))
    found.write("dogs/photo.webp", encoded(picture(9, 8), "WEBP"))
    found.write("dogs/LOUD.GIF", encoded(picture(9, 8), "GIF"))
    for name, (data, _) in BROKEN.items():
        found.write(name, data)
    (found.files / "dogs" / "notes.txt").write_text("no image by its name: a folder takes images alone")
    found.job["limits"] = {"max_rejected_fraction": 0.1}
    assert found.preprocess() == 0
    return found


@pytest.fixture(scope="module")
def rows(album):
    return album.all_rows()


def test_each_image_is_there_once_and_its_label_is_its_folder(album, rows):
    images = {str(path.relative_to(album.files)) for path in album.files.rglob("*.*") if path.suffix != ".txt"}
    assert set(rows) == images - set(BROKEN)
    (field,) = [one for one in album.manifest["fields"] if one["name"] == "label"]
    assert field["classes"] == ["cats", "dogs"]
    for name, row in rows.items():
        assert field["classes"][row["label"]] == name.split("/")[0]
    for split in ("train", "eval", "test"):
        counts = Counter(row["label"] for row in album.rows(split).values())
        assert album.manifest["splits"][split]["targets"]["label"]["counts"] == [counts[0], counts[1]]
        assert album.manifest["splits"][split]["windows"] == counts.total()


def test_bytes_are_the_files_or_decode_to_the_same_picture(album, rows):
    for name, row in rows.items():
        data = (album.files / name).read_bytes()
        if name.startswith(("cats/0", "dogs/0", "cats/really")):
            assert row["image"] == data
            continue
        with Image.open(io.BytesIO(data)) as image:
            shown = image.convert("RGB")
        shown = shown.transpose(TURNS[6]) if "turned" in name else shown
        decoded = tf.io.decode_image(row["image"], expand_animations=False).numpy()
        np.testing.assert_array_equal(decoded, np.asarray(shown))


def test_broken_images_are_told_by_file_and_reason(album):
    found = album.rejects()
    assert set(found) == set(BROKEN)
    for name, (_, told) in BROKEN.items():
        assert found[name].startswith(told)
    counts = album.manifest["counts"]
    assert (counts["files"], counts["rows_read"], counts["rejected_rows"]) == (68, 68, 4)
    assert (counts["rejected_assets"], counts["rejected_files"]) == (0, 0)
    (note,) = album.manifest["notes"]
    assert note.startswith("images re-encoded as PNG, as TensorFlow would not decode")
    stats = json.loads((album.data / "stats.json").read_text())
    assert stats == {
        "images": 64, "original_bytes": 61, "formats": {"gif": 1, "jpeg": 61, "png": 1, "webp": 1},
        "width": {"min": 8, "max": 9}, "height": {"min": 8, "max": 12},
    }  # fmt: skip


def test_a_folder_that_is_moved_gives_the_same_bytes(album, tmp_path):
    other = Album(tmp_path / "far" / "away")
    shutil.copytree(album.files, other.files, dirs_exist_ok=True)
    other.job["limits"] = album.job["limits"]
    assert other.preprocess() == 0
    assert other.shards() == album.shards()


def test_the_feed_gives_the_images_as_they_are_stored(album, rows):
    from beamfeed.trainer.feed.dataset import load_dataset

    found = {}
    for batch in load_dataset(str(album.output), "train", batch_size=8, epochs=1, fields=["image", "path", "label"]):
        assert batch["image"].dtype == tf.string
        assert batch["image"].shape.rank == 1
        for path, image, label in zip(*(batch[name].numpy() for name in ("path", "image", "label")), strict=True):
            found[path.decode()] = {"image": image, "label": label}
    assert len(found) > 20
    for name, row in found.items():
        assert (row["image"], row["label"]) == (rows[name]["image"], rows[name]["label"])


def test_what_check_says_is_what_a_run_gives(album, capsys):
    from beamfeed.pipelines.check import main

    job = album.folder / "check.yaml"
    job.write_text(yaml.safe_dump({**album.job, "output": {"path": str(album.folder / "other")}}))
    assert main(["--job", str(job), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["exact"], told["files"], told["counts"]) == (True, 68, album.manifest["counts"])
    assert {one["file"].removeprefix(f"{album.files}/") for one in told["rejects"]} == set(BROKEN)
    for split, info in album.manifest["splits"].items():
        found = told["splits"][split]
        assert {key: found[key] for key in ("windows", "records", "targets")} == {
            key: info[key] for key in ("windows", "records", "targets")
        }
        assert found["about_bytes"] == pytest.approx(info["bytes"], rel=0.5)
    assert not (album.folder / "other").exists()
    assert main(["--job", str(job)]) == 0
    assert "row set aside" in capsys.readouterr().out


def test_inspect_shows_it(album, capsys):
    from beamfeed.trainer.tools.inspect_dataset import main

    for options in ([], ["--json"], ["--verify"]):
        assert main([str(album.output), *options]) == 0
        told = capsys.readouterr().out
    main([str(album.output)])
    told = capsys.readouterr().out
    assert "image" in told
    assert "cats" in told


def test_raw_pixels_of_a_list_with_several_labels(tmp_path):
    album = Album(tmp_path)
    album.fill(12)
    names = sorted(str(path.relative_to(album.files)) for path in album.files.rglob("*.jpg"))
    table = pd.DataFrame({
        "file": names, "age": np.arange(len(names)) / 2, "kind": list("ab") * 12, "part": ["train", "train", "test"] * 8
    })  # fmt: skip
    table.to_csv(tmp_path / "labels.csv", index=False)
    album.job["source"] |= {
        "list": {"file": str(tmp_path / "labels.csv"), "path": "file"},
        "store": {"format": "raw", "size": [6, 5], "fit": "stretch", "channels": 1},
    }
    album.job["label"] = [{"name": "age", "column": "age"}, {"name": "kind", "column": "kind", "classes": ["b", "a"]}]
    album.job["split"] = {"by": "column", "column": "part", "train": ["train"], "test": ["test"]}
    album.job["output"]["rows_per_record"] = 5
    assert album.preprocess() == 0
    assert {name: info["windows"] for name, info in album.manifest["splits"].items()} == {
        "train": 16, "eval": 0, "test": 8,
    }  # fmt: skip
    found, table = album.all_rows(), table.set_index("file")
    for name, row in found.items():
        assert row["age"] == table["age"][name]
        assert row["kind"] == "ba".index(table["kind"][name])
        with Image.open(album.files / name) as image:
            expected = image.convert("RGB").resize((5, 6), Image.Resampling.BICUBIC).convert("L")
        pixels = np.frombuffer(row["image"], np.uint8).reshape(6, 5)
        assert abs(pixels.astype(int) - np.asarray(expected)).max() <= 1
    from beamfeed.trainer.feed.dataset import load_dataset

    (batch,) = load_dataset(str(album.output), "test", batch_size=8, epochs=1, fields=["image", "path"])
    assert (batch["image"].dtype, batch["image"].shape.as_list()) == (tf.uint8, [8, 6, 5, 1])
    for path, image in zip(batch["path"].numpy(), batch["image"].numpy(), strict=True):
        assert image.tobytes() == found[path.decode()]["image"]
    before = album.manifest["fingerprint"]
    (tmp_path / "labels.csv").write_text((tmp_path / "labels.csv").read_text().replace("0.5,b", "7.5,b"))
    assert album.preprocess() == 0
    assert album.manifest["fingerprint"] != before
    assert album.all_rows()[names[1]]["age"] == 7.5


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (3, "of the rows were rejected, limits.max_rejected_fraction is 1.0%"),
        (24, "100.0% of the rows were rejected"),
    ],
)
def test_too_many_broken_images_end_the_job(tmp_path, capsys, broken, message):
    album = Album(tmp_path)
    album.fill(12)
    for path in sorted(album.files.rglob("*.jpg"))[:broken]:
        path.write_bytes(b"broken")
    assert album.preprocess("split={train: 1, eval: 0, test: 0}") == 1
    assert message in capsys.readouterr().err
    assert not (album.output / "manifest.json").exists()


def test_a_split_of_broken_images_counts_as_its_images(tmp_path, capsys):
    from beamfeed.pipelines.check import main

    album = Album(tmp_path)
    for number in range(27):
        album.write(f"train/{'cats' if number % 2 else 'dogs'}/{number}.jpg", picture(8, 9, seed=number))
    for number in range(3):
        album.write(f"test/cats/{number}.jpg", b"broken")
    album.job["split"] = {"by": "column", "column": "top_folder", "train": ["train"], "test": ["test"]}
    album.job["limits"] = {"max_rejected_fraction": 0.1}
    assert album.preprocess() == 0
    counts = album.manifest["counts"]
    assert (counts["assets"], counts["rejected_assets"], counts["rejected_files"]) == (1, 0, 0)
    assert (counts["rows_read"], counts["rejected_rows"]) == (30, 3)
    assert {name: info["windows"] for name, info in album.manifest["splits"].items()} == {
        "train": 27, "eval": 0, "test": 0,
    }  # fmt: skip
    assert set(album.rejects()) == {f"test/cats/{number}.jpg" for number in range(3)}
    album.job["output"]["path"] = str(tmp_path / "other")
    capsys.readouterr()
    assert main(["--job", str(album.write_job()), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == counts


def test_a_file_that_changes_while_the_job_runs_ends_it(tmp_path, capsys, monkeypatch):
    from beamfeed.transforms.sources.image.source import Images

    album = Album(tmp_path)
    album.fill(12)
    listed = Images.listed

    def change(self, files, scratch):
        found = listed(self, files, scratch)
        album.write("cats/003.jpg", picture(50, 60))
        return found

    monkeypatch.setattr(Images, "listed", change)
    assert album.preprocess() == 1
    assert "cats/003.jpg changed while the job ran" in capsys.readouterr().err


def test_a_value_of_the_split_that_no_image_has_ends_the_job(tmp_path, capsys):
    album = Album(tmp_path)
    for part in ("train", "test"):
        for place in range(6):
            album.write(f"{part}/{'ab'[place % 2]}/{place}.jpg", picture(8, 8, seed=place))
    album.job["split"] = {"by": "column", "column": "top_folder", "train": ["train"], "test": ["tset"]}
    assert album.preprocess() == 2
    told = "split.test: 'tset' is not a value of top_folder; did you mean 'test'? (it has: test, train)"
    assert told in capsys.readouterr().err
    album.job["split"]["test"] = []
    assert album.preprocess() == 0
    assert len(album.all_rows()) == 6
    (note,) = album.manifest["notes"]
    assert note.startswith("images in no split, left out: 6 in 1 asset")


def test_a_link_to_nowhere_is_set_aside(tmp_path):
    album = Album(tmp_path)
    album.fill(12)
    (album.files / "cats" / "link.jpg").symlink_to("nowhere.jpg")
    assert album.preprocess("limits.max_rejected_fraction=0.1") == 0
    assert album.rejects() == {"cats/link.jpg": "file: is a link to nowhere.jpg, which leads nowhere"}


def test_a_smoke_test_on_some_images(tmp_path):
    album = Album(tmp_path)
    album.fill(30)
    assert album.preprocess("source.max_assets=20", "split={train: 1, eval: 0, test: 0}") == 0
    assert Counter(row["label"] for row in album.all_rows().values()) == {0: 10, 1: 10}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
def test_any_number_of_workers_gives_the_same_bytes(album, tmp_path, monkeypatch, workers):
    from beamfeed.transforms.sources.image import listing

    monkeypatch.setattr(listing, "MOST_IMAGES", 8)
    found = []
    for count in (1, workers):
        album_output = tmp_path / f"data-{count}"
        assert album.preprocess(f"output.path={album_output}", f"launch.preprocess.workers={count}") == 0
        (data,) = album_output.glob("data-*")
        found.append({path.name: path.read_bytes() for path in sorted(data.rglob("*.*"))})
    assert found[0] == found[1]
    assert len(found[0]) > 8


@pytest.mark.slow
def test_every_step_tried_again_gives_the_same_files(album, tmp_path, spoil, monkeypatch):  # noqa: F811
    assert album.preprocess(f"output.path={tmp_path}/spoiled") == 0
    assert {name.rpartition("/")[2] for name in spoil.names} >= {
        "ParDo(ScanFile)",
        "ValidateUnit",
        "Judge",
        "WriteToTFRecord",
    }
    monkeypatch.undo()
    (spoiled,) = Path(tmp_path, "spoiled").glob("data-*")
    assert {str(path.relative_to(spoiled)): path.read_bytes() for path in spoiled.rglob("*.tfrecord")} == album.shards()


def test_smiles(data, tmp_path):
    if not (data / "smiles").is_dir():
        pytest.skip(f"{data}/smiles is not there")
    album = Album(tmp_path)
    album.job["source"]["files"] = str(data / "smiles")
    album.job["split"] = {"train": 0.7, "eval": 0.1, "test": 0.2, "stratify": True}
    assert album.preprocess() == 0
    counts = {name: info["targets"]["label"]["counts"] for name, info in album.manifest["splits"].items()}
    assert counts == {"train": [420, 420], "eval": [60, 60], "test": [120, 120]}
    for name, row in album.rows("eval").items():
        assert row["image"] == (data / "smiles" / name).read_bytes()
    stats = json.loads((album.data / "stats.json").read_text())
    assert stats["original_bytes"] == 1200
