"""Predictions of trained models: those for files equal those for the dataset, and both what the model says."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from beamfeed.pipelines.predict import main
from beamfeed.pipelines.preprocess import main as preprocess
from beamfeed.pipelines.report import main as report
from beamfeed.transforms.predictions import model
from tests.albums import Album
from tests.arrays import Pile
from tests.fleets import Fleet, make_table
from tests.predicted import EPOCH, make_trained_lake, trained
from tests.tables import Lake
from tests.tables import make_table as make_rows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fleet(tmp_path_factory) -> Fleet:
    """Series with gaps, missing values and a grid, scaled each by its own."""
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    for number in range(8):
        table = make_table(200, seed=number)
        holes = np.where(np.arange(200) % 37 == 5, np.nan, table["x1"].to_numpy())
        rows = np.flatnonzero((np.arange(200) < 90) | (np.arange(200) > 120))
        fleet.write(f"m{number}.parquet", table.set_column(2, "x1", pa.array(holes.astype("f4"))).take(rows))
    fleet.job["prepare"] = {
        "scale": {"how": "standard", "per": "asset", "clip": 1.5},
        "missing": {"fill": "linear", "limit": 2},
        "resample": {"every": 2, "how": "mean"},
        "max_gap": 5,
    }
    fleet.job["train"] |= EPOCH
    assert fleet.preprocess() == 0
    trained(fleet.job, fleet.folder)
    return fleet


@pytest.fixture
def lake(trained_lake: Lake) -> Lake:
    return trained_lake


def predict(folder: Path, out: Path, *options: object) -> pa.Table:
    arguments = ["--job", folder / "job.yaml", "--out", out, *options]
    assert main([str(argument) for argument in arguments]) == 0
    return read(out)


def read(out: Path) -> pa.Table:
    return ds.dataset(out, partitioning="hive").to_table()


def sorted_by(table: pa.Table, *names: str):
    return table.to_pandas().sort_values(list(names)).reset_index(drop=True)


def check_same(one, other) -> None:
    """Tables of the same columns and rows, numbers to 1e-6."""
    assert set(one.columns) == set(other.columns)
    for name in one.columns:
        a, b = one[name], other[name]
        if a.dtype.kind == "f" or isinstance(a.iloc[0], np.ndarray):
            np.testing.assert_allclose(np.stack(a.to_list()), np.stack(b.to_list()), rtol=1e-5, atol=1e-6)
        else:
            assert a.to_list() == b.to_list()


def test_series(fleet, tmp_path):
    of_dataset = sorted_by(predict(fleet.folder, tmp_path / "dataset"), "asset", "start")
    of_files = sorted_by(predict(fleet.folder, tmp_path / "files", "--files", fleet.files), "asset", "start")
    check_same(of_dataset, of_files)
    # And both are what the model gives for the dataset's windows, which are read without the project's code.
    windows = {
        (asset, start): window
        for split in ("train", "eval", "test")
        for asset, by_start in fleet.windows(split).items()
        for start, window in by_start.items()
    }
    ordered = sorted(windows)
    assert list(zip(of_dataset["asset"], of_dataset["start"], strict=True)) == ordered
    assert (of_dataset["time"] == 2 * of_dataset["start"]).all()  # of the grid
    assert (of_dataset["until"] == of_dataset["time"] + 2 * (8 - 1)).all()
    given = np.stack([windows[key] for key in ordered])
    said = signatures(fleet.folder)["preprocessed"](windows=tf.constant(given))
    squares = np.square(said["reconstruction"].numpy() - given)
    np.testing.assert_allclose(of_dataset["score"], said["score"], rtol=1e-5)
    np.testing.assert_allclose(np.stack(of_dataset["latent"]), said["latent"], rtol=1e-4, atol=1e-6)
    for name in ("pca_q", "pca_t2", "nearest"):
        np.testing.assert_allclose(of_dataset[name], said[name], rtol=1e-3, atol=1e-5)
    for column in range(3):
        np.testing.assert_allclose(
            of_dataset[f"error_x{column}"], squares[:, :, column].mean(axis=1), rtol=1e-4, atol=1e-6
        )


def test_answers_do_not_depend_on_the_size_of_calls(fleet, tmp_path, monkeypatch):
    at_once = predict(fleet.folder, tmp_path / "at-once")
    monkeypatch.setattr(model, "CALL_BYTES", (96, 672))  # of 1 window, and of 7
    monkeypatch.setattr(model, "CALL_WINDOWS", (1, 16))
    model._load.cache_clear()
    by_few = predict(fleet.folder, tmp_path / "by-few")
    model._load.cache_clear()
    check_same(*(sorted_by(table, "asset", "start") for table in (at_once, by_few)))


def test_times_that_are_not_even(tmp_path):
    """Files tell the time of each row, a dataset those of a record's first and last one."""
    fleet = Fleet(tmp_path)
    times = np.cumsum(np.random.default_rng(0).integers(1, 9, 300))
    fleet.write("a.parquet", make_table(300).set_column(0, "t", pa.array(times)))
    fleet.job["train"] |= EPOCH | {"model": {"name": "dense_autoencoder", "units": [4], "latent": 2}}
    assert fleet.preprocess() == 0
    trained(fleet.job, fleet.folder)
    table = sorted_by(predict(fleet.folder, tmp_path / "out", "--files", fleet.files), "start")
    assert table["start"].to_list() == list(range(0, 300 - 8 + 1, 2))
    assert table["time"].to_list() == times[table["start"]].tolist()
    assert table["until"].to_list() == times[table["start"] + 7].tolist()


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("windows.stride=1", "windows.stride: is 1 in the job and 2 in the dataset"),
        ("prepare.duplicates=mean", "prepare.duplicates: is mean in the job and left out in the dataset"),
        ("prepare.range={x0: [0, 1]}", "prepare.range.x0: is [0.0, 1.0] in the job and left out in the dataset"),
        ("prepare.scale.clip=3", "prepare.scale.clip: is 3.0 in the job and 1.5 in the dataset"),
    ],
)
def test_another_job_is_refused(fleet, tmp_path, capsys, key, line):
    arguments = ["--job", str(fleet.folder / "job.yaml"), "--files", str(fleet.files), "--out", str(tmp_path / "x")]
    assert main([*arguments, "--set", key]) == 2
    error = capsys.readouterr().err
    assert f"{line}; use the job that it was made with" in error
    assert error.count("\n") == 1


