"""Comparisons of whole datasets, new files and predictions: what is planted is told, what is the same is the same."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import yaml

from beamfeed.pipelines.compare import main
from tests.arrays import Pile
from tests.fleets import Fleet, make_table
from tests.tables import Lake
from tests.tables import make_table as make_rows


def compare(tmp_path: Path, *arguments: object, code: int = 0) -> pd.DataFrame:
    """All columns of a comparison."""
    out = tmp_path / "drift.parquet"
    assert main([*map(str, arguments), "--out", str(out)]) == code
    return pd.read_parquet(out).set_index("column")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory) -> Fleet:
    """Series with missing values, each scaled by its own and clipped, and with a label of each window."""
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    for number in range(12):
        rows, states = make_table(300, seed=number), np.where(np.arange(300) % 50 < 20, "idle", "busy")
        is_hole = (np.arange(300) % 37 == 5) & (number % 2 == 0)
        holes = np.where(is_hole, np.nan, rows["x1"].to_numpy() + 50 * number)
        columns = {"x1": pa.array(holes.astype("f4")), "state": pa.array(states)}
        fleet.write(
            f"m{number}.parquet", pa.table({**dict(zip(rows.column_names, rows.columns, strict=True)), **columns})
        )
    fleet.job["prepare"] = {
        "scale": {"how": "standard", "per": "asset", "clip": 10},
        "missing": {"fill": "linear", "limit": 2},
    }
    fleet.job["label"] = {"name": "busy", "column": "state", "classes": "auto"}
    del fleet.job["train"]
    assert fleet.preprocess() == 0
    return fleet


def test_a_dataset_is_as_its_files(fleet, tmp_path):
    """Each asset's own scale is undone, and rows that two records have count once."""
    found = compare(tmp_path, fleet.output, "--files", fleet.files, "--job", fleet.write_job())
    assert list(found.index.sort_values()) == ["x0", "x1", "x2"]
    files = pd.concat([pd.read_parquet(path) for path in fleet.files.glob("*.parquet")])
    for name, row in found.iterrows():
        assert row["psi"] < 1e-6
        assert row["distance"] < 1e-3
        assert row["reference_rows"] == row["current_rows"] == 12 * 300
        for side in ("reference", "current"):
            assert row[f"{side}_mean"] == pytest.approx(files[name].mean(), rel=0.02)
            assert row[f"{side}_missing"] == pytest.approx(files[name].isna().mean(), abs=1e-3)
    trained = [fleet.files / f"{name}.parquet" for name in fleet.windows("train")]
    lacking = np.array([pd.read_parquet(path)["x1"].isna().sum() for path in trained])
    share = lacking.mean() / 300
    effect = lacking.var(ddof=1) / (300 * share * (1 - share))
    (stats,) = (json.loads(path.read_text()) for path in fleet.output.glob("data-*/stats.json"))
    assert effect > 4
    assert stats["features"]["x1"]["missing_design_effect"] == pytest.approx(effect)
    assert "missing_design_effect" not in stats["features"]["x0"]


def test_machines_that_move(fleet, tmp_path, capsys):
    """By one deviation in one column; and a sensor that fails more often. One that fails in one machine is noise."""
    new = tmp_path / "new"
    new.mkdir()
    for path in fleet.files.glob("*.parquet"):
        table = pd.read_parquet(path).drop(columns="state")
        table["x0"] += 1
        table.loc[table.index % 3 == 1, "x2"] = np.nan
        if path.stem == "m3":
            table.loc[table.index % 3 > 0, "x1"] = np.nan
        table.to_parquet(new / path.name, index=False)
    (new / "broken.parquet").write_bytes(b"PAR1")
    found = compare(tmp_path, fleet.output, "--files", new, "--job", fleet.write_job(), code=3)
    assert found["drift"].to_dict() == {"x0": True, "x1": False, "x2": True}
    assert found.loc["x2", "current_missing"] == pytest.approx(1 / 3, abs=0.01)
    assert found.loc["x1", "noise"] > found.loc["x1", "psi"] > 0.05
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"reference  {fleet.output}: 3,600 rows"
    assert lines[2] == "set aside  1 file; `beamfeed check` of these files tells why"
    told = {line.split()[3]: line for line in lines if line.startswith("DRIFT")}
    assert "mean -0.0" in told["x0"]
    assert "deviations)" in told["x0"]
    assert "missing 0 -> 0.333" in told["x2"]
    assert lines[-2] == "2 of 3 columns drifted: a psi from 0.2 on, and above noise"
    assert found.index[2] == "x1"  # the largest first


