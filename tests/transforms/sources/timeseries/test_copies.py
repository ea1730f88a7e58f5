"""Rows that are parsed are copied as they are scanned, and read from there as the file itself gives them."""

import gzip
import json
import resource
import shutil
import tracemalloc
from decimal import Decimal
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from series import job_of, schema_of

from beamfeed.contract import storage
from beamfeed.contract.config.sources.timeseries import AssetFrom
from beamfeed.contract.config.split import Split
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers import blocks, expected
from beamfeed.transforms.sources.timeseries import copies as module
from beamfeed.transforms.sources.timeseries import mixed, plan
from beamfeed.transforms.sources.timeseries.copies import RowCopies
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset, cut_units
from beamfeed.transforms.sources.timeseries.read import read_chunks, read_sorted, sort_bytes
from beamfeed.transforms.sources.timeseries.resolve import resolve_schema
from beamfeed.transforms.sources.timeseries.scan import FileSlice, scan_file
from beamfeed.transforms.sources.timeseries.windowing import Windowing

PATH = AssetFrom(**{"from": "path"})
ROWS = 150_000  # several batches


def rows_of(piece: FileSlice, schema) -> tuple[np.ndarray, dict]:
    """By row its place in the file, time and values, float64 [rows, 2 + features]; and what is wrong with some."""
    rows, wrong = [], {}
    for chunk in read_chunks(SeriesAsset(piece.asset, (piece,), None, total=piece.rows), schema):
        wrong |= {int(chunk.file_row[at]): why for at, why in chunk.wrong.items()}
        places = chunk.file_row
        rows.append(np.c_[places, chunk.time, chunk.values.astype("f8")])
    return np.concatenate(rows), wrong


def write_rows(folder: Path, suffix: str) -> Path:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(ROWS, 2)).round(3).tolist()
    path = folder / f"m.{suffix}"
    if suffix.startswith("csv"):
        lines = [f"{row},{x0},{x1}" for row, (x0, x1) in enumerate(values)]
        for place, line in ((70, "70,1.5,off"), (90_000, "90000,2"), (120_000, ",1,2"), (149_000, "149000,,7")):
            lines[place] = line  # one that is no number, too few, no time, and one that is missing
        text = "t,x0,x1\n" + "\n".join(lines) + "\n"
        path.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
    elif suffix == "jsonl":
        lines = [json.dumps({"t": row, "x0": x0, "x1": x1}) for row, (x0, x1) in enumerate(values)]
        path.write_text("\n".join(lines) + "\n")
    else:
        fields = [{"name": "t", "type": "long"}, {"name": "x0", "type": "float"}, {"name": "x1", "type": "double"}]
        schema = {"type": "record", "name": "row", "fields": fields}
        with path.open("wb") as file:
            fastavro.writer(file, schema, [{"t": row, "x0": x0, "x1": x1} for row, (x0, x1) in enumerate(values)])
    return path


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "jsonl", "avro"])
def test_a_copy_gives_the_rows_of_its_file(tmp_path, suffix):
    path = write_rows(tmp_path, suffix)
    file, schema = storage.stat(str(path)), schema_of(path, "t")
    (plain,) = scan_file(file, PATH, schema, None, str(tmp_path))
    with RowCopies([file], str(tmp_path / "scratch")) as copies:
        (copied,) = scan_file(file, PATH, schema, None, str(tmp_path), copies)
    assert (plain.copy, copied.copy) == (None, copies.path)
    assert [group.rows for group in copied.groups] == [group.rows for group in plain.groups]
    assert (copied.rows, copied.first, copied.last) == (plain.rows, plain.first, plain.last) == (ROWS, 0, ROWS - 1)
    rows, wrong = rows_of(plain, schema)
    path.unlink()  # nothing of it is read again
    copied_rows, copied_wrong = rows_of(copied, schema)
    np.testing.assert_array_equal(copied_rows, rows)
    assert copied_wrong == wrong
    assert sorted(wrong) == ([70, 90_000, 120_000] if suffix.startswith("csv") else [])


def test_a_file_whose_columns_are_of_other_types_is_not_copied(tmp_path):
    stats = []
    for name, number in (("a", "float"), ("b", "double"), ("c", "float")):
        path = tmp_path / f"{name}.avro"
        fields = [{"name": "t", "type": "long"}, {"name": "x0", "type": number}]
        with path.open("wb") as file:
            rows = [{"t": row, "x0": row + 0.5} for row in range(5)]
            fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, rows)
        stats.append(storage.stat(str(path)))
    schema = schema_of(tmp_path / "a.avro", "t")
    with RowCopies(stats, str(tmp_path / "scratch")) as copies:
        pieces = [piece for file in stats for piece in scan_file(file, PATH, schema, None, str(tmp_path), copies)]
    assert [piece.copy is not None for piece in pieces] == [True, False, True]
    for piece in pieces:
        assert rows_of(piece, schema)[0][:, 2].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5]


