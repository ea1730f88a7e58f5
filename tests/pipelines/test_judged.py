"""What is published is what was judged: nothing is lost, moved or mixed without a word. Whole runs on small fleets."""

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fleets import Fleet, files_of, make_table, split_of

from beamfeed.pipelines import build
from beamfeed.transforms.sources.timeseries import source
from beamfeed.transforms.sources.timeseries.copies import RowCopies


def stats(fleet: Fleet) -> dict:
    (path,) = fleet.output.glob("data-*/stats.json")
    return json.loads(path.read_text())


def test_assets_without_a_window_count_as_rejects_and_do_not_touch_the_statistics(fleet, capfd):
    for i in range(6):
        poison = {} if i < 2 else {"x0": np.where(np.arange(40) % 4 == 0, np.nan, 1e6).astype("f4")}
        fleet.write(f"m{i}.parquet", make_table(40, seed=i, **poison))
    fleet.job |= {"prepare": {"missing": {"fill": "drop"}}, "split": {"train": 1, "eval": 0, "test": 0}}
    assert fleet.preprocess("limits.max_rejected_fraction=0.5") == 1
    told = capfd.readouterr().err.strip().splitlines()
    assert len(told) == 1
    assert "66.7% of the assets were rejected" in told[0]
    assert not (fleet.output / "manifest.json").exists()
    assert fleet.preprocess("limits.max_rejected_fraction=0.7") == 0
    assert {reject["asset"] for reject in fleet.rejects()} == {"m2", "m3", "m4", "m5"}
    assert fleet.manifest.counts.rejected_assets == 4
    assert abs(stats(fleet)["features"]["x0"]["mean"]) < 1


def test_limits_may_be_a_number_of_assets(fleet, capfd):
    for i in range(6):
        fleet.write(f"m{i}.parquet", make_table(40 if i < 4 else 3, seed=i))
    fleet.job |= {"split": {"train": 1, "eval": 0, "test": 0}, "limits": {"max_rejected_assets": 1}}
    assert fleet.preprocess() == 1
    assert "limits.max_rejected_assets is 1" in capfd.readouterr().err
    assert fleet.preprocess("limits.max_rejected_assets=2") == 0


@pytest.mark.parametrize("folders", [("machine=A", "machine=B"), ("site1", "site2")])
def test_files_of_one_name_in_several_folders_are_not_one_asset(fleet, folders, capfd):
    for i, folder in enumerate(folders):
        fleet.write(f"{folder}/part-0.parquet", make_table(40, seed=i))
    fleet.job["split"] = {"train": 1, "eval": 0, "test": 0}
    assert fleet.preprocess() == 2
    told = capfd.readouterr().err.strip().splitlines()
    assert len(told) == 1
    assert "would both be the asset 'part-0'" in told[0]
    if "=" in folders[0]:
        assert "source.asset={column: machine}" in told[0]
        fleet.job["source"]["asset"] = {"column": "machine"}
    else:
        fleet.job["source"]["asset"] = {"from": "path", "pattern": r"(?P<asset>[^/]+)/[^/]+$"}
    assert fleet.preprocess() == 0
    assert set(fleet.windows("train")) == {folder.removeprefix("machine=") for folder in folders}


def test_no_window_crosses_the_hole_of_a_rejected_file(fleet):
    for day in range(3):
        time = np.arange(20 * day, 20 * day + 20)
        frames = [pd.DataFrame({"t": time, "x0": time.astype("f4"), "machine": machine}) for machine in ("a", "b", "c")]
        path = fleet.write(f"day{day}.parquet", pa.Table.from_pandas(pd.concat(frames), preserve_index=False))
        if day == 1:
            path.write_bytes(path.read_bytes()[:-100])
    fleet.job["source"] |= {"asset": {"column": "machine"}, "features": ["x0"]}
    fleet.job |= {"prepare": {"scale": {"how": "none"}}, "split": {"train": 1, "eval": 0, "test": 0}}
    assert fleet.preprocess("limits.max_rejected_fraction=0.3") == 1  # a third of the files
    assert fleet.preprocess("limits.max_rejected_fraction=0.4") == 0
    found = fleet.windows("train")
    assert set(found) == {"a", "b", "c"}
    assert [note[:37] for note in fleet.manifest.notes] == ["no window goes from one file to the n"]
    for windows in found.values():
        assert len(windows) == 2 * 7
        assert all((np.diff(window[:, 0]) == 1).all() for window in windows.values())


