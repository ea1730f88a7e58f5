"""TFRecords of others in a bucket: adopted where they lie, with nothing of them changed, and read from there."""

import json

import foreign
import pytest
from foreign import example

pytestmark = pytest.mark.slow
NAMES = ("measure/size", "measure/kind", "label")


def test_a_folder_of_a_bucket(gs, tmp_path):
    for split, seed in (("train", 1), ("test", 2)):
        records = [example({name: row[name] for name in NAMES}) for row in foreign.rows(40, seed)]
        foreign.write(tmp_path / "lake" / split / "country=DE" / "part-00000", records)
    broken = foreign.write(tmp_path / "lake" / "train" / "part-00001", records)
    broken.write_bytes(broken.read_bytes()[:-1])
    lake = gs.upload(tmp_path / "lake", "lake")
    before = {name: gs.read(f"lake/{name}") for name in gs.list("lake")}
    done = gs.python("-m", "beamfeed.pipelines.adopt", lake, "--target", "label", "--classes", "label=auto", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert [one["file"] for one in found["rejects"]] == [f"{lake}/train/part-00001"]
    assert {split: info["windows"] for split, info in found["manifest"]["splits"].items()} == {
        "train": 40,
        "eval": 0,
        "test": 40,
    }
    assert {name: gs.read(f"lake/{name}") for name in before} == before
    code = (
        "import beamfeed, sys\n"
        "data = beamfeed.load_dataset(sys.argv[1], 'test', batch_size=8,"
        " options=beamfeed.FeedOptions(where={'country': ['DE']}))\n"
        "print(sum(int(batch['label'].numpy().sum()) for batch in data))"
    )
    done = gs.python("-c", code, lake)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == sum(row["label"] for row in foreign.rows(40, 2))
