"""Exports through Beam, read back by other programs, against a plain loop over the shards."""

import io
import itertools
import json
import os
import re
import tarfile
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from datasets import write_dataset
from records import FIELDS, as_tuples, decode, make_records, windows_of

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.options import EXPORT_FORMATS
from beamfeed.pipelines.export_dataset import main
from beamfeed.transforms.export.steps import FORMATS

NAMES = [field.name for field in FIELDS]
SERIES, SINGLE = Windows(length=4, stride=2), Windows(length=1)
ROWS = [[9, 5, 12, 4], [7, 30, 6], [4]]


class Made:
    """A dataset of two splits, and its windows as a plain loop over the shards finds them."""

    def __init__(self, folder: Path, windows: Windows, fields=FIELDS, compression="none"):
        self.folder, self.fields = str(folder / "data"), fields
        shards = {"train": make_records(fields, ROWS, windows), "test": make_records(fields, [[5]], windows, seed=1)}
        self.manifest = write_dataset(self.folder, fields, shards, windows, compression=compression)

    def windows(self, split="train", names=None):
        return list(windows_of(self.manifest, self.folder, split, names or [field.name for field in self.fields]))


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    return Made(tmp_path_factory.mktemp("series"), SERIES)


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    return Made(tmp_path_factory.mktemp("single"), SINGLE, compression="gzip")


@pytest.fixture(params=["series", "single"])
def made(request):
    return request.getfixturevalue(request.param)


def export(made, to, out, *options) -> Path:
    assert main([made.folder, "--to", to, "--out", str(out), *options]) == 0
    return Path(out)


def as_complex(value):
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(one, float) for one in value):
        return complex(*value)
    return tuple(map(as_complex, value))


def test_parquet(made, tmp_path):
    out = export(made, "parquet", tmp_path / "out")
    for split in ("train", "test"):
        table = ds.dataset(out / split, format="parquet").to_table()
        rows = [[as_tuples(row[name]) for name in NAMES] for row in table.to_pylist()]
        wave = NAMES.index("wave")
        for row in rows:
            row[wave] = as_complex(row[wave])
        assert [tuple(row) for row in rows] == made.windows(split)
    assert sorted(os.listdir(out / "train")) == [f"part-0000{i}-of-00003.parquet" for i in range(3)]
    told = json.loads(pq.read_schema(out / "train" / "part-00000-of-00003.parquet").metadata[b"beamfeed"])
    assert (told["fingerprint"], told["split"]) == (made.manifest.fingerprint, "train")
    assert [Field(**field) for field in told["fields"]] == made.fields
    assert (out / "_SUCCESS").read_bytes() == b""


def test_rows_of_longer_windows(series, tmp_path):
    out = export(series, "parquet", tmp_path / "out", "--what", "rows", "--split", "train")
    found = ds.dataset(out / "train").to_table().to_pylist()
    expected = []
    for path in series.manifest.shard_paths(series.folder, "train"):
        for serialized in tf.data.TFRecordDataset(path).as_numpy_iterator():
            feature = tf.train.Example.FromString(serialized).features.feature
            who, values = (decode(feature, series.manifest.field(name)) for name in ("who", "values"))
            expected += [(who[0], value) for value in values]
    assert [(row["who"], tuple(row["values"])) for row in found] == expected
    assert set(found[0]) == {field.name for field in FIELDS if field.per != "window"}
    assert not (out / "test").exists()


def test_webdataset(made, tmp_path):
    names = [field.name for field in FIELDS if field.dtype != "bytes" or not field.shape]
    if made.manifest.windows.length > 1:
        names = [
            name for name in names if made.manifest.field(name).per != "row" or name in ("values", "pixels", "count")
        ]
    out = export(made, "webdataset", tmp_path / "out", "--fields", ",".join(names))
    samples = read_tars(sorted((out / "train").iterdir()))
    expected = made.windows(names=names)
    assert len(samples) == len(expected)
    for sample, window in zip(samples.values(), expected, strict=True):
        assert {name: sample[name] for name in names} == dict(zip(names, window, strict=True))


