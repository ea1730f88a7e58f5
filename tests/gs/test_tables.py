"""A lake of tables on gs://: the shards of a local run, in folders of partitions, and only those that are asked for."""

import json
from urllib.parse import unquote

import pytest
import yaml

from beamfeed.contract.dataset.manifest import Manifest
from tests.tables import Lake, make_table

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> Lake:
    """Three days in folders of Hive, some of it broken, and what a local run makes of them."""
    lake = Lake(tmp_path_factory.mktemp("local"))
    for day in range(3):
        table = make_table(200, day)
        table.loc[3, "kind"] = "a/b"
        table.loc[4, "customer"] = None  # without a key
        lake.write(f"day={day}/part-0.parquet", table, row_group_size=70)
    lake.write("day=3/part-0.parquet", make_table(10)).write_bytes(b"PAR1 this is none PAR1")
    lake.job["output"] |= {"partition_by": ["kind"]}
    lake.job["limits"] = {"max_rejected_fraction": 0.5}
    assert lake.preprocess() == 0
    return lake


def test_as_a_local_run(gs, local):
    job = json.loads(json.dumps(local.job))
    job["source"]["files"] = gs.upload(local.files, "lake")
    job["output"]["path"] = gs.url("data")
    path = local.folder / "remote.yaml"
    path.write_text(yaml.safe_dump(job, sort_keys=False))
    done = gs.preprocess("--job", gs.upload(path, "job.yaml"))
    assert (done.returncode, done.stderr) == (0, "")

    manifest = json.loads(gs.read("data/manifest.json"))
    folder = f"data/{manifest['data']}"
    names = [name for name in gs.list(folder) if name.endswith(".tfrecord")]
    assert {name: gs.read(f"{folder}/{name}") for name in names} == local.shards()
    rejects = [json.loads(line) for line in gs.read(f"{folder}/rejects/part-00000.jsonl").splitlines()]
    assert [(one["asset"], one["place"]) for one in rejects] == [
        (one["asset"], one["place"]) for one in local.rejects()
    ]
    assert len(rejects) == 4

    gs.ledger.reset()
    code = (
        "import beamfeed, sys\n"
        "data = beamfeed.load_dataset(sys.argv[1], 'eval', batch_size=8, remainder='pad',"
        " options=beamfeed.FeedOptions(where={'kind': ['web']}))\n"
        "print(int(sum(weights.numpy().sum() for _, weights in data)))"
    )
    done = gs.python("-c", code, gs.url("data"))
    assert done.returncode == 0, done.stderr
    splits = Manifest.model_validate(manifest).splits
    wanted = sum(shard.windows for shard in splits["eval"].shards if shard.folder == "kind=web")
    assert int(done.stdout) == wanted > 0
    asked_for = [unquote(line) for line in gs.ledger.seen]
    assert any("/eval/kind=web/part-" in line for line in asked_for)
    assert not any("/eval/kind=shop/" in line for line in asked_for)
    assert any(shard.folder == "kind=a%2Fb" for split in splits.values() for shard in split.shards)
