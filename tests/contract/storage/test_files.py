import os
import subprocess
import sys

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


@pytest.fixture
def lake(tmp_path):
    for name in (
        "a.CSV", "b.csv.gz", "_c.csv", ".d.csv", "._a.csv", "_SUCCESS.csv", "_temporary/0/e.csv", "_delta_log/f.csv",
        ".cache/g.csv", "year=2024/h.Csv", "year=2024/_i.csv", "year=2024/.hidden/j.csv", "k.txt",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", ["a.CSV", "b.csv.gz", "year=2024/h.Csv"]),
        ("**/*.csv", []),
        ("**/*.[cC][sS][vV]", ["a.CSV", "year=2024/h.Csv"]),
        ("**", ["a.CSV", "b.csv.gz", "k.txt", "year=2024/h.Csv"]),
        ("*.csv", ["_SUCCESS.csv", "_c.csv"]),
        ("*/*.csv", ["year=2024/_i.csv"]),
        ("_temporary", ["_temporary/0/e.csv"]),
        ("_*/*.csv", ["_delta_log/f.csv"]),
        ("**/_*.csv", ["_SUCCESS.csv", "_c.csv", "year=2024/_i.csv"]),
        ("_c.csv", ["_c.csv"]),
    ],
)
def test_what_other_programs_keep_for_themselves_is_no_input(lake, pattern, expected):
    found, empty = storage.match_inputs([f"{lake}/{pattern}" if pattern else str(lake)], (".csv", ".csv.gz"))
    assert [stat.path.removeprefix(f"{lake}/") for stat in found] == expected
    assert empty == ([] if expected else [f"{lake}/{pattern}"])


def test_the_current_folder_is_a_folder(tmp_path, monkeypatch):
    """Names of one letter count, too."""
    for name in ("0.csv", "ab.csv", ".hidden.csv", "x/1.csv", "_old/2.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    files, _ = storage.match_inputs(["."], (".csv",))
    assert [file.path for file in files] == ["0.csv", "ab.csv", "x/1.csv"]
    assert all(storage.fits(file.path, pattern) for file in files for pattern in (".", "./"))
    assert not storage.fits("/other/0.csv", ".")
    assert not storage.fits("gs://bucket/0.csv", ".")


def test_a_list_of_inputs_holds_each_file_once(lake):
    patterns = [str(lake / "year=2024"), str(lake / "none.csv"), f"{lake}/*.CSV", str(lake)]
    found, empty = storage.match_inputs(patterns, (".csv",))
    assert [stat.path.removeprefix(f"{lake}/") for stat in found] == ["a.CSV", "year=2024/h.Csv"]
    assert empty == [str(lake / "none.csv")]


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
    for wrong in ("5", "0s", "-1s", True, 0, float("inf"), float("nan"), 1e308, 10**400, "9" * 400 + "s", "99999999d"):
        with pytest.raises(ValueError):  # noqa: PT011
            parse_duration(wrong)


@pytest.mark.parametrize(
    ("path", "patterns", "expected"),
    [
        ("/lake/day=1/a.parquet", ["/lake/*/*.parquet"], "day=1/a.parquet"),
        ("/lake/day=1/a.parquet", ["/lake"], "day=1/a.parquet"),
        ("/lake/day=1/a.parquet", ["/lake/"], "day=1/a.parquet"),
        ("/lake/day=1/a.parquet", ["/la*/**"], "lake/day=1/a.parquet"),
        ("/lake/a.parquet", ["/lake/a.parquet"], "a.parquet"),
        ("lake/a.csv", ["*/a.csv"], "lake/a.csv"),
        ("/lake2/a.csv", ["/lake", "/lake2"], "1:a.csv"),
        ("/lake/a.csv", ["/lake/*.parquet", "/lake/*.csv"], "1:a.csv"),
        ("/other/a.csv", ["/lake"], "/other/a.csv"),
        ("gs://bucket/x/a.csv", ["gs://bucket/x/*.csv"], "a.csv"),
        ("gs://bucket/x/a.csv", ["gs://bucket"], "x/a.csv"),
        ("x/a.csv", ["."], "x/a.csv"),
        ("x/a.csv", ["/lake", "."], "1:x/a.csv"),
        ("./x/a.csv", ["./*/*.csv"], "x/a.csv"),
        ("/lake/a.csv", [".", "/lake"], "1:a.csv"),
    ],
)
def test_below_is_the_same_wherever_the_folder_is(path, patterns, expected):
    assert storage.below(path, patterns) == expected


@pytest.mark.parametrize("size", [0, 1, 5, 10, 11, 12, 3000])
def test_a_file_is_read_with_what_it_was_then_and_no_more_than_a_byte_too_many(tmp_path, size):
    path = tmp_path / "ten"
    path.write_bytes(b"0123456789")
    data, found = storage.read_dated(str(path), size)
    assert data == b"0123456789"[: size + 1]
    assert found == storage.stat(str(path))


def test_a_file_of_which_a_mount_gives_a_little_at_a_time_is_read_whole(tmp_path, monkeypatch):
    (tmp_path / "ten").write_bytes(b"0123456789")
    monkeypatch.setattr(os, "read", lambda file, size, read=os.read: read(file, min(size, 3)))
    for size, wanted in ((10, b"0123456789"), (20, b"0123456789"), (4, b"01234")):
        assert storage.read_dated(str(tmp_path / "ten"), size)[0] == wanted


def test_a_forked_process_has_clients_of_its_own():
    """As PyTorch's loader forks its workers: they would read each other's answers from one connection."""
    code = """
import os
from unittest import mock
from beamfeed.contract.storage.gcs import _client
with mock.patch("google.cloud.storage.Client", lambda project: object()):
    ours = _client(1)
    assert _client(1) is ours
    child = os.fork()
    if not child:
        os._exit(_client(1) is ours)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