def test_names_that_are_taken(lake, tmp_path):
    """A kept column that is called as a place stays beside it."""
    new = tmp_path / "new.parquet"
    rows = make_rows(10, 5).drop(columns=["fraud", "when"]).assign(file="mine", when=pd.Timestamp("2024-02-29"))
    rows.to_parquet(new, index=False)
    found = predict(lake.folder, tmp_path / "out", "--files", new, "--keep", "file").to_pandas()
    assert set(found["file"]) == {str(new)}
    assert set(found["file_"]) == {"mine"}
    assert not (tmp_path / "out" / "_working").exists()


def test_kept_columns_of_several_types(lake, tmp_path):
    """They get the type of the first file, and a file in which they cannot have it is set aside."""
    new = tmp_path / "new"
    new.mkdir()
    for name, number in (("a", 16_777_217), ("b", np.int32(5)), ("c", "none"), ("d", 3.0)):
        rows = make_rows(10, 5).drop(columns=["fraud"]).assign(number=number)
        rows["empty"] = None if name == "a" else "word"
        rows.to_parquet(new / f"{name}.parquet", index=False)
    out = tmp_path / "out"
    options = ["--files", new, "--keep", "number,empty", "--set", "limits.max_rejected_fraction=0.5"]
    found = predict(lake.folder, out, *options).to_pandas()
    assert found.groupby("number").size().to_dict() == {16_777_217: 10, 5: 10, 3: 10}
    assert found.groupby("number")["empty"].first().fillna("").to_dict() == {16_777_217: "", 5: "word", 3: "word"}
    reason = json.loads((out / "_rejects.jsonl").read_text())
    assert (reason["file"], reason["place"]) == (str(new / "c.parquet"), "column number")
    (tmp_path / "e.csv").write_text(
        make_rows(1, 5).drop(columns=["fraud"]).assign(amount=16_777_217).to_csv(index=False)
    )
    found = predict(lake.folder, tmp_path / "texts", "--files", tmp_path / "e.csv", "--keep", "amount").to_pandas()
    assert found["amount"].tolist() == [16_777_217]


