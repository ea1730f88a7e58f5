"""A lake on gs:// that grows by a day: the shards of a local dataset that does, and no old one is read or written."""

import json
from urllib.parse import unquote

import pytest
import yaml

from beamfeed.contract.dataset.manifest import find_manifest
from tests.fleets import Fleet
from tests.fleets import make_table as make_series
from tests.tables import Lake, make_table


@pytest.mark.slow
def test_a_day_is_added_as_on_a_disk(gs, tmp_path):
    lake = Lake(tmp_path)
    lake.job["output"]["grow"] = True
    lake.write("day=0/part-0.parquet", make_table(200, 0))
    job = json.loads(json.dumps(lake.job))
    job["source"]["files"], job["output"]["path"] = gs.upload(lake.files, "lake"), gs.url("data")
    (tmp_path / "remote.yaml").write_text(yaml.safe_dump(job, sort_keys=False))
    path = gs.upload(tmp_path / "remote.yaml", "job.yaml")
    first = gs.preprocess("--job", path)
    assert (first.returncode, first.stderr) == (0, "")
    assert lake.preprocess() == 0

    lake.write("day=1/part-0.parquet", make_table(200, 1))
    gs.upload(lake.files / "day=1", "lake/day=1")
    gs.ledger.reset()
    second = gs.preprocess("--job", path)
    assert (second.returncode, second.stderr) == (0, "")
    assert "adding 1 new file" in second.stdout
    assert lake.preprocess() == 0

    manifest, local = json.loads(gs.read("data/manifest.json")), lake.manifest
    before, now = manifest["increments"]["data"]
    for split, info in manifest["splits"].items():
        files = info["shards"]["file"]
        assert [file.partition("/")[2] for file in files] == [
            file.partition("/")[2] for file in local["splits"][split]["shards"]["file"]
        ]
        assert [gs.read(f"data/{file}") for file in files] == [
            (lake.output / file).read_bytes() for file in local["splits"][split]["shards"]["file"]
        ]
        assert {file.partition("/")[0] for file in files} == {before, now}
    asked_for = [unquote(line) for line in gs.ledger.seen]
    assert not any(f"{before}/" in line and ".tfrecord" in line for line in asked_for)


@pytest.mark.slow
def test_series_go_on_and_their_first_files_are_not_read(gs, tmp_path):
    fleet = Fleet(tmp_path)
    fleet.job["source"]["asset"] = {"from": "path", "pattern": "(?P<asset>[^/]+)/[^/]+$"}
    fleet.job["split"] = {"train": 1, "eval": 0, "test": 0}
    fleet.job["output"] |= {"grow": True, "shards": 1}
    fleet.job["source"]["files"], fleet.job["output"]["path"] = gs.url("fleet"), gs.url("data")
    (tmp_path / "remote.yaml").write_text(yaml.safe_dump(fleet.job, sort_keys=False))
    path = gs.upload(tmp_path / "remote.yaml", "job.yaml")
    for day in range(3):
        for seed, name in enumerate("ab"):
            fleet.write(f"{name}/{day}.parquet", make_series(120, seed=seed)[day * 40 : day * 40 + 40])
            gs.upload(fleet.files / name / f"{day}.parquet", f"fleet/{name}/{day}.parquet")
        gs.ledger.reset()
        done = gs.preprocess("--job", path)
        assert (done.returncode, done.stderr) == (0, "")
    manifest = json.loads(gs.read("data/manifest.json"))
    assert len(manifest["increments"]["data"]) == 3
    assert manifest["splits"]["train"]["windows"] == 2 * ((120 - 8) // 2 + 1)
    asked_for = [unquote(line) for line in gs.ledger.seen]
    asks = [sum(f"fleet/a/{day}.parquet" in line for line in asked_for) for day in range(3)]
    assert asks[0] < asks[1]  # all may be among the few files that tell what the columns are

    fleet.write("b/0.parquet", make_series(40, seed=9))  # not as it was, so its asset is prepared again
    gs.upload(fleet.files / "b" / "0.parquet", "fleet/b/0.parquet")
    done = gs.preprocess("--job", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 asset is prepared again" in done.stdout
    assert fleet.preprocess("output.path=" + str(tmp_path / "all"), f"source.files={fleet.files}") == 0
    locally = find_manifest(str(tmp_path / "all"))
    remotely = json.loads(gs.read("data/manifest.json"))
    assert remotely["counts"] == locally.counts.model_dump()
    assert remotely["splits"]["train"]["windows"] == locally.splits["train"].windows
    shards = {name: len(gs.read(f"data/{name}")) for name in remotely["splits"]["train"]["shards"]["file"]}
    assert list(shards.values()) == remotely["splits"]["train"]["shards"]["bytes"]
    done = gs.python("-m", "beamfeed.pipelines.compact", "--job", path)
    assert (done.returncode, done.stderr) == (0, "")
    compacted = json.loads(gs.read("data/manifest.json"))
    assert compacted["splits"]["train"]["windows"] == locally.splits["train"].windows
    assert len(compacted["splits"]["train"]["shards"]["file"]) < len(shards)
    sizes = [len(gs.read(f"data/{name}")) for name in compacted["splits"]["train"]["shards"]["file"]]
    assert sizes == compacted["splits"]["train"]["shards"]["bytes"]
