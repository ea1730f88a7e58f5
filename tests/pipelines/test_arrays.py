"""Arrays through the whole of preprocessing, against the arrays themselves."""

import json

import numpy as np
import pytest

from tests.arrays import Pile

pytestmark = pytest.mark.filterwarnings("ignore")

ROWS = 3000
SOURCE = {
    "inputs": {
        "image": "image-*.npy", "sums": {"files": "more.npz", "scale": "standard"}, "wave": {"files": "more.npz"},
        "tag": {"files": "tag.npy"}, "holes": {"files": "holes.npy", "missing": "keep"},
        "level": {"files": "level.npy", "missing": "keep", "scale": "minmax"},
    },
    "outputs": {
        "digit": {"files": "digit-*.npy", "classes": "auto"}, "odd": {"files": "odd.npy", "classes": "auto"},
        "centre": "centre.h5", "far": "far.npy",
    },
    "weights": {"trust": "trust.npy"},
    "keys": {"name": "name.npy"},
}  # fmt: skip


def make_arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    image = rng.integers(0, 255, (ROWS, 6, 5, 1), "u1")
    sums = image.sum(2)[..., 0].astype("f8")
    sums[5, 2] = np.nan
    sums[9, 0] = -1e39  # too large for float32, and so for what is scaled, told or a weight
    far, trust, level = (rng.random(ROWS) for _ in range(3))
    far[8], trust[11], level[[13, 14, 15]] = 1e39, 1e300, 1e39
    centre = rng.normal(3, 2, (ROWS, 2)).astype(">f4")
    centre[7] = np.nan
    return {
        "image": image, "sums": sums, "wave": rng.normal(size=(ROWS, 2)).astype("c8"),
        "tag": np.array([b"a", b"", b"long"])[rng.integers(0, 3, ROWS)],
        "holes": np.where(rng.random(ROWS) < 0.2, np.nan, 1).astype("f2"),
        "digit": rng.integers(-1, 4, ROWS).astype("i2"), "odd": rng.random((ROWS, 1)) < 0.4, "centre": centre,
        "trust": trust, "far": far, "level": level, "name": np.array([f"row {row} ü" for row in range(ROWS)]),
    }  # fmt: skip


def make_pile(folder, arrays) -> Pile:
    import h5py

    pile = Pile(folder, **SOURCE)
    pile.write("image", arrays["image"], (100, 2500))
    pile.write("digit", arrays["digit"], (1, 2000))
    np.savez_compressed(pile.files / "more.npz", sums=arrays["sums"], wave=np.asfortranarray(arrays["wave"]))
    for name in ("tag", "holes", "odd", "trust", "far", "level", "name"):
        pile.write(name, arrays[name])
    with h5py.File(pile.files / "centre.h5", "w") as file:
        file.create_dataset("centre", data=arrays["centre"], chunks=(64, 2))
    return pile


@pytest.fixture(scope="module")
def arrays():
    return make_arrays()


@pytest.fixture(scope="module")
def pile(tmp_path_factory, arrays):
    made = make_pile(tmp_path_factory.mktemp("pile"), arrays)
    assert made.preprocess() == 0
    return made


