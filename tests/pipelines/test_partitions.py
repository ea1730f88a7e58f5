"""Partitions: folders by values of columns below each split, of which training opens what it is asked for."""

import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
import yaml
from exports import in_same_process

from beamfeed.contract.dataset.manifest import partition_values, read_manifest
from beamfeed.contract.errors import UserError
from beamfeed.trainer.feed.dataset import load_dataset
from beamfeed.trainer.feed.options import FeedOptions
from beamfeed.trainer.main import main
from tests.tables import FEATURES, Lake, make_table

COUNTRIES = ["DE", "a/b=c", "100%", None, "Côte d'Ivoire", "."]


def table_of(seed=0, rows=600):
    table = make_table(rows, seed)
    table["country"] = [COUNTRIES[number % len(COUNTRIES)] for number in range(rows)]
    return table


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    found = Lake(tmp_path_factory.mktemp("partitions"))
    found.write("a.parquet", table_of(0), row_group_size=100)
    found.write("b.parquet", table_of(1), row_group_size=100)
    found.job["features"] = {"row": "pass", "count": "numeric"}
    found.job["output"]["partition_by"] = ["country", "fraud"]
    assert found.preprocess() == 0
    return found


def rows_read(lake, split, where=None, shuffle=0):
    batches = load_dataset(
        lake.output, split, batch_size=16, remainder="pad", fields=["row", "label", "numbers"], shuffle=shuffle,
        options=FeedOptions(where=where),
    )  # fmt: skip
    found = []
    for batch, weights in batches:
        found += [row for row, weight in zip(batch["row"].numpy(), weights.numpy(), strict=True) if weight]
    return sorted(row.decode() for row in found)


def test_each_row_is_in_the_folder_of_its_values(lake):
    both = {row.row: row for seed in (0, 1) for row in table_of(seed).itertuples()}
    seen = set()
    for path in lake.data.rglob("*.tfrecord"):
        values = partition_values(str(path.parent.relative_to(lake.data)).partition("/")[2])
        for record in tf.data.TFRecordDataset(str(path)):
            for name in tf.train.Example.FromString(record.numpy()).features.feature["row"].bytes_list.value:
                row = both[name.decode()]
                country = row.country if isinstance(row.country, str) else "__HIVE_DEFAULT_PARTITION__"
                assert values == {"country": country, "fraud": str(row.fraud)}
                seen.add(name.decode())
    assert seen == both.keys()


def test_folders_are_named_as_hive_names_them(lake):
    names = {path.name for path in (lake.data / "train").iterdir() if path.is_dir()}
    assert names == {
        "country=DE",
        "country=a%2Fb%3Dc",
        "country=100%25",
        "country=__HIVE_DEFAULT_PARTITION__",
        "country=Côte d%27Ivoire",
        "country=%2E",
    }


def test_reading_all_gives_all(lake):
    for split in ("train", "eval", "test"):
        assert rows_read(lake, split) == sorted(lake.rows_below(split))


def test_only_what_is_asked_for_is_opened(lake, tmp_path):
    """All other shards are gone, and reading does not miss them."""
    copy = tmp_path / "data"
    shutil.copytree(lake.output, copy)
    where = {"country": ["DE", "a/b=c"], "fraud": ["1"]}
    expected = {
        split: sorted(
            row
            for folder in ("country=DE/fraud=1", "country=a%2Fb%3Dc/fraud=1")
            for row in lake.rows_below(f"{split}/{folder}")
        )
        for split in ("train", "eval", "test")
    }
    for path in copy.rglob("*.tfrecord"):
        if path.parent.name != "fraud=1" or path.parent.parent.name not in ("country=DE", "country=a%2Fb%3Dc"):
            path.unlink()
    lake_there, lake.output = lake.output, copy
    try:
        for split, rows in expected.items():
            assert rows
            assert rows_read(lake, split, where=where) == rows
            assert rows_read(lake, split, where=where, shuffle=100) == rows
        with pytest.raises(UserError, match="the manifest lists this shard, but it is missing"):
            rows_read(lake, "train")
    finally:
        lake.output = lake_there


def test_what_is_not_there_is_one_line(lake):
    for where, message in (
        ({"contry": ["DE"]}, "no partitions by 'contry'; did you mean 'country'"),
        ({"country": ["DEU"]}, "country is never 'DEU'; did you mean 'DE'"),
    ):
        with pytest.raises(UserError, match=message):
            load_dataset(lake.output, "train", batch_size=8, options=FeedOptions(where=where))


def test_the_manifest_says_the_same_after_reading_it(lake):
    text = json.loads((lake.output / "manifest.json").read_text())
    assert json.loads(read_manifest(lake.output).model_dump_json()) == text
    chosen = read_manifest(lake.output).select({"fraud": ["1"]})
    again = chosen.select({"country": ["DE"]})
    paths = [os.path.relpath(path, lake.data) for path in again.shard_paths(str(lake.output), "train")]
    assert paths == sorted(
        str(path.relative_to(lake.data)) for path in (lake.data / "train/country=DE/fraud=1").iterdir()
    )


@pytest.mark.slow
def test_training_reads_the_partitions_of_the_job(lake, tmp_path):
    """All others are gone."""
    copy, where = tmp_path / "data", {"country": ["DE", "100%"]}
    shutil.copytree(lake.output, copy)
    manifest = read_manifest(copy)
    kept = {path for split in manifest.splits for path in manifest.select(where).shard_paths(str(copy), split)}
    for path in copy.rglob("*.tfrecord"):
        if str(path) not in kept:
            path.unlink()
    train = {
        "model": {"name": "linear"},
        "task": {"name": "classify"},
        "feed": {"batch_size": 8, "where": where},
        "epochs": 1,
        "review": {"baselines": "none"},
        "workdir": str(tmp_path / "model"),
    }
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump({**lake.job, "output": {**lake.job["output"], "path": str(copy)}, "train": train}))
    with in_same_process():
        assert main(["--job", str(job)]) == 0
    (line,) = map(json.loads, (tmp_path / "model" / "metrics.jsonl").read_text().splitlines())
    assert line["step"] == manifest.select(where).splits["train"].windows // 8


def test_too_many_partitions(lake, capsys, monkeypatch, tmp_path):
    from beamfeed.transforms.sources.table import statistics, validate

    for module in (statistics, validate):
        monkeypatch.setattr(module, "MOST_PARTITIONS", 20)
    code = lake.preprocess("output.partition_by=[customer]", f"output.path={tmp_path / 'many'}")
    assert code == 1
    assert "output.partition_by: customer would make more than 20 partitions" in capsys.readouterr().err


@pytest.mark.slow
def test_rows_per_record(tmp_path):
    other = Lake(tmp_path)
    other.write("a.parquet", make_table(100))
    other.job["features"] = {name: FEATURES[name] for name in ("row", "count", "kind", "note")}
    found = []
    for rows in (1, 7, None):
        assert other.preprocess(f"output.rows_per_record={'null' if rows is None else rows}") == 0
        found.append({split: other.rows(split) for split in ("train", "eval", "test")})
        records = sum(1 for path in other.data.rglob("*.tfrecord") for _ in tf.data.TFRecordDataset(str(path)))
        if rows == 1:
            assert records == 100
    for one in found[1:]:
        for split, rows in found[0].items():
            assert one[split].keys() == rows.keys()
            for row, values in rows.items():
                assert all(np.array_equal(one[split][row][name], value) for name, value in values.items())
