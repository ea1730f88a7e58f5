import pytest

from beamfeed.contract import storage
from beamfeed.contract.config.duration import parse_duration
from beamfeed.contract.config.load import parse_job
from beamfeed.contract.dataset.fingerprint import data_fingerprint, run_fingerprint
from beamfeed.contract.dataset.layout import DataLayout, shard_name
from beamfeed.contract.dataset.manifest import (
    Blocks,
    Counts,
    Manifest,
    Shard,
    SplitInfo,
    find_manifest,
    read_complete,
    write_manifest,
)

SUFFIXES = (".parquet", ".csv")


@pytest.fixture
def tree(tmp_path):
    for name in ("a.parquet", "b.csv", "notes.txt", "deep/c.parquet", "deep/er/d.parquet"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", ["a.parquet", "b.csv", "deep/c.parquet", "deep/er/d.parquet"]),
        ("deep/", ["deep/c.parquet", "deep/er/d.parquet"]),
        ("*.parquet", ["a.parquet"]),
        ("*", ["a.parquet", "b.csv", "notes.txt"]),
        ("**/*.parquet", ["a.parquet", "deep/c.parquet", "deep/er/d.parquet"]),
        ("*/?.parquet", ["deep/c.parquet"]),
        ("[ab].*", ["a.parquet", "b.csv"]),
        ("notes.txt", ["notes.txt"]),
        ("none/*.parquet", []),
        ("none", []),
    ],
)
def test_match(tree, monkeypatch, pattern, expected):
    found = storage.match(f"{tree}/{pattern}" if pattern else str(tree), SUFFIXES)
    assert [stat.path.removeprefix(f"{tree}/") for stat in found] == expected
    assert all(stat.size == len(stat.path.removeprefix(f"{tree}/")) for stat in found)
    monkeypatch.chdir(tree)
    if pattern:
        assert [stat.path for stat in storage.match(pattern, SUFFIXES)] == expected


def test_write_replaces_whole_files(tmp_path):
    path = str(tmp_path / "new" / "file.json")
    storage.write_text(path, "one")
    storage.write_text(path, "two")
    assert storage.read_text(path) == "two"
    assert storage.list_folder(str(tmp_path / "new")) == ["file.json"]
    storage.remove_tree(str(tmp_path / "new"))
    assert not storage.exists(path)
    assert storage.list_folder(str(tmp_path / "new")) == []
    assert storage.join("gs://bucket/a/", "b", "c") == "gs://bucket/a/b/c"
    assert storage.join("/a/", "b") == "/a/b"


def test_durations():
    assert parse_duration("1.5 h") == (1.5, "h")
    assert parse_duration(3) == (3.0, None)
    for wrong in ("5", "0s", "-1s", True, 0):
        with pytest.raises(ValueError):  # noqa: PT011
            parse_duration(wrong)


JOB = """
name: x
source: {kind: timeseries, files: f, time: {column: t}, features: [a]}
windows: {length: 3}
output: {path: o}
train: {model: {name: recurrent_autoencoder}, workdir: w}
"""


def test_fingerprints_change_with_what_matters_and_nothing_else():
    files = [storage.FileStat("a", 1, 2)]
    base = data_fingerprint(parse_job(JOB), files)

    def same(*overrides, stats=files):
        return data_fingerprint(parse_job(JOB, overrides), stats) == base

    for override in ("output.path=p", "launch.preprocess.workers=9", "train.epochs=3", "name=y",
                     "limits.max_rejected_fraction=1", "launch.train.workers=3"):  # fmt: skip
        assert same(override), override
    for override in ("windows.stride=2", "prepare.scale.how=none", "split.seed=8", "output.shards=3",
                     "source.features=[b]", "output.compression=gzip", "launch.train.workers=17"):  # fmt: skip
        assert not same(override), override
    for changed in (("b", 1, 2), ("a", 2, 2), ("a", 1, 3)):
        assert not same(stats=[storage.FileStat(*changed)])

    run = run_fingerprint(parse_job(JOB).train, base)
    assert run_fingerprint(parse_job(JOB, ["train.epochs=99", "train.workdir=v"]).train, base) == run
    assert run_fingerprint(parse_job(JOB, ["train.model.latent=3"]).train, base) != run
    assert run_fingerprint(parse_job(JOB).train, "other data") != run


def test_manifest_round_trip_and_completeness(tmp_path):
    output = str(tmp_path)
    layout = DataLayout.of(output, "f" * 64)
    storage.write_text(layout.shard("train", 0, 1), "1234")
    shard = Shard(
        file=f"train/{shard_name(0, 1)}",
        records=1,
        windows=1,
        rows=3,
        bytes=4,
        crc32c="00000000",
        blocks=Blocks(records=[1], windows=[1], bytes=[4]),
    )
    none = SplitInfo(assets=0, windows=0, records=0, bytes=0, shards=[])
    manifest = Manifest(
        name="x", kind="timeseries", fingerprint="f" * 64, data=layout.folder, features=["a"],
        windows={"length": 3}, records="segments", compression="none",
        counts=Counts(files=1, assets=1, rejected_assets=0, rejected_files=0, rows_read=3),
        splits={"train": none.model_copy(update={"windows": 1, "shards": [shard]}), "eval": none, "test": none},
    )  # fmt: skip
    assert find_manifest(output) is None
    write_manifest(output, manifest)
    assert find_manifest(output) == manifest
    assert manifest.shard_paths(output, "train") == [layout.shard("train", 0, 1)]
    assert read_complete(output, "f" * 64) == manifest
    assert read_complete(output, "e" * 64) is None
    storage.write_text(layout.shard("train", 0, 1), "123")
    assert read_complete(output, "f" * 64) is None
    storage.write_text(f"{output}/manifest.json", '{"format": 2}')
    with pytest.raises(Exception, match="is not a manifest of this version"):
        find_manifest(output)
