"""Images on gs://, with a list of labels: the shards of a local run."""

import json

import pandas as pd
import pytest
import yaml
from albums import Album, encoded, picture

pytestmark = pytest.mark.long


def test_as_a_local_run(gs, tmp_path):
    album = Album(tmp_path)
    album.fill(20)
    album.write("cats/page.jpg", b"<html>404</html>")
    album.write("dogs/photo.png", encoded(picture(mode="RGBA"), "PNG"))
    names = sorted(str(path.relative_to(album.files)) for path in album.files.rglob("*.*"))
    labels = tmp_path / "labels.csv"
    pd.DataFrame({"file": names, "kind": [name[0] for name in names]}).to_csv(labels, index=False)
    album.job["source"]["list"] = {"file": str(labels), "path": "file"}
    album.job["label"] = {"column": "kind", "classes": "auto"}
    album.job["limits"] = {"max_rejected_fraction": 0.1}
    assert album.preprocess() == 0

    job = json.loads(json.dumps(album.job))
    job["source"]["files"] = gs.upload(album.files, "photos")
    job["source"]["list"]["file"] = gs.upload(labels, "labels.csv")
    job["output"]["path"] = gs.url("data")
    path = tmp_path / "remote.yaml"
    path.write_text(yaml.safe_dump(job, sort_keys=False))
    done = gs.preprocess("--job", gs.upload(path, "job.yaml"))
    assert (done.returncode, done.stderr) == (0, "")
    manifest = json.loads(gs.read("data/manifest.json"))
    folder = f"data/{manifest['data']}"
    names = [name for name in gs.list(folder) if name.endswith(".tfrecord")]
    assert {name: gs.read(f"{folder}/{name}") for name in names} == album.shards()
    (reject,) = [json.loads(line) for line in gs.read(f"{folder}/rejects/part-00000.jsonl").splitlines()]
    assert reject["file"] == gs.url("photos/cats/page.jpg")
    assert not [name for name in gs.list(folder) if name.startswith("tmp/")]
