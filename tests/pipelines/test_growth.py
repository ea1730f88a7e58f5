"""Datasets that grow: new files alone are prepared and added, and it is the dataset that a run over all files gives."""

import json
import os
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beamfeed.contract.dataset.manifest import find_manifest
from beamfeed.launcher.cli import main as command
from beamfeed.trainer.tools.verify_dataset import verify
from tests.albums import Album, picture
from tests.arrays import Pile
from tests.fleets import Fleet, make_table
from tests.sampling import sample
from tests.tables import Lake
from tests.tables import make_table as make_lake

SPLITS = ("train", "eval", "test")


def names_of(output):
    return {path.name for path in output.iterdir()}


def assert_equal_rows(some, others):
    """By what names a row, its fields."""
    assert some.keys() == others.keys()
    for row, fields in some.items():
        for field, value in fields.items():
            np.testing.assert_array_equal(value, others[row][field], err_msg=f"{row} {field}")


def touch_all(folder):
    """All files of a lake or an album are not as they were."""
    for path in folder.files.rglob("*.*"):
        os.utime(path, ns=(1, 1))


def lake_of(folder, **job):
    lake = Lake(folder)
    lake.job["output"]["grow"] = True
    lake.job |= job
    return lake


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """A lake of three days that came one by one; its label's classes were found on the first, which lacks a city."""
    lake = lake_of(tmp_path_factory.mktemp("grown"), label={"column": "fraud", "classes": "auto"})
    manifests = []
    for day in range(3):
        lake.write(f"day={day}/part.parquet", make_lake(400, seed=day))
        assert lake.preprocess() == 0
        manifests.append(lake.manifest)
    return lake, manifests


def test_new_files_are_added_and_nothing_else_is_written(grown):
    lake, (first, second, third) = grown
    assert [len(one["increments"]["data"]) for one in (first, second, third)] == [1, 2, 3]
    assert third["increments"]["files"] == [1, 1, 1]
    assert sum(third["increments"]["windows"]) == sum(info["windows"] for info in third["splits"].values())
    assert third["counts"]["files"] == third["counts"]["assets"] == 3
    assert third["counts"]["rows_read"] == 1200
    for split in SPLITS:  # shards of the first day are where they were, and first
        named = [f"{first['data']}/{split}/part-{i:05d}-of-00001.tfrecord" for i in range(1)]
        assert third["splits"][split]["shards"]["file"][:1] == named
    assert third["previous"] == second["data"]
    assert names_of(lake.output / first["data"]) == set(SPLITS)  # its shards alone are read
    assert not list((lake.output / first["data"]).rglob("blocks.parquet"))
    assert names_of(lake.output / second["data"]) >= {"transform_fn", "files.parquet", "learned.json"}
    manifest = find_manifest(str(lake.output))
    assert verify(manifest, str(lake.output)) == []


def test_a_day_that_was_added_is_as_if_all_were_prepared_at_once_with_the_same_statistics(grown):
    lake, (first, _, third) = grown
    rows = {split: lake.rows(split) for split in SPLITS}
    assert sum(map(len, rows.values())) == 1200
    touch_all(lake)  # so all are prepared again
    assert lake.preprocess() == 0
    manifest = lake.manifest
    assert len(manifest["increments"]["data"]) == 1
    assert manifest["grows"]["first"] == third["grows"]["first"] == first["fingerprint"]
    for key in ("counts", "fields"):
        assert manifest[key] == third[key]
    for split in SPLITS:
        assert_equal_rows(lake.rows(split), rows[split])
        kept = {key: manifest["splits"][split][key] for key in ("assets", "windows", "targets")}
        assert kept == {key: third["splits"][split][key] for key in kept}
    # what is there for who still reads the dataset of before
    assert names_of(lake.output) >= {manifest["data"], *third["increments"]["data"]}
    assert lake.preprocess() == 0  # and it is complete
    assert lake.manifest == manifest