@pytest.mark.parametrize(("suffix", "factor"), [("csv", 2), ("csv.gz", 20)])
def test_no_copy_where_the_disk_has_no_room(tmp_path, monkeypatch, suffix, factor):
    path = tmp_path / f"m.{suffix}"
    text = b"t,x0\n" + b"1,2\n" * 100
    path.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    file = storage.stat(str(path))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "another.arrow").write_bytes(b" " * 100)
    for free, taken in ((file.size * factor + 99, False), (file.size * factor + 100, True)):
        monkeypatch.setattr(module.shutil, "disk_usage", lambda _, free=free: shutil._ntuple_diskusage(0, 0, free))
        assert RowCopies([file], str(scratch)).takes(file) is taken


def test_none_in_a_bucket_and_none_of_what_is_fast_to_read(tmp_path):
    file = storage.FileStat(str(tmp_path / "m.csv"), 10, 0)
    assert RowCopies([file], str(tmp_path)).takes(file)
    assert not RowCopies([file], "gs://bucket/scratch").takes(file)
    for name in ("m.parquet", "m.arrow"):
        assert not RowCopies([file], str(tmp_path)).takes(storage.FileStat(str(tmp_path / name), 10, 0))


def test_what_a_broken_file_is_told_to_be_does_not_depend_on_copies(tmp_path):
    path = tmp_path / "m.csv.gz"
    path.write_bytes(gzip.compress(b"t,x0\n" + b"".join(b"%d,2.5\n" % row for row in range(400_000)))[:-2000])
    file, schema = storage.stat(str(path)), schema_of(path, "t")
    reasons = []
    for copies in (None, RowCopies([file], str(tmp_path / "scratch"))):
        with pytest.raises(BadInput) as bad:
            scan_file(file, PATH, schema, None, str(tmp_path), copies)
        reasons.append(str(bad.value))
    assert reasons[0] == reasons[1]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
