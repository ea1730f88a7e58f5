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
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import read_manifest
from beamfeed.trainer.feed.block_index import Index
from beamfeed.trainer.feed.fields import Wanted
from beamfeed.trainer.numpy_feed.columns import read_columns
from beamfeed.trainer.numpy_feed.examples import features_of, find_lists
from beamfeed.trainer.numpy_feed.shards import ShardReader

pytestmark = pytest.mark.long

SERIES, SINGLE = Windows(length=4, stride=2), Windows(length=1)


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


FROM_SPARK = [
    Field(name="price", dtype="float32", role="input"),
    Field(name="count", dtype="int64", role="input"),
    Field(name="name", dtype="bytes", role="input"),
    Field(name="embedding", dtype="float32", shape=(3,), role="input"),
    Field(name="label", dtype="int64", role="target"),
]


def test_we_read_what_spark_writes(spark, tmp_path):
    folder = tmp_path / "spark"
    rows = spark("write", str(folder))
    files = sorted(path for path in folder.rglob("part-*") if path.is_file())
    assert {path.parent.relative_to(folder).parts for path in files} == {
        (f"split={split}", f"country={country}") for split in ("train", "eval", "test") for country in ("DE", "FR")
    }
    found = []
    for path in files:
        split, country = (part.partition("=")[2] for part in path.parent.relative_to(folder).parts)
        count, size = sum(1 for _ in records_of(str(path))), path.stat().st_size
        one = [np.array([value]) for value in (0, 0, count, count, size)]
        lists = find_lists(ShardReader([str(path)], Index(*one)).read(np.array([0])), features_of(FROM_SPARK))
        columns = read_columns(lists, Wanted(tuple(FROM_SPARK), FROM_SPARK[0], SINGLE))
        names = columns.values["name"]
        texts = [lists.buffer[a:b].tobytes().decode() for a, b in zip(names.first, names.end, strict=True)]
        for i, text in enumerate(texts):
            values = {
                key: np.asarray(columns.values[key])[i].tolist() for key in ("price", "count", "embedding", "label")
            }
            found.append({"name": text, "split": split, "country": country, **values})
    assert sorted(found, key=lambda row: row["name"]) == sorted(rows, key=lambda row: row["name"])


def test_what_spark_wrote_is_adopted_and_trained_on(spark, tmp_path):
    folder, job = tmp_path / "spark", tmp_path / "job.yaml"
    rows = spark("write", str(folder))
    splits = [
        part for name in ("train", "eval", "test") for part in ("--split", f"{name}=split={name}/*")
    ]  # fmt: skip
    options = ["--target", "label", "--classes", "label=auto", *splits]
    run("adopt", folder, *options, "--out", tmp_path / "data", "--job", job)
    manifest = read_manifest(tmp_path / "data")
    for name, info in manifest.splits.items():
        assert info.windows == sum(row["split"] == name for row in rows)
        assert info.targets["label"].counts == [
            sum(row["split"] == name and row["label"] == label for row in rows) for label in (0, 1)
        ]
    run("train", job, "--set", f"train.workdir={tmp_path}/model", "--set", "train.epochs=2")
    result = json.loads((tmp_path / "model" / "complete.json").read_text())
    assert math.isfinite(result["test_loss"])  # numbers are as they are in the files: nothing scales them
    assert 0 <= result["test_metrics"]["accuracy"] <= 1


def run(*command):
    command = [sys.executable, "-m", "beamfeed.launcher.cli", *map(str, command)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
