"""What is wrong with a text is told with the value and the line, and never becomes a wrong number."""

import threading

import numpy as np
import pytest
from series import read_file, schema_of

from beamfeed.contract.errors import UserError
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers import blocks, iter_batches, text

GOOD = "t,x0,x1\n" + "".join(f"{i},{i}.5,{i}.25\n" for i in range(20))
GERMAN = GOOD.replace(",", ";").replace(".", ",")


def lines_with(text: str, line: int, new: str) -> str:
    lines = text.splitlines()
    lines[line - 1] = new
    return "\n".join(lines) + "\n"


BAD = {
    "a word": (GOOD, lines_with(GOOD, 17, "15,abc,1"), "line 17, column x0",
               "'abc' is not a number"),
    "too few values": (GOOD, lines_with(GOOD, 9, "7,7.5"), "line 9", "expected 3 columns, got 2: 7,7.5"),
    "too many values": (GOOD, lines_with(GOOD, 9, "7,7.5,1,2"), "line 9", "expected 3 columns, got 4: 7,7.5,1,2"),
    "a decimal comma": (GOOD, lines_with(GOOD, 9, '7,"7,5",1'), "line 9, column x0",
                        "'7,5' is not a number; source.csv.decimal is '.', thousands null"),
    "a decimal point": (GERMAN, lines_with(GERMAN, 9, "7;7.5;1,5"), "line 9, column x0",
                        "'7.5' is not a number; source.csv.decimal is ',', thousands null"),
    "perhaps thousands": (GERMAN, lines_with(GERMAN, 9, "7;1.234;1,5"), "line 9, column x0",
                          "'1.234' is not a number; source.csv.decimal is ',', thousands null"),
    "wrong groups": ("t;x0;x1\n1;1.234,5;1\n" * 1, "t;x0;x1\n1;1.234,5;1\n2;12.34,5;1\n", "line 3, column x0",
                     "'12.34,5' is not a number; source.csv.decimal is ',', thousands '.'"),
    "a time that is a word": (GOOD, lines_with(GOOD, 9, "noon,7.5,1"), "line 9, column t",
                              "'noon' is not a whole number"),
    "a time of the wrong kind": (GOOD, lines_with(GOOD, 9, "7.5,7.5,1"), "line 9, column t",
                                 "'7.5' is not a whole number"),
    "no time": (GOOD, lines_with(GOOD, 9, ",7.5,1"), "line 9", "the time is missing"),
    "a footer": (GOOD, GOOD + "sum,190,\n", "line 22, column t", "'sum' is not a whole number"),
    "a row of many lines before": (GOOD, 't,x0,x1,n\n1,2,3,"a\nb\nc"\n\n2,x,3,\n', "line 6, column x0",
                               "'x' is not a number"),
    "comments before": (GOOD, "#\n#\nt,x0,x1\n1,2,3\n# later\n\n2,3\n", "line 7", "expected 3 columns, got 2: 2,3"),
    "a comment that is not known": (GOOD, GOOD + "// the end\n", "line 22", "expected 3 columns, got 1: // the end"),
    "binary": (GOOD, b"t,x0,x1\n1,\x002,3\n", "line 2", "is not text: byte 0x00"),
    "a picture": (GOOD, b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "line 2", "is not text: byte 0x1a"),
    "nothing": (GOOD, b"", "file", "the file is empty"),
    "nothing but empty lines": (GOOD, b"\n\n \n", "file", "holds no rows"),
    "names that do not fit": (GOOD, "t,x0\n" + "".join(f"{i},1,2\n" for i in range(9)), "line 2",
                              "has 3 values, and line 1 2 names; see source.csv.names and source.csv.delimiter"),
    "a missing column": (GOOD, "t;x0;y1\n1;1,5;2\n", "column x1",
                         "is missing; the file has t, x0, y1 (delimiter ';', decimal ',')"),
    "a column that is there twice": (GOOD, "t,x0,x1,x0\n1,2,3,4\n", "column x0", "is there 2 times"),
    "spreadsheet names": (GOOD, "t,x0,,\n1,2,,\n", "column x1", "is missing; the file has t, x0"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_text(tmp_path, case):
    good, bad, place, reason = BAD[case]
    (tmp_path / "good.csv").write_text(good)
    (tmp_path / "bad.csv").write_bytes(bad if isinstance(bad, bytes) else bad.encode())
    schema = schema_of(tmp_path / "good.csv", "t", features=["x0", "x1"])
    with pytest.raises(BadInput) as error:
        read_file(tmp_path / "bad.csv", "t", schema)
    assert (error.value.place, error.value.reason.split("; source.csv.null")[0]) == (
        place,
        reason.split("; source.csv.null")[0],
    )


TIMES = {
    "dmy": ("13.01.2024 10:00", "14.13.2024 10:00", "'14.13.2024 10:00' is not a time with day.month.year"),
    "iso": ("2024-01-13 10:00", "2024-02-30 10:00", "'2024-02-30 10:00' is not a time with year-month-day"),
    "no zone": (
        "2024-01-13 10:00Z",
        "2024-01-13 10:00",
        "'2024-01-13 10:00' has no zone, other times of the files have one",
    ),
    "a zone": (
        "2024-01-13 10:00",
        "2024-01-13 10:00Z",
        "'2024-01-13 10:00Z' has a zone, other times of the files have none",
    ),
    "no zone, in text": ("13.1.2024 10:00 Z", "13.1.2024 10:00", "'13.1.2024 10:00' has no zone, other times"),
    "of another kind": ("2024-01-13 10:00", "17", "'17' is not a time with year-month-day"),
}


@pytest.mark.parametrize("case", TIMES)
def test_bad_times(tmp_path, case):
    good, bad, reason = TIMES[case]
    (tmp_path / "good.csv").write_text(f"t,x0\n{good},1\n")
    (tmp_path / "bad.csv").write_text(f"# comment\nt,x0\n\n{good},1\n{bad},2\n")
    schema = schema_of(tmp_path / "good.csv", "t", features=["x0"])
    with pytest.raises(BadInput) as error:
        read_file(tmp_path / "bad.csv", "t", schema)
    assert error.value.place.startswith("line 5")
    assert error.value.reason.startswith(reason)


@pytest.mark.parametrize(
    ("lines", "place", "reason"),
    [
        ('{"t": 1, "x0": 2}\n\n{"t": 2, "x0": "abc"}\n', "line 3, column x0", "'abc' is not a number"),
        ('{"t": 1, "x0": "2"}\n\n{"t": 2, "x0": "abc"}\n', "line 3, column x0", "'abc' is not a number"),
        ('{"t": 1, "x0": 2}\n{"t": 2, x0: 2}\n', "line 2", "cannot be read as JSON: "),
        ('{"t": 1, "x0": 2}\n[1, 2]\n', "line 2", "is not a JSON object"),
        ('{"t": 1, "x0": 2}\n{"x0": 2}\n', "row 1", "the time is missing"),
        ('{"t": 1, "x": 2}\n', "column x0", "is missing; the file has t, x"),
    ],
)
def test_bad_lines_of_json(tmp_path, lines, place, reason):
    (tmp_path / "good.jsonl").write_text('{"t": 1, "x0": 2.5}\n')
    (tmp_path / "bad.jsonl").write_text(lines)
    schema = schema_of(tmp_path / "good.jsonl", "t", features=["x0"])
    with pytest.raises(BadInput) as error:
        read_file(tmp_path / "bad.jsonl", "t", schema)
    assert error.value.place == place
    assert error.value.reason.startswith(reason)


def test_a_value_far_behind_in_a_large_file_has_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1000)
    rows = [f"{i},{i}.5" for i in range(2000)]
    path = tmp_path / "good.csv"
    path.write_text("# a\nt,x0\n" + "\n".join(rows) + "\n")
    found = read_file(path, "t", features=["x0"])
    assert found.ticks.tolist() == list(range(2000))
    np.testing.assert_array_equal(found.values[:, 0], np.arange(2000) + np.float32(0.5))
    schema = schema_of(path, "t", features=["x0"])
    rows[1234] = "1234,12x4"
    path.write_text("# a\nt,x0\n" + "\n".join(rows) + "\n")
    with pytest.raises(BadInput, match="line 1237, column x0: '12x4' is not a number"):
        read_file(path, "t", schema)
    assert schema_of(path, "t", features=["x0"]) == schema
    path.write_text("# a\nt,x0\n1,a\n2,b\n3,4\n")
    with pytest.raises(UserError, match=r"column 'x0' is string \(line 3 of .*good.csv: 'a' is not a number"):
        schema_of(path, "t", features=["x0"])
    rows[1234] = "1234,4\n,4"
    path.write_text("# a\nt,x0\n" + "\n".join(rows) + "\n")
    with pytest.raises(BadInput, match="line 1238: the time is missing"):
        read_file(path, "t", schema)


@pytest.mark.parametrize("last", [1, 3, 40])
def test_lines_at_the_end_that_are_no_rows(tmp_path, monkeypatch, last):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 200)
    monkeypatch.setattr(text, "_TAIL_BYTES", 1000)
    path = tmp_path / "a.csv"
    path.write_text("t,x0\n" + "".join(f"{i},{i}\n" for i in range(500)) + "the end, my friend, of\n" * last + "\n \n")
    assert read_file(path, "t", features=["x0"], csv={"skip_last": last}).ticks.tolist() == list(range(500))
    with pytest.raises(BadInput, match="line 502: expected 2 columns, got 3: the end, my friend"):
        read_file(path, "t", features=["x0"], csv={"skip_last": last - 1})


