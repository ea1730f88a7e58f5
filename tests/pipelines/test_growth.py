"""Datasets that grow: new files alone are prepared and added, and it is the dataset that a run over all files gives."""

import json
import os

import numpy as np
import pytest

from beamfeed.contract.dataset.manifest import find_manifest
from beamfeed.launcher.cli import main as command
from beamfeed.trainer.tools.verify_dataset import verify
from tests.fleets import Fleet, make_table
from tests.tables import Lake
from tests.tables import make_table as make_lake

SPLITS = ("train", "eval", "test")


def names_of(output):
    return {path.name for path in output.iterdir()}


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
    assert [len(one["increments"]) for one in (first, second, third)] == [1, 2, 3]
    assert [one["files"] for one in third["increments"]] == [1, 1, 1]
    assert sum(one["windows"] for one in third["increments"]) == sum(
        info["windows"] for info in third["splits"].values()
    )
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
    os.utime(lake.files / "day=0" / "part.parquet", ns=(1, 1))  # not as it was, so all are prepared again
    assert lake.preprocess() == 0
    manifest = lake.manifest
    assert len(manifest["increments"]) == 1
    assert manifest["grows"]["first"] == third["grows"]["first"] == first["fingerprint"]
    for key in ("counts", "fields"):
        assert manifest[key] == third[key]
    for split in SPLITS:
        again = lake.rows(split)
        assert again.keys() == rows[split].keys()
        for name, fields in again.items():
            for field, value in fields.items():
                np.testing.assert_array_equal(value, rows[split][name][field], err_msg=f"{name} {field}")
        kept = {key: manifest["splits"][split][key] for key in ("assets", "windows", "targets")}
        assert kept == {key: third["splits"][split][key] for key in kept}
    # what is there for who still reads the dataset of before
    assert names_of(lake.output) >= {manifest["data"], *(one["data"] for one in third["increments"])}
    assert lake.preprocess() == 0  # and it is complete
    assert lake.manifest == manifest


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
    of_tfds = [len(list((lake.output / one["data"]).glob("dataset_info.json"))) for one in manifest["increments"]]
    assert of_tfds == [1, 0]  # tensorflow-datasets finds no shards in two folders
    drift = manifest["increments"][1]["drift"]["count"]
    deviation = first["count"][[row in lake.rows("train") for row in first["row"]]].std(ddof=0)
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


def test_an_asset_that_goes_on_is_prepared_again_with_the_windows_across_the_seam(tmp_path, capfd):
    whole = make_table(300, seed=7)
    fleet, other = Fleet(tmp_path / "grows"), Fleet(tmp_path / "whole")
    for one in (fleet, other):
        one.job["source"]["asset"] = {"from": "path", "pattern": "(?P<asset>[^/]+)/[^/]+$"}
        one.job["prepare"] = {"scale": {"how": "none"}}
        one.job["split"] = {"by": "time", "train": 0.6, "eval": 0.2, "test": 0.2}
        one.job["output"]["grow"] = True
        one.write("a/1.parquet", whole[:201])
    assert fleet.preprocess() == 0
    fleet.write("b/1.parquet", make_table(100, seed=8))
    other.write("b/1.parquet", make_table(100, seed=8))
    assert fleet.preprocess() == 0
    assert len(fleet.manifest.increments) == 2
    for one in (fleet, other):
        one.write("a/2.parquet", whole[201:])
    capfd.readouterr()
    assert fleet.preprocess() == 0
    assert "a/2.parquet goes on with asset a" in capfd.readouterr().out
    assert other.preprocess() == 0
    assert not fleet.manifest.has_grown
    for split in SPLITS:
        found, wanted = fleet.windows(split), other.windows(split)
        assert found.keys() == wanted.keys()
        assert all(found[name].keys() == wanted[name].keys() for name in wanted)


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
        patch.setattr(publish, "write_manifest", lambda *_: 1 / 0)
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
    assert len(lake.manifest["increments"]) == 1


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
    assert main(["--job", str(tmp_path / "job.yaml"), "--by", "asset", "--out", str(out)]) == 0
    assert names_of(out / "models") == {"a", "b"}


def test_a_killed_increment_leaves_the_dataset_and_the_next_run_adds_it(tmp_path, monkeypatch):
    from beamfeed.transforms import publish

    lake = lake_of(tmp_path)
    lake.write("1.parquet", make_lake(300, seed=1))
    assert lake.preprocess() == 0
    before = lake.manifest
    lake.write("2.parquet", make_lake(300, seed=2))
    with monkeypatch.context() as patch:
        patch.setattr(publish, "write_manifest", lambda *_: 1 / 0)
        assert lake.preprocess() == 1
    assert lake.manifest == before
    assert lake.preprocess() == 0
    assert len(lake.manifest["increments"]) == 2
    assert sum(len(lake.rows(split)) for split in SPLITS) == 600


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
