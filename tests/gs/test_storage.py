"""contract.storage on gs://, in a process of its own: its clients read the environment when they are loaded."""

import json
import textwrap
import zlib

import pytest

SUFFIXES = (".parquet", ".csv")
NAMES = ("t/a.parquet", "t/b.csv", "t/notes.txt", "t/deep/c.parquet", "t/deep/er/d.parquet", "t2/z.parquet")


def run(gs, code: str):
    """What the body of a function says of the bucket, as JSON."""
    script = f"""
import json
from beamfeed.contract import storage
from beamfeed.contract.errors import UserError

def body():
{textwrap.indent(textwrap.dedent(code), "    ")}

print(json.dumps(body()))
"""
    done = gs.python("-c", script)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_match(gs):
    for name in NAMES:
        gs.store.put(gs.bucket, name, name.encode())
    gs.store.put(gs.bucket, "t/deep/", b"")  # as TensorFlow marks a folder
    expected = {
        "t": ["a.parquet", "b.csv", "deep/c.parquet", "deep/er/d.parquet"],
        "t/deep/": ["deep/c.parquet", "deep/er/d.parquet"],
        "t/*.parquet": ["a.parquet"],
        "t/*": ["a.parquet", "b.csv", "notes.txt"],
        "t/**/*.parquet": ["a.parquet", "deep/c.parquet", "deep/er/d.parquet"],
        "t/*/?.parquet": ["deep/c.parquet"],
        "t/[ab].*": ["a.parquet", "b.csv"],
        "t/notes.txt": ["notes.txt"],
        "t/none/*.parquet": [],
        "t/none": [],
    }
    found = run(gs, f"""
        return {{pattern: [(stat.path, stat.size, stat.mtime > 0)
                           for stat in storage.match("{gs.url()}/" + pattern, {SUFFIXES})]
                 for pattern in {list(expected)}}}
        """)  # fmt: skip
    assert found == {
        pattern: [[gs.url("t", name), len("t/" + name), True] for name in names] for pattern, names in expected.items()
    }


def test_match_takes_one_listing_whatever_the_number_of_pages(gs):
    for index in range(2500):
        gs.store.put(gs.bucket, f"many/f{index:04d}.csv", b"1")
    for where in ("", "/many", "/many/*.csv"):
        gs.ledger.reset()
        assert run(gs, f'return len(storage.match("{gs.url()}{where}", {SUFFIXES}))') == 2500
        assert gs.counts().requests == {"list": 3}


def test_texts_and_folders(gs):
    found = run(
        gs,
        f"""
        top = "{gs.url("new")}"
        path = storage.join(top, "folder", "file.json")
        before = storage.exists(path), storage.list_folder(top)
        storage.write_text(path, "one")
        storage.write_text(path, "zwei ☃")
        storage.write_text(storage.join(top, "other"), "")
        between = storage.read_text(path), storage.list_folder(top), storage.exists(path), storage.exists(top)
        try:
            storage.read_text(path + "x")
        except FileNotFoundError as error:
            missing = str(error)
        storage.remove_tree(storage.join(top, "folder"))
        storage.remove_tree(storage.join(top, "folder"))
        return before, between, missing, storage.list_folder(top), storage.exists(path)
        """,
    )
    path = gs.url("new/folder/file.json")
    assert found == [
        [False, []],
        ["zwei ☃", ["folder", "other"], True, True],
        f"{path}x: there is no such file",
        ["other"],
        False,
    ]
    assert gs.list("new") == ["other"]


def test_a_folder_is_listed_without_what_lies_below(gs):
    for index in range(3500):
        gs.store.put(gs.bucket, f"t/data-1/train/part-{index:05d}", b"1")
    for name in ("t/", "t/manifest.json", "t/data-2/", "t/z", "t/z/a", "t2/x", "top"):
        gs.store.put(gs.bucket, name, b"")
    gs.ledger.reset()
    assert run(gs, f'return storage.list_folder("{gs.url("t")}")') == ["data-1", "data-2", "manifest.json", "z"]
    assert gs.counts().requests["list"] == 1
    assert gs.counts().requests["read"] == 0
    assert run(gs, f'return storage.list_folder("{gs.url()}"), storage.list_folder("{gs.url("t/")}")') == [
        ["t", "t2", "top"],
        ["data-1", "data-2", "manifest.json", "z"],
    ]
    for index in range(1500):
        gs.store.put(gs.bucket, f"wide/{index:04d}/x", b"1")
    gs.ledger.reset()
    assert len(run(gs, f'return storage.list_folder("{gs.url("wide")}")')) == 1500
    assert gs.counts().requests["list"] == 2