@pytest.mark.slow
def test_statistics_are_those_of_the_first_run_until_they_are_made_anew(tmp_path, capfd):
    lake = lake_of(tmp_path)
    lake.job["output"]["rows_per_record"] = 1
    first = make_lake(300, seed=1)
    lake.write("1.parquet", first)
    assert lake.preprocess() == 0
    other = make_lake(300, seed=2)
    other["count"] = other["count"] + 100
    lake.write("2.parquet", other)
    before = lake.manifest
    assert lake.preprocess("limits.max_drift=3") == 1
    assert lake.manifest == before
    capfd.readouterr()
    assert lake.preprocess() == 0
    assert "adding 1 new file to the dataset, with the statistics of its first run" in capfd.readouterr().out
    assert lake.preprocess("limits.max_drift=3") == 1  # complete, and by the same rule
    told = capfd.readouterr().err
    assert "in new files the mean of count is" in told
    assert "limits.max_drift is 3" in told
    manifest = lake.manifest
    of_tfds = [len(list((lake.output / data).glob("dataset_info.json"))) for data in manifest["increments"]["data"]]
    assert of_tfds == [1, 0]  # tensorflow-datasets finds no shards in two folders
    drift = manifest["increments"]["drift"][1]["count"]
    deviation = first["count"][first["row"].isin(lake.rows("train"))].std(ddof=0)
    assert drift == pytest.approx(100 / deviation, rel=0.1)
    assert f"new files are unlike those of the first run: the mean of count is {drift:+.1f} deviations" in str(
        manifest["notes"]
    )
    stats = json.loads((lake.data / "stats.json").read_text())
    assert stats["features"]["count"]["max"] < 100
    from beamfeed.pipelines.preprocess import main

    assert main(["--job", str(lake.folder / "job.yaml"), "--refit"]) == 0
    refitted = lake.manifest
    assert refitted["grows"]["first"] == refitted["fingerprint"] != manifest["grows"]["first"]
    assert json.loads((lake.data / "stats.json").read_text())["features"]["count"]["max"] > 100
    assert lake.preprocess() == 0
    assert lake.manifest == refitted


def test_rows_of_a_class_that_the_first_run_did_not_see_are_set_aside(tmp_path):
    lake = lake_of(tmp_path, label={"column": "fraud", "classes": "auto"}, limits={"max_rejected_fraction": 0.5})
    lake.write("1.parquet", make_lake(300, seed=1))
    assert lake.preprocess() == 0
    other = make_lake(300, seed=2)
    other.loc[5, "fraud"] = 7
    lake.write("2.parquet", other)
    assert lake.preprocess() == 0
    (reject,) = lake.rejects()
    assert (reject["asset"], reject["place"]) == ("2.parquet", "row 5")
    assert "7" in reject["reason"]
    assert lake.manifest["counts"]["rejected_rows"] == 1
    lake.write("3.parquet", make_lake(300, seed=3))
    assert lake.preprocess() == 0
    assert lake.rejects() == [reject]  # what earlier runs set aside is told on
    assert lake.manifest["counts"] == {**lake.manifest["counts"], "files": 3, "rows_read": 900, "rejected_rows": 1}


@pytest.mark.slow
def test_what_the_last_run_added_is_made_again_if_its_files_changed(tmp_path, capfd):
    lake = lake_of(tmp_path, label={"column": "fraud", "classes": "auto"})
    tables = {f"{day}.parquet": make_lake(300, seed=day) for day in range(4)}
    for name in ("0.parquet", "1.parquet", "2.parquet"):
        lake.write(name, tables[name])
        assert lake.preprocess() == 0
    before = find_manifest(str(lake.output))
    for rows in (100, 300):  # a file that still grew, and then was whole
        tables["2.parquet"] = make_lake(rows, seed=7)
        lake.write("2.parquet", tables["2.parquet"])
        lake.write("3.parquet", tables["3.parquet"])
        capfd.readouterr()
        assert lake.preprocess() == 0
        assert "2.parquet is gone, or not as it was: 2 files, with the statistics" in capfd.readouterr().out
        manifest = find_manifest(str(lake.output))
        assert [one.files for one in manifest.increments] == [1, 1, 2]
        assert manifest.increments[:2] == before.increments[:2]
        assert sum(info.windows for info in manifest.splits.values()) == manifest.counts.rows_read == 900 + rows
        assert verify(manifest, str(lake.output)) == []
    assert verify(before, str(lake.output)) != []  # what that run wrote has gone
    found = {split: lake.manifest["splits"][split]["targets"] for split in SPLITS}
    touch_all(lake)
    assert lake.preprocess() == 0
    assert not find_manifest(str(lake.output)).has_grown
    assert {split: lake.manifest["splits"][split]["targets"] for split in SPLITS} == found


@pytest.mark.slow
def test_earlier_runs_whose_files_changed_are_done_again_and_no_others(tmp_path, capfd):
    lake = lake_of(tmp_path, label={"column": "fraud", "classes": "auto"}, limits={"max_rejected_fraction": 0.5})
    for day in range(4):
        for part in range(2):
            lake.write(f"day={day}/{part}.parquet", make_lake(100 + day, seed=2 * day + part))
        if day == 1:
            (lake.files / "day=1/0.parquet").write_bytes(b"not whole yet")
        assert lake.preprocess() == 0
    before = lake.manifest
    assert before["counts"]["rejected_files"] == 1
    bad = make_lake(90, seed=77)
    bad.loc[5, "fraud"] = 7
    lake.write("day=1/0.parquet", bad)  # whole now, but for a row
    (lake.files / "day=0/1.parquet").unlink()
    lake.write("day=5/0.parquet", make_lake(50, seed=50))  # and a new one
    capfd.readouterr()
    assert lake.preprocess() == 0
    out = capfd.readouterr().out
    assert "2 runs are done again, as " in out
    assert "is gone, or not as it was: 4 files" in out
    manifest = lake.manifest
    kept = before["increments"]["data"][2:]
    assert manifest["increments"]["data"] == [*kept, manifest["data"]]
    assert manifest["counts"]["rejected_files"] == 0
    assert [reject["place"] for reject in lake.rejects()] == ["row 5"]
    assert verify(find_manifest(str(lake.output)), str(lake.output)) == []
    rows = {split: lake.rows(split) for split in SPLITS}
    assert sum(map(len, rows.values())) == 100 + 90 - 1 + 101 + 2 * (102 + 103) + 50
    touch_all(lake)
    assert lake.preprocess() == 0
    whole = lake.manifest
    assert len(whole["increments"]["data"]) == 1
    for split in SPLITS:
        assert_equal_rows(lake.rows(split), rows[split])
        for key in ("assets", "windows", "targets"):
            assert manifest["splits"][split][key] == whole["splits"][split][key]
    assert manifest["counts"] == whole["counts"]