def test_a_value_that_no_row_has_is_a_mistake_and_one_in_no_list_is_told(fleet, capfd):
    for i, site in enumerate(["north", "south", "north", "west"]):
        fleet.write(f"m{i}.parquet", make_table(40, seed=i, site=pa.array([site] * 40)))
    split = {"by": "column", "column": "site", "train": ["north"]}
    fleet.job["split"] = {**split, "eval": ["suoth"]}
    assert fleet.preprocess() == 2
    told = capfd.readouterr().err.strip().splitlines()
    assert told == ["split.eval: 'suoth' is not a value of site; did you mean 'south'? (it has: north, south, west)"]
    fleet.job["split"] = {**split, "eval": ["south"]}
    assert fleet.preprocess() == 0
    assert fleet.manifest.notes == ["rows left out, as site is 'west', in no list of split: 40 in 1 asset (m3)"]
    assert fleet.manifest.counts.rejected_assets == 0


def test_a_value_that_no_path_has_is_a_mistake_also_where_files_are_set_aside(fleet, capfd):
    for i, site in enumerate(["north", "south", "north", "west"]):
        fleet.write(f"{site}/m{i}.parquet", make_table(40 if site == "north" else 3, seed=i))
    fleet.job["source"] |= {"asset": {"from": "path", "pattern": r"(?P<site>[^/]+)/(?P<asset>[^/]+)\.parquet"}}
    fleet.job |= {"split": {"by": "column", "column": "site", "train": ["north"], "eval": ["suoth"]}}
    fleet.job |= {"limits": {"max_rejected_fraction": 0.4}}  # half of the fleet is set aside: the mistake is told first
    assert fleet.preprocess() == 2
    told = capfd.readouterr().err.strip().splitlines()
    assert told == ["split.eval: 'suoth' is not a value of site; did you mean 'south'? (it has: north, south, west)"]
    # A value of assets that do not take part is none, however few do.
    fleet.job["split"] |= {"eval": ["west"]}
    assert fleet.preprocess("source.max_assets=1") == 0


def test_a_split_that_stays_empty_is_refused_with_a_seed_that_fills_it(fleet, capfd):
    for i in range(4):
        fleet.write(f"m{i}.parquet", make_table(40, seed=i))
    fleet.job["split"] = {"train": 0.8, "eval": 0.1, "test": 0.1}
    assert fleet.preprocess() == 2
    told = capfd.readouterr().err.strip()
    seed = told.partition("split.seed=")[2].partition(" ")[0]
    assert fleet.preprocess(f"split.seed={seed}") == 0
    assert all(info.assets for info in fleet.manifest.splits.values())