def test_remove_tree_takes_the_marks_of_folders_too_and_nothing_beside_them(gs):
    for name in ("d/", "d/a", "d/e/", "d/e/f", "dd", "d2/a"):
        gs.store.put(gs.bucket, name, b"")
    run(gs, f'return storage.remove_tree("{gs.url("d")}")')
    assert gs.store.names(gs.bucket) == ["d2/a", "dd"]


@pytest.mark.slow
def test_a_text_is_replaced_whole_or_not_at_all(gs):
    text = "new " * 300_000
    write = f'return storage.write_text("{gs.url("file")}", "new " * 300_000)'
    gs.store.put(gs.bucket, "file", b"old")
    gs.inject("write", "503", times=2)
    gs.inject("write", "cut", match="upload_id")
    run(gs, write)
    assert gs.counts().faults == 3
    assert gs.read("file").decode() == text

    # The process dies while the upload is under way: readers keep what they had.
    gs.store.put(gs.bucket, "file", b"old")
    gs.ledger.reset()
    gs.inject("write", "503", times=1000, match="upload_id")
    done = gs.python(
        "-c",
        f"""
import os, threading
from beamfeed.contract import storage
threading.Timer(2, os._exit, [9]).start()
storage.write_text("{gs.url("file")}", "new " * 300_000)
""",
    )
    assert done.returncode == 9
    assert gs.read("file") == b"old"


def test_reads_survive_faults(gs):
    gs.store.put(gs.bucket, "file", bytes(5_000_000))
    gs.inject("metadata", "503")
    gs.inject("list", "503")
    gs.inject("read", "503", times=2)
    gs.inject("read", "cut", times=2)
    assert run(gs, f'return len(storage.read_bytes("{gs.url("file")}")), storage.list_folder("{gs.url()}")') == [
        5_000_000,
        ["file"],
    ]
    assert gs.counts().faults == 6


@pytest.mark.parametrize("bucket", ["missing", "forbidden"])
def test_what_is_wrong_with_a_bucket_is_told_in_one_line(gs, bucket):
    said = {"missing": "there is no bucket 'missing'", "forbidden": "no permission: tester@example.com does not have"}
    found = run(gs, f"""
        told = []
        for call in (
            storage.read_text, storage.list_folder,
            lambda path: storage.match(path, (".csv",)), lambda path: storage.match(path + "/*", (".csv",)),
            lambda path: storage.write_text(path, ""),
        ):
            try:
                call("gs://{bucket}/a")
            except UserError as error:
                told.append(str(error))
        return told
        """)  # fmt: skip
    assert len(found) == 5
    for line in found:
        assert line.startswith(f"gs://{bucket}/a")
        assert said[bucket] in line
        assert "\n" not in line
        assert "google::cloud" not in line


def test_a_stream_asks_for_large_pieces(gs):
    gs.store.put(gs.bucket, "file", bytes(20 << 20))
    gs.ledger.reset()
    code = f"""
        with storage.open_stream("{gs.url("file")}") as file:
            return sum(map(len, iter(lambda: file.read(1_000_000), b"")))
        """
    assert run(gs, code) == 20 << 20
    assert gs.counts().requests["read"] == 3  # of 8 MB


def test_ranges_and_only_ranges_are_read(gs):
    gs.store.put(gs.bucket, "file", bytes(range(256)) * 40_000)
    found = run(
        gs,
        f"""
        with storage.open_input("{gs.url("file")}") as file:
            size = file.size()
            file.seek(1000)
            middle = file.read(10)
            file.seek(-2, 2)
            end, after = file.read(100), file.read(1)
        return size, list(middle), list(end), len(after)
        """,
    )
    assert found == [256 * 40_000, list(range(232, 242)), [254, 255], 0]
    assert gs.counts().read_bytes == 12


def test_a_file_that_cannot_be_opened_is_one_file_and_not_the_bucket(gs):
    found = run(
        gs,
        f"""
        told = []
        for path in ("{gs.url("none")}", "gs://forbidden/file"):
            try:
                storage.open_input(path)
            except OSError as error:
                told.append(type(error).__name__)
        return told
        """,
    )
    assert found == ["FileNotFoundError", "PermissionError"]


def test_packed_text_is_read_in_large_pieces(gs):
    import gzip
    import random

    text = "".join(f"{random.Random(i).random()}\n" for i in range(400_000))
    packed = gzip.compress(b"x\n" + text.encode(), 1)
    gs.store.put(gs.bucket, "a.csv.gz", packed)
    found = run(
        gs,
        f"""
        from beamfeed.transforms.sources.readers import read_schema
        return str(read_schema("{gs.url("a.csv.gz")}"))
        """,
    )
    assert found == "x: double"
    assert len(packed) > 3 << 20
    assert gs.counts().requests["read"] <= 4