def test_a_day_that_is_gone_takes_its_rows_along(tmp_path, capfd):
    lake = lake_of(tmp_path)
    for day in range(3):
        lake.write(f"day={day}/0.parquet", make_lake(100, seed=day))
        assert lake.preprocess() == 0
    rows = {split: lake.rows(split) for split in SPLITS}
    gone = set(make_lake(100, seed=1)["row"])
    shutil.rmtree(lake.files / "day=1")
    assert lake.preprocess() == 0
    for split in SPLITS:
        assert lake.rows(split).keys() == rows[split].keys() - gone
    assert lake.manifest["counts"]["files"] == 2
    assert lake.manifest["increments"]["files"] == [1, 1]


@pytest.mark.slow
def test_notes_on_splits_that_were_empty_do_not_come_back(tmp_path):
    lake = lake_of(tmp_path, split={"by": "time", "eval_from": "2024-02-01"})
    del lake.job["source"]["key"]
    days = {1: "2024-01-01", 2: "2024-02-02", 3: "2024-02-03"}

    def write(day, rows):
        table = make_lake(rows, seed=day)
        table["when"] = pd.date_range(days[day], periods=rows, freq="min").astype("datetime64[us]")
        lake.write(f"{day}.parquet", table)

    for day in days:
        write(day, 60)
        assert lake.preprocess() == 0
        assert [note for note in lake.manifest["notes"] if "eval" in note and day > 1] == []
    write(2, 70)
    assert lake.preprocess() == 0
    assert lake.manifest["increments"]["files"] == [1, 1, 1]
    assert lake.manifest["notes"] == []


def test_images_that_changed_are_prepared_again_with_those_of_their_run(tmp_path, capfd):
    album = Album(tmp_path)
    album.job["output"]["grow"] = True
    for run in range(3):
        for place in range(10 * run, 10 * run + 10):
            album.write(f"{'cats' if place % 2 else 'dogs'}/{place:03d}.jpg", picture(8, 9, seed=place))
        assert album.preprocess() == 0
    album.write("dogs/002.jpg", picture(8, 9, seed=99))
    capfd.readouterr()
    assert album.preprocess() == 0
    assert "1 run is done again, as " in capfd.readouterr().out
    manifest = album.manifest
    assert manifest["counts"]["rows_read"] == sum(info["windows"] for info in manifest["splits"].values()) == 30
    touch_all(album)
    assert album.preprocess() == 0
    assert album.manifest["counts"]["rows_read"] == 30
    for split in SPLITS:
        for key in ("windows", "targets"):
            assert album.manifest["splits"][split][key] == manifest["splits"][split][key]
    album.write("cats/041.jpg", picture(8, 9, seed=41))
    assert album.preprocess() == 0
    (album.files / "cats/041.jpg").unlink()  # all that a run added
    assert album.preprocess() == 0
    assert album.manifest["counts"]["rows_read"] == 30


BY_FOLDER = {"from": "path", "pattern": "fleet/(?P<asset>[^/]+)/[^/]+$"}
KEPT = {"scale": {"how": "none"}}  # values hang on no statistics


def fleets_of(folder, **job):
    """A fleet that grows, and one that is prepared at once."""
    fleets = Fleet(folder / "grows"), Fleet(folder / "whole")
    for fleet in fleets:
        fleet.job["source"]["asset"] = BY_FOLDER
        del fleet.job["train"]
        output = {**fleet.job["output"], "grow": True, **job.get("output", {})}
        fleet.job |= {"prepare": KEPT, "split": {"seed": 3, "train": 0.6, "eval": 0.2, "test": 0.2}, **job}
        fleet.job["output"] = output
    return fleets