def test_a_quote_that_is_a_character(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 300)
    path = tmp_path / "a.csv"
    rows = [
        f"{i},{i}.5,{'pipe of 5' + chr(34) if i == 7 else chr(34) + 'a' + chr(10) + 'b' + chr(34)}" for i in range(99)
    ]
    path.write_text('made by a 3" logger\nt,x0,n\n' + "\n".join(rows) + "\n")
    assert read_file(path, "t").ticks.tolist() == list(range(99))


@pytest.mark.parametrize("parsers", [1, 3])
def test_of_two_mistakes_the_first_is_told_though_blocks_are_parsed_ahead(tmp_path, monkeypatch, parsers):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 64)
    monkeypatch.setattr(blocks, "LINE_BYTES", 256)
    monkeypatch.setattr(blocks, "PARSERS", parsers)
    path = tmp_path / "m.csv"
    path.write_text("t,x0,x1\n" + "1,2.5,3\n" * 100 + "1,2.5\n" + "1,2.5,3\n" * 10 + "1" * 1000)
    schema, threads = schema_of(path, "t"), threading.active_count()
    starts = []
    with pytest.raises(BadInput, match=r"m\.csv: line 102: expected 3 columns, got 2"):
        starts.extend(row for _, row, _ in iter_batches(str(path), schema, schema.names))
    assert starts == sorted(starts)
    assert starts[-1] > 80
    assert threading.active_count() == threads


def test_who_looks_at_the_first_rows_of_a_text_alone_leaves_no_thread(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 64)
    path = tmp_path / "m.csv"
    path.write_text("t,x0,x1\n" + "1,2.5,3\n" * 100)
    schema, threads = schema_of(path, "t"), threading.active_count()
    for count in (1, 3):
        reading = iter_batches(str(path), schema, schema.names)
        assert len([next(reading) for _ in range(count)]) == count
        reading.close()
        assert threading.active_count() == threads