def write_odd_files(fleet):
    """Small files that are read together: alike, of other types and formats, and broken ones between them."""
    for i in range(12):
        fleet.write(f"m{i:02d}.csv", make_table(30 + i, seed=i))
    for name, file_type in (("float", pa.float64()), ("same", pa.float32())):
        table = make_table(30, seed=40)
        for column in ("x0", "x1", "x2"):
            table = table.set_column(table.schema.get_field_index(column), column, table[column].cast(file_type))
        fleet.write(f"{name}.parquet", table)
        fleet.write(f"{name}-groups.parquet", make_table(40, seed=41), row_group_size=16)
    words = make_table(30, seed=42)
    fleet.write("words.parquet", words.set_column(1, "x0", words["x0"].dictionary_encode()))
    (fleet.files / "empty.csv").write_text("")
    (fleet.files / "no-rows.csv").write_text("t,x0,x1,x2\n")
    (fleet.files / "number.csv").write_text("t,x0,x1,x2\n" + "".join(f"{i},1,2,3\n" for i in range(20)) + "20,1,x,3\n")
    (fleet.files / "ragged.csv").write_text("t,x0,x1,x2\n" + "".join(f"{i},1,2,3\n" for i in range(20)) + "20,1\n")
    (fleet.files / "semicolon.csv").write_text("t;x0;x1;x2\n" + "".join(f"{i};{i},5;2;3,25\n" for i in range(20)))
    fleet.write("short.csv", make_table(3))
    fleet.write("twice.csv", make_table(60, t=np.r_[0:30, 29:59]))
    fleet.write("unsorted.csv", make_table(60, t=np.r_[30:60, 0:30]))
    packed = fleet.files / "packed.csv.gz"
    packed.write_bytes(gzip.compress((fleet.files / "m03.csv").read_bytes()))


def test_small_files_that_are_read_together_give_what_they_give_alone(fleet, monkeypatch):
    write_odd_files(fleet)
    fleet.job["limits"]["max_rejected_fraction"] = 0.9
    with monkeypatch.context() as patch:
        patch.setattr(RowCopies, "takes", lambda *_: False)
        assert fleet.preprocess(f"output.path={fleet.folder}/alone") == 0
    pieces, scan_file = [], source.scan_file
    monkeypatch.setattr(source, "scan_file", lambda *args: pieces.extend(scan_file(*args)) or pieces[-1:])
    monkeypatch.setattr(build, "LEAST_RUNS", 1)
    monkeypatch.setattr(build, "MOST_FILES", 9)
    assert fleet.preprocess() == 0
    assert files_of(fleet.folder / "alone") == files_of(fleet.output)
    assert {reject["asset"] for reject in fleet.rejects()} == {
        "empty", "no-rows", "number", "ragged", "short"
    }  # fmt: skip
    names = {piece.asset for piece in pieces if piece.copy is not None}
    assert names >= {"m07", "m11", "unsorted", "twice", "number", "ragged", "packed"}  # rows that are set aside, too
    assert not names & {"words", "same-groups"}
    assert not list(fleet.output.rglob("*-rows.arrow"))


@pytest.mark.parametrize("how", ["other values", "removed"])
def test_a_small_file_that_changes_after_it_was_copied_ends_the_job(fleet, monkeypatch, capfd, how):
    for i in range(6):
        fleet.write(f"m{i}.csv", make_table(40, seed=i))
    decide = build.PreprocessPipeline.decide

    def change(self, *args):
        path = fleet.files / "m1.csv"
        path.unlink()
        if how != "removed":
            fleet.write("m1.csv", make_table(41, seed=99))
        return decide(self, *args)

    monkeypatch.setattr(build, "LEAST_RUNS", 2)
    monkeypatch.setattr(build.PreprocessPipeline, "decide", change)
    assert fleet.preprocess() == 1
    what = "was removed while the job ran" if how == "removed" else "m1.csv changed while the job ran"
    assert what in capfd.readouterr().err
    assert not (fleet.output / "manifest.json").exists()


@pytest.mark.parametrize("how", ["rewritten", "other values", "removed"])
def test_a_file_that_changes_while_the_job_runs_ends_it(fleet, monkeypatch, capfd, how):
    for i in range(4):
        fleet.write(f"m{i}.parquet", make_table(400, seed=i), row_group_size=100)
    decide = build.PreprocessPipeline.decide

    def change(self, *args):
        path = fleet.files / "m1.parquet"
        if how == "removed":
            path.unlink()
        elif how == "rewritten":  # the same rows in other row groups
            pq.write_table(pq.read_table(path), path, row_group_size=37)
        else:
            pq.write_table(make_table(400, seed=99), path, row_group_size=100)
        return decide(self, *args)

    monkeypatch.setattr(build.PreprocessPipeline, "decide", change)
    assert fleet.preprocess() == 1
    told = capfd.readouterr().err
    assert "m1.parquet" in told
    assert ("is not any more" if how == "removed" else "changed while the job ran") in told
    assert not (fleet.output / "manifest.json").exists()


