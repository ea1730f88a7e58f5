"""Avro: types, blocks and codecs; what is broken, and what is made to take all memory."""

import datetime
import io
import json
import zlib
from decimal import Decimal
from pathlib import Path
from random import Random

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from series import read_file

from beamfeed.contract.records.wire import encode_varint
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers import Columns, TextOptions, avro, iter_batches, look_at, read_schema
from beamfeed.transforms.sources.readers.excerpt import stored_groups

UTC = datetime.UTC
ROWS = 1000
ANYTHING = Columns([], {}, TextOptions())


def record(**types: object) -> dict:
    fields = [{"name": name, "type": type_} for name, type_ in types.items()]
    return {"type": "record", "name": "Row", "namespace": "a.b", "fields": fields}


def logical(of: str, name: str, **more: object) -> dict:
    return {"type": of, "logicalType": name, **more}


SERIES = record(t=logical("long", "timestamp-millis"), x=["null", "double"], y="int")


def series_rows(rows: int = ROWS) -> list[dict]:
    start = datetime.datetime(2024, 1, 1, tzinfo=UTC)
    return [
        {"t": start + datetime.timedelta(seconds=row), "x": None if row % 5 == 0 else row / 2, "y": row}
        for row in range(rows)
    ]


def write(path: Path, schema: dict, rows: list[dict], **options: object) -> Path:
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows, **options)
    return path


def read(path: Path, names: list[str], groups: list | None = None, last_rows: int | None = None) -> pa.Table:
    batches = [batch for _, _, batch in iter_batches(str(path), ANYTHING, names, groups, last_rows)]
    return pa.Table.from_batches(batches) if batches else pa.table({})


def long(number: int) -> bytes:
    return encode_varint(2 * number)


def with_schema(path: Path, schema: object, block: bytes, rows: int = 1, codec: bytes = b"null") -> Path:
    """A file of one block, written by hand."""
    sync = b"s" * 16
    text = json.dumps(schema).encode()
    head = [b"Obj\x01", long(2)]
    for value in (b"avro.schema", text, b"avro.codec", codec):
        head += [long(len(value)), value]
    path.write_bytes(b"".join([*head, b"\0", sync, long(rows), long(len(block)), block, sync]))
    return path


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "a.avro"


def test_types(path):
    price = logical("bytes", "decimal", precision=10, scale=2)
    exact = {"name": "F", "size": 5, **logical("fixed", "decimal", precision=9, scale=3)}
    schema = record(
        second=logical("long", "local-timestamp-micros"),
        day=logical("int", "date"),
        clock=logical("int", "time-millis"),
        number=["null", "int", "long", "float"],
        text=["null", "string"],
        letter={"type": "enum", "name": "E", "symbols": ["A", "B"]},
        again=["null", "E"],
        price=["null", price],
        exact=exact,
        yes="boolean",
        raw="bytes",
    )
    rows = [
        {
            "second": datetime.datetime(1969, 1, 1, 0, 0, row % 60), "day": datetime.date(2024, 2, 29),
            "clock": datetime.time(23, 59, 1), "number": [None, 3, 2**40, 1.5][row % 4],
            "text": f"ä{row}" if row % 7 else None, "letter": "AB"[row % 2], "again": "B" if row % 3 else None,
            "price": Decimal(row - 500) / 100 if row % 4 else None, "exact": Decimal(-row) / 1000, "yes": row % 2 == 0,
            "raw": b"\xff\0",
        }
        for row in range(ROWS)
    ]  # fmt: skip
    write(path, schema, rows)
    found = read_schema(str(path))
    assert dict(zip(found.names, map(str, found.types), strict=True)) == {
        "second": "timestamp[us]", "day": "date32[day]", "clock": "time32[ms]", "number": "double", "text": "string",
        "letter": "string", "again": "string", "price": "decimal128(10, 2)", "exact": "decimal128(9, 3)",
        "yes": "bool", "raw": "binary",
    }  # fmt: skip
    assert read(path, found.names).to_pylist() == rows
    assert read(path, ["yes", "none"]).column("none").null_count == ROWS  # a column that the file lacks


