"""One bad row of a table costs one row, in every format of text; what is wrong is told with its line."""

import json

import pyarrow as pa
import pytest
from table_rows import read_rows

from beamfeed.transforms.sources.readers.clean import clean
from beamfeed.transforms.sources.readers.dialect import Dialect
from beamfeed.transforms.sources.readers.encoding import BadText
from beamfeed.transforms.sources.readers.parse import parse

FEATURES = {"x": "numeric", "note": "categorical"}
NO_NUMBER = "'oops' is not a number"


def lines_of_json(changes: dict[int, object], rows: int = 30) -> str:
    """Lines of objects; some are replaced by other objects, or by text that is none."""
    whole = [changes.get(i, {"x": i + 0.5, "note": f"n{i % 3}"}) for i in range(rows)]
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in whole)


JSON = {
    "a broken line": ('{"x": 3, "note', "line 5", "cannot be read as JSON: Unterminated string"),
    "a cut line": ('{"x": 3, "note": "a"', "line 5", "cannot be read as JSON"),
    "no object": ("[1, 2]", "line 5", "is not a JSON object"),
    "a word": ('"hello"', "line 5", "is not a JSON object"),
    "a list": ({"x": [1], "note": "a"}, "line 5, column x", "is a list, a single value is needed"),
    "an object": ({"x": 1, "note": {"a": 1}}, "line 5, column note", "is an object, a single value is needed"),
    "text for a number": ({"x": "oops", "note": "a"}, "line 5, column x", NO_NUMBER),
    "half a character": ({"x": 1, "note": "\ud800"}, "line 5, column note", "holds half of a character"),
}


@pytest.mark.parametrize("rows", [8, 30])
@pytest.mark.parametrize("case", JSON)
def test_one_bad_line_of_json_costs_its_row(tmp_path, case, rows):
    bad, place, reason = JSON[case]
    (tmp_path / "a.jsonl").write_text(lines_of_json({4: bad}, rows))
    found, wrong = read_rows(tmp_path / "a.jsonl", FEATURES)
    assert [(row, place_) for row, (place_, _) in wrong.items()] == [(4, place)]
    assert wrong[4][1].startswith(reason)
    assert [row for i, row in enumerate(found) if i != 4] == [(i + 0.5, f"n{i % 3}") for i in range(rows) if i != 4]


RECORDS = {
    "a byte": (b'{"x": 1, "note": "no\xffte"}', "", "is not UTF-8: byte 0xff"),
    "a byte over several lines": (b'{"x": 1,\n"note": "n\xe9"}', "", "is not UTF-8: byte 0xe9"),
    "half a character": (b'{"x": 1,\n"note": "\\ud800"}', ", column note", "holds half of a character"),
    "a list": (b'{"x": [1], "note": "a"}', ", column x", "is a list, a single value is needed"),
    "no object": (b"[1, 2]", "", "is not a JSON object"),
}


@pytest.mark.parametrize("case", RECORDS)
def test_one_bad_record_of_a_json_document_costs_its_row(tmp_path, case):
    bad, column, reason = RECORDS[case]
    rows = [bad if i == 4 else json.dumps({"x": i + 0.5, "note": f"ü{i % 3}"}).encode() for i in range(30)]
    (tmp_path / "a.json").write_bytes(b"[" + b",\n".join(rows) + b"]")
    found, wrong = read_rows(tmp_path / "a.json", FEATURES)
    assert [(row, place) for row, (place, _) in wrong.items()] == [(4, f"record 5{column}")]
    assert wrong[4][1].startswith(reason)
    assert [row for i, row in enumerate(found) if i != 4] == [(i + 0.5, f"ü{i % 3}") for i in range(30) if i != 4]


@pytest.mark.parametrize("features", [FEATURES, {"note": "categorical"}])
def test_a_byte_in_a_line_of_json_is_told_with_its_line(tmp_path, features):
    lines = lines_of_json({}).encode().splitlines()
    lines[4] = b'{"x": 4.5, "note": "n\xff"}'
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    _, wrong = read_rows(tmp_path / "a.jsonl", features)
    assert wrong == {4: ("line 5", "is not UTF-8: byte 0xff")}


def test_what_json_may_hold_beside_a_bad_line_stays_as_it_is(tmp_path):
    rows = {1: {"x": "7.25", "note": 5}, 2: {"x": None}, 3: '{"x": NaN, "note": "b"}', 4: "oops", 5: "", 6: {"x": True}}
    (tmp_path / "a.jsonl").write_text(lines_of_json(rows))
    found, wrong = read_rows(tmp_path / "a.jsonl", FEATURES)
    assert [place for place, _ in wrong.values()] == ["line 5"]
    assert [str(row) for row in found[1:4]] == ["(7.25, '5')", "(nan, None)", "(nan, 'b')"]
    assert found[5] == (1.0, None)  # the empty line is no row


