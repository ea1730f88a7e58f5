"""A first job file for arrays: what goes together, by names and rows, and what is to be learned."""

import h5py
import numpy as np
import pytest
import yaml

from beamfeed.contract.errors import UserError
from beamfeed.transforms.suggest.job_file import suggest
from beamfeed.transforms.suggest.options import Options
from tests.arrays import Pile

IMAGES, CLASSES = np.arange(300 * 6, dtype="u1").reshape(300, 2, 3), np.arange(300) * 7 % 4


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def job_of(path, **options):
    return yaml.safe_load(suggest(path, options=Options(**options)).text)


def test_an_input_and_its_classes(folder):
    np.save(folder / "images.npy", IMAGES)
    np.save(folder / "labels.npy", CLASSES)
    found = suggest("in")
    job = yaml.safe_load(found.text)
    assert job["source"] == {
        "kind": "array", "files": "in", "inputs": {"images": {"files": "images.npy", "scale": "standard"}},
        "outputs": {"labels": {"files": "labels.npy", "classes": "auto"}},
    }  # fmt: skip
    assert job["split"] == {"by": "row", "train": 0.8, "eval": 0.1, "test": 0.1}
    assert job["train"]["task"] == {"name": "classify", "target": "labels"}
    assert found.about == "arrays: 2 files, 1 input, to learn labels"
    assert "# int64, 4 classes" in found.text


@pytest.mark.parametrize("pack", [np.savez, np.savez_compressed])
def test_splits_by_the_names_in_one_file(folder, pack):
    """As the digits of MNIST are handed on; the job preprocesses them, and each row is in the split of its name."""
    pack(
        folder / "digits.npz",
        x_train=IMAGES[:250], y_train=CLASSES[:250], x_test=IMAGES[250:], y_test=CLASSES[250:],
    )  # fmt: skip
    job = job_of("in/digits.npz")
    assert job["source"]["inputs"] == {
        "x": {"files": "in/digits.npz", "array": ["x_train", "x_test"], "scale": "standard"}
    }
    assert job["source"]["outputs"]["y"]["array"] == ["y_train", "y_test"]
    assert job["split"] == {"by": "rows", "train": 225, "eval": 25, "test": "rest"}
    pile = Pile(folder.parent)
    pile.job = job | {"output": {"path": str(pile.output)}}
    pile.job["source"]["inputs"]["x"]["scale"] = "none"
    assert pile.preprocess() == 0
    for split, first, end in (("train", 0, 225), ("eval", 225, 250), ("test", 250, 300)):
        rows = pile.rows(split)
        assert sorted(rows) == [*range(first, end)]
        for number, row in rows.items():
            np.testing.assert_array_equal(row["x"], IMAGES[number])
            assert row["y"] == CLASSES[number]


def test_classes_that_lie_one_after_the_other_hold_no_end_back(folder):
    for split, rows in (("train", slice(0, 250)), ("test", slice(250, 300))):
        (folder / split).mkdir()
        np.save(folder / split / "x.npy", IMAGES[rows])
        np.save(folder / split / "y.npy", np.sort(CLASSES[rows]))
    job = job_of("in")
    assert job["source"]["inputs"]["x"]["files"] == ["train/x.npy", "test/x.npy"]
    assert job["split"] == {"by": "rows", "train": 250, "eval": 0, "test": "rest"}
    assert "early_stopping" not in job["train"]


