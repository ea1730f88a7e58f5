"""What `beamfeed.trainer.tools.inspect_dataset` prints."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf
from datasets import write_dataset
from records import FIELDS, make_records

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import write_text
from beamfeed.contract.text import table
from beamfeed.trainer.tools.field_statistics import bars
from beamfeed.trainer.tools.inspect_dataset import main
from beamfeed.trainer.tools.show_record import decode, first_records, short


def test_columns_are_aligned():
    assert table([("split", "windows"), ("train", 12345)]) == ["split  windows", "train   12,345"]
    assert table([("a", "bc", "d"), ("ef", "g", "")], left=3) == ["a   bc  d", "ef  g"]


def test_it_shows_the_manifest_and_windows(written, capsys):
    assert main([written.output, "--windows", "2"]) == 0
    text = capsys.readouterr().out
    assert "name         tiny" in text
    assert "windows      8 rows, every 4" in text
    assert "asset asset-00, first_time 0, last_time 23000, start 0\n" in text
    assert "asset asset-01, first_time 0" in text  # of the other shard
    assert "values      float32  [3]    input  row     sensor_0, sensor_1, sensor_2\n" in text
    assert "... 4 more rows\n" in text
    first = written.windows["train"][0, 0]
    assert all(f"{value:.4f}" in text for value in first)


@pytest.mark.parametrize("windows", [Windows(length=4, stride=2), Windows(length=1)])
def test_it_shows_any_fields(tmp_path, capsys, windows):
    manifest = write_dataset(str(tmp_path), FIELDS, {"train": make_records(FIELDS, [[9, 2], [5]], windows)}, windows)
    assert main([str(tmp_path), "--windows", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ("windows      rows, one by one" in lines) == (windows.length == 1)
    rows = [line.split() for line in lines]
    assert ["tokens", "int64", "[any]", "input", "row"] in rows
    assert ["boxes", "float32", "[any,", "2]", "input", "row"] in rows
    assert ["label", "int64", "[]", "target", "window", "classes:", "a,", "b,", "c"] in rows
    train = manifest.splits["train"].targets
    assert ["label", "train"] in rows
    assert ["b", str(train["label"].counts[1])] in rows
    assert ["counts", "train"] in rows
    assert ["mean", f"{train['counts'].mean:.6g}"] in rows
    record = make_records(FIELDS, [[9]], windows)[0][0]
    assert f"who {record['who'][0].decode()}" in lines
    (names,) = (row for row in rows if row[:1] == ["row"])
    assert names == ["row", "values[0]", "values[1]", "count", "grid", "image", "tokens", "boxes", "words"]
    shown = next(row for row in rows if row[:1] == ["0"])
    assert shown[1:4] == [f"{x:.4f}" for x in record["values"][0]] + [str(record["count"][0])]
    told = {row[0]: " ".join(row[1:]) for row in rows if row}
    assert told["place"] == f"[{', '.join(f'{x:.4f}' for x in record['place'][0])}]"
    assert told["about"] == f"[{', '.join(word.decode() for word in record['about'][0])}]"
    assert f"label   {record['label'][0]} ({'abc'[record['label'][0]]})" in "\n".join(lines)
    assert any("more columns" in line for line in lines)


@pytest.mark.parametrize(
    ("entries", "shape", "text"),
    [
        ([0.5], (), "0.5000"),
        ([1, 2], (2,), "[1, 2]"),
        (range(7), (None,), "[0, 1, 2, 3, 4, 5, ... 7 entries]"),
        ([], (None,), "[]"),
        ([b"pump"], (), "pump"),
        ([b""], (), ""),
        ([b"x" * 30], (), "x" * 24 + "..."),
        ([b"\x89PNG\r\n"], (), "6 bytes"),
        ([b"\xff\xfe"], (), "2 bytes"),
    ],
)
def test_values_are_shown_short(entries, shape, text):
    dtype = {float: "float32", int: "int64", bytes: "bytes"}[type([*entries, 0][0])]
    value = np.array(entries, object if dtype == "bytes" else dtype)
    assert short(value, Field(name="x", dtype=dtype, shape=shape, role="input")) == text


def test_a_split_without_windows_and_many_classes_are_short(tmp_path, capsys):
    classes = [f"class-{i}" for i in range(30)]
    fields = [
        Field(name="x", dtype="float32", role="input"),
        Field(name="kind", dtype="int64", role="target", classes=classes),
        Field(name="life", dtype="float32", role="target"),
    ]
    record = {"x": [1.0, 2.0], "kind": [3, 29], "life": [1.5, 2.5]}
    write_dataset(str(tmp_path), fields, {"train": [[record]], "test": []})
    assert main([str(tmp_path)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["class-3", "1", "0"] in rows
    assert ["...", "10", "more", "classes"] in rows
    assert ["std", "0.5", "-"] in rows


def test_each_column_has_its_statistics_and_a_histogram(written, capsys):
    assert main([written.output, "--windows", "1"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["asset", "8", "different"] in lines
    rows = np.concatenate([np.concatenate(record["values"]) for record in records_of(written)]).reshape(-1, 3)
    for place in range(3):
        column = rows[:, place].astype("f8")
        (line,) = [line for line in lines if line[:1] == [f"sensor_{place}"] and len(line) == 6]
        assert line[1:5] == [f"{x:.5g}" for x in (column.mean(), column.std(), column.min(), column.max())]
        counts, _ = np.histogram(column, 16)
        assert line[5] == bars(counts.tolist())
        assert len(line[5]) == 16


def records_of(written):
    return list(first_records(written.manifest, written.output, "train", 1000))


def test_a_histogram_shows_every_value_that_is_there():
    assert bars([0, 1, 1000, 500]) == "·▁█▄"
    assert bars([0, 0], ".123456789") == ".."


def test_times_are_dates(tmp_path, capsys):
    second = 10**9
    fields = [
        Field(name="asset", dtype="bytes", role="key", per="record"),
        Field(name="first_time", dtype="int64", role="key", per="record", time="instant"),
        Field(name="values", dtype="float32", shape=(1,), role="input", columns=["a"]),
    ]
    records = [
        {"asset": [b"p"], "first_time": [(1_709_294_405 + 60 * i) * second], "values": [[i], [i + 1]]} for i in (0, 1)
    ]
    write_dataset(str(tmp_path), fields, {"train": [records]}, Windows(length=2))
    assert main([str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "asset p, first_time 2024-03-01 12:00:05\n" in text
    (line,) = [line for line in text.splitlines() if line.startswith("  first_time")]
    assert line.split()[1:5] == ["2024-03-01", "12:00:05", "2024-03-01", "12:01:05"]


def test_what_stats_say_of_the_files_is_a_table(written, capsys):
    features = {"rpm": {"count": 9, "missing": 1, "mean": 1500.5, "std": 2.0, "min": 1.0, "max": 2.0}}
    write_text(written.manifest.data_layout(written.output).stats, json.dumps({"rows": 10, "features": features}))
    assert main([written.output]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["rpm", "9", "1", "1500.5", "2", "1", "2"] in lines


def test_json_is_one_object(written, capsys):
    assert main([written.output, "--json", "--verify"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert found["dataset"] == written.output
    assert found["splits"]["eval"]["windows"] == 12
    assert found["wrong"] == []
    assert [one["name"] for one in found["statistics"]] == ["asset", "sensor_0", "sensor_1", "sensor_2"]
    assert sum(found["statistics"][1]["histogram"]) == found["statistics"][1]["values"]


@pytest.mark.parametrize("length", [4, 1])
def test_a_picture_on_request(tmp_path, capsys, length):
    windows = Windows(length=length)
    write_dataset(str(tmp_path), FIELDS, {"train": make_records(FIELDS, [[9, 5]], windows)}, windows)
    path = str(tmp_path / "look" / "at.png")
    assert main([str(tmp_path), "--picture", path]) == 0
    assert capsys.readouterr().out.endswith(f"\n{path}\n")
    height, width, _ = tf.image.decode_png(tf.io.read_file(path)).shape
    assert min(height, width) > 300


def test_a_picture_of_texts_alone_is_empty(tmp_path, capsys):
    field, windows = Field(name="words", dtype="bytes", role="input"), Windows(length=2)
    write_dataset(str(tmp_path), [field], {"train": [[{"words": [b"a", b"b", b"c"]}]]}, windows)
    assert main([str(tmp_path), "--picture", str(tmp_path / "at.png")]) == 0
    assert capsys.readouterr().out.endswith("at.png\n")


def test_what_is_no_record_is_told():
    field = Field(name="x", dtype="int64", shape=(2,), role="input")
    with pytest.raises(ValueError, match="not a record"):
        decode([b"\xff\xff"], [field])


def test_a_record_that_does_not_fit_is_told_with_its_number_and_those_before_it_are_shown(tmp_path):
    windows = Windows(length=1)
    shards = {"train": make_records(FIELDS, [[1, 1, 1]], windows)}
    manifest = write_dataset(str(tmp_path), FIELDS, shards, windows)
    (path,) = manifest.shard_paths(str(tmp_path), "train")
    records = [record.numpy() for record in tf.data.TFRecordDataset(path)]
    with tf.io.TFRecordWriter(path) as writer:
        for record in (*records[:2], b"\xff\xff"):
            writer.write(record)
    shown = []
    with pytest.raises(UserError, match=f"{re.escape(path)}: record 2: not a record of this format: "):
        shown.extend(first_records(manifest, str(tmp_path), "train", 9))
    assert len(shown) == 2


def test_no_dataset_is_told(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "no dataset" in capsys.readouterr().err


def test_an_older_dataset_is_told_in_one_line(tmp_path, capsys):
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 2, "data": "data-0f"}))
    assert main([str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("the dataset is of format 2, this version reads format 4; preprocess it again")


def test_single_rows_are_shown_side_by_side(tmp_path, capsys):
    fields = [
        Field(name="numbers", dtype="float32", shape=(2,), role="input", columns=["age", "price"]),
        Field(name="kinds", dtype="int64", shape=(1,), role="input", columns=["city"], sizes=[1200]),
        Field(name="note", dtype="int64", shape=(3,), role="input", sizes=[500]),
        Field(name="label", dtype="int64", role="target", classes=["no", "yes"]),
    ]
    record = {"numbers": [[1, 2], [3, 4]], "kinds": [[7], [8]], "note": [[1, 2, 0], [4, 5, 6]], "label": [1, 0]}
    write_dataset(str(tmp_path), fields, {"train": [[record], [record]]})
    assert main([str(tmp_path), "--windows", "2"]) == 0
    text = capsys.readouterr().out
    lines = [line.split() for line in text.splitlines()]
    assert ["age", "1.0000", "1.0000"] in lines
    assert ["city", "7", "7"] in lines
    assert "  label    1 (yes)    1 (yes)" in text
    assert "city (1,200)" in text
    assert "500 words" in text