def assert_same(grows, whole):
    """Both hold the same windows, once, and count the same."""
    assert whole.preprocess() == 0
    for split in SPLITS:
        found, wanted = grows.windows(split), whole.windows(split)
        assert {name: sorted(found[name]) for name in found} == {name: sorted(wanted[name]) for name in wanted}
        for name, windows in wanted.items():
            for start, values in windows.items():
                np.testing.assert_array_equal(found[name][start], values, err_msg=f"{name} {start}")
        kept, told = grows.manifest.splits[split], whole.manifest.splits[split]
        assert (kept.assets, kept.windows) == (told.assets, told.windows)
    assert grows.manifest.counts == whole.manifest.counts
    assert [note for note in grows.manifest.notes if note.startswith("without a window")] == [
        note for note in whole.manifest.notes if note.startswith("without a window")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("records", sample(["segments", "windows"], ["segments"]))
def test_assets_whose_files_changed_are_prepared_again_and_no_others(tmp_path, capfd, records):
    label = {"column": "x1", "at": "end"}
    grows, whole = fleets_of(tmp_path, output={"records": records, "shards": 3}, label=label)

    def write(path, rows):
        for fleet in (grows, whole):
            fleet.write(path, rows)

    for day in range(3):
        for seed, name in enumerate("abcdef"):
            write(f"{name}/{day}.parquet", rows_of(100 * day, 100 * day + 100, seed))
        assert grows.preprocess() == 0
    before = grows.manifest
    for fleet in (grows, whole):
        for day in range(3):  # one asset is gone, and of another a day
            (fleet.files / "e" / f"{day}.parquet").unlink()
        (fleet.files / "c" / "2.parquet").unlink()
    write("b/0.parquet", rows_of(0, 80, seed=20))
    write("b/3.parquet", make_table(400, seed=1)[300:])
    write("a/3.parquet", make_table(400, seed=0)[300:])  # goes on
    write("f/2.parquet", pa.table({"t": pa.array([], pa.int64())}))  # set aside from now on
    write("g/0.parquet", rows_of(0, 100, seed=9))
    spoil(grows.files / "d" / "0.parquet")
    spoil(grows.files / "a" / "0.parquet")
    capfd.readouterr()
    assert grows.preprocess("limits.max_rejected_fraction=0.5") == 0
    printed = capfd.readouterr().out
    assert "4 assets are prepared again, as" in printed
    assert "as it was: 11 files, with the statistics of its first run; where assets go on" in printed
    assert len(grows.manifest.increments) == 4
    assert grows.manifest.counts.rejected_assets == 1
    assert verify(grows.manifest, str(grows.output)) == []
    assert verify(before, str(grows.output)) == []  # who still reads it can
    whole.job["limits"] = {"max_rejected_fraction": 0.5}
    assert_same(grows, whole)
    for split in SPLITS:
        (found,), (wanted,) = (fleet.manifest.splits[split].targets.values() for fleet in (grows, whole))
        assert found.model_dump(exclude={"counts"}) == pytest.approx(wanted.model_dump(exclude={"counts"}))
    write("f/2.parquet", rows_of(200, 300, 5))
    assert grows.preprocess() == 0
    assert grows.manifest.counts.rejected_assets == 0
    for fleet in (grows, whole):
        shutil.rmtree(fleet.files / "d")
    assert grows.preprocess() == 0  # which reads no file
    assert "1 asset is prepared again, as" in capfd.readouterr().out
    assert_same(grows, whole)


@pytest.mark.slow
def test_a_run_is_done_again_as_often_as_it_takes(tmp_path, capfd):
    """What the dataset before it reads stays, also where assets were prepared again in between."""
    grows, whole = fleets_of(tmp_path, prepare=KEPT | {"missing": {"fill": "linear"}})

    def write(path, rows):
        for fleet in (grows, whole):
            fleet.write(path, rows)

    for name in "abcdef":
        write(f"{name}/0.parquet", rows_of(0, 100, ord(name)))
    assert grows.preprocess() == 0
    for name in "gh":
        write(f"{name}/0.parquet", rows_of(0, 100, ord(name)))
    assert grows.preprocess() == 0
    for name in "abcde":
        write(f"{name}/1.parquet", rows_of(100, 200, ord(name)))
    assert grows.preprocess() == 0
    assert "5 assets are prepared again" in capfd.readouterr().out
    for seed in (1, 2, 3):
        write("a/1.parquet", rows_of(100, 200, seed))
        assert grows.preprocess() == 0
        assert "the last run is done again" in capfd.readouterr().out
        assert verify(grows.manifest, str(grows.output)) == []
    assert_same(grows, whole)
    for fleet in (grows, whole):
        for name in "abcde":
            (fleet.files / name / "1.parquet").unlink()
    assert grows.preprocess() == 0  # without a file
    assert "the last run is done again" in capfd.readouterr().out
    assert_same(grows, whole)
    write("b/0.parquet", rows_of(0, 100, 77))
    next((grows.output / grows.manifest.increments[1].data).glob("train/*.tfrecord")).unlink()
    assert grows.preprocess() == 0
    assert "as shards are missing or damaged" in capfd.readouterr().out
    assert_same(grows, whole)


def spoil(path):
    """Other bytes in a file that looks as it did."""
    stat = path.stat()
    path.write_bytes(bytes(stat.st_size))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


GOING_ON = {
    "rows": {},
    "filled, and cut in time": {
        "prepare": KEPT | {"missing": {"fill": "forward", "limit": 3}},
        "split": {"by": "time", "eval_from": 155, "test_from": 230},
        "output": {"records": "windows"},
    },
    "on a grid, with a label ahead": {
        "prepare": KEPT | {"resample": {"every": 5, "how": "mean"}},
        "windows": {"length": 6, "stride": 2},
        "label": {"column": "x1", "at": "horizon", "horizon": 3},
    },
    "forecast": {"label": {"ahead": {"rows": 4, "columns": ["x0"]}}, "windows": {"length": 8}},
}


@pytest.mark.slow
@pytest.mark.parametrize("job", sample(GOING_ON.values(), [*GOING_ON.values()][1:]), ids=GOING_ON)
def test_assets_go_on_in_new_files_and_older_ones_are_not_read(tmp_path, capfd, job):
    grows, whole = fleets_of(tmp_path, **job)
    tables = {}
    for seed, name in enumerate("abcdef"):
        table = make_table(300, seed=seed).to_pandas()
        table.loc[np.arange(95, 300, 37), "x0"] = np.nan
        tables[name] = table
    days = ((0, 100), (100, 190), (190, 300))
    for day, (first, end) in enumerate(days):
        for name, table in tables.items():
            if (name, day) != ("f", 0) and (name, day) != ("e", 1):  # one comes later, one is silent for a day
                rows = pa.Table.from_pandas(table[first:end], preserve_index=False)
                for fleet in (grows, whole):
                    fleet.write(f"{name}/{day}.{'csv' if name == 'b' else 'parquet'}", rows)
        capfd.readouterr()
        assert grows.preprocess() == 0
        assert ("assets go on" in capfd.readouterr().out) == (day > 0)
        if day == 1:
            spoil(grows.files / "a" / "0.parquet")  # a window across the seam needs day 1 at most
            spoil(grows.files / "b" / "0.csv")
    assert len(grows.manifest.increments) == 3
    assert verify(grows.manifest, str(grows.output)) == []
    assert_same(grows, whole)


@pytest.mark.slow
def test_files_of_a_day_that_hold_the_rows_of_all_assets(tmp_path, capfd):
    grows, whole = fleets_of(tmp_path)
    for fleet in (grows, whole):
        fleet.job["source"]["asset"] = {"column": "machine"}
    for day in range(4):
        absent = (("f", 0), ("e", 2), ("d", 1), ("a", 1), ("a", 2), ("a", 3))
        machines = [name for name in "abcdef" if (name, day) not in absent]
        rows = [make_table(60, seed=day, t=np.arange(60) + 60 * day, machine=np.full(60, name)) for name in machines]
        for fleet in (grows, whole):
            fleet.write(f"{day}.parquet", pa.concat_tables(rows))
        if day == 3:
            spoil(grows.files / "0.parquet")  # only what has ended ends there
        assert grows.preprocess() == 0
    assert len(grows.manifest.increments) == 4
    assert_same(grows, whole)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["path", "column"])
