"""A first job file for arrays: what goes together, by names and rows, and what is to be learned."""

import h5py
import numpy as np
import pytest
import yaml

from beamfeed.contract.errors import UserError
from beamfeed.transforms.suggest.job_file import suggest
from beamfeed.transforms.suggest.options import Options
from tests.arrays import Pile

IMAGES, CLASSES = np.arange(300 * 6, dtype="f4").reshape(300, 2, 3), np.arange(300) * 7 % 4


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
    suggestion = suggest("in")
    job = yaml.safe_load(suggestion.text)
    assert job["source"] == {
        "kind": "array", "files": "in", "inputs": {"images": {"files": "images.npy", "scale": "standard"}},
        "outputs": {"labels": {"files": "labels.npy", "classes": "auto"}},
    }  # fmt: skip
    assert job["split"] == {"by": "row", "train": 0.8, "eval": 0.1, "test": 0.1}
    assert job["train"]["task"] == {"name": "classify", "target": "labels"}
    assert suggestion.about == "arrays: 2 files, 1 input, to learn labels"
    assert "# int64, 4 classes" in suggestion.text


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
    suggestion = suggest("in/all.h5")
    job = yaml.safe_load(suggestion.text)
    assert {role: [*job["source"][role]] for role in ("inputs", "outputs", "weights", "keys")} == {
        "inputs": ["set_x"], "outputs": ["set_y"], "weights": ["set_sample_weight"], "keys": ["set_ids"],
    }  # fmt: skip
    assert job["train"]["task"]["sample_weight"] == "set_sample_weight"
    assert "list_classes (it has 2 rows, unlike others)" in suggestion.text


def test_what_is_there_whole_and_divided_counts_once(folder):
    for name, values in (("X", IMAGES), ("y", CLASSES)):
        np.save(folder / f"{name}.npy", values)
        np.save(folder / f"{name}_train.npy", values[:200])
        np.save(folder / f"{name}_valid.npy", values[200:])
    suggestion = suggest("in")
    job = yaml.safe_load(suggestion.text)
    assert job["source"]["inputs"]["x"]["files"] == ["X_train.npy", "X_valid.npy"]
    assert job["split"] == {"by": "rows", "train": 200, "eval": "rest", "test": 0}
    assert "X.npy, y.npy (others are its splits)" in suggestion.text


def test_splits_in_files_and_under_names_of_their_own(folder):
    for split, rows in (("train", slice(0, 200)), ("test", slice(200, 300))):
        with h5py.File(folder / f"{split}_cats.h5", "w") as file:
            file[f"{split}_set_x"], file[f"{split}_set_y"] = IMAGES[rows], CLASSES[rows][:, None]
            file["list_classes"] = np.array([b"a", b"b"])
    pile = Pile(folder.parent)
    pile.job = job_of("in") | {"output": {"path": str(pile.output)}}
    assert pile.job["source"]["inputs"]["set_x"]["array"] == ["train_set_x", "test_set_x"]
    pile.job["source"]["inputs"]["set_x"]["scale"] = "none"
    assert pile.preprocess() == 0
    rows = {number: row for split in ("train", "eval", "test") for number, row in pile.rows(split).items()}
    for number in range(300):
        np.testing.assert_array_equal(rows[number]["set_x"], IMAGES[number])
        assert rows[number]["set_y"] == CLASSES[number]


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


def shards(names, count=3):
    """Files of the arrays x and y, by patterns of names in which `{}` is their number; each has 100 rows."""
    return {
        name.format(place): values[place * 100 :][:100]
        for name, values in zip(names, (IMAGES, CLASSES), strict=True)
        for place in range(count)
    }


@pytest.mark.parametrize(
    "names",
    [
        ("x-{:05}-of-00003.npy", "y-{:05}-of-00003.npy"),
        ("shard_{}/x.npy", "shard_{}/y.npy"),
        ("{}_x.npy", "{}_y.npy"),
        ("x_part{}.npy", "y_part{}.npy"),
        ("x_2024-01-{}.npy", "y_2024-01-{}.npy"),
        ("x data {}.npy", "y data {}.npy"),
        ("images/part-{}.npy", "labels/part-{}.npy"),
    ],
)
def test_files_are_parts_wherever_their_number_stands(folder, names):
    write(folder, shards(names))
    source = job_of("in")["source"]
    assert (len(source["inputs"]), len(source["outputs"])) == (1, 1)
    (x,), (y,) = source["inputs"].values(), source["outputs"].values()
    assert rows_of(folder, x["files"]) == rows_of(folder, y["files"]) == 300


