"""A file on gs:// whose columns are times gives the shards of a local run."""

import json

import numpy as np
import pytest
from fleets import Fleet, split_of

pytestmark = pytest.mark.slow


def test_as_a_local_run(gs, tmp_path):
    days, names = [str(np.datetime64("2024-01-30") + day) for day in range(30)], [f"m{k}" for k in range(6)]
    rows = [[name, *np.random.default_rng(k).normal(size=30).round(3)] for k, name in enumerate(names)]
    lines = [["machine", *days], *rows]
    local = Fleet(tmp_path)
    (local.files / "a.csv").write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    local.job["source"] |= {
        "reshape": {"wide": "20*"},
        "asset": {"column": "machine"},
        "time": {"column": "day"},
        "features": ["level"],
    }
    local.job["split"] = split_of(names)
    assert local.preprocess() == 0
    local.job["source"]["files"] = gs.upload(local.files, "wide")
    local.job["output"]["path"] = gs.url("data")
    done = gs.preprocess("--job", gs.upload(local.write_job(), "job.yaml"))
    assert (done.returncode, done.stderr) == (0, "")
    manifest = json.loads(gs.read("data/manifest.json"))
    folder = f"data/{manifest['data']}"
    shards = {name: gs.read(f"{folder}/{name}") for name in gs.list(folder) if name.endswith(".tfrecord")}
    assert shards == local.shard_bytes() != {}
