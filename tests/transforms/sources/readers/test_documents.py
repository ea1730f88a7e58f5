"""JSON in other forms than lines, zip files, and formats that are not read."""

import gzip
import json
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from series import read_file, schema_of

from beamfeed.contract import storage
from beamfeed.contract.config.sources.table import TableSource
from beamfeed.contract.errors import UserError
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers import (
    BAD,
    TextOptions,
    divides,
    iter_batches,
    json_documents,
    look_at,
)
from beamfeed.transforms.sources.readers.blocks import open_text
from beamfeed.transforms.sources.readers.excerpt import choose_parts
from beamfeed.transforms.suggest.look import every_column

RECORDS = [{"t": row, "x0": row / 2, "x1": None if row % 7 == 3 else -row, "who": f"ü{row % 3}"} for row in range(200)]
FORMS = {
    "array": json.dumps(RECORDS),
    "spread array": json.dumps(RECORDS, indent=2, ensure_ascii=False),
    "array of lines": "\ufeff [\n" + ",\n".join(map(json.dumps, RECORDS)) + "\n]\n",
    "array in each line": "\n".join(json.dumps(RECORDS[at : at + 20]) for at in range(0, 200, 20)) + "\n",
    "array behind array": json.dumps(RECORDS[:7]) + "[]" + json.dumps(RECORDS[7:], indent=1),
    "under a key": json.dumps({"meta": {"n": 200}, "cars": RECORDS}, indent=1),
    "columns": json.dumps({name: [record[name] for record in RECORDS] for name in RECORDS[0]}),
    "pandas": json.dumps({name: {str(row): one[name] for row, one in enumerate(RECORDS)} for name in RECORDS[0]}),
    "pandas in another order": json.dumps({
        name: {str(row): RECORDS[row][name] for row in sorted(range(200), key=lambda row: (row * shift) % 211)}
        for shift, name in enumerate(RECORDS[0], 1)
    }),
    "split": json.dumps({"columns": list(RECORDS[0]), "index": [], "data": [list(one.values()) for one in RECORDS]}),
    "by name": json.dumps({f"row {record['t']}": record for record in RECORDS}),
    "spread records": "\n".join(json.dumps(record, indent=1) for record in RECORDS),
    "lines": "\n".join(map(json.dumps, RECORDS)),
}  # fmt: skip


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    path.write_text(FORMS["lines"])
    return path, read_file(path, "t")


@pytest.mark.parametrize("form", FORMS)
def test_json_in_any_form_reads_like_lines(tmp_path, expected, form, monkeypatch):
    path = tmp_path / "a.json"
    path.write_text(FORMS[form], encoding="utf-8")
    assert look_at(str(path)).schema == look_at(str(expected[0])).schema
    schema = schema_of(path, "t")
    assert divides(str(path), schema) == (form == "lines")
    found = read_file(path, "t")
    np.testing.assert_array_equal(found.ticks, expected[1].ticks)
    np.testing.assert_array_equal(found.values, expected[1].values)
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    np.testing.assert_array_equal(read_file(packed, "t").values, expected[1].values)
    pieces = [path.read_bytes()[at : at + 7] for at in range(0, path.stat().st_size, 7)]
    monkeypatch.setattr(json_documents, "BLOCK_BYTES", 100)
    if form != "lines":
        lines = b"".join(json_documents.as_lines(str(path), pieces))
        assert [json.loads(line) for line in lines.splitlines()] == RECORDS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"t": 1, "x0": 1}, {"t": 2, "x0": oops}]', "record 2: cannot be read as JSON: Expecting value"),
        (json.dumps(RECORDS)[:-40], "record 200: cannot be read as JSON"),
        (json.dumps(RECORDS)[:-1], "record 201: the file ends before its array does"),
        ('[{"t": 1, "x0": 1, "x1": 1}, {"t": "a", "x0": 1, "x1": 1}]', "record 2, column t|record 2"),
        (json.dumps({"a": RECORDS, "b": RECORDS}), r"holds several arrays of records \(a, b\); save the one"),
        ("[" * 100_000, "record 1: cannot be read as JSON"),
        ("17", r"line 1: is not a JSON object, such as \{...\}"),
        (json.dumps(RECORDS) + "garbage", "record 201: text follows the array"),
        (json.dumps(RECORDS) + '\n{"t": 200}', "record 201: text follows the array"),
        (json.dumps(RECORDS) + "]", "record 201: text follows the array"),
        (json.dumps([]) + json.dumps(RECORDS)[:-1], "record 201: the file ends before its array does"),
    ],
)
def test_what_is_wrong_with_a_document(tmp_path, text, message):
    (tmp_path / "good.json").write_text(json.dumps(RECORDS))
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises((BadInput, UserError), match=message):
        read_file(path, "t", schema_of(tmp_path / "good.json", "t"))