@pytest.mark.parametrize("column", [None, "machine"])
def test_units_do_not_depend_on_copies(tmp_path, monkeypatch, suffix, column):
    """Nor do the bytes of shards then: where the disk has no room, or is a bucket, there are none."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(plan, "UNIT_BYTES", 4 * 400)
    paths = [tmp_path / f"{day}.{suffix}" for day in range(3)]
    for day, path in enumerate(paths):
        text = "machine,t,x0\n" + "".join(f"m,{row},{row}.5\n" for row in range(day * 1000, (day + 1) * 1000))
        path.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
    asset = {"column": column} if column else {"from": "path", "pattern": r"(?P<asset>\w)"}
    schema = schema_of(paths, "t", asset=asset)
    windowing = Windowing(length=8, stride=2, windows_per_segment=5, block=100, before=0, after=7)
    rows_by_unit = []
    for copied in (False, True):
        monkeypatch.setattr(RowCopies, "takes", lambda *_, copied=copied: copied)
        pieces = []
        for path in paths:
            file = storage.stat(str(path))
            with RowCopies([file], str(tmp_path / "scratch")) as copies:
                pieces += scan_file(file, AssetFrom(**asset), schema, None, str(tmp_path / "scratch"), copies)
        assert [piece.copy is not None for piece in pieces] == [copied] * 3
        assert all(piece.file for piece in pieces)  # no step goes on once one of them is another
        units = list(cut_units(SeriesAsset("m", tuple(pieces), None, total=3000, last=2999), windowing, features=1))
        rows = [np.concatenate([chunk.values for chunk in read_chunks(unit.asset, schema)]) for unit in units]
        rows_by_unit.append(
            [(unit.start, unit.end, values.tobytes()) for unit, values in zip(units, rows, strict=True)]
        )
    assert rows_by_unit[0] == rows_by_unit[1]
    assert len(rows_by_unit[0]) > 3 if suffix == "csv" else len(rows_by_unit[0]) == 1


def test_an_asset_in_a_file_of_several_is_not_held_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(mixed, "RUN_BYTES", 1 << 20)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 18)
    monkeypatch.setattr(expected, "BATCH_BYTES", 1 << 18)
    path = tmp_path / "all.csv"
    with path.open("w") as file:
        file.write("machine,t,x0,x1\n")
        file.writelines(f"{'big' if row % 100 else 'small'},{row},{row}.5,{row}.25\n" for row in range(600_000))
    file, schema = storage.stat(str(path)), schema_of(path, "t", asset={"column": "machine"})
    whole, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        with RowCopies([file], str(tmp_path / "scratch")) as copies:
            asset = AssetFrom(column="machine")
            pieces = scan_file(file, asset, schema, None, str(tmp_path / "scratch"), copies)
    finally:
        pa.set_memory_pool(whole)
    assert [(piece.asset, piece.rows) for piece in pieces] == [("big", 594_000), ("small", 6_000)]
    assert sum(group.size for group in pieces[0].groups) > 15e6
    assert pool.max_memory() < 8e6
    rows, _ = rows_of(pieces[0], schema)
    assert (np.diff(rows[:, 0]) > 0).all()
    np.testing.assert_array_equal(rows[:, 2], rows[:, 0] + 0.5)


@pytest.mark.parametrize("column", [None, "machine"])
@pytest.mark.parametrize("trouble", ["no room", "no space"])
def test_a_copy_that_the_disk_has_no_room_for_is_given_up(tmp_path, monkeypatch, column, trouble):
    path = tmp_path / "m.csv"
    path.write_text("machine,t,x0\n" + "".join(f"m,{row},{row}.5\n" for row in range(200_000)))
    asset = {"column": column} if column else {"from": "path"}
    file, schema = storage.stat(str(path)), schema_of(path, "t", asset=asset)
    if trouble == "no room":
        room = iter([1 << 30, 1 << 22, 0])
        monkeypatch.setattr(module, "LOOK_BYTES", 1 << 20)
        monkeypatch.setattr(RowCopies, "_room", lambda _: next(room, 0))
    else:
        monkeypatch.setattr(RowCopies, "_room", lambda _: 1 << 30)
    scratch = tmp_path / "scratch"
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    with RowCopies([file], str(scratch)) as copies:
        if trouble == "no space":
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, most))
        try:
            (piece,) = scan_file(file, AssetFrom(**asset), schema, None, str(scratch), copies)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
        assert [path.stat().st_size > 1 << 19 for path in scratch.iterdir()] == [True]  # it was begun
    assert (piece.copy, piece.rows, piece.file) == (None, 200_000, file)
    assert not list(scratch.iterdir())
    assert len(rows_of(piece, schema)[0]) == 200_000


def test_a_feature_that_cannot_be_read_is_told_of_its_asset_alone_with_a_copy_and_without(tmp_path, monkeypatch):
    """Avro holds a decimal of more digits than its header says: only who reads that column fails."""
    fields = [
        {"name": "machine", "type": "string"},
        {"name": "t", "type": "long"},
        {"name": "x0", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1}},
    ]
    path = tmp_path / "m.avro"
    rows = [{"machine": "m", "t": row, "x0": Decimal(row if row < 40 else 123456)} for row in range(50)]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, rows)
    path.write_bytes(path.read_bytes().replace(b'"precision": 9', b'"precision": 3'))
    asset = {"column": "machine"}
    file, schema = storage.stat(str(path)), schema_of(path, "t", asset=asset)
    reasons = []
    for copied in (False, True):
        monkeypatch.setattr(RowCopies, "takes", lambda *_, copied=copied: copied)
        with RowCopies([file], str(tmp_path / "scratch")) as copies:
            (piece,) = scan_file(file, AssetFrom(**asset), schema, None, str(tmp_path / "scratch"), copies)
        with pytest.raises(BadInput) as bad:
            rows_of(piece, schema)
        reasons.append(str(bad.value))
    assert reasons[0] == reasons[1]


def test_what_is_kept_of_rows_that_are_sorted_holds_no_other_columns(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 18)
    monkeypatch.setattr(expected, "BATCH_BYTES", 1 << 16)
    path = tmp_path / "m.csv"
    names = [f"x{i}" for i in range(50)]
    lines = (",".join([str(row), "run", *["1.5"] * 50]) for row in reversed(range(20_000)))
    path.write_text("\n".join([",".join(["t", "phase", *names]), *lines]) + "\n")
    job = job_of(path, "t").model_copy(
        update={"split": Split(by="column", column="phase", train=["run"], eval=[], test=[])}
    )
    schema = resolve_schema(job, [storage.stat(str(path))])
    file = storage.stat(str(path))
    with RowCopies([file], str(tmp_path / "scratch")) as copies:
        (piece,) = scan_file(file, PATH, schema, None, str(tmp_path / "scratch"), copies)
    asset = SeriesAsset("m", (piece,), None, total=piece.rows)
    tracemalloc.start()
    reading = read_sorted(asset, schema)
    first = next(reading)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert first.time[0] == 0
    assert most < sort_bytes(asset, schema) + first.values.nbytes + 1e6