CSV = {
    "a word": (b"oops,a", "line 6, column x", NO_NUMBER),
    "too few": (b"4", "line 6", "expected 2 columns, got 1: 4"),
    "too many, over two lines": (b'4,"a\nb",c', "line 6", 'expected 2 columns, got 3: 4,"a b",c'),
    "too many": (b"4,a,b", "line 6", "expected 2 columns, got 3: 4,a,b"),
    "a byte": (b"4,a\xff", "line 6, column note", "is not UTF-8: byte 0xff; see source.csv.encoding"),
    "a byte in a number": (b"4\xff,a", "line 6, column x", "is not UTF-8: byte 0xff; see source.csv.encoding"),
    "a quote": (b'4,"a', "line 6", 'a quote is opened and never closed: 4,"a'),
}


@pytest.mark.parametrize("rows", [8, 30])
@pytest.mark.parametrize(
    ("case", "at"),  # a first line without a number is one of units
    [(case, at) for case in CSV for at in (0, 4) if at or case not in ("a word", "a byte in a number")],
)
def test_one_bad_row_of_a_csv_costs_its_row(tmp_path, case, at, rows):
    bad, place, reason = CSV[case]
    lines = [b"x,note", *(bad if i == at else b"%d,n%d" % (i, i % 3) for i in range(rows))]
    (tmp_path / "a.csv").write_bytes(b"\n".join(lines) + b"\n")
    found, wrong = read_rows(tmp_path / "a.csv", FEATURES)
    assert [(row, place_) for row, (place_, _) in wrong.items()] == [(at, place.replace("6", str(at + 2)))]
    assert wrong[at][1].startswith(reason)
    assert [row for i, row in enumerate(found) if i != at] == [(i, f"n{i % 3}") for i in range(rows) if i != at]


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-8"])
def test_texts_of_the_west_are_still_read_as_such(tmp_path, encoding):
    notes = ["grün", "blau", "weiß", "señor", "20 °C"]
    text = "x,note\n" + "".join(f"{i},{note}\n" for i, note in enumerate(notes))
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    found, wrong = read_rows(tmp_path / "a.csv", FEATURES)
    assert not wrong
    assert [note for _, note in found] == notes


def test_a_broken_character_among_whole_ones_costs_its_row(tmp_path):
    rows = [f"{i},grün".encode() for i in range(20)]
    rows[7] = rows[7][:-2]  # half of the character is left
    rows[7] = rows[7].replace(b"gr", b"gr\xc3")
    (tmp_path / "a.csv").write_bytes(b"x,note\n" + b"\n".join(rows) + b"\n")
    found, wrong = read_rows(tmp_path / "a.csv", FEATURES)
    assert list(wrong) == [7]
    assert found[8] == (8, "grün")


def test_a_byte_far_behind_costs_its_row(tmp_path):
    rows = [b"%d,note" % i for i in range(200_000)]
    rows[150_000] = b"150000,no\xffte"
    (tmp_path / "a.csv").write_bytes(b"x,note\n" + b"\n".join(rows) + b"\n")
    found, wrong = read_rows(tmp_path / "a.csv", FEATURES)
    assert len(found) == 200_000
    assert {row: place for row, (place, _) in wrong.items()} == {150_000: "line 150002, column note"}


@pytest.mark.parametrize(("encoding", "byte"), [("cp1252", b"\x81"), ("shift_jis", b"\xff")])
def test_a_byte_that_is_none_of_the_encoding_costs_its_row(tmp_path, encoding, byte):
    rows = [b"%d,note%d" % (i, i) for i in range(20)]
    rows[7] = b"7,no" + byte + b"te"
    (tmp_path / "a.csv").write_bytes(b"x,note\n" + b"\n".join(rows) + b"\n")
    found, wrong = read_rows(tmp_path / "a.csv", FEATURES, csv={"encoding": encoding})
    reason = f"is not {encoding.upper()}: byte 0x{byte.hex()}; see source.csv.encoding"
    assert wrong == {7: ("line 9, column note", reason)}
    assert [row for i, row in enumerate(found) if i != 7] == [(i, f"note{i}") for i in range(20) if i != 7]
    dialect = Dialect(("x", "note"), encoding=encoding)
    with pytest.raises(BadText) as error:
        parse(clean(b"\n".join(rows), dialect, first=False), dialect, {"note": pa.string()}).check()
    assert (error.value.place, error.value.reason) == ("line 8, column note", reason)
