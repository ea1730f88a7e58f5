"""Spark with its connector for TFRecords: it reads our shards, and we read its records."""

import base64
import json
import math
import subprocess
import sys

import numpy as np
import pytest
from datasets import write_dataset
from records import FIELDS, make_records

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.records.examples import features_of
from beamfeed.trainer.feed.dataset import load_dataset

pytestmark = pytest.mark.long

SERIES = Windows(length=4, stride=2)
SPLITS = ("train", "eval", "test")


def test_spark_reads_our_shards(spark, tmp_path):
    rows = make_records(FIELDS, [[9, 5], [7]], SERIES)
    manifest = write_dataset(str(tmp_path / "data"), FIELDS, {"train": rows}, SERIES)
    features = features_of(FIELDS)
    shards = manifest.data_layout(str(tmp_path / "data")).split("train") + "/*.tfrecord"
    found = spark("read", shards, json.dumps([(one.name, one.listed) for one in features]))
    expected = []
    for path in manifest.shard_paths(str(tmp_path / "data"), "train"):
        expected += list(records_of(path))
    by_name = {row["who"][0]: row for row in found}
    assert len(found) == len(by_name) == len(expected)
    for feature in expected:
        row = by_name[base64.b64encode(feature["who"].bytes_list.value[0]).decode()]
        for name, _, dtype, *_ in features:
            values = list(getattr(feature[name], LISTS[dtype]).value)
            seen = row[name] or []
            assert [base64.b64decode(one) for one in seen] == values if dtype == "bytes" else seen == values, name


def records_of(path):
    import tensorflow as tf

    for serialized in tf.data.TFRecordDataset(path).as_numpy_iterator():
        yield tf.train.Example.FromString(serialized).features.feature


LISTS = {"float32": "float_list", "int64": "int64_list", "bytes": "bytes_list"}


def test_what_spark_wrote_is_adopted_and_trained_on(spark, tmp_path):
    folder, job = tmp_path / "spark", tmp_path / "job.yaml"
    rows = spark("write", str(folder))
    files = sorted(path for path in folder.rglob("part-*") if path.is_file())
    assert {path.parent.relative_to(folder).parts for path in files} == {
        (f"split={split}", f"country={country}") for split in SPLITS for country in ("DE", "FR")
    }
    splits = [part for name in SPLITS for part in ("--split", f"{name}=split={name}/*")]
    options = ["--target", "label", "--classes", "label=auto", "--key", "name", *splits]
    run("adopt", folder, *options, "--out", tmp_path / "data", "--job", job)
    numbers, found = ("price", "count", "embedding", "label"), []
    for split in SPLITS:
        batches = load_dataset(tmp_path / "data", split, batch_size=64, remainder="pad", fields=[*numbers, "name"])
        for fields, weights in batches.as_numpy_iterator():
            for i in np.flatnonzero(weights):
                values = {name: fields[name][i].tolist() for name in numbers}
                found.append({"name": fields["name"][i].decode(), "split": split, **values})
    wanted = [{name: value for name, value in row.items() if name != "country"} for row in rows]
    assert sorted(found, key=lambda row: row["name"]) == sorted(wanted, key=lambda row: row["name"])

    run("train", job, "--set", f"train.workdir={tmp_path}/model", "--set", "train.epochs=2")
    result = json.loads((tmp_path / "model" / "complete.json").read_text())
    assert math.isfinite(result["test_loss"])  # numbers are as they are in the files: nothing scales them


def run(*command):
    command = [sys.executable, "-m", "beamfeed.launcher.cli", *map(str, command)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
