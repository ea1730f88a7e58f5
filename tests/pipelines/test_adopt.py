"""Folders of TFRecords that others wrote, adopted in one process and read beside a plain loop over their files."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import foreign
import numpy as np
import pytest
import tensorflow as tf
from foreign import example, sequence_example

import beamfeed
from beamfeed.contract.dataset.manifest import read_manifest
from beamfeed.contract.errors import UserError
from beamfeed.pipelines import adopt
from beamfeed.trainer.tools.inspect_dataset import main as inspect

ONE_THREAD = "--direct_num_workers=1"
LABEL = ("--target", "label", "--classes", "label=auto")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Hive folders with splits by name; files that are no shards among them."""
    top = tmp_path_factory.mktemp("foreign") / "flowers"
    for split, shards in (("train", 4), ("validation", 1), ("test", 1)):
        for number in range(shards):
            country = ("DE", "FR")[number % 2]
            path = top / split / f"country={country}" / f"part-{number:05d}.tfrecord"
            foreign.write(path, [example(row) for row in foreign.rows(40, seed=shards * 10 + number)])
    (top / "_SUCCESS").touch()
    (top / "about.txt").write_text("flowers")
    return top


@pytest.fixture(scope="module")
def adopted(folder, tmp_path_factory) -> Path:
    """The folder after it was adopted, in place."""
    top = tmp_path_factory.mktemp("adopted") / "flowers"
    shutil.copytree(folder, top)
    before = state(top)
    assert adopt.main([str(top), *LABEL, ONE_THREAD, "--quiet"]) == 0
    assert {name: data for name, data in state(top).items() if name in before} == before
    return top


def state(top: Path) -> dict[str, bytes]:
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def as_lists(batch: dict[str, tf.Tensor], names) -> list[tuple]:
    columns = [
        value.to_list() if isinstance(value := batch[name], tf.RaggedTensor) else value.numpy().tolist()
        for name in names
    ]
    return list(zip(*columns, strict=True))


def expected(rows) -> Counter:
    """The rows of a plain loop, as a multiset."""
    return Counter(json.dumps([row["measure/size"], row["measure/kind"], row.get("tags", []), row["label"]],
                              default=lambda one: one[0]) for row in rows)  # fmt: skip


def found_in(folder, split, **options) -> Counter:
    names = ("measure_size", "measure_kind", "tags", "label")
    windows = beamfeed.load_dataset(folder, split, **options)
    rows = [row for batch in windows for row in as_lists(batch, names)]
    return Counter(json.dumps([size, [kind], tags, [label]]) for size, kind, tags, label in rows)


def test_every_row_comes_once_as_it_is(adopted):
    for split, name in (("train", "train"), ("validation", "eval"), ("test", "test")):
        rows = list(foreign.read(sorted((adopted / split).rglob("part-*"))))
        assert len(rows) == read_manifest(adopted).splits[name].windows
        assert found_in(adopted, name, batch_size=8) == expected(rows)
        assert found_in(adopted, name, batch_size=8, shuffle=64) == expected(rows)


def test_the_order_is_kept_without_shuffling(adopted):
    paths = [str(path) for path in sorted((adopted / "train").rglob("part-*"))]
    plain = [row["file name"][0] for row in foreign.read(paths)]
    windows = beamfeed.load_dataset(adopted, "train", batch_size=10, fields=["file_name"])
    assert [name for batch in windows for name in batch["file_name"].numpy().tolist()] == plain


def test_partitions_can_be_chosen(adopted):
    rows = list(foreign.read(sorted((adopted / "train" / "country=FR").rglob("part-*"))))
    assert found_in(
        adopted, "train", batch_size=8, options=beamfeed.FeedOptions(where={"country": ["FR"]})
    ) == expected(rows)


def test_the_manifest_says_what_was_seen(adopted):
    manifest = read_manifest(adopted)
    rows = list(foreign.read(sorted((adopted / "train").rglob("part-*"))))
    assert (manifest.kind, manifest.adopted, manifest.name) == ("adopted", "", "flowers")
    counts = Counter(row["label"][0] for row in rows)
    assert manifest.splits["train"].targets["label"].counts == [counts[number] for number in range(3)]
    assert manifest.counts.files == 6
    assert "files without a record: 1" not in manifest.notes  # _SUCCESS is hidden
    assert "files that hold no TFRecords: 1" in manifest.notes


def test_the_same_again_is_nothing_to_do(adopted, capfd):
    before = state(adopted)
    assert adopt.main([str(adopted), *LABEL, ONE_THREAD, "--quiet"]) == 0
    assert state(adopted) == before
    assert "Nothing to do" in capfd.readouterr().err