def test_an_asset_with_too_few_rows_is_set_aside_until_it_has_more(tmp_path, capfd, by):
    grows, whole = fleets_of(tmp_path)
    if by == "column":
        for fleet in (grows, whole):
            fleet.job["source"]["asset"] = {"column": "machine"}
    days = {"g": (0, 3, 6, 40), "h": (0, 5, 6, 7), **dict.fromkeys("abcdef", (0, 40, 60, 90))}
    for day in range(3):
        tables = {
            name: make_table(90, seed=seed, machine=np.full(90, name))[ends[day] : ends[day + 1]]
            for seed, (name, ends) in enumerate(days.items())
        }
        for fleet in (grows, whole):
            if by == "column":
                fleet.write(f"{day}.parquet", pa.concat_tables(tables.values()))
            for name, table in tables.items() if by == "path" else ():
                fleet.write(f"{name}/{day}.parquet", table)
        if by == "path" and day == 2:
            for fleet in (grows, whole):
                fleet.write("of-no-asset.parquet", make_table(9))
        assert grows.preprocess() == 0
        kept = sorted((grows.output / grows.manifest.data).glob("rejects/*.jsonl"))
        set_aside = {json.loads(line)["asset"] for path in kept for line in path.read_text().splitlines()}
        assert set_aside - {None} == ({"g", "h"} if day < 2 else {"h"})
    assert "prepared again" not in capfd.readouterr().out
    assert_same(grows, whole)


def rows_of(first, end, seed=0):
    return make_table(300, seed=seed)[first:end]