def test_numbers_are_parts_of_an_array_or_arrays_of_their_own(folder):
    for place in range(3):
        np.savez(folder / f"part-{place}.npz", X=IMAGES[place * 100 :][:100], target=CLASSES[place * 100 :][:100])
    source = job_of("in")["source"]
    assert source["inputs"] == {"x": {"files": "part-*.npz", "array": "X", "scale": "standard"}}
    assert source["outputs"] == {"target": {"files": "part-*.npz", "classes": "auto"}}
    (folder / "own").mkdir()
    np.save(folder / "own/x1.npy", IMAGES)
    np.save(folder / "own/x2.npy", IMAGES)
    np.save(folder / "own/y.npy", CLASSES / 3)
    source = job_of("in/own")["source"]
    assert [*source["inputs"]] == ["x1", "x2"]
    assert source["outputs"] == {"y": "y.npy"}  # fractions are no classes
    np.save(folder / "own/y.npy", np.concatenate([CLASSES, CLASSES]))
    source = job_of("in/own")["source"]
    assert source["inputs"] == {"x": {"files": ["x1.npy", "x2.npy"], "scale": "standard"}}


def test_parts_come_in_the_order_of_their_numbers(folder):
    for place in range(12):
        np.save(folder / f"x-{place}.npy", IMAGES[place * 25 :][:25])
    np.save(folder / "y.npy", CLASSES)
    assert job_of("in")["source"]["inputs"]["x"]["files"] == [f"x-{place}.npy" for place in range(12)]


def test_what_arrays_are_for(folder):
    with h5py.File(folder / "all.h5", "w") as file:
        file["train_set_x"], file["train_set_y"] = IMAGES, CLASSES
        file["list_classes"] = np.array([b"a", b"b"])
        file["train_set_ids"], file["train_set_sample_weight"] = np.arange(300), np.ones(300)
    found = suggest("in/all.h5")
    job = yaml.safe_load(found.text)
    assert {role: [*job["source"][role]] for role in ("inputs", "outputs", "weights", "keys")} == {
        "inputs": ["set_x"], "outputs": ["set_y"], "weights": ["set_sample_weight"], "keys": ["set_ids"],
    }  # fmt: skip
    assert job["train"]["task"]["sample_weight"] == "set_sample_weight"
    assert "list_classes (it has 2 rows, unlike others)" in found.text


def test_what_is_there_whole_and_divided_counts_once(folder):
    for name, values in (("X", IMAGES), ("y", CLASSES)):
        np.save(folder / f"{name}.npy", values)
        np.save(folder / f"{name}_train.npy", values[:200])
        np.save(folder / f"{name}_valid.npy", values[200:])
    found = suggest("in")
    job = yaml.safe_load(found.text)
    assert job["source"]["inputs"]["x"]["files"] == ["X_train.npy", "X_valid.npy"]
    assert job["split"] == {"by": "rows", "train": 200, "eval": "rest", "test": 0}
    assert "X.npy, y.npy (others are its splits)" in found.text


def test_the_label_as_the_user_says(folder):
    np.save(folder / "spectra.npy", IMAGES)
    np.save(folder / "kind.npy", CLASSES)
    assert "train" not in job_of("in")
    assert job_of("in", label="kind")["train"]["task"] == {"name": "classify", "target": "kind"}
    with pytest.raises(
        UserError, match=r"^--label kin: is no array; did you mean 'kind'\? \(there are: kind, spectra\)"
    ):
        suggest("in", options=Options(label="kin"))
    with pytest.raises(UserError, match=r"^--time t: arrays have no such column"):
        suggest("in", options=Options(time="t"))


def test_other_folders(folder):
    with pytest.raises(UserError, match=r"^--kind array: in holds no arrays"):
        suggest("in", options=Options(kind="array"))
    np.save(folder / "objects.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(UserError, match=r"^in: no array can be used, such as objects.npy: holds Python objects"):
        suggest("in")
    np.save(folder / "y.npy", CLASSES)
    with pytest.raises(
        UserError, match=r"^in: no array is an input \(there are: y\); objects.npy: holds Python objects"
    ):
        suggest("in")
    (folder / "y.npy").unlink()
    for place in range(3):
        (folder / f"{place}.csv").write_text("a,label\n" + "1,0\n2,1\n" * 20)
    assert job_of("in")["source"]["kind"] == "table"  # an array beside them is something else