@pytest.mark.parametrize("other", ["north", "part2"])
def test_files_of_the_same_arrays_are_parts(folder, other):
    for name, rows in (("part1", slice(0, 100)), (other, slice(100, 300))):
        np.savez(folder / f"{name}.npz", x1=IMAGES[rows], x2=IMAGES[rows, 0], y=CLASSES[rows])
        (folder / "own" / name).mkdir(parents=True)
        np.save(folder / "own" / name / "x.npy", IMAGES[rows])
        np.save(folder / "own" / name / "y.npy", CLASSES[rows])
    source = job_of("in/*.npz")["source"]
    assert ([*source["inputs"]], [*source["outputs"]]) == (["x1", "x2"], ["y"])
    source = job_of("in/own")["source"]
    assert [len(source[role][name]["files"]) for role, name in (("inputs", "x"), ("outputs", "y"))] == [2, 2]


def test_what_does_not_fit_is_left_out(folder):
    """Parts of other numbers are rows of others."""
    write(folder, shards(("x_{}.npy", "y_{}.npy")))
    (folder / "x_2.npy").rename(folder / "x_3.npy")
    suggestion = suggest("in")
    assert not suggestion.trains
    assert "(its parts are not those of others)" in suggestion.text
    write(folder / "names", {"x.npy": IMAGES, "X.npy": IMAGES, "z.npy": IMAGES, "y.npy": CLASSES})
    assert [*job_of("in/names")["source"]["inputs"]] == ["z"]


@pytest.mark.parametrize("names", [("X_{}.npy", "y_{}.npy"), ("x{}.npy", "y{}.npy")])
def test_the_splits_that_all_have(folder, names):
    """As competitions hand data on, without the labels of the test."""
    x, y = names
    write(folder, {x.format("train"): IMAGES[:200], x.format("test"): IMAGES[200:], y.format("train"): CLASSES[:200]})
    suggestion = suggest("in")
    job = yaml.safe_load(suggestion.text)
    assert job["source"]["inputs"]["x"]["files"] == x.format("train")
    assert job["source"]["outputs"]["y"]["files"] == y.format("train")
    assert f"{x.format('test')} (others have no such split)" in suggestion.text
    write(folder, {y.format("test"): CLASSES[200:]})
    assert job_of("in")["split"] == {"by": "rows", "train": 180, "eval": 20, "test": "rest"}
    (folder / x.format("train")).rename(folder / "x.npy")
    (folder / y.format("train")).rename(folder / "y.npy")
    assert job_of("in")["split"] == {"by": "rows", "train": 180, "eval": 20, "test": "rest"}


def test_what_no_model_can_use(folder):
    write(folder, {"x.npy": IMAGES, "y.npy": np.array([f"name {row}" for row in range(300)]), "wave.npy": IMAGES * 1j})
    write(folder, {"mask_label.npy": IMAGES, "none.npy": IMAGES[:0]})
    (folder / "gone.npy").symlink_to("nowhere")
    suggestion = suggest("in")
    source = yaml.safe_load(suggestion.text)["source"]
    assert ([*source["inputs"]], [*source["keys"]], suggestion.trains) == (["x"], ["y"], False)
    for words in ("wave (no model takes complex numbers)", "mask_label (no task learns values of several axes)",
                  "none.npy (it has no rows)", "gone.npy (cannot be read: "):  # fmt: skip
        assert words in " ".join(suggestion.text.replace("\n# ", " ").split())


def test_pixels_stay_bytes(folder):
    write(folder, {"x.npy": IMAGES.astype("u1"), "row_sums.npy": IMAGES.sum((1, 2)), "y.npy": CLASSES})
    assert job_of("in")["source"]["inputs"] == {
        "x": "x.npy",
        "row_sums": {"files": "row_sums.npy", "scale": "standard"},
    }


@pytest.mark.parametrize("named", [".", "./*.npy", "{}", "{}/*.npy", "../it's [1]"])
def test_a_folder_however_it_is_named_becomes_a_dataset(folder, monkeypatch, named):
    place = folder.parent / "it's [1]"
    write(place, shards(("x-{}.npy", "y-{}.npy")))
    monkeypatch.chdir(place if named.startswith(".") and named != "../it's [1]" else folder)
    if named.startswith("{}"):
        named = named.format(str(place).replace("[", "[[]") if "*" in named else place)
    pile = Pile(folder.parent)
    pile.job = job_of(named) | {"output": {"path": str(pile.output)}}
    assert pile.preprocess() == 0
    assert sum(pile.manifest["splits"][split]["windows"] for split in ("train", "eval", "test")) == 300


def write(folder, arrays):
    for name, values in arrays.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(folder / name, values)


def rows_of(folder, files):
    paths = sorted(folder.glob(files)) if isinstance(files, str) else [folder / name for name in files]
    return sum(len(np.load(path)) for path in paths)