def test_each_row_is_in_one_split_as_the_files_have_it(pile, arrays):
    rows = {split: pile.rows(split) for split in ("train", "eval", "test")}
    gone = {5, 9, 11, 7, 8}  # an input with NaN, one and a weight that are infinite, and two without a label
    assert sum(map(len, rows.values())) == ROWS - len(gone)
    assert set().union(*rows.values()) == set(range(ROWS)) - gone
    level = np.where(arrays["level"] > 1, np.nan, arrays["level"]).astype("f4")
    level = (level - (low := np.nanmin(level[sorted(rows["train"])]))) / (np.nanmax(level[sorted(rows["train"])]) - low)
    train = arrays["sums"][sorted(rows["train"])].astype("f4").astype("f8")
    offset, divisor = train.mean(0), train.std(0)
    for found in rows.values():
        for number, values in found.items():
            np.testing.assert_array_equal(values["image"], arrays["image"][number])
            assert values["image"].dtype == np.uint8
            np.testing.assert_array_equal(values["wave"], arrays["wave"][number])
            assert values["tag"] == arrays["tag"][number]
            np.testing.assert_array_equal(values["holes"], arrays["holes"][number])
            np.testing.assert_allclose(values["sums"], (arrays["sums"][number] - offset) / divisor, atol=2e-6)
            assert values["digit"] == arrays["digit"][number] + 1
            assert values["odd"] == arrays["odd"][number, 0]
            np.testing.assert_array_equal(values["centre"], arrays["centre"][number].astype("f4"))
            assert values["trust"] == np.float32(arrays["trust"][number])
            assert values["name"].decode() == arrays["name"][number]
            assert values["far"] == np.float32(arrays["far"][number])
            np.testing.assert_allclose(values["level"], level[number], atol=2e-6)  # never infinite
    assert np.isnan(level[[13, 14, 15]]).all()


def test_the_manifest_says_what_there_is(pile, arrays):
    manifest = pile.manifest
    fields = {field["name"]: (field["dtype"], field["shape"], field["role"]) for field in manifest["fields"]}
    assert fields == {
        "row": ("int64", [], "key"), "image": ("uint8", [6, 5, 1], "input"), "sums": ("float32", [6], "input"),
        "wave": ("complex64", [2], "input"), "tag": ("bytes", [], "input"), "holes": ("float16", [], "input"),
        "digit": ("int64", [], "target"), "odd": ("int64", [], "target"), "centre": ("float32", [2], "target"),
        "trust": ("float32", [], "weight"), "name": ("bytes", [], "key"), "far": ("float32", [], "target"),
        "level": ("float32", [], "input"),
    }  # fmt: skip
    classes = {field["name"]: field["classes"] for field in manifest["fields"] if field["classes"]}
    assert classes == {"digit": ["-1", "0", "1", "2", "3"], "odd": ["false", "true"]}
    train = sorted(pile.rows("train"))
    counts = manifest["splits"]["train"]["targets"]
    assert counts["digit"]["counts"] == np.bincount(arrays["digit"][train] + 1).tolist()
    assert counts["centre"]["mean"] == pytest.approx(arrays["centre"][train].astype("f8").mean())
    assert manifest["counts"]["rejected_rows"] == 3
    assert manifest["notes"] == ["rows without a label, left out: 2 in 1 asset (rows 0000-2999)"]
    assert {(one["place"], one["file"].rpartition("/")[2], one["reason"]) for one in pile.rejects()} == {
        ("row 5", "more.npz", "sums holds NaN or infinity"),
        ("row 9", "more.npz", "sums holds -1e+39, which is too large for float32"),
        ("row 11", "trust.npy", "trust holds 1e+300, which is too large for float32"),
    }
    stats = json.loads((pile.data / "stats.json").read_text())
    assert stats["rows"] == len(train)
    assert stats["features"]["level"]["missing"] == len({13, 14, 15} & set(train)) > 0
    of_level = arrays["level"][train].astype("f4")
    assert stats["features"]["level"]["max"] == of_level[np.isfinite(of_level)].max()
    assert stats["features"]["sums[0]"]["mean"] == pytest.approx(arrays["sums"][train, 0].mean(), rel=1e-6)


def test_the_same_rows_cut_into_other_files_give_equal_rows(tmp_path, pile, arrays):
    """What is in a record does not hang on where files begin, nor on how many workers there are."""
    other = Pile(tmp_path, **{**SOURCE, "inputs": {**SOURCE["inputs"], "image": "image.npy"}})
    for path in pile.files.iterdir():
        if not path.name.startswith("image"):
            (other.files / path.name).write_bytes(path.read_bytes())
    other.write("image", arrays["image"])
    assert other.preprocess("launch.preprocess.workers=2") == 0
    assert other.shards() == pile.shards()