BEHIND = {
    "rows before those that are there": (lambda: rows_of(40, 60), "begins before the rows of asset a"),
    "a file that cannot be read": (lambda: None, "a/9.parquet may go on with asset a, and cannot be used"),
    "rows out of order": (lambda: rows_of(200, 260).take(list(range(59, -1, -1))), "is not behind the rows"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("make", "why"), BEHIND.values(), ids=BEHIND)
def test_where_the_rows_that_are_there_would_be_others_all_files_are_prepared_again(tmp_path, capfd, make, why):
    grows, whole = fleets_of(tmp_path)
    for fleet in (grows, whole):
        for seed, name in enumerate("abcdef"):
            fleet.write(f"{name}/1.parquet", rows_of(0, 40, seed))
            fleet.write(f"{name}/2.parquet", rows_of(60, 150, seed))
    assert grows.preprocess() == 0
    first = grows.manifest
    for fleet in (grows, whole):
        table = make()
        path = fleet.write("a/9.parquet", table if table is not None else rows_of(0, 9))
        if table is None:
            spoil(path)
    capfd.readouterr()
    assert grows.preprocess() == 0
    told = capfd.readouterr().out
    assert "adding 1 new file" in told
    assert "all files are prepared again, with the statistics of the first run" in told
    assert why in told
    assert grows.manifest.grows.first == first.grows.first
    assert_same(grows, whole)
    if table is not None:  # one case is enough for how it grows on
        return
    for fleet in (grows, whole):
        fleet.write("b/3.parquet", rows_of(150, 300, 1))
    assert grows.preprocess() == 0
    assert grows.manifest.has_grown
    assert_same(grows, whole)


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_without_what_is_known_of_assets_all_files_are_prepared_again(tmp_path, capfd, how):
    grows, whole = fleets_of(tmp_path)
    for seed, name in enumerate("abcdef"):
        for fleet in (grows, whole):
            fleet.write(f"{name}/1.parquet", rows_of(0, 60, seed))
    assert grows.preprocess() == 0
    path = grows.output / grows.manifest.data / "assets.parquet"
    path.unlink() if how == "missing" else path.write_bytes(b"PAR1")
    for fleet in (grows, whole):
        fleet.write("g/1.parquet", rows_of(0, 60, 9))
    capfd.readouterr()
    assert grows.preprocess() == 0
    assert "assets.parquet cannot be read" in capfd.readouterr().out
    assert_same(grows, whole)


@pytest.mark.parametrize(
    "job",
    [
        {"split": {"by": "time", "train": 0.6, "eval": 0.2, "test": 0.2}},
        {"prepare": KEPT | {"missing": {"fill": "linear"}}},
        {"label": {"derive": "remaining_life"}},
    ],
    ids=["fractions of time", "filled from both sides", "life that remains"],
)
def test_where_more_rows_change_windows_that_are_there_all_files_are_prepared_again(tmp_path, capfd, job):
    grows, whole = fleets_of(tmp_path, **job)
    for first, end in ((0, 150), (150, 300)):
        for fleet in (grows, whole):
            for seed, name in enumerate("abcdef"):
                fleet.write(f"{name}/{first}.parquet", rows_of(first, end, seed))
        assert grows.preprocess() == 0
    assert "150.parquet goes on with asset a" in capfd.readouterr().out
    assert not grows.manifest.has_grown
    for fleet in (grows, whole):
        fleet.write("a/300.parquet", make_table(350, seed=0)[300:])
    assert grows.preprocess() == 0
    assert "1 asset is prepared again, as" in capfd.readouterr().out
    assert grows.manifest.has_grown
    assert_same(grows, whole)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("prepare", {"scale": {"per": "asset"}}, "output.grow: does not go with prepare.scale.per: asset"),
        ("source", {"max_assets": 2}, "output.grow: does not go with source.max_assets"),
        ("split", {"by": "asset", "stratify": True}, "does not go with"),
    ],
)
def test_what_needs_all_files_at_once_is_refused(tmp_path, capfd, key, value, message):
    fleet = Fleet(tmp_path)
    fleet.write("a.parquet", make_table(50))
    fleet.job["output"]["grow"] = True
    fleet.job[key] = fleet.job.get(key, {}) | value
    assert fleet.preprocess() == 2
    assert message in capfd.readouterr().err