def test_an_array_of_records_is_not_held_as_a_whole():
    def pieces():
        yield b"["
        for row in range(40_000):
            yield b'{"t": %d, "text": "%s"},' % (row, b"x" * 2000)
            nonlocal most
            most = max(most, row - done)
        yield b'{"t": 40000}]'

    most = done = 0
    for block in json_documents.as_lines("a.json", pieces()):
        done += block.count(b"\n")
    assert done == 40_001
    assert most * 2000 < 3 * json_documents.BLOCK_BYTES


@pytest.mark.parametrize("name", ["a.jsonl", "a.NDJSON.gz", "a.jsonl.zip", "a.json"])
def test_the_only_line_of_json_lines_is_a_record(tmp_path, name):
    text = json.dumps({"t": 1, "x0": 2.5, "events": [{"t": 7, "x0": 8}, {"t": 8, "x0": 9}]}) + "\n"
    path = tmp_path / name
    if name.endswith(".zip"):
        zipped(path, **{"in/b.jsonl": text})
    else:
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    rows = read_file(path, "t", features=["x0"]).values[:, 0].tolist()
    assert rows == ([8, 9] if name == "a.json" else [2.5])
    path = tmp_path / "spread.jsonl"
    path.write_text(FORMS["under a key"])
    assert len(read_file(path, "t").ticks) == 200


@pytest.mark.parametrize("form", FORMS)
def test_a_look_at_parts_takes_json_lines_alone(tmp_path, form):
    path = tmp_path / "a.json"
    path.write_text(FORMS[form], encoding="utf-8")
    parts = choose_parts(str(path), path.stat().st_size, every_column({}, TextOptions()), 4000)
    assert (parts is not None) == (form == "lines")


def zipped(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def test_a_zip_file_is_read_as_the_file_in_it(tmp_path, expected):
    csv = "t,x0,x1\n" + "".join(f"{one['t']},{one['x0']},{'' if one['x1'] is None else one['x1']}\n" for one in RECORDS)
    mac = {"__MACOSX/._a": "x", "sub/": ""}
    for name, members in (("csv.zip", {"a.csv": csv}), ("b.zip", {"sub/b.json": FORMS["array"], **mac}),
                          ("c.jsonl.zip", {"c.jsonl": FORMS["lines"]})):  # fmt: skip
        path = zipped(tmp_path / name, **members)
        np.testing.assert_array_equal(read_file(path, "t").values, expected[1].values)
        assert not divides(str(path), schema_of(path, "t"))


def test_a_zip_file_that_is_not_read_says_why(tmp_path):
    two = zipped(tmp_path / "two.zip", **{"a.csv": "t,x0\n1,2\n", "b.csv": "t,x0\n1,2\n"})
    none = zipped(tmp_path / "none.zip")
    packed = zipped(tmp_path / "packed.zip", **{"a.parquet": "PAR1"})
    damaged = tmp_path / "damaged.zip"
    whole = bytearray(zipped(tmp_path / "whole.zip", **{"a.csv": "t,x0\n" + "1,2\n" * 5000}).read_bytes())
    whole[60] ^= 0xFF
    damaged.write_bytes(whole)
    secret = tmp_path / "secret.zip"
    sealed = bytearray(zipped(secret, **{"a.csv": "t,x0\n" + "1,2\n" * 9}).read_bytes())
    for at in (6, sealed.rindex(b"PK\1\2") + 8):
        sealed[at] |= 1  # the bit that says so
    secret.write_bytes(sealed)
    (tmp_path / "text.zip").write_text("t,x0\n1,2\n")
    for path, told in (
        (two, r"is a zip file with 2 files \(a.csv, b.csv\), one is read; unpack it"),
        (none, "is a zip file with no file"),
        (packed, "is a zip file with a.parquet, which is packed already"),
        (damaged, "cannot be unpacked|cannot be read"),
        (secret, "cannot be unpacked: .*encrypted"),
        (tmp_path / "text.zip", "cannot be unpacked: File is not a zip file"),
    ):
        with pytest.raises(BadInput, match=told):
            read_all(path)


def test_what_goes_wrong_beside_a_zip_file_is_not_its_fault(tmp_path):
    path = str(zipped(tmp_path / "a.zip", **{"a.csv": "t,x0\n1,2\n"}))
    for error in (RuntimeError, IndexError, EOFError):
        with pytest.raises(error), open_text(path):
            raise error


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.csv.gz", "is a zip file with a.csv.gz, which is packed already; unpack it"),
        ("b.ZIP", "is a zip file with b.ZIP, which is packed already; unpack it"),
        ("in/a.npy", r"is a zip file with in/a.npy, which holds arrays, which kind: array reads"),
        ("a.xlsx", r"is a zip file with a.xlsx, which is an Excel file; .*pandas.read_excel\('a.xlsx'\)"),
        ("a.tar", "is a zip file with a.tar, which is an archive; unpack it"),
    ],
)
def test_a_zip_file_with_what_is_no_text_says_what_to_do(tmp_path, name, message):
    path = zipped(tmp_path / "z.zip", **{name: b"\x93NUMPY\1\0v\0" + bytes(range(256))})
    for read in (look_at, read_all):
        with pytest.raises(BadInput, match=message):
            read(str(path))


