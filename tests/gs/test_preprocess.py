"""Preparing with source, output and job file on gs://."""

import json
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from fleets import Fleet, make_table, read_windows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> Fleet:
    """A small fleet and what a local run makes of it."""
    fleet = Fleet(tmp_path_factory.mktemp("local"))
    for index in range(6):
        fleet.write(f"m{index}.parquet", make_table(2000, seed=index), row_group_size=500)
    fleet.write("broken.parquet", make_table(10)).write_bytes(b"PAR1 this is none PAR1")
    assert fleet.preprocess() == 0
    return fleet


@pytest.fixture
def remote(gs, local, tmp_path) -> str:
    """The same fleet in the bucket; the path of its job file there."""
    fleet = Fleet(tmp_path)
    fleet.job = json.loads(json.dumps(local.job))
    fleet.job["source"]["files"] = gs.upload(local.files, "fleet")
    fleet.job["output"]["path"] = gs.url("data")
    fleet.job["train"]["workdir"] = gs.url("model")
    return gs.upload(fleet.write_job(), "job.yaml")


def preprocess(gs, job: str, *overrides: str, **options):
    sets = [part for override in overrides for part in ("--set", override)]
    return gs.preprocess("--job", job, *sets, **options)


def assert_same_shards(gs, local: Fleet) -> None:
    manifest = json.loads(gs.read("data/manifest.json"))
    found = {name: gs.read(f"data/{manifest['data']}/{name}") for name in gs.list(f"data/{manifest['data']}")}
    shards = {name: data for name, data in found.items() if name.endswith(".tfrecord")}
    # The fingerprint knows the files by their paths, so it names another folder; all else is the same.
    assert shards == local.shard_bytes()
    mine = local.output / local.manifest.data
    assert set(found) == {path.relative_to(mine).as_posix() for path in mine.rglob("*") if path.is_file()}
    same = {"fingerprint", "data", "source"}
    expected = json.loads((local.output / "manifest.json").read_text())
    assert {k: v for k, v in manifest.items() if k not in same} == {k: v for k, v in expected.items() if k not in same}
    marks = [name for name in gs.store.names(gs.bucket) if name.endswith("/")]
    markers = [name for name in marks if "/transform_fn/" not in name and "/transformed_metadata/" not in name]
    assert not markers, "folders of temporary files are left"


def test_as_a_local_run_and_a_rerun_does_nothing(gs, local, remote):
    done = preprocess(gs, remote)
    assert (done.returncode, done.stderr) == (0, "")
    assert_same_shards(gs, local)
    assert json.loads(gs.read("data/manifest.json"))["source"] == [gs.url("fleet")]
    assert not [name for name in gs.store.names(gs.bucket) if "/tmp/" in name or "transform_tmp" in name]
    first, source = gs.counts(), gs.source_requests("fleet")
    assert source["list"] == 1
    assert source["whole"] == 0
    opens = 4 * 6 + 2  # to sample the schema, to inspect, to check and to write; a broken file is left after two
    again = 3 * 6 + 1  # after each of the last three steps: is it still as it was listed?
    assert source["stat"] == opens + again
    assert source["range"] <= opens + 2 * 6 * 4  # a footer for each, and each row group twice
    assert first.requests["read"] < 150
    assert first.requests["write"] < 100

    before = gs.store.names(gs.bucket)
    gs.ledger.reset()
    done = preprocess(gs, remote)
    assert done.returncode == 0
    assert "Nothing to do" in done.stdout
    assert gs.store.names(gs.bucket) == before
    done_again = gs.counts().requests
    assert done_again["write"] + done_again["delete"] + done_again["copy"] == 0
    assert done_again["read"] <= 3  # the job file, the manifest, and what Google's client asks of a bucket by itself
    assert done_again.total() < 20


def test_faults_are_survived(gs, local, remote):
    for kind in ("list", "metadata", "read", "write", "copy", "delete"):
        gs.inject(kind, "503")
    gs.inject("read", "503", times=2, match="fleet")
    gs.inject("read", "429", times=2, match="fleet")
    gs.inject("read", "cut", times=3, match="fleet")
    gs.inject("read", "cut", match=r"part-\d")
    gs.inject("write", "503", match="upload_id")
    gs.inject("write", "429", match="upload_id")
    gs.inject("write", "cut", times=2, match="upload_id")
    done = preprocess(gs, remote)
    assert done.returncode == 0, done.stderr
    assert gs.counts().faults == 18
    assert_same_shards(gs, local)


def test_the_file_of_each_assets_scaling_is_written_and_read_in_the_bucket(gs, local, remote, tmp_path):
    override = "prepare.scale={how: robust, per: asset}"
    assert local.preprocess(f"output.path={tmp_path}/data", override) == 0
    (data,) = (tmp_path / "data").glob("data-*")
    files = [path for path in data.rglob("*") if path.suffix == ".tfrecord" or path.parent.name == "assets"]
    # What the job made before stays: a trainer may be reading it.
    gs.upload(local.output, "data")
    manifest = json.loads(gs.read("data/manifest.json")) | {"source": [gs.url("fleet")]}
    gs.store.put(gs.bucket, "data/manifest.json", json.dumps(manifest).encode())
    before = set(gs.list("data"))
    done = preprocess(gs, remote, override)
    assert (done.returncode, done.stderr) == (0, "")
    assert before < set(gs.list("data"))
    folder = json.loads(gs.read("data/manifest.json"))["data"]
    names = [path.relative_to(data).as_posix() for path in files]
    assert [gs.read(f"data/{folder}/{name}") for name in names] == [path.read_bytes() for path in files]
    assert sum(name.startswith("transform_fn/assets/") for name in names) == 1
    assert len({name.partition("/")[0] for name in gs.list("data")}) == 3
    assert not [name for name in gs.store.names(gs.bucket) if re.search("/tmp/|transform_tmp|piece-", name)]


def test_a_killed_run_leaves_nothing_that_the_next_of_several_processes_does_not_clear(gs, local, remote, tmp_path):
    command = [sys.executable, "-m", "beamfeed.pipelines.preprocess", "--job", remote]
    with subprocess.Popen(command, env=gs.env, cwd=gs.root, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while process.poll() is None and not any("/tmp/traced" in name for name in gs.list("data")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.kill()
    assert "manifest.json" not in gs.list("data")
    assert any("/tmp/" in name for name in gs.list("data"))
    done = gs.preprocess(
        "--job", remote, "--direct_running_mode", "multi_processing", "--direct_num_workers", "2", timeout=150
    )
    assert done.returncode == 0, done.stderr
    assert_same_shards(gs, local)

    gs.download("data", tmp_path / "copy")
    found, expected = read_windows(tmp_path / "copy", "train"), local.windows("train")
    assert found.keys() == expected.keys()
    for asset, windows in expected.items():
        assert found[asset].keys() == windows.keys()
        assert all(np.array_equal(found[asset][start], window) for start, window in windows.items())