def read_tars(paths) -> dict:
    """Samples by key, fields by name."""
    samples = {}
    for path in paths:
        with tarfile.open(path) as tar:
            for member in tar:
                key, name, extension = member.name.split(".")
                data = tar.extractfile(member).read()
                value = {"cls": int, "npy": from_npy}.get(extension, bytes)(data)
                samples.setdefault(key, {})[name] = value
    return samples


def from_npy(data: bytes):
    return as_tuples(np.load(io.BytesIO(data), allow_pickle=False).tolist())


def test_webdataset_by_the_library(single, tmp_path):
    webdataset = pytest.importorskip("webdataset", reason="the package webdataset is not installed")
    out = export(single, "webdataset", tmp_path / "out", "--fields", "values,label,who")
    paths = sorted(map(str, (out / "train").iterdir()))
    read = webdataset.WebDataset(paths, shardshuffle=False).decode().to_tuple("values.npy", "label.cls", "who.txt")
    found = [(tuple(values.tolist()), label, who.encode()) for values, label, who in read]
    assert found == single.windows(names=["values", "label", "who"])


def test_array_record(made, tmp_path):
    module = pytest.importorskip("array_record.python.array_record_module", reason="array-record is not installed")
    out = export(made, "array_record", tmp_path / "out")
    found = []
    for path in sorted((out / "train").iterdir()):
        reader = module.ArrayRecordReader(str(path))
        found += reader.read_all()
        reader.close()
    windows = []
    for serialized in found:
        feature = tf.train.Example.FromString(serialized).features.feature
        values = [decode(feature, field) for field in made.fields]
        one = made.manifest.windows.length == 1
        windows.append(
            tuple(
                value[0] if one or field.per != "row" else tuple(value)
                for value, field in zip(values, made.fields, strict=True)
            )
        )
    assert windows == made.windows()


def test_numpy(made, tmp_path):
    out = export(made, "numpy", tmp_path / "out")
    for split in ("train", "test"):
        expected, folder = made.windows(split), out / split
        for number, field in enumerate(FIELDS):
            time = made.manifest.windows.length if field.per == "row" else 1
            found = list(from_files(folder, field, time))
            assert found == [window[number] for window in expected], field.name
        assert not list(folder.glob("*.part"))


def load(folder: Path, name: str) -> np.ndarray:
    return np.load(folder / f"{name}.npy", mmap_mode="r")


def from_files(folder: Path, field: Field, time: int):
    """The values of a field for each window."""
    inner = [size for size in field.shape if size is not None]
    if field.dtype == "bytes":
        data = load(folder, f"{field.name}.values").tobytes()
        edges = load(folder, f"{field.name}.{'strings' if field.is_ragged else 'offsets'}").tolist()
        entries = nested([data[a:b] for a, b in itertools.pairwise(edges)], inner)
    elif field.is_ragged:
        entries = as_tuples(load(folder, f"{field.name}.values").tolist())
    else:
        yield from as_tuples(load(folder, field.name).tolist())
        return
    if field.is_ragged:
        edges = load(folder, f"{field.name}.offsets").tolist()
        entries = tuple(tuple(entries[a:b]) for a, b in itertools.pairwise(edges))
    yield from (tuple(entries[i : i + time]) if time > 1 else entries[i] for i in range(0, len(entries), time))


def nested(flat, shape):
    for size in reversed(shape):
        flat = [tuple(flat[i : i + size]) for i in range(0, len(flat), size)]
    return tuple(flat)


@pytest.mark.parametrize("to", ["parquet", "webdataset", "numpy"])
def test_the_same_bytes_with_any_number_of_workers(single, tmp_path, to):
    options = ("--fields", "values,label,who,tokens")
    one = export(single, to, tmp_path / "one", *options, "--", "--direct_num_workers=1")
    two = export(single, to, tmp_path / "two", *options, "--", "--direct_num_workers=3")
    assert contents(one) == contents(two)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_an_export_that_is_there_stays_and_another_needs_a_word(single, tmp_path, capsys):
    out = export(single, "parquet", tmp_path / "out", "--fields", "label")
    (file, *_) = sorted((out / "train").iterdir())
    before = file.stat().st_mtime_ns
    capsys.readouterr()
    export(single, "parquet", out, "--fields", "label")
    assert "is complete: the same export of the same dataset" in capsys.readouterr().err
    assert file.stat().st_mtime_ns == before
    assert main([single.folder, "--to", "numpy", "--out", str(out), "--fields", "label"]) == 2
    assert "holds another export (parquet of handmade); --force replaces it" in capsys.readouterr().err
    export(single, "numpy", out, "--fields", "label", "--force")
    assert sorted(os.listdir(out / "train")) == ["label.npy"]
    # One that did not end is replaced without a word.
    told = json.loads((out / "_export.json").read_text())
    (out / "_export.json").write_text(json.dumps({**told, "complete": False}))
    export(single, "parquet", out, "--fields", "label")
    assert sorted(os.listdir(out)) == ["_SUCCESS", "_export.json", "test", "train"]