def test_forecasts(tmp_path):
    fleet = Fleet(tmp_path)
    for number in range(4):
        fleet.write(f"m{number}.parquet", make_table(120, seed=number))
    fleet.job["label"] = {"ahead": {"rows": 3, "columns": ["x0"]}}
    fleet.job["train"] |= EPOCH | {"model": {"name": "dlinear"}, "task": {"name": "forecast"}}
    assert fleet.preprocess() == 0
    trained(fleet.job, fleet.folder)
    of_dataset = sorted_by(predict(fleet.folder, tmp_path / "dataset"), "asset", "start")
    of_files = sorted_by(predict(fleet.folder, tmp_path / "files", "--files", fleet.files), "asset", "start")
    assert (of_dataset["until"] == of_dataset["time"] + 7).all()  # of what the model gets, not of what it tells
    assert np.stack(of_dataset["forecast_x0"]).shape == (len(of_dataset), 3)
    # Of files also the last windows, behind which there is nothing.
    assert len(of_files) == 4 * ((120 - 8) // 2 + 1)
    both = of_dataset.drop(columns="label").merge(of_files, on=["asset", "start", "time", "until"])
    assert len(both) == len(of_dataset)
    np.testing.assert_allclose(np.stack(both["forecast_x0_x"]), np.stack(both["forecast_x0_y"]), rtol=1e-5, atol=1e-6)


def test_tables(lake, tmp_path):
    of_dataset = sorted_by(predict(lake.folder, tmp_path / "dataset"), "row")
    assert set(of_dataset["label"]) == {"0", "1"}
    # Labels are not needed, and are no feature either.
    rows = [make_rows(150, day) for day in range(3)]
    new = tmp_path / "new"
    for day, table in enumerate(rows):
        (new / f"day={day}").mkdir(parents=True)
        columns = table.drop(columns="fraud").iloc[:, ::-1]
        pq.write_table(pa.Table.from_pandas(columns, preserve_index=False), new / f"day={day}" / "rows.parquet")
    kept = predict(lake.folder, tmp_path / "files", "--files", new, "--keep", "amount,customer", "--keep", "note")
    of_files = sorted_by(kept, "row")
    everything = {
        name: value for table in rows for name, value in zip(table["row"], table.to_dict("records"), strict=True)
    }
    assert [everything[name]["customer"] for name in of_files["row"]] == of_files["customer"].to_list()
    assert [f"{name.split('-')[1]}" for name in of_files["row"]] == [str(number) for number in of_files["row_"]]
    assert [
        path.endswith(f"day={name[0]}/rows.parquet")
        for path, name in zip(of_files["file"], of_files["row"], strict=True)
    ]
    check_same(of_files.drop(columns=["file", "row_", "amount", "customer", "note"]), of_dataset.drop(columns="label"))


def test_a_model_of_before_the_dataset_grew(tmp_path, capsys):
    """It has its statistics, so it answers for what was added, and is shown beside it."""
    lake = make_trained_lake(tmp_path, grow=True)
    lake.write("day=3/rows.parquet", make_rows(150, 3))
    assert lake.preprocess() == 0
    of_dataset = sorted_by(predict(tmp_path, tmp_path / "dataset"), "row")
    of_files = sorted_by(predict(tmp_path, tmp_path / "files", "--files", tmp_path / "lake" / "day=3"), "row")
    added = of_dataset[of_dataset["row"].str.startswith("3-")].reset_index(drop=True)
    assert len(added) == 150
    check_same(of_files.drop(columns=["file", "row_"]), added.drop(columns="label"))
    job = str(tmp_path / "job.yaml")
    assert report([str(tmp_path / "data"), "--job", job, "--out", str(tmp_path / "report.html")]) == 0
    assert "trained on the dataset as it was before its last runs" in (tmp_path / "report.html").read_text()
    lake.write("day=0/rows.parquet", make_rows(150, 7))  # now with other statistics
    assert preprocess(["--job", job, "--refit"]) == 0
    capsys.readouterr()
    assert main(["--job", job, "--out", str(tmp_path / "dataset"), "--force"]) == 2
    assert "was trained on another dataset than is at" in capsys.readouterr().err


def signatures(folder: Path):
    return tf.saved_model.load(str(folder / "model" / "saved_model")).signatures


def test_rows_that_cannot_be_read_are_told(lake, tmp_path):
    rows = make_rows(20, 9)
    new = tmp_path / "new.csv"
    lines = rows.drop(columns="fraud").to_csv(index=False).splitlines()
    lines[3] = lines[3].replace("9-2,", "9-2,much ", 1)
    new.write_text("\n".join(lines) + "\n")
    table = predict(lake.folder, tmp_path / "out", "--files", new, "--set", "limits.max_rejected_fraction=0.5")
    assert table.num_rows == 19
    (reject,) = [json.loads(line) for line in (tmp_path / "out" / "_rejects.jsonl").read_text().splitlines()]
    assert "is not a number" in reject["reason"]
    assert reject["place"] == "line 4, column amount"
    assert sorted(set(range(20)) - set(table["row_"].to_pylist())) == [2]


def test_images(tmp_path):
    album = Album(tmp_path)
    album.fill()
    album.job["train"] = EPOCH | {
        "model": {"name": "residual", "filters": [4], "blocks": 1},
        "inputs": {"image": {"size": [8, 8]}},
        "task": {"name": "classify"},
        "workdir": str(tmp_path / "model"),
    }
    assert album.preprocess() == 0
    trained(album.job, tmp_path)
    of_dataset = sorted_by(predict(tmp_path, tmp_path / "dataset"), "path")
    of_files = sorted_by(predict(tmp_path, tmp_path / "files", "--files", album.files), "path")
    assert set(of_dataset["class"]) <= {"cats", "dogs"}
    assert len(of_files) == 40
    check_same(of_files, of_dataset.drop(columns="label"))


def test_arrays(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(3, 5, (100, 4)), rng.integers(0, 3, 100)
    pile = Pile(
        tmp_path,
        inputs={"x": {"files": "x-*.npy", "scale": "standard"}},
        outputs={"y": {"files": "y*.npy", "classes": "auto"}},
    )
    pile.write("x", x, (40,))
    pile.write("y", y)
    pile.job["train"] = EPOCH | {
        "model": {"name": "tabular", "units": [4]}, "task": {"name": "classify", "target": "y"},
        "workdir": str(tmp_path / "model"),
    }  # fmt: skip
    assert pile.preprocess() == 0
    trained(pile.job, tmp_path)
    of_dataset = sorted_by(predict(tmp_path, tmp_path / "dataset"), "row")
    assert of_dataset["y"].to_list() == [str(one) for one in y]
    for path in pile.files.glob("y*"):
        path.unlink()
    of_files = sorted_by(predict(tmp_path, tmp_path / "files", "--files", pile.files), "row")
    check_same(of_files, of_dataset.drop(columns="y"))
    said = signatures(tmp_path)["serving_default"](x=tf.constant(x, tf.float32))
    np.testing.assert_allclose(of_files["probability_1"], said["probabilities"][:, 1], rtol=1e-5)


@pytest.mark.parametrize("new", [False, True])
def test_what_was_predicted_before_an_interruption_stays(lake, tmp_path, capsys, new):
    out = tmp_path / "out"
    of_files = ["--files", str(lake.files), "--set", "output.shards=4"] if new else []
    predict(lake.folder, out, *of_files)
    capsys.readouterr()
    before = {path: (path.stat().st_mtime_ns, pq.read_table(path)) for path in out.rglob("*.parquet")}
    assert len(before) >= 3
    description = json.loads((out / "_export.json").read_text())
    predict(lake.folder, out, *of_files)
    assert "is complete" in capsys.readouterr().err
    (out / "_SUCCESS").unlink()
    (out / "_export.json").write_text(json.dumps({**description, "complete": False}))
    gone, part, *_ = before
    gone.unlink()
    pq.write_table(
        before[part][1][:1].replace_schema_metadata({}), part
    )  # as an error half-way may leave it in a bucket
    left_over = part.with_name(f"{part.name}.tmp-0f")
    left_over.write_bytes(b"PAR1")
    predict(lake.folder, out, *of_files)
    assert not left_over.exists()
    after = {path: (path.stat().st_mtime_ns, pq.read_table(path)) for path in out.rglob("*.parquet")}
    assert after.keys() == before.keys()
    assert {path for path in before if before[path][0] != after[path][0]} == {gone, part}
    assert all(before[path][1].equals(after[path][1]) for path in before)
    assert json.loads((out / "_export.json").read_text()) == description


def test_other_predictions_are_not_overwritten(lake, tmp_path, capsys):
    out = tmp_path / "out"
    predict(lake.folder, out)
    arguments = ["--job", str(lake.folder / "job.yaml"), "--out", str(out), "--split", "test"]
    assert main(arguments) == 2
    assert "--force replaces it" in capsys.readouterr().err
    assert main([*arguments, "--force"]) == 0
    assert [path.name for path in out.iterdir() if path.is_dir()] == ["test"]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--files", "{folder}/lake"], "--files: needs --out, the folder for their predictions"),
        (["--keep", "amount"], "--keep: is for --files alone"),
        (["--files", "{folder}/lake", "--out", "{tmp}", "--split", "test"], "--split: is for the dataset alone"),
        (
            ["--files", "{folder}/lake", "--out", "{tmp}/x", "--keep", "amuont"],
            "--keep: 'amuont' is not a column; did you mean 'amount'?",
        ),
        (
            ["--files", "{folder}/lake", "--out", "{tmp}/x", "--set", "windows.length=2"],
            "windows",  # which a table has none of
        ),
        (["--files", "{tmp}/none*.csv", "--out", "{tmp}/x"], "no file matches"),
        (["--set", "train.workdir={tmp}/none"], "holds no trained model; train first"),
        (["--set", "output.path={tmp}/none"], "there is no dataset"),
        (["--out", "{folder}"], "holds something else"),
    ],
)
def test_mistakes(lake, tmp_path, capsys, options, line):
    options = [option.format(folder=lake.folder, tmp=tmp_path) for option in options]
    assert main(["--job", str(lake.folder / "job.yaml"), *options]) == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1