def test_columns_that_no_model_reads_do_not_hide_the_others(path):
    inner = {"type": "record", "name": "In", "fields": [{"name": "z", "type": "int"}]}
    schema = record(
        list={"type": "array", "items": "string"},
        map={"type": "map", "values": "In2"},
        either=["string", "int"],
        x="int",
    )
    schema["fields"][1]["type"]["values"] = inner
    rows = [
        {"list": ["a"] * row, "map": {"k": {"z": row}}, "either": [row, "t"][row % 2], "x": row} for row in range(9)
    ]
    write(path, schema, rows)
    nested = read_schema(str(path)).types[:3]
    assert all(map(pa.types.is_nested, nested))
    assert read(path, ["x"]).column("x").to_pylist() == list(range(9))


def test_any_names(path):
    write(path, record(Temp="double"), [{"Temp": 1.0}])
    odd = path.read_bytes().replace(b'"Temp"', b'"T\xc2\xb0."')
    path.write_bytes(odd)
    assert read(path, ["T°."]).to_pylist() == [{"T°.": 1.0}]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_codecs(path, codec):
    write(path, SERIES, series_rows(), codec=codec, sync_interval=500)
    assert read(path, ["t", "x", "y"]).to_pylist() == series_rows()


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_codecs_that_arrow_unpacks(path, codec):
    plain = b"".join(np.float32(row).tobytes() for row in range(ROWS))
    packed = pa.compress(plain, codec[:6].replace("zstand", "zstd"), asbytes=True)
    if codec == "snappy":
        packed += zlib.crc32(plain).to_bytes(4, "big")
    with_schema(path, record(x="float"), packed, ROWS, codec.encode())
    assert read(path, ["x"]).column("x").to_pylist() == list(range(ROWS))
    if codec == "snappy":
        with_schema(path, record(x="float"), packed[:-1] + b"?", ROWS, codec.encode())
        with pytest.raises(BadInput, match="checksum"):
            read(path, ["x"])


