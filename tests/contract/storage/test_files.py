import pytest

from beamfeed.contract import storage
from beamfeed.contract.config.duration import parse_duration

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