def test_absolute_cuts_put_no_time_of_the_fleet_into_two_splits(fleet):
    for i, begin in enumerate([0, 50, 200]):
        time = np.arange(begin, begin + 300)
        fleet.write(f"m{i}.parquet", make_table(300, t=time, x0=time.astype("f4")))
    fleet.job["source"]["features"] = ["x0"]
    fleet.job |= {
        "prepare": {"scale": {"how": "none"}}, "split": {"by": "time", "eval_from": 250, "test_from": 300},
    }  # fmt: skip
    assert fleet.preprocess() == 0
    times = {name: np.concatenate([w[:, 0] for by in fleet.windows(name).values() for w in by.values()])
             for name in ("train", "eval", "test")}  # fmt: skip
    assert times["train"].max() < 250 <= times["eval"].min()
    assert times["eval"].max() < 300 <= times["test"].min()
    assert set(fleet.windows("eval")) == {"m0", "m1", "m2"}
    assert fleet.manifest.notes == ["without a window in test: 1 asset (m0)"]


@pytest.mark.parametrize(("how", "expected"), [("first", 100.0), ("last", 300.0), ("mean", 200.0)])
def test_rows_of_one_time_become_one(fleet, how, expected):
    time = np.r_[0:20, 19, 19:40]  # three rows at 19
    values = np.arange(42, dtype="f4")
    values[19:22] = 100, 200, 300
    if how == "mean":
        values[20] = np.nan  # counts for nothing
    fleet.write("m.parquet", make_table(42, t=time, x0=values), row_group_size=20)
    fleet.job["source"]["features"] = ["x0"]
    fleet.job["prepare"] = {"scale": {"how": "none"}, "duplicates": how, "missing": {"fill": "drop"}}
    fleet.job["windows"] = {"length": 40, "stride": 1}
    assert fleet.preprocess() == 0
    (window,) = fleet.windows("train")["m"].values()
    assert window[19, 0] == expected
    assert window[[18, 20], 0].tolist() == [18, 22]
    assert fleet.manifest.notes == [
        f"rows of a time that another row has, made one (duplicates: {how}): 2 in 1 asset (m)"
    ]


def test_rows_of_one_time_all_count_in_a_step_of_the_grid(fleet):
    time = np.r_[0:20, 19, 19:40]
    fleet.write("m.parquet", make_table(42, t=time, x0=time.astype("f4")))
    fleet.job["source"]["features"] = ["x0"]
    fleet.job["prepare"] = {"scale": {"how": "none"}, "resample": {"every": 2}}
    assert fleet.preprocess() == 0
    window = fleet.windows("train")["m"][4]
    assert window[5, 0] == pytest.approx((18 + 3 * 19) / 4)


def test_a_file_without_rows_is_no_reason_to_reject_the_machine(fleet):
    for day in range(3):
        time = np.arange(20 * day, 20 * day + 20)
        table = make_table(20, t=time, x0=time.astype("f4"))
        fleet.write(f"m/day{day}.parquet", table.slice(0, 0) if day == 1 else table)
    fleet.job["source"]["asset"] = {"from": "path", "pattern": r"(?P<asset>[^/]+)/[^/]+$"}
    fleet.job["split"] = {"train": 1, "eval": 0, "test": 0}
    assert fleet.preprocess() == 0
    assert fleet.manifest.counts.rows_read == 40
    assert fleet.manifest.notes == ["files without rows: 1 in 1 asset (m)"]