def read_all(path):
    types = {"t": pa.int64(), "x0": pa.float32()}
    return list(iter_batches(str(path), every_column(types, TextOptions()), [*types, BAD]))


@pytest.mark.parametrize(
    ("name", "start", "message"),
    [
        ("a.xlsx", b"PK\3\4", r"is an Excel file; .*pandas.read_excel\('a.xlsx'\).to_parquet\('a.parquet'\)"),
        ("a.sqlite", b"SQLite format 3\0", "is a database; .*pandas.read_sql"),
        ("a.pkl", b"\x80\4\x95", "is a pickle, which is never opened"),
        ("A.MAT", b"MATLAB 5.0", "is a file of MATLAB; .*docs/arrays.md"),
        ("a.rds", b"\x1f\x8b", r"is a file of R; .*write_parquet\(readRDS\('a.rds'\), 'a.parquet'\)"),
        ("a.tar.gz", b"\x1f\x8b", "is an archive; unpack it"),
        ("a.npz", b"PK\3\4", r"holds arrays, which kind: array reads \(docs/arrays.md\)"),
        ("a.parquet.gz", b"\x1f\x8b", "is Parquet that was packed once more"),
        ("a.tfrecord", b"\0", "'beamfeed adopt'"),
        ("noname", b"PK\3\4\0\0", "is a zip file, or one of Excel, by its first bytes"),
        ("a.dat", b"\x89HDF\r\n\x1a\n", "holds arrays, which kind: array reads"),
        ("b.dat", b"PAR1\0\0", "is a file of parquet by its first bytes; give it a name that ends in .parquet"),
        ("b.jsonl", b"PAR1\0\0", "is a file of parquet by its first bytes; give it a name that ends in .parquet"),
    ],
)
def test_a_format_that_is_not_read_says_what_to_do(tmp_path, name, start, message):
    path = tmp_path / name
    path.write_bytes(start + bytes(range(256)) * 8)
    with pytest.raises(BadInput, match=message):
        look_at(str(path))
    with pytest.raises(UserError, match=message):
        schema_of(path, "t")


def test_json_beside_data_is_no_data(tmp_path):
    for name in ("a.csv", "b.json", "c.zip"):
        (tmp_path / name).write_text("t,x0\n1,2\n")
    both = TableSource.suffixes, TableSource.other_suffixes

    def names(pattern):
        return [file.path.rpartition("/")[2] for file in storage.match_inputs([str(pattern)], *both)[0]]

    assert names(tmp_path) == ["a.csv"]
    assert names(tmp_path / "*") == ["a.csv", "b.json", "c.zip"]
    assert names(tmp_path / "b.json") == ["b.json"]
    (tmp_path / "a.csv").unlink()
    assert names(tmp_path) == ["b.json", "c.zip"]
    assert (
        TableSource.stem("in/cars.json.gz")
        == TableSource.stem("cars.zip")
        == TableSource.stem("cars.csv.zip")
        == "cars"
    )


@pytest.mark.parametrize("form", ['{"a": [%s]}', "[[%s]]"])
def test_values_that_would_fill_the_memory_are_not_read(tmp_path, monkeypatch, form):
    monkeypatch.setattr(json_documents, "MOST_VALUES", 1000)
    path = tmp_path / "a.json"
    path.write_text(form % ",".join(["[]"] * 1000))
    with pytest.raises(BadInput, match="record 1: is of more than 1,000 values; save it as JSON lines"):
        look_at(str(path))
    path.write_text(json.dumps([{"x": row} for row in range(20)]))
    assert look_at(str(path)).schema.names == ["x"]