def test_a_packed_shard_is_copied_in_large_pieces(gs):
    import gzip
    import os

    content = os.urandom(12 << 20)
    gs.store.put(gs.bucket, "part.tfrecord", gzip.compress(content, 1))
    found = run(
        gs,
        f"""
        import zlib
        from beamfeed.contract.storage import stat
        from beamfeed.trainer.feed.cache import local_copies
        (path,) = local_copies("data", [stat("{gs.url("part.tfrecord")}")], "gzip")
        with open(path, "rb") as file:
            return zlib.crc32(file.read())
        """,
    )
    assert found == zlib.crc32(content)
    assert gs.counts().requests["read"] <= 3


def test_no_file_is_rejected_for_a_bucket_that_does_not_answer(gs):
    gs.store.put(gs.bucket, "a.parquet", bytes(1000))
    gs.inject("read", "503", times=1000)
    found = run(
        gs,
        f"""
        from beamfeed.contract.storage import gcs as ranges
        from beamfeed.contract.errors import JobFailed
        from beamfeed.transforms.sources.readers import read_schema
        ranges.PATIENCE = 2
        try:
            read_schema("{gs.url("a.parquet")}")
        except JobFailed as error:
            return str(error)
        """,
    )
    assert found.startswith(f"job failed: {gs.url('a.parquet')}: ")


def test_nor_where_it_does_not_say_what_a_file_is(gs):
    gs.store.put(gs.bucket, "a.jsonl", b'{"a": 1}')
    gs.inject("metadata", "503", times=1000)
    gs.inject("list", "503", times=1000)
    found = run(
        gs,
        f"""
        from datetime import timedelta
        from pyarrow import fs
        from beamfeed.contract.errors import JobFailed
        from beamfeed.contract.storage import files
        from beamfeed.transforms.sources.readers.trouble import naming_the_file
        files._gcs = lambda: fs.GcsFileSystem(retry_time_limit=timedelta(seconds=1))
        try:
            with naming_the_file("{gs.url("a.jsonl")}"):
                files.stat("{gs.url("a.jsonl")}")
        except JobFailed as error:
            return str(error)
        """,
    )
    assert found.startswith(f"job failed: {gs.url('a.jsonl')}: ")


def test_an_object_that_is_there_is_taken_as_it_is_written(gs):
    for name in (
        "odd/in[1]/a[0].csv",
        "odd/in[1]/b.csv",
        "odd/in1/c.csv",
        "odd/in*/d.csv",
        "odd/x?y.csv",
        "odd/xzy.csv",
    ):
        gs.store.put(gs.bucket, name, b"1")
    expected = {
        "odd/in[1]": ["odd/in[1]/a[0].csv", "odd/in[1]/b.csv"],
        "odd/in[1]/": ["odd/in[1]/a[0].csv", "odd/in[1]/b.csv"],
        "odd/in[1]/*.csv": ["odd/in[1]/a[0].csv", "odd/in[1]/b.csv"],
        "odd/in[1]/a[0].csv": ["odd/in[1]/a[0].csv"],
        "odd/in[12]/*": ["odd/in1/c.csv"],
        "odd/in[[]1]/b*": ["odd/in[1]/b.csv"],
        "odd/in*": ["odd/in*/d.csv"],
        "odd/x?y.csv": ["odd/x?y.csv"],
        "odd/x[z]y.csv": ["odd/xzy.csv"],
    }
    found = run(gs, f"""
        return {{pattern: [stat.path for stat in storage.match("{gs.url()}/" + pattern, {SUFFIXES})]
                 for pattern in {list(expected)}}}
        """)  # fmt: skip
    assert found == {pattern: [gs.url(name) for name in names] for pattern, names in expected.items()}


def test_a_file_that_is_replaced_while_it_is_read(gs):
    """A run's record is, by its launcher, while others ask for it: each reads one whole version, none an error."""
    numbers = run(gs, f"""
        import threading
        path, done = "{gs.url()}/replaced.txt", threading.Event()
        storage.write_text(path, "100")

        def replace():
            number = 100
            while not done.is_set():
                number += 1
                storage.write_text(path, str(number))

        writer = threading.Thread(target=replace)
        writer.start()
        try:
            return [int(storage.read_text(path)) for _ in range(200)]
        finally:
            done.set()
            writer.join()
        """)  # fmt: skip
    assert numbers == sorted(numbers)
    assert numbers[-1] > 110