def test_partitions_keep_their_folders(tmp_path):
    fields = [Field(name="x", dtype="int64", role="input")]
    made = Made(tmp_path, SINGLE, fields)
    info = made.manifest.splits["train"]
    shards = []
    for number, (shard, path) in enumerate(
        zip(info.shards, made.manifest.shard_paths(made.folder, "train"), strict=True)
    ):
        folder = f"country={'DE' if number else 'FR'}"
        target = Path(path).parent / folder / Path(path).name
        target.parent.mkdir(exist_ok=True)
        Path(path).rename(target)
        shards.append(shard.model_copy(update={"folder": folder}))
    splits = {**made.manifest.splits, "train": info.model_copy(update={"shards": shards})}
    made.manifest = made.manifest.model_copy(update={"splits": splits})
    (Path(made.folder) / "manifest.json").write_text(made.manifest.model_dump_json())
    out = export(made, "parquet", tmp_path / "out")
    table = ds.dataset(out / "train", partitioning="hive").to_table()
    counts = table.group_by("country").aggregate([("x", "count")]).to_pylist()
    assert {row["country"]: row["x_count"] for row in counts} == {"FR": 30, "DE": 47}


def test_a_damaged_shard_is_named(tmp_path, capsys):
    made = Made(tmp_path, SINGLE, FIELDS[:3])
    path = Path(made.manifest.shard_paths(made.folder, "train")[1])
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    assert main([made.folder, "--to", "parquet", "--out", str(tmp_path / "out")]) == 1
    told = capsys.readouterr().err
    assert re.search(rf"beamfeed: job failed: {path}: damaged: record .* checksum", told)
    assert not (tmp_path / "out" / "_SUCCESS").exists()


MISTAKES = {
    "no dataset": (["{folder}/none"], "there is no dataset"),
    "no such field": (["{data}", "--fields", "lable"], "has no field 'lable'; did you mean 'label'?"),
    "a folder of something else": (
        ["{data}", "--out", "{data}"],
        "holds something else (data-ffffffffffffffff, manifest",
    ),
    "a file for a folder": (["{data}", "--out", "{data}/manifest.json"], "is a file, it must be a folder"),
    "an option of Beam": (["{data}", "--", "--direct_num_worker=2"], "did you mean '--direct_num_workers'?"),
    "strings in a list": (["{data}", "--to", "webdataset"], "the field 'image' is several strings or lists in each"),
    "numpy in a bucket": (["{data}", "--to", "numpy", "--out", "gs://b/x"], "writes in the middle of files"),
    "fields per window of rows": (["{data}", "--what", "rows", "--fields", "label"], "have no fields per window"),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_told_in_a_line(series, tmp_path, capsys, arguments, message):
    arguments = [one.format(folder=tmp_path, data=series.folder) for one in arguments]
    for option, value in (("--to", "parquet"), ("--out", str(tmp_path / "out"))):
        if option not in arguments:
            arguments[1:1] = [option, value]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_the_formats_are_those_of_the_command():
    assert tuple(FORMATS) == EXPORT_FORMATS


def test_duckdb_reads_parquet(single, tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    out = export(single, "parquet", tmp_path / "out")
    query = f"SELECT label, count(*), sum(values[1]) FROM '{out}/train/*.parquet' GROUP BY label ORDER BY label"
    found = duckdb.sql(query).fetchall()
    windows = single.windows(names=["label", "values"])
    for label, count, total in found:
        mine = [values[0] for one, values in windows if one == label]
        assert count == len(mine)
        assert total == pytest.approx(sum(mine))
    assert sum(count for _, count, _ in found) == len(windows)