def test_two_datasets(fleet, tmp_path):
    """Scaled otherwise, they are the same; labels are compared, and columns of one alone told."""
    other = Fleet(tmp_path / "other")
    for path in fleet.files.glob("*.parquet"):
        table = pd.read_parquet(path).assign(x9=1.0)
        table["state"] = np.where(np.arange(300) % 50 < 45, "idle", "busy")
        other.write(path.name, pa.Table.from_pandas(table, preserve_index=False))
    other.job |= {"prepare": {"scale": {"how": "robust"}, "missing": {"fill": "linear", "limit": 2}}}
    other.job |= {"label": fleet.job["label"]}
    del other.job["train"]
    assert other.preprocess() == 0
    found = compare(tmp_path, fleet.output, other.output, code=3)
    assert found["psi"][["x0", "x1", "x2"]].max() < 1e-9
    busy = found.loc["busy"]
    assert busy["drift"]
    assert found["drift"].sum() == 1
    assert dict(zip(busy["labels"], busy["reference_shares"], strict=False))["busy"] == pytest.approx(0.6, abs=0.02)
    assert found.loc["x9", "changes"].tolist() == ["only in the current data"]


def test_series_that_are_clipped_and_filled_are_as_their_files(fleet, tmp_path):
    """What a dataset clipped is clipped in files, too, and constants are in scaled units, by each asset's."""
    clipped = Fleet(tmp_path / "clipped")
    for path in fleet.files.glob("*.parquet"):
        clipped.write(path.name, pq.read_table(path))
    scale = {"how": "standard", "per": "asset", "clip": 1}
    clipped.job["prepare"] = {"scale": scale, "missing": {"fill": "constant", "value": 0.75}}
    del clipped.job["train"]
    assert clipped.preprocess() == 0
    found = compare(tmp_path, clipped.output, "--files", clipped.files, "--job", clipped.write_job())
    assert found["psi"].max() < 1e-4
    raw = pd.concat([pd.read_parquet(path) for path in fleet.files.glob("*.parquet")])
    assert (found["current_std"] < 0.9 * raw[found.index].std())["x0"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> Lake:
    lake = Lake(tmp_path_factory.mktemp("lake"))
    for day in range(3):
        lake.write(f"day={day}/rows.parquet", make_rows(400, day))
    lake.job["features"] |= {
        "hours-late": {"type": "numeric", "column": "count", "scale": "minmax"},
        "most": {"type": "numeric", "column": "count", "clip": 1},
        "most-log": {"type": "numeric", "column": "count", "scale": "log", "clip": 0.5},
    }
    assert lake.preprocess() == 0
    (lake.folder / "job.yaml").write_text(yaml.safe_dump(lake.job))
    return lake


def test_tables(lake, tmp_path, capsys):
    """Logarithms, missing values and vocabularies are undone; what is hashed is named as not compared."""
    job = lake.folder / "job.yaml"
    found = compare(tmp_path, lake.output, "--files", lake.files, "--job", job)
    assert {"amount", "count", "kind", "city", "hours_late", "most", "most_log"} <= set(found.index)
    assert found.loc["most", "current_high"] < found.loc["count", "current_high"]  # clipped as in the dataset
    assert found["psi"].drop("amount").max() < 1e-9
    assert found.loc["amount", "psi"] < 1e-3  # how many are missing is known of training rows
    rows = pd.concat([make_rows(400, day) for day in range(3)])
    assert found.loc["amount", "reference_missing"] == pytest.approx(rows["amount"].isna().mean(), abs=0.02)
    assert found.loc["kind", "current_missing"] == rows["kind"].isna().mean()
    assert found.loc["count", "current_mean"] == pytest.approx(rows["count"].mean())
    assert "city_hash" in capsys.readouterr().out.splitlines()[-2]

    new = tmp_path / "new.parquet"
    moved = make_rows(500, 7).drop(columns="fraud")
    moved["amount"] *= 2
    moved.loc[moved.index % 4 == 1, "kind"] = "barter"
    moved.to_parquet(new, index=False)
    found = compare(tmp_path, lake.output, "--files", new, "--job", job, code=3)
    assert set(found.index[found["drift"]]) == {"amount", "kind"}
    assert found.loc["kind", "new"][0] == {"value": "barter", "share": 0.25}
    assert compare(tmp_path, lake.output, "--files", new, "--job", job, "--threshold", 9)["drift"].sum() == 0


def test_datasets_of_tables(lake, tmp_path, capsys):
    """With the same rows once more, in one order and another."""
    other = Lake(tmp_path / "other")
    for day in range(3):
        other.write(f"{9 - day}.parquet", make_rows(400, day))
    other.job["split"] = {"by": "row", "train": 0.5, "eval": 0.2, "test": 0.3}
    assert other.preprocess() == 0
    found = compare(tmp_path, lake.output, other.output)
    assert found.loc[["count", "kind", "label"], "psi"].max() < 1e-9
    assert found.loc["amount", "psi"] < 1e-3
    assert found.loc["hours_late", "changes"].tolist() == ["only in the reference"]
    assert "note" in capsys.readouterr().out.splitlines()[-2]


def test_a_column_that_changes_its_kind(lake, tmp_path, capsys):
    """From numbers to categories: it counts as drift, and is not compared."""
    other = Lake(tmp_path / "other")
    for day in range(3):
        other.write(f"{day}.parquet", make_rows(400, day))
    other.job["features"] = {"count": "categorical", "kind": "categorical"}
    assert other.preprocess() == 0
    found = compare(tmp_path, lake.output, other.output, code=3)
    assert list(found.index[found["drift"]]) == ["count"]
    assert found.loc["count", "changes"].tolist() == ["numbers in the reference, texts now"]
    lines = capsys.readouterr().out.splitlines()
    told = [" ".join(line.split()) for line in lines if "DRIFT" in line]
    assert told == ["DRIFT - - count numbers in the reference, texts now"]
    assert any(line.startswith("1 of 3 columns drifted") for line in lines)


def test_a_graph_that_writes_files_is_refused(tmp_path):
    """Of somebody else's dataset: before it runs."""
    pile = Pile(tmp_path / "pile", inputs={"x": {"files": "x.npy", "scale": "standard"}})
    pile.write("x", np.random.default_rng(0).normal(size=(200, 3)).astype("f4"))
    assert pile.preprocess() == 0
    graph = tf.Module()

    @tf.function(input_signature=[{"x": tf.TensorSpec([None, 3])}])
    def write(fields):
        tf.io.write_file(str(tmp_path / "written"), tf.strings.as_string(tf.reduce_sum(fields["x"])))
        return fields

    graph.transform_fn = write.get_concrete_function()
    tf.saved_model.save(graph, str(next(pile.output.glob("data-*")) / "transform_fn"))
    command = [sys.executable, "-m", "beamfeed", "compare", str(pile.output), str(pile.output)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 2
    assert "holds the operation WriteFile, which reaches beyond its values" in done.stderr
    assert done.stderr.count("\n") == 1  # and nothing of what TensorFlow tells as it is loaded
    assert not (tmp_path / "written").exists()


def test_arrays(tmp_path):
    """Short ones number by number; pictures are not compared."""
    pile = Pile(
        tmp_path / "pile",
        inputs={"x": {"files": "x.npy", "scale": "standard"}, "wide": {"files": "wide.npy"}},
        outputs={"y": {"files": "y.npy", "classes": "auto"}},
    )
    random = np.random.default_rng(0)
    pile.write("x", random.normal(5, 2, (900, 3)).astype("f4"))
    pile.write("wide", random.integers(0, 255, (900, 20, 20)).astype("u1"))
    pile.write("y", random.integers(0, 3, 900))
    assert pile.preprocess() == 0
    found = compare(tmp_path, pile.output, pile.output)
    assert set(found.index) == {"x[0]", "x[1]", "x[2]", "y"}
    assert found.loc["x[1]", "reference_mean"] == pytest.approx(5, abs=0.3)
    new = tmp_path / "new"
    new.mkdir()
    np.save(new / "x.npy", random.normal([5, 5, 9], 2, (700, 3)).astype("f4"))
    np.save(new / "wide.npy", np.zeros((700, 20, 20), "u1"))
    found = compare(tmp_path, pile.output, "--files", new, "--job", pile.job_file(), code=3)
    assert found["drift"].to_dict() == {"x[2]": True, "x[0]": False, "x[1]": False}


def test_adopted_records(tmp_path):
    """Of a dataset that others wrote, values are compared as they are."""
    from beamfeed.pipelines.adopt import main as adopt

    random = np.random.default_rng(0)
    for name, shift in (("one", 0), ("other", 1)):
        (tmp_path / name).mkdir()
        with tf.io.TFRecordWriter(str(tmp_path / name / "train-00000-of-00001.tfrecord")) as writer:
            for value, label in zip(random.normal(shift, 1, 500), random.integers(0, 2, 500), strict=True):
                features = {
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=[value])),
                    "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
        assert adopt([str(tmp_path / name), "--target", "y"]) == 0
    found = compare(tmp_path, tmp_path / "one", tmp_path / "other", code=3)
    assert found["drift"].to_dict() == {"x": True, "y": False}


def write_predictions(folder: Path, shift: float, seed: int) -> Path:
    """As `beamfeed predict` writes them, of 30 assets."""
    random, files = np.random.default_rng(seed), []
    folder.mkdir()
    for number in range(3):
        rows = 1000
        latent = random.normal(size=(rows, 4)).astype("f4") + np.array([0, 0, shift, 0], "f4")
        table = {
            "asset": pa.array([f"m{number}-{row // 100}" for row in range(rows)]),
            "start": pa.array(np.tile(np.arange(100), 10)),
            "time": pa.array(np.tile(np.arange(100), 10)).cast(pa.timestamp("us")),
            "score": pa.array(np.exp(random.normal(size=rows)).astype("f4")),
            "latent": pa.FixedSizeListArray.from_arrays(pa.array(latent.ravel()), 4),
            "class": pa.array(random.choice(["ok", "bad"], rows, p=[0.9, 0.1])),
        }
        files.append(f"part-{number:05d}.parquet")
        pq.write_table(pa.table(table), folder / files[-1])
    told = {"to": "predictions", "name": "test", "complete": True, "items": {"all": 3000}, "files": files}
    (folder / "_export.json").write_text(json.dumps(told))
    return folder


def test_predictions(tmp_path, capsys):
    """A list is told by its numbers that moved."""
    before, same = (write_predictions(tmp_path / name, 0, seed) for name, seed in (("before", 1), ("same", 2)))
    moved = write_predictions(tmp_path / "moved", 1, 3)
    found = compare(tmp_path, before, same)
    assert set(found.index) == {"score", "class", "latent[0]", "latent[1]", "latent[2]", "latent[3]"}
    capsys.readouterr()
    found = compare(tmp_path, before, moved, code=3)
    assert list(found.index[found["drift"]]) == ["latent[2]"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].startswith("DRIFT")
    assert f"latent  1 of 4 drifted ([2] {found.loc['latent[2]', 'psi']:.2f}); mean psi" in lines[3]
    assert any(line.startswith("1 of 3 columns drifted") for line in lines)


def test_the_command(tmp_path):
    """Its exit code is that of the comparison, and nothing is told twice."""
    before, moved = (write_predictions(tmp_path / name, shift, 1) for name, shift in (("before", 0), ("moved", 1)))
    command = [sys.executable, "-m", "beamfeed", "compare", str(before), str(moved), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert (done.returncode, done.stderr) == (3, "")
    event = json.loads(done.stdout)
    assert event["drifted"] == ["latent[2]"]
    assert event["rows"] == {"reference": 3000, "current": 3000}
    assert {"column", "psi", "noise", "changes", "current_mean"} <= event["columns"][0].keys()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["{fleet}"], "give what to compare with: another dataset or predictions, or --files"),
        (["{fleet}", "{fleet}", "--files", "x"], "give what to compare with"),
        (["{fleet}", "{tmp}"], "current: {tmp} is neither a dataset (no manifest.json) nor a folder of predictions"),
        (["{tmp}/none", "{fleet}"], "reference: {tmp}/none is neither a dataset"),
        (["{fleet}", "--files", "x"], "--files: needs --job"),
        (
            ["{lake}", "--files", "x", "--job", "{fleet_job}"],
            "--job: reads timeseries, the dataset at {lake} is of table",
        ),
        (["{fleet}", "{lake}"], "no column is in both: {fleet} has x0, x1, x2, busy; {lake} has "),
        (["{fleet}", "--files", "{tmp}/no/*.parquet", "--job", "{fleet_job}"], "{tmp}/no/*.parquet"),
        (["{fleet}", "{fleet}", "--out", "{tmp}"], "--out {tmp}: is a folder, it must be a file such as drift.parquet"),
        (["{fleet}", "{fleet}", "--out", "{tmp}/a.csv"], "--out {tmp}/a.csv: must end with .parquet"),
        (["{begun}", "{fleet}"], "{begun}: holds no complete predictions; `beamfeed predict` writes them"),
        (["{empty}", "{fleet}"], "{empty}: holds no prediction"),
        (["{fleet}", "{fleet}", "--threshold", "-1"], "'-1' is not a number from 0 on"),
    ],
)
def test_mistakes(fleet, lake, tmp_path, capsys, arguments, line):
    for name, complete in (("begun", False), ("empty", True)):
        (tmp_path / name).mkdir()
        told = {"to": "predictions", "complete": complete, "files": []}
        (tmp_path / name / "_export.json").write_text(json.dumps(told))
    places = {"fleet": fleet.output, "lake": lake.output, "tmp": tmp_path, "fleet_job": fleet.write_job()}
    places |= {name: tmp_path / name for name in ("begun", "empty")}
    try:
        code = main([one.format(**places) for one in arguments])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    error = capsys.readouterr().err
    assert line.format(**places) in error
    assert error.count("\n") == 1