def test_blocks_and_shards_of_larger_arrays(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.random((9000, 16, 16)), rng.integers(0, 2, 9000)
    pile = Pile(tmp_path, inputs={"x": "x-*.npy"}, outputs={"y": {"files": "y.npy", "classes": "auto"}})
    pile.write("x", x, (4000,))
    pile.write("y", y)
    assert pile.preprocess("split.by=rows", "output.rows_per_record=10", "launch.preprocess.workers=2") == 0
    manifest = pile.manifest
    assert manifest["counts"]["assets"] > 10  # blocks of a megabyte, or a little more
    for split, (first, end) in {"train": (0, 5400), "eval": (5400, 7200), "test": (7200, 9000)}.items():
        rows = pile.rows(split)
        assert sorted(rows) == list(range(first, end))
        for number in range(first, end, 97):
            np.testing.assert_array_equal(rows[number]["x"], x[number])
            assert rows[number]["y"] == y[number]
    smoke = Pile(tmp_path, **{key: pile.job["source"][key] for key in ("inputs", "outputs")})
    assert smoke.preprocess("split.by=rows", "source.max_assets=2", "split={train: 1.0, eval: 0, test: 0}") == 0
    assert smoke.manifest["counts"]["assets"] == 2
    assert sorted(smoke.rows("train")) == list(range(len(smoke.rows("train"))))


def test_a_block_of_rows_that_are_set_aside_counts_as_its_rows(tmp_path):
    from beamfeed.contract.config.load import load_job
    from beamfeed.pipelines import job_check

    x = np.ones((9000, 32))  # two blocks of 4,096 rows, and the rest
    x[8192:] = np.nan
    pile = Pile(tmp_path, inputs={"x": "x.npy"})
    pile.write("x", x)
    pile.job["limits"] = {"max_rejected_fraction": 0.1}
    found = job_check.check_job(load_job(pile.job_file(), []), full=True)
    assert not found.problems
    counts = found.manifest.counts
    assert (counts.assets, counts.rejected_assets, counts.rows_read, counts.rejected_rows) == (2, 0, 9000, 808)


def test_splits_by_an_array(tmp_path, capfd):
    pile = Pile(tmp_path, inputs={"x": "x.npy"}, keys={"fold": "fold.npy"})
    fold = np.array(["one", "two", "three", "none"])[np.arange(200) % 4]
    pile.write("x", np.arange(200.0))
    pile.write("fold", fold)
    pile.job["split"] = {"by": "column", "column": "fold", "train": ["one", "two"], "eval": ["three"]}
    assert pile.preprocess() == 0
    assert sorted(pile.rows("train")) == [row for row in range(200) if fold[row] in ("one", "two")]
    assert sorted(pile.rows("eval")) == [row for row in range(200) if fold[row] == "three"]
    assert pile.manifest["notes"] == ["rows in no split, left out: 50 in 1 asset (rows 000-199)"]
    pile.job["split"]["eval"] = ["thre"]
    capfd.readouterr()
    assert pile.preprocess() == 2
    assert "split.eval: 'thre' is not a value of fold; did you mean 'three'?" in capfd.readouterr().err


def test_check_says_what_a_run_will_come_to(pile, capsys):
    from beamfeed.pipelines.check import main

    assert main(["--job", pile.job_file(), "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    manifest = pile.manifest
    assert told["counts"] == manifest["counts"]
    assert told["notes"] == manifest["notes"]
    for name, split in told["splits"].items():
        there = manifest["splits"][name]
        assert (split["windows"], split["records"]) == (there["windows"], there["records"])
        assert split["targets"] == there["targets"]
    (remark,) = told["remarks"]
    assert remark.startswith("arrays of 3,000 rows: image uint8 [6, 5, 1] in 3 files, sums float64 [6], ")


def test_check_reads_a_part_of_large_arrays(tmp_path, monkeypatch):
    from beamfeed.contract.config.load import load_job
    from beamfeed.pipelines import job_check

    pile = Pile(tmp_path, inputs={"x": "x.npy"}, outputs={"y": {"files": "y.npy", "classes": "auto"}})
    pile.write("x", np.random.default_rng(0).random((20_000, 100), "f4"))
    pile.write("y", np.arange(20_000) % 2)
    monkeypatch.setattr(job_check, "SAMPLE_BYTES", 2 << 20)
    found = job_check.check_job(load_job(pile.job_file(), []))
    assert not found.problems
    assert not found.exact
    assert 0 < found.look.share < 0.5
    assert found.manifest.counts.rows_read == pytest.approx(20_000, rel=0.01)
    whole = job_check.check_job(load_job(pile.job_file(), []), full=True)
    assert whole.exact
    assert whole.manifest.counts.rows_read == 20_000


def test_check_unpacks_the_beginning_of_large_packed_arrays(tmp_path, monkeypatch):
    from beamfeed.contract.config.load import load_job
    from beamfeed.pipelines import job_check
    from beamfeed.transforms.sources.array import read

    pile, values, written = Pile(tmp_path, inputs={"x": "x.npz"}), np.zeros((100_000, 64), "f4"), []
    np.savez_compressed(pile.files / "x.npz", x=values)
    write = read.storage.write_chunks
    monkeypatch.setattr(
        read.storage,
        "write_chunks",
        lambda path, chunks: write(path, (written.append(len(one)) or one for one in chunks)),
    )
    monkeypatch.setattr(job_check, "SAMPLE_BYTES", 2 << 20)
    found = job_check.check_job(load_job(pile.job_file(), []))
    assert not found.problems
    assert found.manifest.counts.rows_read == pytest.approx(100_000, rel=0.01)
    assert 0 < sum(written) <= 8 << 20 < values.nbytes / 2


@pytest.mark.parametrize("how", ["lengths", "objects"])
def test_arrays_that_do_not_go_together_end_the_job(tmp_path, capfd, how):
    pile = Pile(tmp_path, inputs={"x": "x.npy"}, outputs={"y": {"files": "y.npy"}})
    pile.write("x", np.zeros(10))
    pile.write("y", np.zeros(9) if how == "lengths" else np.array([None] * 10, object))
    assert pile.preprocess() == 2
    told = {
        "lengths": "the arrays have not the same number of rows: source.inputs.x has 10, source.outputs.y has 9",
        "objects": f"source.outputs.y: {pile.files}/y.npy holds Python objects",
    }[how]
    (line,) = capfd.readouterr().err.splitlines()
    assert told in line


def test_classes_that_no_training_row_has_end_the_job(tmp_path, capfd):
    pile = Pile(tmp_path, inputs={"x": "x.npy"}, outputs={"y": {"files": "y.npy", "classes": "auto"}})
    pile.write("x", np.zeros(100))
    pile.write("y", np.r_[np.arange(60) % 2, np.arange(40) % 3])
    assert pile.preprocess("split.by=rows") == 1
    assert "source.outputs.y: is '2' in 13 rows to evaluate or test and in no training row" in capfd.readouterr().err


def test_the_feed_gives_values_of_every_dtype(tmp_path):
    from beamfeed.contract.arrays.npy import DTYPES
    from beamfeed.trainer.feed.dataset import load_dataset
    from beamfeed.trainer.tools.inspect_dataset import main

    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 100, (300, 2, 3))
    arrays = {f"x_{name}": numbers % 2 == 0 if name == "bool" else numbers.astype(name) for name in DTYPES.values()}
    pile = Pile(tmp_path, inputs={name: f"{name}.npy" for name in arrays})
    for name, values in arrays.items():
        pile.write(name, values)
    assert pile.preprocess() == 0
    seen = []
    for batch in load_dataset(pile.output, "train", batch_size=20, shuffle=100, fields=["row", *arrays]):
        rows = batch["row"].numpy()
        seen += rows.tolist()
        for name, values in arrays.items():
            assert batch[name].dtype.name == name.removeprefix("x_")
            np.testing.assert_array_equal(batch[name].numpy(), values[rows])
    assert len(set(seen)) == len(seen) > 100
    assert main([str(pile.output), "--verify"]) == 0
    assert main([str(pile.output), "--json"]) == 0
    assert main([str(pile.output), "--picture", str(tmp_path / "picture.png")]) == 0