@pytest.mark.slow
def test_files_that_go_and_come_take_no_shards_away(tmp_path, monkeypatch):
    """The same files give the same fingerprint, and so might give the name of a folder that is read."""
    from beamfeed.transforms import publish

    lake = lake_of(tmp_path)
    for day in (1, 2):
        lake.write(f"{day}.parquet", make_lake(200, seed=day))
        assert lake.preprocess() == 0
    before = find_manifest(str(lake.output))
    os.rename(lake.files / "2.parquet", tmp_path / "2.parquet")
    with monkeypatch.context() as patch:
        patch.setattr(publish, "replace_manifest", lambda *_: 1 / 0)
        assert lake.preprocess() == 1
    assert find_manifest(str(lake.output)) == before
    assert verify(before, str(lake.output)) == []
    assert lake.preprocess() == 0
    assert verify(before, str(lake.output)) == []  # who still reads it can
    assert sum(len(lake.rows(split)) for split in SPLITS) == 200
    os.rename(tmp_path / "2.parquet", lake.files / "2.parquet")
    assert lake.preprocess() == 0
    assert sum(len(lake.rows(split)) for split in SPLITS) == 400
    shard = next((lake.output / lake.manifest["data"]).glob("train/*.tfrecord"))
    shard.unlink()
    assert lake.preprocess() == 0  # a shard that is missing is made again, with all others
    assert verify(find_manifest(str(lake.output)), str(lake.output)) == []
    assert lake.manifest["grows"]["first"] == before.grows.first


def test_another_jobs_dataset_gives_no_statistics(tmp_path, capfd):
    lake = lake_of(tmp_path)
    lake.write("a/1.parquet", make_lake(200, seed=1))
    lake.job["source"]["files"] = f"{lake.files}/a"
    assert lake.preprocess() == 0
    other = make_lake(200, seed=2)
    other["count"] += 1000
    lake.write("b/1.parquet", other)
    lake.job["source"]["files"] = f"{lake.files}/b"
    assert lake.preprocess() == 2
    from beamfeed.pipelines.preprocess import main

    assert main(["--job", str(tmp_path / "job.yaml"), "--replace"]) == 0
    assert json.loads((lake.data / "stats.json").read_text())["features"]["count"]["mean"] > 900
    assert len(lake.manifest["increments"]["data"]) == 1


def test_a_split_that_was_empty_at_first_and_files_of_other_types(tmp_path, capfd):
    lake = lake_of(tmp_path)
    lake.job["split"] = {"by": "time", "test_from": "2024-03-04"}
    early, late = make_lake(200, seed=1), make_lake(200, seed=2)
    late["when"] = early["when"] + np.timedelta64(5, "D")
    lake.write("1.parquet", early)
    assert lake.preprocess() == 0
    assert any("the split test has no row" in note for note in lake.manifest["notes"])
    lake.write("2.parquet", late)
    assert lake.preprocess() == 0
    assert lake.manifest["splits"]["test"]["windows"] > 0
    assert not any("the split test" in note for note in lake.manifest["notes"])
    other = make_lake(200, seed=3)
    other["when"] = other["when"].astype(str)
    lake.write("3.parquet", other)
    capfd.readouterr()
    before = lake.manifest
    assert lake.preprocess() == 2
    assert "column when has values of another type than at first; make the files alike" in capfd.readouterr().err
    assert lake.manifest == before


@pytest.mark.slow
def test_a_model_of_each_asset_of_a_dataset_that_grows(tmp_path):
    from beamfeed.pipelines.train_each import main

    fleet = Fleet(tmp_path)
    fleet.job["output"]["grow"] = True
    fleet.job["split"] = {"by": "time", "train": 0.6, "eval": 0.2, "test": 0.2}
    fleet.job["train"] |= {"model": {"name": "dense_autoencoder", "latent": 2}, "feed": {"batch_size": 4}, "epochs": 1}
    for name in "ab":
        fleet.write(f"{name}.parquet", make_table(80))
        assert fleet.preprocess() == 0
    assert fleet.manifest.has_grown
    out = tmp_path / "each"
    options = ["--by", "asset", "--out", str(out), "--no-models", "--", "--direct_num_workers=1"]
    assert main(["--job", str(tmp_path / "job.yaml"), *options]) == 0
    assert pq.read_table(out / "results.parquet")["group"].to_pylist() == ["a", "b"]


def test_a_killed_increment_leaves_the_dataset_and_the_next_run_adds_it(tmp_path, monkeypatch):
    from beamfeed.transforms import publish

    lake = lake_of(tmp_path)
    lake.write("1.parquet", make_lake(300, seed=1))
    assert lake.preprocess() == 0
    before = lake.manifest
    lake.write("2.parquet", make_lake(300, seed=2))
    with monkeypatch.context() as patch:
        patch.setattr(publish, "replace_manifest", lambda *_: 1 / 0)
        assert lake.preprocess() == 1
    assert lake.manifest == before
    assert lake.preprocess() == 0
    assert len(lake.manifest["increments"]["data"]) == 2
    assert sum(len(lake.rows(split)) for split in SPLITS) == 600


@pytest.mark.slow
def test_the_same_through_the_command_and_what_inspect_tells(tmp_path, capfd):
    lake = lake_of(tmp_path)
    lake.write("1.parquet", make_lake(300, seed=1))
    assert lake.preprocess() == 0
    lake.write("2.parquet", make_lake(300, seed=2))
    job = str(lake.folder / "job.yaml")
    capfd.readouterr()
    assert command(["check", job]) == 0
    assert "adding 1 new file to the dataset" in capfd.readouterr().out
    assert command(["preprocess", job]) == 0
    after = find_manifest(str(lake.output))
    assert command(["preprocess", job]) == 0
    assert find_manifest(str(lake.output)) == after
    capfd.readouterr()
    assert command(["check", job]) == 0
    assert "new file" not in capfd.readouterr().out
    assert command(["inspect", str(lake.output)]) == 0
    out = capfd.readouterr().out
    assert "grown in 2 runs" in out