def test_inspect_and_its_check(adopted, capfd):
    assert inspect([str(adopted), "--verify"]) == 0
    told = capfd.readouterr().out
    assert "OK: 6 shards are as the manifest says" in told
    assert "measure/size" in told


def test_any_number_of_workers_gives_the_same(adopted, folder, tmp_path):
    out = tmp_path / "out"
    assert adopt.main([str(folder), "--out", str(out), "--name", "flowers", *LABEL, "--direct_num_workers=2"]) == 0
    one, other = read_manifest(adopted), read_manifest(out)
    assert other.adopted == str(folder)
    assert one.splits == other.splits
    assert one.fields == other.fields
    assert sorted(os.listdir(folder)) == ["_SUCCESS", "about.txt", "test", "train", "validation"]
    for split in one.splits:
        index = [manifest.data_layout(str(top)).blocks(split) for manifest, top in ((one, adopted), (other, out))]
        assert Path(index[0]).read_bytes() == Path(index[1]).read_bytes()
    assert found_in(out, "test", batch_size=8) == found_in(adopted, "test", batch_size=8)


def test_the_current_folder(folder, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    assert adopt.main([".", *LABEL, ONE_THREAD, "--quiet"]) == 0
    assert read_manifest(".").name == "here"
    rows = list(foreign.read(sorted((folder / "test").rglob("part-*"))))
    assert found_in(".", "test", batch_size=8) == expected(rows)
    assert inspect([".", "--verify", "--windows", "1"]) == 0


def test_a_broken_shard_is_set_aside_by_name(folder, tmp_path, capfd):
    top = tmp_path / "flowers"
    shutil.copytree(folder, top)
    broken = top / "train" / "country=DE" / "part-00002.tfrecord"
    data = bytearray(broken.read_bytes())
    at = int.from_bytes(data[:8], "little") + 16  # of the second record
    data[at + 20] ^= 1
    broken.write_bytes(data)
    cut = top / "train" / "country=FR" / "part-00003.tfrecord"
    os.truncate(cut, 1000)
    assert adopt.main([str(top), *LABEL, ONE_THREAD]) == 0
    told = capfd.readouterr().out
    assert f"set aside: {broken}: record 1, byte {at}: the checksum of its data is wrong" in told
    manifest = read_manifest(top)
    assert (manifest.counts.rejected_files, len(manifest.splits["train"].shards)) == (2, 2)
    rejects = [json.loads(line) for line in Path(manifest.data_layout(str(top)).rejects).read_text().splitlines()]
    assert [one["file"] for one in rejects] == [str(broken), str(cut)]
    rows = list(foreign.read(sorted((top / "train").rglob("part-0000[01]*"))))
    assert found_in(top, "train", batch_size=8) == expected(rows)


def test_a_shard_that_changes_is_refused_by_name_until_the_folder_is_adopted_again(folder, tmp_path):
    top = tmp_path / "flowers"
    shutil.copytree(folder, top)
    assert adopt.main([str(top), *LABEL, ONE_THREAD, "--quiet"]) == 0
    old = read_manifest(top)
    changed = next((top / "test").rglob("part-*"))
    foreign.write(changed, [example(row) for row in foreign.rows(7)])
    with pytest.raises(UserError, match=f"{changed}: changed since it was adopted"):
        beamfeed.load_dataset(top, "test", batch_size=1)
    assert adopt.main([str(top), *LABEL, ONE_THREAD, "--quiet"]) == 0
    assert found_in(top, "test", batch_size=7) == expected(foreign.read([changed]))
    new = read_manifest(top)
    assert (new.previous, (top / old.data).is_dir()) == (old.data, True)
    assert adopt.main([str(top), *LABEL, ONE_THREAD, "--quiet", "--key", "tags"]) == 0
    assert not (top / old.data).exists()
    changed.unlink()
    with pytest.raises(UserError, match=f"{changed}: the manifest lists this shard, but it is missing"):
        beamfeed.load_dataset(top, "test", batch_size=1)


def test_compressed_shards(tmp_path):
    rows = foreign.rows(30)
    top = tmp_path / "packed"
    for number, name in enumerate(("train", "eval")):
        some = [example(row) for row in rows[number * 20 : number * 20 + 20]]
        foreign.write(top / f"data-{name}.tfrecord.gz", some, "GZIP")
    assert adopt.main([str(top), *LABEL, ONE_THREAD, "--quiet"]) == 0
    assert read_manifest(top).compression == "gzip"
    plain = list(foreign.read([top / "data-train.tfrecord.gz"], "GZIP"))
    assert found_in(top, "train", batch_size=10) == expected(plain)
    assert inspect([str(top), "--verify", "--windows", "1"]) == 0
    foreign.write(top / "data-test.tfrecord", [example(row) for row in rows])
    assert adopt.main([str(top), *LABEL, ONE_THREAD, "--quiet"]) == 2


def test_sequence_examples(tmp_path):
    rng = np.random.default_rng(3)
    tracks = [
        (number, rng.normal(size=(int(rng.integers(0, 5)), 2)).astype("f4"), [b"ab", b"c"][: number % 3])
        for number in range(20)
    ]
    records = [
        sequence_example({"n": n}, {"xy": [list(map(float, step)) for step in xy], "words": words})
        for n, xy, words in tracks
    ]
    top = tmp_path / "tracks"
    foreign.write(top / "train-0.tfrecord", records[:15])
    foreign.write(top / "train-1.tfrecord", records[15:])
    assert adopt.main([str(top), "--input", "words", ONE_THREAD, "--quiet"]) == 0
    windows = beamfeed.load_dataset(top, "train", batch_size=5)
    found = [row for batch in windows for row in as_lists(batch, ("n", "xy", "words"))]
    assert found == [(n, xy.tolist(), list(words)) for n, xy, words in tracks]
    shuffled = beamfeed.load_dataset(
        top, "train", batch_size=5, shuffle=20, options=beamfeed.FeedOptions(tuning=beamfeed.Tuning(cache="memory"))
    )
    again = [row for batch in shuffled for row in as_lists(batch, ("n", "xy", "words"))]
    assert sorted(again, key=lambda row: row[0]) == found
    assert inspect([str(top), "--verify", "--windows", "2"]) == 0


def test_features_that_some_records_lack_and_records_of_no_byte(tmp_path):
    rows = [{"a": 1.0, "b": [1, 2]}, {"b": []}, {}, {"a": 2.0, "b": [3]}, {"a": foreign.NO_FLOATS, "b": [4]}]
    records = [example(row) for row in rows]
    top = tmp_path / "odd"
    foreign.write(top / "x-train.tfrecord", [*records[:2], b"", *records[2:], b""])
    assert adopt.main([str(top), "--default", "a=-1", ONE_THREAD, "--quiet"]) == 0
    (batch,) = beamfeed.load_dataset(top, "train", batch_size=5)
    assert batch["a"].numpy().tolist() == [1.0, -1.0, -1.0, 2.0, -1.0]
    assert batch["b"].to_list() == [[1, 2], [], [], [3], [4]]
    assert "empty records: 2; they do not count as rows" in read_manifest(top).notes
    (padded, weights), *_ = beamfeed.load_dataset(top, "train", batch_size=7, remainder="pad")
    assert padded["a"].numpy().tolist() == [1.0, -1.0, -1.0, 2.0, -1.0, 0.0, 0.0]
    assert weights.numpy().tolist() == [1, 1, 1, 1, 1, 0, 0]
    assert inspect([str(top), "--verify", "--windows", "5"]) == 0


def test_a_shard_of_another_type_is_set_aside(tmp_path, capfd):
    top = tmp_path / "mixed"
    for number in range(3):
        foreign.write(top / f"train-{number}.tfrecord", [example({"a": 1.0 if number else 1})] * 3)
    assert adopt.main([str(top), ONE_THREAD]) == 0
    told = capfd.readouterr().out
    assert f"set aside: {top}/train-0.tfrecord: file: feature 'a' holds int64, in most records float32" in told


def test_classes_that_are_texts_become_numbers(tmp_path, capfd):
    top, names = tmp_path / "trees", ["oak", "ash", "Ulme \u00fc", "elm"]
    plain = [names[number * 7 % 4] for number in range(40)]
    records = [example({"x": float(number), "tree": name}) for number, name in enumerate(plain)]
    foreign.write(top / "train-0.tfrecord", [*records, example({"x": -1.0})])
    options = ["--target", "tree", "--classes", "tree=auto", "--default", "tree=oak", ONE_THREAD, "--quiet"]
    assert adopt.main([str(top), *options]) == 0
    manifest = read_manifest(top)
    classes = manifest.field("tree").classes
    assert classes == sorted(names)
    assert manifest.splits["train"].targets["tree"].counts == [10, 10, 10, 10]
    (batch,) = beamfeed.load_dataset(top, "train", batch_size=41)
    assert [classes[number] for number in batch["tree"].numpy()] == [*plain, "oak"]
    assert inspect([str(top), "--verify", "--windows", "1"]) == 0
    assert "(oak)" in capfd.readouterr().out
    foreign.write(top / "train-0.tfrecord", [example({"x": 1.0, "tree": "elk"})] * 41)
    shards = [
        manifest.splits["train"].shards[0].model_copy(update={"bytes": (top / "train-0.tfrecord").stat().st_size})
    ]
    info = manifest.splits["train"].model_copy(update={"shards": shards})
    changed = manifest.model_copy(update={"splits": {"train": info}})
    with pytest.raises(tf.errors.InvalidArgumentError, match="differ from the manifest: field tree"):
        list(beamfeed.load_dataset(top, "train", batch_size=41, options=beamfeed.FeedOptions(manifest=changed)))


def test_empty_lists_of_another_type(tmp_path, capfd):
    """TensorFlow's parser fails on an empty list of another type as on a full one."""
    top = tmp_path / "empty"
    foreign.write(top / "train-0.tfrecord", [example({"a": [], "b": 1}), example({"a": 1.0, "b": 2})])
    foreign.write(top / "train-1.tfrecord", [example({"a": 2.0, "b": 3}), example({"a": foreign.NO_FLOATS, "b": 4})])
    assert adopt.main([str(top), ONE_THREAD]) == 0
    assert "feature 'a' has empty lists of int64, in most records it holds float32" in capfd.readouterr().out
    (batch,) = beamfeed.load_dataset(top, "train", batch_size=2)
    assert (batch["a"].to_list(), batch["b"].numpy().tolist()) == ([[2.0], []], [3, 4])
    (top / "train-1.tfrecord").unlink()
    assert adopt.main([str(top), ONE_THREAD, "--quiet"]) == 0
    (batch,) = beamfeed.load_dataset(top, "train", batch_size=2)
    assert (set(batch), batch["b"].numpy().tolist()) == ({"b"}, [1, 2])
    assert any("in every file; left out" in note for note in read_manifest(top).notes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "lable"], "--target lable: no such feature; did you mean 'label'?"),
        (["--target", "tags"], "--target tags: has the shape [any]"),
        (["--target", "label", "--key", "label"], "--key label: is given with --target, too"),
        (["--shape", "label=0"], "--shape label=0: needs whole numbers above 0"),
        (["--split", "valid=0.1"], "--split valid=0.1: there is no such split"),
        (["--split", "train=*", "--split", "eval=0.1"], "give either fractions"),
        (["--classes", "label"], "--classes label: needs NAME=VALUE"),
        (["--classes", "label=a,b"], "2 names are for the numbers 0 to 1; its values are from 0 to 2"),
        (["--default", "tags=nan"], "--default tags=nan: is not a finite number"),
        (["--name", "my data"], "--name my data: must be letters"),
        (["--job", "{tmp}/job.yaml"], "--job: a model needs something to predict; give --target NAME"),
        (["--runner=NoRunner"], "--runner: 'NoRunner' is none of"),
        (["--no_such_option=1"], "--no_such_option: Beam has no such option"),
    ],
)
def test_a_mistake_is_one_line(folder, tmp_path, capfd, arguments, message):
    arguments = [one.format(tmp=tmp_path) for one in arguments]
    assert adopt.main([str(folder), "--out", str(tmp_path / "out"), ONE_THREAD, *arguments]) == 2
    error = capfd.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_dataset_of_our_own_is_told(tmp_path, capfd):
    from datasets import write_dataset

    from beamfeed.contract.dataset.fields import Field

    write_dataset(str(tmp_path), [Field(name="x", dtype="float32", role="input")], {"train": [[{"x": [1.0]}]]})
    assert adopt.main([str(tmp_path), ONE_THREAD]) == 2
    assert "already holds a dataset of Beamfeed" in capfd.readouterr().err
    (tmp_path / "manifest.json").write_text("{}")
    assert adopt.main([str(tmp_path), ONE_THREAD]) == 2
    assert "--out DIR puts what is written elsewhere" in capfd.readouterr().err


def test_no_shard_can_be_used(tmp_path, capfd):
    (tmp_path / "train.tfrecord").write_bytes(b"nothing of the kind")
    foreign.write(tmp_path / "test.tfrecord", [b"no protobuf at all"])
    assert adopt.main([str(tmp_path), ONE_THREAD]) == 1
    error = capfd.readouterr().err
    assert "none of 2 files can be used" in error
    assert not (tmp_path / "manifest.json").exists()
