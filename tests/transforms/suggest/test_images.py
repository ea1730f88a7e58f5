"""A first job file for a folder of images."""

import pytest
import yaml
from albums import Album

from beamfeed.transforms.suggest.job_file import suggest


@pytest.fixture
def album(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Album(tmp_path)


def test_folders_are_classes(album):
    album.fill(60)
    found = suggest("photos")
    job = yaml.safe_load(found.text)
    assert job["source"] == {"kind": "image", "files": "photos"}
    assert job["label"] == {"column": "folder", "classes": "auto"}
    assert job["split"] == {"by": "row", "train": 0.8, "eval": 0.1, "test": 0.1}
    assert "# Folders as classes: cats 60, dogs 60." in found.text
    assert (found.about, found.trains) == ("images: 120 files, label folder", True)
    assert job["train"]["inputs"]["image"]["size"] == [9, 9]  # the shorter side is 8 pixels of one in five, else 9
    album.job = job | {"output": {"path": str(album.output)}}
    assert album.preprocess() == 0
    assert [one["name"] for one in album.manifest["fields"]] == ["image", "path", "label"]


def test_folders_of_few_images_are_left_out_where_that_is_asked_and_two_stay(album):
    for name, count in (("a", 9), ("b", 6), ("c", 3)):
        for place in range(count):
            album.write(f"{name}/{place}.jpg", b"x")
    for least, classes in ((1, "auto"), (4, ["a", "b"]), (7, "auto"), (10, "auto")):
        assert yaml.safe_load(suggest("photos", least=least).text)["label"] == {"column": "folder", "classes": classes}


def test_folders_that_say_which_split(album):
    for part in ("train", "val", "test"):
        for name in ("a", "b"):
            for place in range(3):
                album.write(f"{part}/{name}/{place}.jpg", b"x")
    job = yaml.safe_load(suggest("photos").text)
    assert job["split"] == {
        "by": "column", "column": "top_folder", "train": ["train"], "eval": ["val"], "test": ["test"],
    }  # fmt: skip
    assert job["label"] == {"column": "folder", "classes": "auto"}


def test_images_without_folders_and_with_a_list(album):
    for place in range(5):
        album.write(f"{place}.png", b"x")
    text = suggest("photos").text
    assert "label" not in yaml.safe_load(text)
    assert "Folders do not look like classes" in text
    (album.files / "labels.csv").write_text("file,kind\n0.png,a\n")
    text = suggest("photos").text
    assert "list: {file: photos/labels.csv, path: COLUMN}" in text


def test_a_table_with_a_picture_beside_it_is_a_table(album):
    album.write("logo.png", b"x")
    for place in range(3):
        album.write(f"part-{place}.csv", b"a,label\n" + b"1,0\n2,1\n" * 20)
    assert yaml.safe_load(suggest("photos").text)["source"]["kind"] == "table"