def test_the_past_and_the_future_of_a_machine_may_lie_in_two_folders(fleet):
    for i in range(3):
        for k, name in enumerate(["train", "test"]):
            time = np.arange(100 * k, 100 * k + 100)
            fleet.write(f"{name}/m{i}.parquet", make_table(100, t=time, x0=time.astype("f4")))
    fleet.write("test/m3.parquet", make_table(100))
    overlap = make_table(100, t=np.arange(50, 150))
    fleet.write("train/m4.parquet", make_table(100)), fleet.write("test/m4.parquet", overlap)
    fleet.job["source"] |= {
        "features": ["x0"], "asset": {"from": "path", "pattern": r"(?P<part>train|test)/(?P<asset>[^/]+)\.parquet$"},
    }  # fmt: skip
    fleet.job |= {
        "prepare": {"scale": {"how": "none"}},
        "split": {"by": "column", "column": "part", "train": ["train"], "test": ["test"]},
    }
    assert fleet.preprocess() == 0
    train, test = fleet.windows("train"), fleet.windows("test")
    assert set(train) == {"m0", "m1", "m2"}
    assert set(test) == {"m0", "m1", "m2", "m3"}
    assert max(window.max() for window in train["m0"].values()) < 100
    assert min(window.min() for window in test["m0"].values()) >= 100
    assert [(reject["asset"], reject["place"]) for reject in fleet.rejects()] == [("m4", "path")]


def test_the_first_rows_of_each_asset_may_train(fleet):
    for i in range(2):
        fleet.write(f"m{i}.parquet", make_table(100, x0=np.arange(100, dtype="f4")))
    fleet.job["source"]["features"] = ["x0"]
    fleet.job |= {"prepare": {"scale": {"how": "none"}}, "split": {"by": "rows", "train": 40, "eval": 30}}
    assert fleet.preprocess() == 0
    ends = {
        name: [w[-1, 0] for by in fleet.windows(name).values() for w in by.values()]
        for name in ("train", "eval", "test")
    }
    starts = {name: [w[0, 0] for by in fleet.windows(name).values() for w in by.values()] for name in ends}
    assert (max(ends["train"]), min(starts["eval"]), max(ends["eval"]), min(starts["test"])) == (39, 40, 69, 70)


def test_values_out_of_their_range_are_missing_and_counted(fleet):
    values = np.arange(40, dtype="f4")
    values[[10, 30]] = -999, 1e9
    fleet.write("m.parquet", make_table(40, x0=values))
    fleet.job["source"]["features"] = ["x0"]
    fleet.job["prepare"] = {"scale": {"how": "none"}, "range": {"x*": [0, 100]}}
    assert fleet.preprocess() == 0
    (window,) = [w for start, w in fleet.windows("train")["m"].items() if start == 8]
    assert window[:, 0].tolist() == [8, 9, 9, 11, 12, 13, 14, 15]
    assert fleet.manifest.notes == ["values of x0 outside of [0, 100], now missing: 2 in 1 asset (m)"]
    assert fleet.preprocess("prepare.range={y: [0, 1]}") == 2


def test_assets_of_a_mixed_file_keep_their_rows_and_their_places(fleet):
    rng = np.random.default_rng(0)
    names = rng.choice(["a", "b", "c", "d"], 400, p=[0.4, 0.3, 0.2, 0.1])
    table = make_table(400, machine=pa.array(names))
    fleet.write("all.parquet", table, row_group_size=64)
    fleet.job["source"]["asset"] = {"column": "machine"}
    fleet.job |= {"prepare": {"scale": {"how": "none"}}, "split": split_of("abcd")}
    assert fleet.preprocess() == 0
    found = {name: by for split in ("train", "eval", "test") for name, by in fleet.windows(split).items()}
    for name in "abcd":
        values = np.stack([table.column(f"x{i}").to_numpy()[names == name] for i in range(3)], 1)
        assert len(found[name]) == (len(values) - 8) // 2 + 1
        assert all((window == values[start : start + 8]).all() for start, window in found[name].items())
    assert not list(fleet.output.glob("data-*/tmp"))