def test_groups_are_read_by_themselves(path, monkeypatch):
    monkeypatch.setattr(avro, "GROUP_BYTES", 1000)
    write(path, SERIES, series_rows(), sync_interval=300)
    groups = stored_groups(str(path), ANYTHING)
    assert len(groups) > 5
    assert sum(group.rows for group in groups) == ROWS
    for number in (3, 0):
        group = groups[number]
        assert read(path, ["y"], [group]).column("y").to_pylist() == list(range(group.row, group.row + group.rows))
    assert read(path, ["y"], groups[:2], last_rows=3).column("y").to_pylist() == list(range(groups[1].row + 3))
    write(path, SERIES, series_rows(ROWS // 2), sync_interval=310)
    with pytest.raises(BadInput):
        read(path, ["y"], groups)


def test_planning_reads_the_heads_of_blocks_alone(path, monkeypatch):
    write(path, record(x="bytes"), [{"x": bytes(1 << 20)} for _ in range(8)], sync_interval=1 << 20)
    amount = []

    class Counted:
        def __init__(self, file):
            self._file = file

        def read_at(self, size, place):
            amount.append(size)
            return self._file.read_at(size, place)

        def size(self):
            return self._file.size()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self._file.close()

    open_input = avro.storage.open_input
    monkeypatch.setattr(avro.storage, "open_input", lambda path: Counted(open_input(path)))
    assert sum(group.rows for group in stored_groups(str(path), ANYTHING)) == 8
    assert sum(amount) < 200_000


def test_series(path):
    write(path, SERIES, series_rows(20))
    found = read_file(path, "t", features=["x", "y"])
    assert found.ticks.tolist() == [int(row["t"].timestamp()) * 10**9 for row in series_rows(20)]
    np.testing.assert_array_equal(found.values[:, 0], np.array([row["x"] for row in series_rows(20)], "f4"))


def test_text_that_is_no_text_costs_its_row(path):
    from beamfeed.transforms.sources.table.rows import to_text

    text = b"".join(long(len(one)) + one for one in (b"a", b"\xff\xfe", b"c"))
    column = read(with_schema(path, record(s="string"), text, 3), ["s"]).column("s").combine_chunks()
    wrong: dict[int, str] = {}
    assert to_text(column, "s", wrong).to_pylist() == ["a", None, "c"]
    assert list(wrong) == [1]


def rows_or_reason(path: Path, content: bytes) -> int | str:
    """How many rows are read, or the line that is told; whatever else is raised is a mistake."""
    path.write_bytes(content)
    try:
        return read(path, ["t", "x", "y"]).num_rows
    except BadInput as bad:
        return str(bad)


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_file_that_is_cut_off_is_told(path, codec):
    write(path, SERIES, series_rows(40), codec=codec, sync_interval=100)
    whole = path.read_bytes()
    results = [rows_or_reason(path, whole[:end]) for end in range(len(whole))]
    reasons = [result for result in results if isinstance(result, str)]
    assert "\n" not in "".join(reasons)
    # Between two blocks nothing tells that there was another one.
    assert len(results) - len(reasons) == whole.count(whole[-16:]) - 1


def test_changed_bytes_are_read_or_told(path):
    write(path, SERIES, series_rows(40), codec="deflate", sync_interval=100)
    whole, chance = path.read_bytes(), Random(0)
    for _ in range(500):
        content = bytearray(whole)
        content[chance.randrange(len(content))] = chance.randrange(256)
        assert "\n" not in str(rows_or_reason(path, bytes(content)))


ITSELF = record(x={"type": "record", "name": "In", "fields": [{"name": "z", "type": ["null", "In"]}]})
DEEP: object = "int"
for _ in range(50):
    DEEP = {"type": "array", "items": DEEP}
LAUGHS = record(x="int")
for _number in range(8):
    _of = {"type": "record", "name": f"R{_number}", "fields": [{"name": "z", "type": "int"}]}
    if _number:
        _of["fields"] = [{"name": f"z{at}", "type": f"R{_number - 1}"} for at in range(10)]
    LAUGHS["fields"].append({"name": f"r{_number}", "type": _of})
GUARDED = [
    (ITSELF, b"", 1, b"null", "'a.b.In', which holds itself"),
    (record(x=DEEP), b"", 1, b"null", "more than 32 types in each other"),
    (LAUGHS, b"", 1, b"null", "more than 100,000 values in a row"),
    (record(x={"type": "array", "items": "null"}), b"\xfe\xff\xff\xff\x0f\0", 1, b"null", "items without values"),
    (record(x="null"), b"", 1 << 30, b"null", "rows without values"),
    (record(x="int"), b"\0", 1000, b"null", "too few for its rows"),
    (record(x="int"), b"\0", 1 << 40, b"null", "by its head"),
    (record(x="int"), zlib.compress(bytes(80 << 20), 9, -15), 1, b"deflate", "more than 64 MB when unpacked"),
    (record(x="int"), b"\0", 1, b"lz4", "packed by 'lz4', which is not read; known: null, deflate"),
    ("int", b"\0", 1, b"null", "not rows with columns"),
    (record(x="Other"), b"\0", 1, b"null", "'a.b.Other', which it does not define"),
    (record(x={"type": "fixed", "name": "F", "size": -3}), b"\0", 1, b"null", "values of -3 bytes"),
]  # fmt: skip


@pytest.mark.parametrize("case", GUARDED, ids=lambda case: case[4][:30])
def test_what_would_take_all_memory_or_is_no_table(path, case):
    schema, block, rows, codec, reason = case
    with pytest.raises(BadInput, match=reason):
        read(with_schema(path, schema, block, rows, codec), ["x"])


def test_what_a_file_is_that_has_another_suffix(tmp_path):
    file = io.BytesIO()
    fastavro.writer(file, SERIES, series_rows(3))
    for name, reason in (
        ("a.csv", "is a file of avro by its first bytes"),
        ("a.rows", "ends in .rows, which no format"),
    ):
        (tmp_path / name).write_bytes(file.getvalue())
        with pytest.raises(BadInput, match=reason):
            look_at(str(tmp_path / name))


@pytest.mark.parametrize("name", ["a", "a.001", "a.dat", "a.log", "A.DATA", ".hidden", "a.csv.1"])
def test_text_whose_name_says_little_is_read(tmp_path, name):
    (tmp_path / name).write_text("t,x\n1,2\n2,3\n")
    assert read_schema(str(tmp_path / name)).names == ["t", "x"]