def pile_of(folder, parts, **job):
    """Arrays in files that come one after the other; two of the arrays in the same files."""
    pile = Pile(
        folder,
        inputs={"x": {"files": "x-*.npy", "scale": "standard"}, "image": "image-*.npy"},
        outputs={"digit": {"files": "more-*.npz", "classes": "auto"}},
        keys={"name": {"files": "more-*.npz"}},
    )
    pile.job["output"]["grow"] = True
    pile.job |= job
    for number in parts:
        add_part(pile, number)
    return pile


def add_part(pile, number, digits=3):
    rng = np.random.default_rng(number)
    rows = 150 + 30 * number
    x = rng.normal(number, 1, (rows, 3))
    x[4, 1] = np.nan
    np.save(pile.files / f"x-{number}.npy", x)
    np.save(pile.files / f"image-{number}.npy", rng.integers(0, 255, (rows, 4, 4, 1), "u1"))
    digit = rng.integers(0, digits, rows)
    np.savez_compressed(pile.files / f"more-{number}.npz", digit=digit, name=[f"{number} {row}" for row in range(rows)])


SPLITS_OF_ROWS = {"hash": {"by": "row"}, "numbers": {"by": "rows", "train": 200, "eval": 100, "test": "rest"}}


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS_OF_ROWS.values(), ids=SPLITS_OF_ROWS)
def test_rows_of_arrays_come_behind_those_that_are_there(tmp_path, capfd, split):
    pile = pile_of(tmp_path, [0], split=split)
    pile.job["output"]["rows_per_record"] = 7
    assert pile.preprocess() == 0
    for number in (1, 2):
        add_part(pile, number)
        assert pile.preprocess() == 0
        assert "adding 3 new files to the dataset" in capfd.readouterr().out
    grown = pile.manifest
    assert grown["increments"]["files"] == [3, 3, 3]
    assert grown["counts"]["rows_read"] == 150 + 180 + 210
    assert grown["counts"]["rejected_rows"] == 3
    assert [reject["place"] for reject in pile.rejects()] == ["row 4", "row 154", "row 334"]
    rows = {name: pile.rows(name) for name in SPLITS}
    assert set().union(*rows.values()) == set(range(540)) - {4, 154, 334}
    assert command(["compact", pile.job_file()]) == 0
    for name in SPLITS:
        assert_equal_rows(pile.rows(name), rows[name])
    os.utime(pile.files / "x-0.npy", ns=(1, 1))  # all are prepared again, with the same statistics
    assert pile.preprocess() == 0
    assert "as x-0.npy is gone, or not as it was" in capfd.readouterr().out.replace(f"{pile.files}/", "")
    assert len(pile.manifest["increments"]["data"]) == 1
    for name in SPLITS:
        assert_equal_rows(pile.rows(name), rows[name])


@pytest.mark.slow
def test_where_rows_of_arrays_would_be_others_all_are_prepared_again(tmp_path, capfd):
    pile = pile_of(tmp_path / "between", [1, 3])
    assert pile.preprocess() == 0
    add_part(pile, 2)
    assert pile.preprocess() == 0
    out = capfd.readouterr().out
    assert "all files are prepared again" in out
    assert "x-2.npy is new, and its rows come before others of x" in out
    add_part(pile, 4, digits=5)  # classes that the first run did not see
    assert pile.preprocess("limits.max_rejected_fraction=0.5") == 0
    assert "adding 3 new files" in capfd.readouterr().out
    assert pile.manifest["counts"]["rejected_rows"] > 50
    add_part(pile, 4)  # the last run's files are others
    assert pile.preprocess() == 0
    assert "the last run is done again" in capfd.readouterr().out
    assert pile.manifest["counts"]["rejected_rows"] == 4
    learned = pile.data / "learned.json"
    text = json.loads(learned.read_text())
    learned.write_text(json.dumps({**text, "rows": text["rows"] - 1}))  # as if an array became longer unseen
    add_part(pile, 5)
    assert pile.preprocess() == 0
    assert "as the files that are there had 899 rows, and have 900 now" in capfd.readouterr().out
    assert len(pile.manifest["increments"]["data"]) == 1
    fractions = pile_of(tmp_path / "fractions", [1], split={"by": "rows", "train": 0.6, "eval": 0.2, "test": 0.2})
    assert fractions.preprocess() == 0
    add_part(fractions, 2)
    assert fractions.preprocess() == 0
    assert "split.by: rows with fractions" in capfd.readouterr().out
